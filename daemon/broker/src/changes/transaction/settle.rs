//! The end of a transaction. What the program changed is read, judged and shown to an approver if
//! necessary; then it is committed, in whole or in part, or discarded. Runs in the broker.

use super::{
    SETTLE,
    changes::{ChangeSet, facts},
    describe::{self, CommitDecision},
    ending::{failed, refused, rendered, trial_report, without_changes},
    resolve::{resolve, roll_back},
    unsettled::{Purpose, UnsettledCall},
};
use crate::{
    approval::service::ApprovalService,
    base::{
        error::CallError,
        outcome::Outcome,
        task::{ChangeTask, Program, UndoRetention},
    },
    cells::{commit_lock::CommitGuard, context::Deadline, run, why},
    changes::{
        change::{self, ChangeClearance, CommitResult, PreparedChange},
        guard::EffectsReview,
    },
    telemetry::audit::docket::CallAudit,
};
use palisade_plan::{
    cell::FileErrorKind,
    change::{Conflicts, Effect, EvidenceDepth},
};
use palisade_policy::{Facts, Judgement, Refusal, UndoRecord, judge_effects};
use palisade_protocol::ErrorCode;
use std::{sync::Arc, time::Duration};
use tokio::time::timeout;

/// The time after which a program is not a short one.
const SHORT: Duration = Duration::from_millis(10);

/// Commits or discards the changes of a transaction. `outcome` is that of its program.
pub(crate) async fn settle(
    approvals: &ApprovalService,
    docket: &mut CallAudit,
    unsettled: &UnsettledCall,
    outcome: Outcome,
) -> Outcome {
    let session = Arc::clone(&unsettled.context.session);
    let mut outcome = settled(approvals, docket, unsettled, outcome).await;
    if outcome.about.is_some() {
        why::explain(&session, &why::AccessedPaths::default(), &mut outcome);
    }
    outcome
}

async fn settled(
    approvals: &ApprovalService,
    docket: &mut CallAudit,
    unsettled: &UnsettledCall,
    outcome: Outcome,
) -> Outcome {
    // The process was killed before its program began, so there are no changes.
    if outcome.exit_code.is_none() {
        return outcome;
    }
    if outcome.cancelled {
        return without_changes(outcome);
    }
    if let Purpose::Trial(report) = &unsettled.purpose {
        return match unsettled.changes(Conflicts::Told, UndoRecord::Kept).await {
            Ok(changes) => {
                let judgement = unsettled.judge(&changes.facts);
                trial_report(report.clone(), &judgement, &changes, outcome)
            }
            Err(error) => failed(outcome, error, &[]),
        };
    }
    match unsettled.at_once().await {
        SettleResult::Nothing => {
            unsettled.arrive();
            outcome
        }
        SettleResult::Done(done) => unsettled.done(done, outcome).await,
        SettleResult::Denied(changes, refusal) => {
            refused(&changes, &unsettled.context.session.workspace.0, *refusal, outcome)
        }
        SettleResult::Failed(error, effects) => failed(outcome, error, &effects),
        SettleResult::Asks(undo) => {
            unsettled.review(approvals, docket, (None, undo), outcome).await
        }
        SettleResult::Contested(conflict) => {
            let why = (Some(conflict), UndoRecord::Kept);
            unsettled.review(approvals, docket, why, outcome).await
        }
    }
}

/// The result of settling a transaction without asking an approver.
enum SettleResult {
    /// The program changed nothing.
    Nothing,
    /// The changes were committed.
    Done(CommitResult),
    /// A rule denies the changes.
    Denied(Box<ChangeSet>, Box<Refusal>),
    Failed(CallError, Vec<Effect>),
    /// An approver must be asked.
    Asks(UndoRecord),
    /// Some of the changed files were also changed from outside.
    Contested(CallError),
}

/// The reason why prepared changes were not committed.
pub(super) enum CommitError {
    /// Undo can not keep what they replace, as they were judged to be kept.
    NotKept,
    Failed(CallError),
}

impl UnsettledCall {
    /// Runs the program. While it runs for longer, the session's next transaction is prepared. A short
    /// one has the processors for itself, and the next transaction is prepared after the reply.
    pub(crate) async fn run(&mut self, program: Program, deadline: Deadline) -> Outcome {
        let session = Arc::clone(&self.context.session);
        let (context, transaction) = (&mut self.context, &mut self.transaction);
        let running = run::in_transaction(program, context, deadline, transaction);
        tokio::pin!(running);
        let (outcome, cwd) = match timeout(SHORT, &mut running).await {
            Ok(ended) => ended,
            Err(_) => tokio::join!(running, session.cell.prepare_transaction()).0,
        };
        self.cwd = cwd;
        outcome
    }

    /// Waits for the commit lock of the workspace. Stops when the call is cancelled.
    pub(super) async fn lock_commits(&self) -> Result<CommitGuard, CallError> {
        tokio::select! {
            biased;
            commit = self.context.session.files.commits.lock() => Ok(commit),
            () = self.context.cancel.cancelled() => Err(CallError::Cancelled),
        }
    }

