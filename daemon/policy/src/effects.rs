//! Judges a command's effects in its transaction before they are committed. Pure: no I/O.

use crate::{
    Facts, Grant, Judgement, Profile,
    facts::PLANT,
    judge::{AskReason, RequiredApproval},
    rules::{self, Ruling},
};
use palisade_plan::change::{Effect, EffectKind, Print};
use palisade_protocol::{Ask, ToolSpec};

/// The kind of a finding that something outside the transaction changed the same path.
pub const CONFLICT: &str = "conflict";

/// Returns the number of files and directories that an effect covers.
#[must_use]
pub const fn entries_of(effect: &Effect) -> u64 {
    match (&effect.kind, &effect.print) {
        (EffectKind::Deleted { entries }, _) | (_, Print::Tree { entries, .. }) => *entries,
        (_, _) => 1,
    }
}

/// Judges the effects of a command. `facts` has the paths that the command changed, and its losses
/// as findings. The ask mode, and the rules about tools and commands, were applied before it ran.
#[must_use]
pub fn judge_effects(profile: &Profile, ask: Ask, tool: &ToolSpec, facts: &Facts) -> Judgement {
    let name = tool.name.clone();
    match rules::ruling_of_paths(&profile.settings.rules, tool, facts) {
        Ruling::Deny(rule) => {
            return Judgement::Deny(crate::judge::denied_by(profile, tool, rule, facts));
        }
        Ruling::Ask(rule) => {
            let reason = AskReason::Rule(rule.name());
            return Judgement::Ask(RequiredApproval::new(name, reason, facts.findings.clone()));
        }
        Ruling::Allow | Ruling::Silent => {}
    }
    if ask.max(profile.ask()) == Ask::Never
        && let Some(refusal) = crate::judge::unreviewed(profile, tool, facts)
    {
        return Judgement::Deny(refusal);
    }
    if ask.max(profile.ask()) == Ask::Never || facts.findings.is_empty() {
        return Judgement::Allow(Grant::new(name, facts.findings.clone()));
    }
    let has = |kind: &str| facts.findings.iter().any(|found| found.kind == kind);
    let reason = if has(CONFLICT) {
        AskReason::Conflict
    } else if has(PLANT) {
        AskReason::Plant
    } else {
        AskReason::Losses
    };
    Judgement::Ask(RequiredApproval::new(name, reason, facts.findings.clone()))
}
