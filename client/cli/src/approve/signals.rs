//! The signals that end a handler: seen, so that it can put everything back first.

use crate::failure::Failure;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Watches from here on; without somebody who waits for them they do nothing.
#[derive(Debug)]
pub(crate) struct Signals {
    hangup: Signal,
    interrupt: Option<Signal>,
    quit: Signal,
    terminate: Signal,
}

impl Signals {
    pub(crate) fn watch() -> Result<Self, Failure> {
        let mut signals = Self::watch_without_interrupt()?;
        signals.interrupt = Some(watch(SignalKind::interrupt())?);
        Ok(signals)
    }

    /// All but Ctrl-C, which somebody else watches.
    pub(crate) fn watch_without_interrupt() -> Result<Self, Failure> {
        Ok(Self {
            hangup: watch(SignalKind::hangup())?,
            interrupt: None,
            quit: watch(SignalKind::quit())?,
            terminate: watch(SignalKind::terminate())?,
        })
    }

    /// The exit status for the signal that came.
    pub(crate) async fn next(&mut self) -> u8 {
        let interrupt = async {
            match &mut self.interrupt {
                Some(interrupt) => interrupt.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.hangup.recv() => 128 + 1,
            _ = interrupt => 128 + 2,
            _ = self.quit.recv() => 128 + 3,
            _ = self.terminate.recv() => 128 + 15,
        }
    }
}

fn watch(kind: SignalKind) -> Result<Signal, Failure> {
    signal(kind).map_err(|error| Failure::new(format!("can not watch for signals: {error}"), ""))
}
