//! What was last told the service manager of how the daemon is. Broker.

use sd_notify::NotifyState;
use std::sync::{Mutex, PoisonError};

/// The line about how the daemon is.
#[derive(Debug, Default)]
pub(crate) struct Standing {
    told: Mutex<String>,
    /// Why the last reload failed, if it did.
    not_reloaded: Mutex<Option<String>>,
}

impl Standing {
    /// Remembers how a reload went.
    pub(crate) fn reloaded(&self, result: Result<(), String>) {
        *self.not_reloaded.lock().unwrap_or_else(PoisonError::into_inner) = result.err();
    }

    /// Why the last reload failed, if it did.
    pub(crate) fn not_reloaded(&self) -> Option<String> {
        self.not_reloaded.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Tells the line, if it is another than before.
    pub(crate) fn tell(&self, line: String) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if *told != line {
            notify(&[NotifyState::Status(&line)]);
            *told = line;
        }
    }
}

/// Tells the service manager something; there may be none.
pub(crate) fn notify(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!(%error, "the service manager could not be told");
    }
}
