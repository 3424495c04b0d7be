//! What is hidden in a session's workspace, and the transactions in which it is. Broker.

use super::Session;
use crate::{
    error::{CallError, SessionError},
    runner::RunnerError,
    transaction::Transaction,
    veil::{ScanError, Scanned},
};
use palisade_plan::cell::Fault;
use palisade_protocol::Guard;

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
        let scanned = self.scanned_if_hiding().await?;
        let taken = self.transactions.take(scanned).await;
        taken.map_err(|error| self.unveiled(&error))
    }

    async fn scanned_if_hiding(&self) -> Result<Option<Scanned>, CallError> {
        Ok(match self.profile.hides() {
            true => Some(self.scanned().await?),
            false => None,
        })
    }

    /// Makes sure that there are transactions, where the guard is never to do without them: one is
    /// laid over the workspace. Another takes its place for the first command. `known` is whose fault
    /// it is if it is known already that there are none.
    pub(super) async fn require_transactions(&self, known: Fault) -> Result<(), SessionError> {
        if self.guard != Guard::Transaction || !self.profile.writes_workspace() {
            return Ok(());
        }
        let unheld = |why: &str, fault| SessionError::Unheld { why: why.to_owned(), fault };
        if let Some(why) = self.transactions.none() {
            return Err(unheld(why, known));
        }
        let scanned = self.scanned_if_hiding().await;
        let scanned = scanned.map_err(|error| unheld(&error.to_string(), Fault::Host))?;
        match self.transactions.take(scanned).await {
            Ok(laid) => drop(laid),
            Err(RunnerError::Step { step, why, fault }) => {
                let own = why.strip_prefix(&format!("step {step}: "));
                return Err(unheld(own.unwrap_or(&why), fault));
            }
            Err(error) => return Err(unheld(&error.to_string(), Fault::Host)),
        }
        self.transactions.prepare().await;
        Ok(())
    }

    /// What it means that there is no transaction.
    fn unveiled(&self, error: &RunnerError) -> CallError {
        match self.check() {
            Err(over) => over,
            Ok(()) => CallError::Transaction(error.to_string()),
        }
    }

    /// Whether a program may run without one. Not where there was one before: whatever closes the
    /// workspace to what is laid over it would take the guard away from what follows.
    pub(crate) fn may_do_without(&self) -> bool {
        self.guard != Guard::Transaction
            && !self.transactions.were_had()
            && (!self.profile.veils() || self.profile.veils_at_will())
    }
}
