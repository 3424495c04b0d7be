//! What is hidden in a session's workspace, and the transactions in which it is. Broker.

use super::Session;
use crate::{
    error::CallError,
    runner::RunnerError,
    transaction::Transaction,
    veil::{ScanError, Scanned},
};

impl Session {
    /// Whether programs are kept from names of the workspace.
    pub(crate) fn is_veiled(&self) -> bool {
        self.profile.veils() && self.transactions.none().is_none()
    }

    /// What is hidden now.
    pub(crate) async fn scanned(&self) -> Result<Scanned, CallError> {
        self.search.look(&self.files).await.map_err(|error| match error {
            ScanError::Channel => self.channel_error("it did not say what is hidden"),
            ScanError::Failed(failure) => CallError::File(failure),
        })
    }

    /// A transaction, in which nothing is seen that is hidden now.
    pub(crate) async fn transaction(&self) -> Result<Transaction, CallError> {
        let scanned = match self.profile.hides() {
            true => Some(self.scanned().await?),
            false => None,
        };
        let taken = self.transactions.take(scanned).await;
        taken.map_err(|error| self.unveiled(&error))
    }

    /// What it means that there is no transaction.
    fn unveiled(&self, error: &RunnerError) -> CallError {
        match self.check() {
            Err(over) => over,
            Ok(()) => CallError::Transaction(error.to_string()),
        }
    }

    /// Whether a program may run without one.
    pub(crate) fn may_do_without(&self) -> bool {
        !self.profile.veils() || self.profile.veils_at_will()
    }
}
