//! Shows the changes of a command to an approver: its losses, and conflicts with changes from
//! outside. The answer applies to exactly what was shown. Runs in the broker.

use super::{
    changes::{ChangeSet, facts},
    describe,
    ending::{denied, discarded, failed, noted, refused, rendered},
    part::{is_covered, is_part, left_out, not_committed},
    settle::{CommitError, CommittedChanges, HeldChanges},
    undo_room::UndoRoom,
    unsettled::UnsettledCall,
};
use crate::{
    approval::{
        effects::{self, ChangeSetDecision, ChangeSetReview},
        service::ApprovalService,
        verdict,
    },
    base::{
        error::CallError,
        outcome::Outcome,
        preview::Preview,
        task::{ChangeTask, UndoRetention},
    },
    changes::{
        change::{self, ChangeClearance},
        transaction::SETTLE,
    },
    telemetry::audit::docket::CallAudit,
};
use palisade_plan::change::Conflicts;
use palisade_policy::{Judgement, RequiredApproval, UndoRecord};
use palisade_protocol::{ErrorCode, WireError};

/// The most bytes of a diff that are shown or reported.
const DIFF: u32 = 256 * 1024;

impl UnsettledCall {
    async fn preview(
        &self,
        without: Vec<Vec<u8>>,
        conflicts: Conflicts,
    ) -> Result<Preview, CallError> {
        let task = ChangeTask::Settle { without, kept: UndoRetention::Not, conflicts };
        let (files, session) = (&self.transaction.files, &self.context.session);
        let preview = change::preview_on(files, session, &task, None, DIFF);
        let silent = |_| session.channel_error("it did not report the changes in time");
        tokio::time::timeout(SETTLE, preview).await.map_err(silent)?
    }

    /// Returns the changes of the program, to be shown to an approver.
    pub(super) async fn changes(
        &self,
        conflicts: Conflicts,
        room: UndoRoom,
    ) -> Result<ChangeSet, CallError> {
        let preview = self.preview(Vec::new(), conflicts).await?;
        Ok(ChangeSet::new(self, preview, room))
    }

    /// Requests approval for the changes: for their losses, or for a conflict with changes from
    /// outside.
    pub(super) async fn review(
        &self,
        approvals: &ApprovalService,
        docket: &mut CallAudit,
        (mut conflict, room): (Option<CallError>, UndoRoom),
        outcome: Outcome,
    ) -> Outcome {
        let session = &self.context.session;
        let conflicts = if conflict.is_some() { Conflicts::Told } else { Conflicts::Refused };
        let changes = match self.changes(conflicts, room).await {
            Ok(changes) => changes,
            Err(error) => return failed(outcome, conflict.unwrap_or(error), &[]),
        };
        let request = match (self.judge(&changes.facts), conflict) {
            (Judgement::Deny(refusal), _) => {
                return refused(&changes, &session.workspace.0, refusal, outcome);
            }
            (Judgement::Ask(request), kept) => {
                conflict = kept;
                request
            }
            // The profile asks nobody, so the conflict stays an error.
            (Judgement::Allow(_), Some(conflict)) if !changes.preview.conflicts.is_empty() => {
                return failed(outcome, conflict, &changes.preview.effects);
            }
            // The reason for asking is gone by now.
            (Judgement::Allow(_), _) => {
                let shown = &changes.preview;
                return self.commit_shown((&changes, shown), Vec::new(), conflicts, outcome).await;
            }
        };
        let asking = ChangeSetReview {
            context: &self.context,
            tool: &self.tool.spec.name,
            call: &self.call,
            task: &self.task,
            facts: &changes.facts,
            preview: &changes.preview,
            request: &request,
            commands: &self.commands,
        };
        let decided = effects::ask(approvals, docket, asking).await;
        self.answered((changes, conflict), request, decided, outcome).await
    }
    async fn answered(
        &self,
        (changes, conflict): (ChangeSet, Option<CallError>),
        request: RequiredApproval,
        decided: Result<ChangeSetDecision, Box<Outcome>>,
        outcome: Outcome,
    ) -> Outcome {
        let conflicts = if conflict.is_some() { Conflicts::Told } else { Conflicts::Refused };
        match decided {
            Err(stopped) => {
                let error = stopped.error.unwrap_or_else(|| CallError::Cancelled.into());
                let cancelled = outcome.cancelled || stopped.cancelled;
                discarded(Outcome { cancelled, ..outcome }, &changes.preview.effects, error)
            }
            Ok(ChangeSetDecision::All(checkpoint)) => {
                let outcome = noted(outcome, &changes, checkpoint);
                let shown = &changes.preview;
                self.commit_shown((&changes, shown), Vec::new(), conflicts, outcome).await
            }
            Ok(ChangeSetDecision::Remembered(checkpoint)) => {
                let outcome = noted(outcome, &changes, checkpoint);
                match self.commit_kept(&changes).await {
                    Ok(done) => self.done(done, outcome).await,
                    Err(error) => failed(outcome, error, &changes.preview.effects),
                }
            }
            Ok(ChangeSetDecision::Part(checkpoint, part)) => {
                let without = left_out(&changes.preview.effects, &part);
                let by = checkpoint.by.to_string();
                let outcome = noted(outcome, &changes, checkpoint);
                match self.preview(without.clone(), conflicts).await {
                    Ok(rest) => {
                        let rest = ChangeSet::new(self, rest, changes.room.clone());
                        self.commit_part((&changes, &rest), (without, &by), conflicts, outcome)
                            .await
                    }
                    Err(error) => failed(outcome, error, &changes.preview.effects),
                }
            }
            Ok(ChangeSetDecision::Denied { by, reason, guidance }) => {
                let said = match (by.approver(), conflict) {
                    // Nobody answered, so the conflict itself is the error.
                    (None, Some(conflict)) => {
                        return failed(outcome, conflict, &changes.preview.effects);
                    }
                    (None, None) => format!("nobody approved it ({reason})"),
                    (Some(name), _) => format!("denied by {name} ({reason})"),
                };
                let message = format!(
                    "this command {}; {said}, so nothing was committed. {}",
                    describe::describe_effects(&changes.asked(), &self.context.session.workspace.0),
                    describe::reasons(&changes.facts.findings)
                );
                let remedy = verdict::remedy(&by, &guidance);
                let error = WireError::new(ErrorCode::Denied, message, guidance);
                let refusal = request.denied(error, by, &reason, remedy);
                denied(&changes, refusal, outcome)
            }
        }
    }

