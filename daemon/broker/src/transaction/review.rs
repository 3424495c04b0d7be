//! What a command did is shown and asked about: what it destroyed, and what somebody else changed as
//! well meanwhile. The answer is held to exactly that. Broker.

use super::{
    changes::Changes,
    ending::{denied, discarded, failed, noted, refused, rendered},
    part::{is_covered, is_part, left_out, not_committed},
    told,
    unsettled::Unsettled,
};
use crate::{
    audit::docket::Docket,
    change::{self, Leave, Preview},
    checkpoint::effects::{self, Asking, Decided},
    error::CallError,
    outcome::Outcome,
    server::Server,
    task::{ChangeTask, Kept},
    transaction::SETTLE,
};
use palisade_plan::change::Conflicts;
use palisade_policy::{Judgement, Question};
use palisade_protocol::{ErrorCode, WireError};

/// The most bytes of a diff that are shown or reported.
const DIFF: u32 = 256 * 1024;

impl Unsettled {
    async fn preview(
        &self,
        without: Vec<Vec<u8>>,
        conflicts: Conflicts,
    ) -> Result<Preview, CallError> {
        let task = ChangeTask::Settle { without, kept: Kept::Not, conflicts };
        let (files, session) = (&self.transaction.files, &self.context.session);
        let preview = change::preview_on(files, session, &task, None, DIFF);
        let silent = |_| session.channel_error("it did not say in time what was changed");
        tokio::time::timeout(SETTLE, preview).await.map_err(silent)?
    }

    /// What was changed, to be shown.
    pub(super) async fn changes(&self, conflicts: Conflicts) -> Result<Changes, CallError> {
        let preview = self.preview(Vec::new(), conflicts).await?;
        Ok(Changes::new(self, preview))
    }

    /// Asks about it: what it destroyed, or what somebody else changed as well.
    pub(super) async fn review(
        &self,
        server: &Server,
        docket: &mut Docket,
        mut conflict: Option<CallError>,
        outcome: Outcome,
    ) -> Outcome {
        let session = &self.context.session;
        let conflicts = if conflict.is_some() { Conflicts::Told } else { Conflicts::Refused };
        let changes = match self.changes(conflicts).await {
            Ok(changes) => changes,
            Err(error) => return failed(outcome, conflict.unwrap_or(error), &[]),
        };
        let question = match (self.judge(&changes.facts), conflict) {
            (Judgement::Deny(refusal), _) => {
                return refused(&changes, &session.workspace.0, refusal, outcome);
            }
            (Judgement::Ask(question), kept) => {
                conflict = kept;
                question
            }
            // Nobody is asked.
            (Judgement::Allow(_), Some(conflict)) if !changes.preview.conflicts.is_empty() => {
                return failed(outcome, conflict, &changes.preview.effects);
            }
            // What there was to ask about is not there any more.
            (Judgement::Allow(_), _) => {
                let shown = &changes.preview;
                return self.commit_shown((&changes, shown), Vec::new(), conflicts, outcome).await;
            }
        };
        let asking = Asking {
            session,
            call_id: &self.context.call_id,
            tool: &self.tool.spec.name,
            call: &self.call,
            task: &self.task,
            cancel: &self.context.cancel,
            facts: &changes.facts,
            preview: &changes.preview,
            question: &question,
        };
        let decided = effects::ask(server, docket, asking).await;
        self.answered((changes, conflict), question, decided, outcome).await
    }
    async fn answered(
        &self,
        (changes, conflict): (Changes, Option<CallError>),
        question: Question,
        decided: Result<Decided, Box<Outcome>>,
        outcome: Outcome,
    ) -> Outcome {
        let conflicts = if conflict.is_some() { Conflicts::Told } else { Conflicts::Refused };
        match decided {
            Err(stopped) => {
                let error = stopped.error.unwrap_or_else(|| CallError::Cancelled.into());
                let cancelled = outcome.cancelled || stopped.cancelled;
                discarded(Outcome { cancelled, ..outcome }, &changes.preview.effects, error)
            }
            Ok(Decided::All(checkpoint)) => {
                let outcome = noted(outcome, &changes, checkpoint);
                let shown = &changes.preview;
                self.commit_shown((&changes, shown), Vec::new(), conflicts, outcome).await
            }
            Ok(Decided::Part(checkpoint, part)) => {
                let without = left_out(&changes.preview.effects, &part);
                let by = checkpoint.by.clone();
                let outcome = noted(outcome, &changes, checkpoint);
                match self.preview(without.clone(), conflicts).await {
                    Ok(rest) => {
                        let rest = Changes::new(self, rest);
                        self.commit_part((&changes, &rest), (without, &by), conflicts, outcome)
                            .await
                    }
                    Err(error) => failed(outcome, error, &changes.preview.effects),
                }
            }
            Ok(Decided::Denied { by, reason, guidance }) => {
                let said = match (by.strip_prefix("handler:"), conflict) {
                    // With nobody there it is what it is.
                    (None, Some(conflict)) => {
                        return failed(outcome, conflict, &changes.preview.effects);
                    }
                    (None, None) => format!("nobody approved it ({reason})"),
                    (Some(name), _) => format!("{name} said no ({reason})"),
                };
                let message = format!(
                    "this command {}; {said}, so nothing that it changed was kept",
                    told::deeds(&changes.asked(), &self.context.session.workspace.0)
                );
                let error = WireError::new(ErrorCode::Denied, message, guidance.clone());
                let refusal = question.denied(error, &by, &reason, guidance);
                denied(&changes, refusal, outcome)
            }
        }
    }

    /// Has done a part of what was shown. It is judged again: without what was left out it may lose
    /// something else.
    async fn commit_part(
        &self,
        (changes, rest): (&Changes, &Changes),
        (without, by): (Vec<Vec<u8>>, &str),
        conflicts: Conflicts,
        outcome: Outcome,
    ) -> Outcome {
        let shown = &changes.preview.effects;
        let stale = |what: &str| CallError::Stale(what.to_owned());
        if !is_part(&rest.preview.effects, shown) {
            let error = stale("what is left of the changes is not a part of what was shown");
            return failed(outcome, error, shown);
        }
        match self.judge(&rest.facts) {
            Judgement::Deny(refusal) => {
                return refused(rest, &self.context.session.workspace.0, refusal, outcome);
            }
            Judgement::Ask(_) if !is_covered(&rest.facts, &changes.facts) => {
                let error = stale("what is left of the changes loses more than was shown");
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
        let data = rendered(&told::data_of_part(&rest.preview.effects, &left, by));
        Outcome { data, ..outcome }
    }

    /// Has done what was shown, or a part of it.
    async fn commit_shown(
        &self,
        (changes, shown): (&Changes, &Preview),
        without: Vec<Vec<u8>>,
        conflicts: Conflicts,
        outcome: Outcome,
    ) -> Outcome {
        let leave = Leave::Shown(shown.digest);
        let committed = match self.hold(&without, Kept::ForUndo, conflicts).await {
            Ok((task, held)) => self.commit(task, held, &leave).await,
            Err(error) => Err(error),
        };
        match committed {
            Ok(done) => self.done(done, outcome).await,
            Err(error) => failed(outcome, error, &changes.preview.effects),
        }
    }
}
