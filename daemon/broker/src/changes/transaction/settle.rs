//! The end of a transaction. What the program changed is read, judged and shown to an approver if
//! necessary; then it is committed, in whole or in part, or discarded. Runs in the broker.

use super::{
    SETTLE,
    changes::{ChangeSet, facts},
    describe::{self, CommitDecision},
    ending::{failed, refused, rendered, trial_report, without_changes},
    resolve::{resolve, roll_back},
    undo_room::UndoRoom,
    unsettled::{Purpose, UnsettledCall},
};
use crate::{
    approval::service::ApprovalService,
    base::{
        error::CallError,
        outcome::Outcome,
        task::{ChangeTask, Program},
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
use palisade_policy::{Facts, Judgement, Refusal, judge_effects};
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
        return match unsettled.changes(Conflicts::Told, UndoRoom::Enough).await {
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
        SettleResult::Asks(room) => {
            unsettled.review(approvals, docket, (None, room), outcome).await
        }
        SettleResult::Contested(conflict) => match unsettled.undo_room(Conflicts::Told).await {
            Ok(room) => unsettled.review(approvals, docket, (Some(conflict), room), outcome).await,
            Err(_) => failed(outcome, conflict, &[]),
        },
    }
}

/// The result of settling a transaction without asking an approver.
enum SettleResult {
    /// The program changed nothing.
    Nothing,
    /// The changes were committed.
    Done(CommittedChanges),
    /// A rule denies the changes.
    Denied(Box<ChangeSet>, Box<Refusal>),
    Failed(CallError, Vec<Effect>),
    /// An approver must be asked.
    Asks(UndoRoom),
    /// Some of the changed files were also changed from outside.
    Contested(CallError),
}

/// The prepared changes of a program.
pub(super) struct HeldChanges {
    pub(super) task: ChangeTask,
    pub(super) change: PreparedChange,
    pub(super) room: UndoRoom,
}

/// The result of a commit, and the room that undo had for it.
pub(super) struct CommittedChanges {
    pub(super) result: CommitResult,
    pub(super) room: UndoRoom,
}

/// The reason why prepared changes were not committed.
pub(super) enum CommitError {
    /// Undo can not keep what they replace, as they were judged to be kept.
    NotKept(UndoRoom),
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
        let mut room = UndoRoom::Enough;
        loop {
            let held = match self.hold(&[], room, Conflicts::Refused).await {
                Ok(held) => held,
                Err(error) if is_conflict(&error) => return SettleResult::Contested(error),
                Err(error) => return SettleResult::Failed(error, Vec::new()),
            };
            let preview = &held.change.preview;
            if preview.effects.is_empty() {
                return SettleResult::Nothing;
            }
            let facts = facts(self, preview, &held.room);
            match self.judge(&facts) {
                Judgement::Ask(_) if self.review == EffectsReview::Required => {
                    return SettleResult::Asks(held.room);
                }
                Judgement::Allow(_) | Judgement::Ask(_) => {
                    let leave = ChangeClearance::Shown(preview.digest);
                    let effects = preview.effects.clone();
                    if let Some(error) = held.room.refusal(&facts) {
                        return SettleResult::Failed(error, effects);
                    }
                    match self.commit(held, &leave).await {
                        Ok(done) => return SettleResult::Done(done),
                        // It is judged again, as what can not be undone.
                        Err(CommitError::NotKept(lacking)) => room = lacking,
                        Err(CommitError::Failed(error)) if is_conflict(&error) => {
                            return SettleResult::Contested(error);
                        }
                        Err(CommitError::Failed(error)) => {
                            return SettleResult::Failed(error, effects);
                        }
                    }
                }
                Judgement::Deny(refusal) => {
                    let changes = ChangeSet::new(self, held.change.preview, held.room);
                    return SettleResult::Denied(Box::new(changes), Box::new(refusal));
                }
            }
        }
    }

    /// Returns the room that undo has for what the program replaced.
    async fn undo_room(&self, conflicts: Conflicts) -> Result<UndoRoom, CallError> {
        let _commit = self.lock_commits().await?;
        Ok(self.hold(&[], UndoRoom::Enough, conflicts).await?.room)
    }

    /// Prepares the program's changes. If undo has no room for the replaced content, it is not stored
    /// for undo.
    pub(super) async fn hold(
        &self,
        without: &[Vec<u8>],
        mut room: UndoRoom,
        conflicts: Conflicts,
    ) -> Result<HeldChanges, CallError> {
        let files = &self.transaction.files;
        let wanted = (&self.tool.spec.name, EvidenceDepth::Full);
        let mut again = false;
        loop {
            let kept = room.retention();
            let task = ChangeTask::Settle { without: without.to_vec(), kept, conflicts };
            let deadline = Deadline::after(SETTLE);
            let held =
                change::prepare_on(files, &task, wanted, None, &self.context, deadline).await;
            let held = held.and_then(|mut change| change.check_undo_room().map(|()| change));
            let error = match held {
                Ok(change) => return Ok(HeldChanges { task, change, room }),
                Err(error) => error,
            };
            if let Some(lacking) = self.lacking_room(&task, &error) {
                room = lacking;
            } else if is_interrupted_commit(&error) && !again {
                // Another session's commit was interrupted; it is rolled back first.
                again = true;
                let taken = resolve(&self.context.session).await?;
                self.context.session.tell(taken.findings);
            } else {
                return Err(error);
            }
        }
    }

    /// Commits what is prepared, if `leave` allows exactly that.
    pub(super) async fn commit(
        &self,
        HeldChanges { task, change, room }: HeldChanges,
        leave: &ChangeClearance,
    ) -> Result<CommittedChanges, CommitError> {
        match change.commit(&task, leave, &self.context, Deadline::after(SETTLE)).await {
            Ok(result) => Ok(CommittedChanges { result, room }),
            Err(error) => Err(match self.lacking_room(&task, &error) {
                Some(room) => CommitError::NotKept(room),
                None => CommitError::Failed(error),
            }),
        }
    }

    /// Returns the lack of room for undo that an error is about.
    fn lacking_room(&self, task: &ChangeTask, error: &CallError) -> Option<UndoRoom> {
        let limit = self.context.session.profile.undo_bytes();
        UndoRoom::lacking(error, limit).filter(|_| task.is_kept())
    }

    pub(super) fn judge(&self, facts: &Facts) -> Judgement {
        let session = &self.context.session;
        judge_effects(&session.profile, session.ask, &self.tool.spec, facts)
    }

    /// Returns the outcome after a commit. If the commit's process ended, tries to roll it back;
    /// else its result is unknown. The caller does not hold the commit lock.
    pub(super) async fn done(&self, done: CommittedChanges, mut outcome: Outcome) -> Outcome {
        match done.result {
            CommitResult::Changed { changed, undo, reasons } => {
                self.arrive();
                outcome.findings.extend(done.room.notice());
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
