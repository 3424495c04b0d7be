//! Describes the result of a transaction, as JSON and in a sentence. Runs in the broker. Pure: no
//! I/O.

use crate::{
    base::preview::Preview,
    changes::change::{MOST_LISTED, one},
};
use palisade_plan::change::{Effect, EffectKind};
use palisade_protocol::Finding;
use palisade_text::escape_bytes;
use serde_json::{Value, json};

/// The number of paths or findings that a sentence names.
const NAMED: usize = 3;

/// The decision about a command's changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CommitDecision {
    Committed,
    Discarded,
}

/// Returns the change set and whether it was committed, for the result's `data`.
pub(super) fn data(fate: CommitDecision, effects: &[Effect]) -> Value {
    json!({"transaction": change_set(fate, effects)})
}

/// Returns a partly committed change set, with what was left out and by whom, for the result's
/// `data`.
pub(super) fn data_of_part(committed: &[Effect], left_out: &[&Effect], by: &str) -> Value {
    let mut data = data(CommitDecision::Committed, committed);
    let listed: Vec<Value> = left_out.iter().take(MOST_LISTED).map(|effect| one(effect)).collect();
    data["transaction"]["left_out"] = json!({
        "by": by,
        "effects": listed,
        "more_effects": left_out.len().saturating_sub(MOST_LISTED),
    });
    data
}

fn change_set(fate: CommitDecision, effects: &[Effect]) -> Value {
    let listed: Vec<Value> = effects.iter().take(MOST_LISTED).map(one).collect();
    json!({
        "committed": fate == CommitDecision::Committed,
        "effects": listed,
        "more_effects": effects.len().saturating_sub(MOST_LISTED),
    })
}

/// Returns the change set and its diff, for the report of a dry run.
pub(super) fn reported(preview: &Preview) -> Value {
    let mut set = change_set(CommitDecision::Discarded, &preview.effects);
    set["diff"] = json!(preview.diff);
    set["diff_complete"] = json!(preview.complete);
    set
}

/// Returns why approval was needed: the first findings, and how many more there are.
pub(super) fn reasons(findings: &[Finding]) -> String {
    let mut all: Vec<String> = findings.iter().take(NAMED).map(|found| found.why.clone()).collect();
    if findings.len() > NAMED {
        all.push(format!("and {} more", findings.len() - NAMED));
    }
    format!("Why it needs approval: {}", all.join("; "))
}

/// A predicate on the kind of an effect.
type EffectPredicate = fn(&EffectKind) -> bool;

/// Describes the effects of a command in a few words: "deleted 3 files (a, b, c)".
pub(super) fn describe_effects(effects: &[&Effect], workspace: &[u8]) -> String {
    let kinds: [(&str, EffectPredicate); 4] = [
        ("deleted", |kind| matches!(kind, EffectKind::Deleted { .. })),
        ("replaced", |kind| matches!(kind, EffectKind::Replaced | EffectKind::Edited)),
        ("moved over", |kind| matches!(kind, EffectKind::Moved { .. })),
        ("changed", |kind| {
            matches!(
                kind,
                EffectKind::Created
                    | EffectKind::Appended
                    | EffectKind::Mode
                    | EffectKind::Touched
                    | EffectKind::Special
            )
        }),
    ];
    let mut parts = Vec::new();
    for (verb, is) in kinds {
        let of: Vec<&&Effect> = effects.iter().filter(|effect| is(&effect.kind)).collect();
        if !of.is_empty() {
            parts.push(describe_kind(verb, &of, workspace));
        }
    }
    parts.join(" and ")
}

fn describe_kind(verb: &str, effects: &[&&Effect], workspace: &[u8]) -> String {
    let entries: u64 = effects.iter().map(|effect| palisade_policy::entries_of(effect)).sum();
    let mut names: Vec<String> =
        effects.iter().take(NAMED).map(|effect| name(&effect.path.0, workspace)).collect();
    if effects.len() > NAMED {
        names.push("…".to_owned());
    }
    let files = if entries == 1 { "1 file".to_owned() } else { format!("{entries} files") };
    format!("{verb} {files} ({})", names.join(", "))
}

/// Returns a path relative to its workspace.
fn name(path: &[u8], workspace: &[u8]) -> String {
    let inside = path.strip_prefix(workspace).and_then(|rest| rest.strip_prefix(b"/"));
    escape_bytes(inside.unwrap_or(path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use palisade_plan::{Path, change::Print};

    fn effect(path: &str, kind: EffectKind) -> Effect {
        Effect {
            path: Path(path.as_bytes().to_vec()),
            kind,
            size_before: 1,
            size_after: 0,
            print: Print::Absent,
            replaces: None,
        }
    }

    #[test]
    fn a_few_words_say_what_was_done() {
        let deleted = |path, entries| effect(path, EffectKind::Deleted { entries });
        let all = [deleted("/w/a", 1), deleted("/w/d/b", 1), deleted("/w/c", 1)];
        let effects: Vec<&Effect> = all.iter().collect();
        assert_eq!(describe_effects(&effects, b"/w"), "deleted 3 files (a, d/b, c)");
        let all = [deleted("/w/d", 20), effect("/w/f", EffectKind::Replaced)];
        let effects: Vec<&Effect> = all.iter().collect();
        assert_eq!(
            describe_effects(&effects, b"/w"),
            "deleted 20 files (d) and replaced 1 file (f)"
        );
    }
}
