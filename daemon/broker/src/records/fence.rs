//! Something that is refused on purpose: when the kernel's record of it has come, so has every
//! record of what was refused before. A thread of the broker's own, under a Landlock rule that takes
//! nothing from it but the list of the root's names. Broker.

use landlock::{AccessFs, Ruleset, RulesetAttr as _};
use rustix::fs::{Mode, OFlags};
use std::{
    io,
    sync::mpsc::{Sender, channel},
    thread,
};

/// A thread that is refused something whenever it is asked to be. It ends when this is dropped.
#[derive(Debug)]
pub(super) struct Fence {
    ask: Sender<()>,
    /// Its name, which the record of its domain has.
    pub(super) name: String,
}

impl Fence {
    /// Makes the thread, and its domain.
    pub(super) fn new(name: String) -> io::Result<Self> {
        let (ask, asked) = channel::<()>();
        thread::Builder::new().name(name.clone()).spawn(move || {
            let domain = Ruleset::default().handle_access(AccessFs::ReadDir);
            let domain = domain.and_then(Ruleset::create).and_then(|domain| domain.restrict_self());
            if let Err(error) = domain {
                tracing::info!(%error, "no fence for the kernel's records");
                return;
            }
            while asked.recv().is_ok() {
                let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
                // That it is refused is all that matters, and if not, no record comes.
                drop(rustix::fs::open("/", flags, Mode::empty()));
            }
        })?;
        Ok(Self { ask, name })
    }

    /// Has something refused, very soon.
    pub(super) fn refuse(&self) -> Result<(), ()> {
        self.ask.send(()).map_err(drop)
    }
}
