//! The hidden names in a session's workspace, and the transactions that hide them. Runs in the
//! broker.

use super::Session;
use crate::{
    base::error::CallError,
    cells::{
        hidden_names::{ScanError, ScanResult},
        runner::RunnerError,
        session::error::SessionError,
        transaction::Transaction,
    },
};
use palisade_plan::cell::{Fault, FileReply, FileRequest};
use palisade_protocol::Guard;

impl Session {
    /// Returns `true` if the profile hides or protects names of the workspace, and transactions are
    /// available to do so.
    pub(crate) fn restricts_names(&self) -> bool {
        self.profile.restricts_names() && self.cell.transactions.unavailable_reason().is_none()
    }

    /// Returns the paths that are hidden now.
    async fn scan_hidden_names(&self) -> Result<ScanResult, CallError> {
        self.files.hidden_names.scan(&self.cell.files).await.map_err(|error| match error {
            ScanError::Channel => self.channel_error("it did not report the hidden names"),
            ScanError::Failed(failure) => CallError::File(failure),
        })
    }

    /// Returns a transaction in which the paths that are hidden now are invisible.
    pub(crate) async fn transaction(&self) -> Result<Transaction, CallError> {
        let scanned = self.scan_if_hiding().await?;
        let taken = self.cell.transactions.take(scanned).await;
        taken.map_err(|error| self.transaction_error(&error))
    }

    /// Returns a transaction for a job that watches, in which directories of noise can be written;
    /// `None` if there are none.
    pub(crate) async fn watching(&self) -> Result<Option<Transaction>, CallError> {
        let patterns = self.profile.noise_directories();
        let is_held = self.guard() >= Guard::Auto && self.profile.writes_workspace();
        if patterns.is_empty() || !is_held || self.cell.transactions.unavailable_reason().is_some()
        {
            return Ok(None);
        }
        let failed = || self.channel_error("it did not report the directories of noise");
        let mut lease = self.cell.files.lease().await.ok_or_else(failed)?;
        lease.send(&[FileRequest::Noise { patterns }]).await.map_err(|_| failed())?;
        let reply = lease.receive().await.map_err(|_| failed())?;
        let FileReply::Noise(directories) = reply else {
            return Err(if let FileReply::Failed(failure) = reply {
                CallError::File(failure)
            } else {
                failed()
            });
        };
        if directories.is_empty() {
            return Ok(None);
        }
        let taken = self.cell.transactions.watch(directories).await;
        taken.map(Some).map_err(|error| self.transaction_error(&error))
    }

    async fn scan_if_hiding(&self) -> Result<Option<ScanResult>, CallError> {
        Ok(match self.profile.hides() {
            true => Some(self.scan_hidden_names().await?),
            false => None,
        })
    }

    /// Makes sure that transactions work, if the guard requires them, by starting one over the
    /// workspace. A further one is prepared for the first command. `known` says whose fault it is
    /// if transactions are already known to be unavailable.
    pub(super) async fn require_transactions(&self, known: Fault) -> Result<(), SessionError> {
        if self.guard != Guard::Transaction || !self.profile.writes_workspace() {
            return Ok(());
        }
        let unheld = |why: &str, fault| SessionError::Unheld { why: why.to_owned(), fault };
        if let Some(why) = self.cell.transactions.unavailable_reason() {
            return Err(unheld(why, known));
        }
        let scanned = self.scan_if_hiding().await;
        let scanned = scanned.map_err(|error| unheld(&error.to_string(), Fault::Host))?;
        match self.cell.transactions.take(scanned).await {
            Ok(laid) => drop(laid),
            Err(RunnerError::Step { why, fault, .. }) => return Err(unheld(&why, fault)),
            Err(error) => return Err(unheld(&error.to_string(), Fault::Host)),
        }
        self.cell.transactions.prepare().await;
        Ok(())
    }

    /// Turns the failure of a transaction into an error: if the session has ended, that is the
    /// reason. Only a step that failed says that this host can not have transactions; a runner that
    /// was late or was killed says nothing about the next one.
    fn transaction_error(&self, error: &RunnerError) -> CallError {
        match (self.check(), error) {
            (Err(over), _) => over,
            (Ok(()), RunnerError::Step { .. }) => CallError::Transaction(error.to_string()),
            (
                Ok(()),
                RunnerError::Launcher(_)
                | RunnerError::Channel(_)
                | RunnerError::Io(_)
                | RunnerError::Silent,
            ) => CallError::Cell(format!("no transaction was ready: {error}; nothing was run")),
        }
    }

    /// Returns `true` if a program may run without a transaction. Not if there was one before:
    /// otherwise whatever made transactions impossible would also remove the guard from later
    /// programs.
    pub(crate) fn may_run_without_transaction(&self) -> bool {
        self.guard != Guard::Transaction
            && !self.cell.transactions.ever_started()
            && (!self.profile.restricts_names() || self.profile.name_layers_are_optional())
    }
}