    /// Commits the changes if they need no approval. They are prepared once, judged, and committed
    /// as they were prepared.
    async fn at_once(&self) -> SettleResult {
        let _commit = match self.lock_commits().await {
            Ok(commit) => commit,
            Err(error) => return SettleResult::Failed(error, Vec::new()),
        };
        let mut kept = UndoRetention::ForUndo;
        loop {
            let (task, held) = match self.hold(&[], kept, Conflicts::Refused).await {
                Ok(held) => held,
                Err(error) if is_conflict(&error) => return SettleResult::Contested(error),
                Err(error) => return SettleResult::Failed(error, Vec::new()),
            };
            if held.preview.effects.is_empty() {
                return SettleResult::Nothing;
            }
            match self.judge(&facts(self, &held.preview, undo_record(&task))) {
                Judgement::Ask(_) if self.review == EffectsReview::Required => {
                    return SettleResult::Asks(undo_record(&task));
                }
                Judgement::Allow(_) | Judgement::Ask(_) => {
                    let leave = ChangeClearance::Shown(held.preview.digest);
                    let effects = held.preview.effects.clone();
                    match self.commit(&task, held, &leave).await {
                        Ok(done) => return SettleResult::Done(done),
                        // It is judged again, as what can not be undone.
                        Err(CommitError::NotKept) => kept = UndoRetention::Not,
                        Err(CommitError::Failed(error)) if is_conflict(&error) => {
                            return SettleResult::Contested(error);
                        }
                        Err(CommitError::Failed(error)) => {
                            return SettleResult::Failed(error, effects);
                        }
                    }
                }
                Judgement::Deny(refusal) => {
                    let changes = ChangeSet::new(self, held.preview, undo_record(&task));
                    return SettleResult::Denied(Box::new(changes), Box::new(refusal));
                }
            }
        }
    }

    /// Prepares the program's changes. If the replaced content exceeds the undo limit, it is not
    /// stored for undo.
    pub(super) async fn hold(
        &self,
        without: &[Vec<u8>],
        mut kept: UndoRetention,
        conflicts: Conflicts,
    ) -> Result<(ChangeTask, PreparedChange), CallError> {
        let files = &self.transaction.files;
        let wanted = (&self.tool.spec.name, EvidenceDepth::Full);
        let mut again = false;
        loop {
            let task = ChangeTask::Settle { without: without.to_vec(), kept, conflicts };
            let deadline = Deadline::after(SETTLE);
            match change::prepare_on(files, &task, wanted, None, &self.context, deadline).await {
                Err(error) if kept == UndoRetention::ForUndo && exceeds_undo_limit(&error) => {
                    kept = UndoRetention::Not
                }
                // Another session's commit was interrupted; it is rolled back first.
                Err(error) if is_interrupted_commit(&error) && !again => {
                    again = true;
                    let taken = resolve(&self.context.session).await?;
                    self.context.session.tell(taken.findings);
                }
                held => return held.map(|held| (task, held)),
            }
        }
    }

    /// Commits what is prepared, if `leave` allows exactly that.
    pub(super) async fn commit(
        &self,
        task: &ChangeTask,
        held: PreparedChange,
        leave: &ChangeClearance,
    ) -> Result<CommitResult, CommitError> {
        let done = held.commit(task, leave, &self.context, Deadline::after(SETTLE)).await;
        done.map_err(|error| match error {
            error if task.is_kept() && exceeds_undo_limit(&error) => CommitError::NotKept,
            error => CommitError::Failed(error),
        })
    }

    pub(super) fn judge(&self, facts: &Facts) -> Judgement {
        let session = &self.context.session;
        judge_effects(&session.profile, session.ask, &self.tool.spec, facts)
    }

    /// Returns the outcome after a commit. If the commit's process ended, tries to roll it back;
    /// else its result is unknown. The caller does not hold the commit lock.
    pub(super) async fn done(&self, done: CommitResult, mut outcome: Outcome) -> Outcome {
        match done {
            CommitResult::Changed { changed, undo, reasons } => {
                self.arrive();
                let mut data = describe::data(CommitDecision::Committed, &changed.effects);
                data["transaction"]["kept"] = change::kept(&reasons);
                let data = rendered(&data);
                Outcome { data, undo, ..outcome }
            }
            // The commit's process ended, perhaps half-way.
            CommitResult::Unknown(unknown, change) => {
                let _commit = self.context.session.files.commits.lock().await;
                match roll_back(&self.context.session, &change).await {
                    Some(taken) => {
                        outcome.findings.extend(taken.findings);
                        let why = "its process ended during the commit, which was rolled back";
                        failed(outcome, CallError::Cell(why.to_owned()), &[])
                    }
                    None => Outcome { error: unknown.error, undo: unknown.undo, ..outcome },
                }
            }
        }
    }

    /// Makes the directory in which the program ended the session's current directory.
    fn arrive(&self) {
        if let Some(cwd) = &self.cwd {
            self.context.session.set_cwd(cwd.clone());
        }
    }
}

/// Returns whether the content that a change replaces is stored for undo.
pub(super) const fn undo_record(task: &ChangeTask) -> UndoRecord {
    if task.is_kept() { UndoRecord::Kept } else { UndoRecord::Unavailable }
}

/// Returns `true` if the error is a conflict with changes from outside, or with an earlier commit.
fn is_conflict(error: &CallError) -> bool {
    matches!(failure(error), Some(FileErrorKind::Conflict)) || is_interrupted_commit(error)
}

/// Returns `true` if the error says that an interrupted commit in the workspace has not been rolled
/// back yet.
fn is_interrupted_commit(error: &CallError) -> bool {
    matches!(failure(error), Some(FileErrorKind::InterruptedCommit))
}

/// The kind of the file error that a call failed with.
const fn failure(error: &CallError) -> Option<FileErrorKind> {
    if let CallError::File(failure) | CallError::Changing { failure, .. } = error {
        return Some(failure.kind);
    }
    None
}

/// Returns `true` if the error says that the replaced content exceeds what is stored for undo. A
/// full transaction is a different error.
fn exceeds_undo_limit(error: &CallError) -> bool {
    matches!(
        error,
        CallError::File(failure)
            if failure.kind == FileErrorKind::TooLarge && failure.errno == 0
    ) || matches!(error, CallError::Refused(refused) if refused.code == ErrorCode::TooLarge)
}
