//! Freezes the program of a transaction, so that its changes up to now can be committed, and lets it
//! continue. Runs in the cell.

use super::{COMMIT_UMASK, Runner, RunnerError, kernel};
use crate::{
    freeze::FrozenProcesses,
    open_files,
    overlays::{self, ProgramState},
};
use palisade_cell_setup::kernel::ignore_file_size_signal;
use palisade_cell_tools::files::PendingInput;
use palisade_plan::cell::RunReply;
use palisade_workspace::{LayerAccess, Layers};
use rustix::{fs::Mode, io::Errno};

/// A frozen program.
pub(super) struct FrozenProgram {
    pub(super) frozen: FrozenProcesses,
    /// The program's file mode mask, which it shares with the runner.
    pub(super) umask: Mode,
    /// Input that may still arrive on the channel for its commit.
    pub(super) pending: PendingInput,
}

impl Runner {
    /// Lets every process continue.
    pub(super) fn thaw(
        &self,
        frozen: FrozenProcesses,
        layers: &mut Layers,
    ) -> Result<(), RunnerError> {
        overlays::make_writable(&self.control).map_err(kernel("let overlays be written again"))?;
        layers.access = LayerAccess::Writable;
        frozen.thaw().map_err(kernel("let processes go on"))
    }

    /// Stops every process, makes what they wrote read-only, and replies that it did or why it could
    /// not. If files are open for writing, the processes are held instead.
    pub(super) fn freeze(
        &self,
        layers: &mut Layers,
        may_share: bool,
    ) -> Result<Option<FrozenProgram>, RunnerError> {
        ignore_file_size_signal();
        match FrozenProcesses::freeze(self.tree) {
            Ok(mut frozen) => {
                layers.access = overlays::make_read_only(&self.control, ProgramState::Frozen);
                if layers.access == LayerAccess::Refused(Errno::BUSY) && !may_share {
                    // Nobody else can have the files that are open.
                    let held = frozen.hold();
                    layers.access = held.map_or(layers.access, |()| LayerAccess::Held);
                }
                if let LayerAccess::Refused(errno) = layers.access {
                    let why = open_files::explain(errno, &layers.path);
                    self.thaw(frozen, layers)?;
                    self.reply(&RunReply::Frozen(Some(why)))?;
                    return Ok(None);
                }
                layers.remember_commits();
                let umask = rustix::process::umask(COMMIT_UMASK);
                self.reply(&RunReply::Frozen(None))?;
                Ok(Some(FrozenProgram { frozen, umask, pending: PendingInput::default() }))
            }
            Err(error) => {
                self.reply(&RunReply::Frozen(Some(error.to_string())))?;
                Ok(None)
            }
        }
    }
}
