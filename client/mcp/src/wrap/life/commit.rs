//! The commit of what a server changed in a call.

use super::ServerLife;
use crate::{
    activity::{self, Activity},
    explain::explain,
    wrap::{input::explain_result, message::printable},
};
use palisade_client::{CallResult, ChangeSet, JobStatus, Route};
use tokio::sync::watch;

/// The maximum number of changed paths that a note names.
const MAX_NOTED: usize = 20;

/// The outcome of a commit.
#[derive(Debug)]
pub(crate) enum CommitOutcome {
    Nothing,
    /// The changes were committed; the note says which.
    Committed(String),
    /// The changes were discarded, and the server has ended.
    Refused(String),
}

impl ServerLife {
    /// Commits what the server has changed so far, if it can change anything. Tells whether that waits
    /// for approval.
    pub(crate) async fn commit(&self, what: &str, told: &watch::Sender<Activity>) -> CommitOutcome {
        if self.route != Some(Route::Transaction) {
            return CommitOutcome::Nothing;
        }
        let reason = format!("MCP server {}: {what}", self.name);
        let commit = self.session.job_commit(self.job).or_end().reason(reason);
        let refused = match activity::make(commit, told).await {
            Ok(result) if result.success => return self.committed(&result),
            Ok(result) => explain_result(&result),
            Err(error) => return CommitOutcome::Refused(explain(&error)),
        };
        // A server that ended just then is committed or discarded by the daemon at its end.
        match self.session.job_kill(self.job).await {
            Ok(result) => match JobStatus::of(&result).and_then(|status| status.transaction) {
                Some(changes) if changes.committed => self.committed(&result),
                Some(_) | None => CommitOutcome::Refused(refused),
            },
            Err(_) => CommitOutcome::Refused(refused),
        }
    }

    /// Says what was committed.
    fn committed(&self, result: &CallResult) -> CommitOutcome {
        let Some(changes) = ChangeSet::of(result) else { return CommitOutcome::Nothing };
        let mut lines = changes.short(self.session.workspace());
        if lines.is_empty() {
            return CommitOutcome::Nothing;
        }
        let more = lines.len().saturating_sub(MAX_NOTED);
        lines.truncate(MAX_NOTED);
        if more > 0 {
            lines.push(format!("… and {more} more"));
        }
        let undo = result.undo.as_ref().map_or(String::new(), |id| format!("; undo id: {id}"));
        let lines = printable(&lines.join(", "), 2000);
        CommitOutcome::Committed(format!("[committed to the workspace: {lines}{undo}]"))
    }
}