    /// Commits a part of what was shown. It is judged again: without the paths that were left out
    /// it may have other losses.
    async fn commit_part(
        &self,
        (changes, rest): (&ChangeSet, &ChangeSet),
        (without, by): (Vec<Vec<u8>>, &str),
        conflicts: Conflicts,
        outcome: Outcome,
    ) -> Outcome {
        let shown = &changes.preview.effects;
        let stale = |what: &str| CallError::Stale(what.to_owned());
        if !is_part(&rest.preview.effects, shown) {
            let error = stale("the change set has changed");
            return failed(outcome, error, shown);
        }
        match self.judge(&rest.facts) {
            Judgement::Deny(refusal) => {
                return refused(rest, &self.context.session.workspace.0, refusal, outcome);
            }
            Judgement::Ask(_) if !is_covered(&rest.facts, &changes.facts) => {
                let error = stale("the loss has grown");
                return failed(outcome, error, shown);
            }
            Judgement::Ask(_) | Judgement::Allow(_) => {}
        }
        let outcome =
            self.commit_shown((changes, &rest.preview), without, conflicts, outcome).await;
        if outcome.error.is_some() {
            return outcome;
        }
        let left = not_committed(shown, &rest.preview.effects);
        let data = rendered(&describe::data_of_part(&rest.preview.effects, &left, by));
        Outcome { data, ..outcome }
    }

    /// Commits what was shown, or a part of it.
    async fn commit_shown(
        &self,
        (changes, shown): (&ChangeSet, &Preview),
        without: Vec<Vec<u8>>,
        conflicts: Conflicts,
        outcome: Outcome,
    ) -> Outcome {
        let leave = ChangeClearance::Shown(shown.digest);
        match self.commit_again(changes, &without, conflicts, &leave).await {
            Ok(done) => self.done(done, outcome).await,
            Err(error) => failed(outcome, error, &changes.preview.effects),
        }
    }

    /// Commits what a remembered approval covers. What undo can not keep any more is not committed.
    async fn commit_kept(&self, changes: &ChangeSet) -> Result<CommittedChanges, CallError> {
        let _commit = self.lock_commits().await?;
        let held = self.hold(&[], UndoRoom::Enough, Conflicts::Refused).await?;
        self.check_covered(&held, changes)?;
        let leave = ChangeClearance::Shown(changes.preview.digest);
        self.commit(held, &leave).await.map_err(|error| match error {
            CommitError::NotKept(_) => no_longer_kept(),
            CommitError::Failed(error) => error,
        })
    }

    /// Prepares and judges what was shown once more, under the commit lock, and commits it.
    async fn commit_again(
        &self,
        changes: &ChangeSet,
        without: &[Vec<u8>],
        conflicts: Conflicts,
        leave: &ChangeClearance,
    ) -> Result<CommittedChanges, CallError> {
        let _commit = self.lock_commits().await?;
        let mut room = UndoRoom::Enough;
        loop {
            let held = self.hold(without, room, conflicts).await?;
            self.check_covered(&held, changes)?;
            match self.commit(held, leave).await {
                Ok(done) => return Ok(done),
                Err(CommitError::NotKept(lacking)) => room = lacking,
                Err(CommitError::Failed(error)) => return Err(error),
            }
        }
    }

    /// Checks that prepared changes lose no more than was shown. Another call may have come to rely
    /// on what this one removes, or undo can not keep what it could when it was shown.
    fn check_covered(&self, held: &HeldChanges, shown: &ChangeSet) -> Result<(), CallError> {
        let HeldChanges { change, room, .. } = held;
        if room.record() == UndoRecord::Unavailable && shown.room == UndoRoom::Enough {
            return Err(no_longer_kept());
        }
        if !is_covered(&facts(self, &change.preview, room), &shown.facts) {
            return Err(CallError::Stale("the loss has grown".to_owned()));
        }
        Ok(())
    }
}

fn no_longer_kept() -> CallError {
    CallError::Stale("undo can no longer keep the lost content".to_owned())
}
