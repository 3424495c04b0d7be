//! A denial provoked on purpose. When the kernel's record of it arrives, every record of an earlier
//! denial has arrived too. It is made by a thread of the broker, under a Landlock rule that only
//! forbids listing the root directory. Runs in the broker.

use landlock::{AccessFs, Ruleset, RulesetAttr as _};
use rustix::fs::{Mode, OFlags};
use std::{
    io,
    sync::mpsc::{Sender, channel},
    thread,
};

/// A thread that provokes a denial whenever it is asked to. It ends when this value is dropped.
#[derive(Debug)]
pub(super) struct Fence {
    ask: Sender<()>,
    /// The thread's name, which appears in the record of its domain.
    pub(super) name: String,
}

impl Fence {
    /// Starts the thread, which creates its own Landlock domain.
    pub(super) fn new(name: String) -> io::Result<Self> {
        let (ask, asked) = channel::<()>();
        thread::Builder::new().name(name.clone()).spawn(move || {
            let domain = Ruleset::default().handle_access(AccessFs::ReadDir);
            let domain = domain.and_then(Ruleset::create).and_then(|domain| domain.restrict_self());
            if let Err(error) = domain {
                tracing::info!(%error, "the arrival of kernel audit records can not be tested");
                return;
            }
            while asked.recv().is_ok() {
                let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
                // Only the denial matters; if the open succeeds, no record arrives.
                drop(rustix::fs::open("/", flags, Mode::empty()));
            }
        })?;
        Ok(Self { ask, name })
    }

    /// Asks the thread to provoke a denial.
    pub(super) fn refuse(&self) -> Result<(), ()> {
        self.ask.send(()).map_err(drop)
    }
}
