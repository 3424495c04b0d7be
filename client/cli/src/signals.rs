//! The signals that end a handler: seen, so that it can put everything back first.

use crate::failure::Failure;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Watches from here on; without somebody who waits for them they do nothing.
#[derive(Debug)]
pub(crate) struct Signals {
    hangup: Signal,
    interrupt: Signal,
    quit: Signal,
    terminate: Signal,
}

impl Signals {
    pub(crate) fn watch() -> Result<Self, Failure> {
        let watch = |kind| {
            signal(kind)
                .map_err(|error| Failure::new(format!("can not watch for signals: {error}"), ""))
        };
        Ok(Self {
            hangup: watch(SignalKind::hangup())?,
            interrupt: watch(SignalKind::interrupt())?,
            quit: watch(SignalKind::quit())?,
            terminate: watch(SignalKind::terminate())?,
        })
    }

    /// The exit status for the signal that came.
    pub(crate) async fn next(&mut self) -> u8 {
        tokio::select! {
            _ = self.hangup.recv() => 128 + 1,
            _ = self.interrupt.recv() => 128 + 2,
            _ = self.quit.recv() => 128 + 3,
            _ = self.terminate.recv() => 128 + 15,
        }
    }
}
