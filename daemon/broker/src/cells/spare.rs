//! The shells that runners start ahead of a session's calls. Runs in the broker.

use crate::{
    base::task::Program,
    cells::{channel::Channel, launcher::Launcher},
};
use palisade_plan::cell::{PrepareShell, RunRequest};
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

/// The shell of every line.
const SHELL: &str = "bash";

/// A session's use of shells that are started ahead of its calls.
#[derive(Debug)]
pub(crate) struct SpareShells {
    launcher: Arc<Launcher>,
    /// The directories in which the shell is looked up.
    search: Vec<u8>,
    landlock_abi: u32,
    /// Cleared when a runner reports that the session's shell can not be started ahead.
    usable: AtomicBool,
}

impl SpareShells {
    /// Makes the spare shells of a session whose lines look up their shell in these directories.
    pub(crate) fn new(launcher: Arc<Launcher>, search: Vec<u8>, landlock_abi: u32) -> Arc<Self> {
        Arc::new(Self { launcher, search, landlock_abi, usable: AtomicBool::new(true) })
    }

    /// Asks a runner to start a shell for the next line. Nothing depends on the result: without a
    /// shell, the line starts one.
    pub(crate) async fn prepare(&self, channel: &mut Channel) {
        if !self.usable.load(Ordering::Relaxed) {
            return;
        }
        let reserved = self.launcher.records().reserve(self.landlock_abi);
        let mark = reserved.as_ref().map(|watched| watched.mark.clone().into_bytes());
        let (program, search) = (SHELL.as_bytes().to_vec(), self.search.clone());
        let shell = PrepareShell { program, search, mark };
        if channel.send(&RunRequest::Prepare(shell), &[]).await.is_ok() {
            channel.reserved = reserved;
        }
    }

    /// Returns `true` if a spare shell may be able to run the program. The runner decides: it
    /// compares the files.
    pub(crate) fn serve(program: &Program) -> bool {
        let is_shell = matches!(program.argv.as_slice(), [shell, _, _]
            if shell.rsplit('/').next() == Some(SHELL));
        is_shell && program.terminal.is_none() && program.script.is_none()
    }

    /// Prepares no more shells: a runner found that the session's shell can not wait.
    pub(crate) fn give_up(&self) {
        self.usable.store(false, Ordering::Relaxed);
    }
}
