//! How a transaction ends, as the outcome of its call: what counts, or what was not kept and why.
//! Broker, pure.

use super::{
    changes::Changes,
    told::{self, Fate},
};
use crate::{dry::report, error::CallError, outcome::Outcome};
use palisade_plan::change::Effect;
use palisade_policy::{Judgement, Refusal};
use palisade_protocol::{Checkpoint, JsonText, WireError};
use serde_json::Value;

/// For `data`.
pub(super) fn rendered(value: &Value) -> Option<JsonText> {
    JsonText::render(value).ok()
}

/// The outcome of what was approved: what was asked about is in it.
pub(super) fn noted(mut outcome: Outcome, changes: &Changes, checkpoint: Checkpoint) -> Outcome {
    outcome.findings.extend(changes.facts.findings.clone());
    Outcome { checkpoint: Some(checkpoint), ..outcome }
}

/// Nothing counts, and the error says why.
pub(super) fn discarded(outcome: Outcome, effects: &[Effect], error: WireError) -> Outcome {
    let data = rendered(&told::data(Fate::Discarded, effects));
    Outcome { data, error: Some(error), ..outcome }
}

/// A caller that does not wait any more is not told what was changed: it was not looked at.
pub(super) fn untold(outcome: Outcome) -> Outcome {
    discarded(outcome, &[], CallError::Cancelled.into())
}

/// What it did is lost for another reason than an answer.
pub(super) fn failed(outcome: Outcome, error: CallError, effects: &[Effect]) -> Outcome {
    let about = error.about().cloned();
    let error = WireError::from(error);
    let message = format!("nothing that the command changed was kept: {}", error.message);
    let outcome = discarded(outcome, effects, WireError { message, ..error });
    Outcome { about, ..outcome }
}

/// Somebody said no, or nobody said yes.
pub(super) fn denied(changes: &Changes, refusal: Refusal, mut outcome: Outcome) -> Outcome {
    outcome.findings.extend(refusal.findings);
    outcome.denials.extend(refusal.denials);
    outcome.checkpoint = refusal.checkpoint.or(outcome.checkpoint);
    discarded(outcome, &changes.preview.effects, refusal.error)
}

/// A rule denies what was done.
pub(super) fn refused(
    changes: &Changes,
    workspace: &[u8],
    refusal: Refusal,
    outcome: Outcome,
) -> Outcome {
    let deeds = told::deeds(&changes.asked(), workspace);
    let message = format!(
        "this command {deeds}; {}, so nothing that it changed was kept",
        refusal.error.message
    );
    let error = WireError { message, ..refusal.error.clone() };
    denied(changes, Refusal { error, ..refusal }, outcome)
}

/// The report of a dry run: what was changed, and what would be said to it.
pub(super) fn tried(
    mut report: Value,
    judgement: &Judgement,
    changes: &Changes,
    mut outcome: Outcome,
) -> Outcome {
    let (said, why): (&str, Option<&str>) = match judgement {
        Judgement::Allow(_) => ("allow", None),
        Judgement::Ask(question) => ("ask", Some(question.rule())),
        Judgement::Deny(refusal) => ("deny", Some(&refusal.error.message)),
    };
    report["effects_judgement"] = said.into();
    report["effects_why"] = why.into();
    report["exit_code"] = outcome.exit_code.into();
    report["transaction"] = told::reported(&changes.preview);
    outcome.findings.extend(changes.facts.findings.clone());
    let told = report::rendered(&report);
    Outcome { data: told.data, error: told.error.or(outcome.error), ..outcome }
}
