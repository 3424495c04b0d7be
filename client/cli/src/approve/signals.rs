//! The signals that end an approver. They are caught so that it can restore the terminal first.

use crate::failure::Failure;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// A watch for these signals, from its creation on. They have no effect unless [`next`](Self::next)
/// is awaited.
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

    /// Watches all of them but Ctrl-C, which is handled elsewhere.
    pub(crate) fn watch_without_interrupt() -> Result<Self, Failure> {
        Ok(Self {
            hangup: watch(SignalKind::hangup())?,
            interrupt: None,
            quit: watch(SignalKind::quit())?,
            terminate: watch(SignalKind::terminate())?,
        })
    }

    /// Waits for a signal and returns its exit status.
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
