//! The outcome of a call whose transaction ended: what was committed, or what was discarded and
//! why. Runs in the broker. Pure: no I/O.

use super::{
    changes::ChangeSet,
    describe::{self, CommitDecision},
};
use crate::base::{error::CallError, outcome::Outcome};
use palisade_plan::change::Effect;
use palisade_policy::{Judgement, Refusal};
use palisade_protocol::{Checkpoint, JsonText, WireError};
use serde_json::Value;

/// Renders JSON for the result's `data`.
pub(super) fn rendered(value: &Value) -> Option<JsonText> {
    JsonText::render(value).ok()
}

/// Adds the findings and the decision of the checkpoint to the outcome of an approved change set.
pub(super) fn noted(mut outcome: Outcome, changes: &ChangeSet, checkpoint: Checkpoint) -> Outcome {
    outcome.findings.extend(changes.facts.findings.clone());
    Outcome { checkpoint: Some(checkpoint), ..outcome }
}

/// Returns the outcome of a discarded change set; the error says why.
pub(super) fn discarded(outcome: Outcome, effects: &[Effect], error: WireError) -> Outcome {
    let data = rendered(&describe::data(CommitDecision::Discarded, effects));
    Outcome { data, error: Some(error), ..outcome }
}

/// Returns the outcome of a cancelled call. It lists no changes, since they were not read.
pub(super) fn without_changes(outcome: Outcome) -> Outcome {
    discarded(outcome, &[], CallError::Cancelled.into())
}

/// Returns the outcome of a change set that was discarded because of an error, not of an answer.
pub(super) fn failed(outcome: Outcome, error: CallError, effects: &[Effect]) -> Outcome {
    let about = error.about().cloned();
    let error = WireError::from(error);
    let message = format!("the command's changes were discarded: {}", error.message);
    let outcome = discarded(outcome, effects, WireError { message, ..error });
    Outcome { about, ..outcome }
}

/// Returns the outcome of a change set that was denied, or that nobody approved.
pub(super) fn denied(changes: &ChangeSet, refusal: Refusal, mut outcome: Outcome) -> Outcome {
    outcome.findings.extend(refusal.findings);
    outcome.denials.extend(refusal.denials);
    outcome.checkpoint = refusal.checkpoint.or(outcome.checkpoint);
    discarded(outcome, &changes.preview.effects, refusal.error)
}

/// Returns the outcome of a change set that a rule denies.
pub(super) fn refused(
    changes: &ChangeSet,
    workspace: &[u8],
    refusal: Refusal,
    outcome: Outcome,
) -> Outcome {
    let described = describe::describe_effects(&changes.asked(), workspace);
    let message =
        format!("this command {described}; {}, so nothing was committed", refusal.error.message);
    let error = WireError { message, ..refusal.error.clone() };
    denied(changes, Refusal { error, ..refusal }, outcome)
}

/// Returns the report of a dry run: the changes, and how they would be judged.
pub(super) fn trial_report(
    mut report: Value,
    judgement: &Judgement,
    changes: &ChangeSet,
    mut outcome: Outcome,
) -> Outcome {
    let (said, why): (&str, Option<&str>) = match judgement {
        Judgement::Allow(_) => ("allow", None),
        Judgement::Ask(request) => ("ask", Some(request.rule())),
        Judgement::Deny(refusal) => ("deny", Some(&refusal.error.message)),
    };
    report["effects_judgement"] = said.into();
    report["effects_why"] = why.into();
    report["exit_code"] = outcome.exit_code.into();
    report["transaction"] = describe::reported(&changes.preview);
    outcome.findings.extend(changes.facts.findings.clone());
    let told = Outcome::with_data(&report);
    Outcome { data: told.data, error: told.error.or(outcome.error), ..outcome }
}
