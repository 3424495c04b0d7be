//! Handles Ctrl-C: the first one requests the call's end, the second does not wait for it.

use crate::{approve::terminal, exit::INTERRUPTED, failure::Failure};
use std::sync::Arc;
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::Notify,
};

/// A watch for Ctrl-C, from its creation on.
#[derive(Debug)]
pub(crate) struct Interrupts {
    first: Arc<Notify>,
}

impl Interrupts {
    pub(crate) fn watch() -> Result<Self, Failure> {
        let mut signals = signal(SignalKind::interrupt())
            .map_err(|error| Failure::new(format!("can not watch for Ctrl-C: {error}"), ""))?;
        let first = Arc::new(Notify::new());
        let told = Arc::clone(&first);
        tokio::spawn(async move {
            signals.recv().await;
            told.notify_one();
            signals.recv().await;
            terminal::restore();
            // The connection closes with this process, and the daemon ends the call with it.
            std::process::exit(INTERRUPTED.into());
        });
        Ok(Self { first })
    }

    /// Returns at the first Ctrl-C, once.
    pub(crate) async fn first(&self) {
        self.first.notified().await;
    }
}
