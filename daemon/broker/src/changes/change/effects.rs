//! Describes what a change did or would do, as JSON and in words. Pure: no I/O.

use crate::base::{preview::Preview, task::ChangeTask};
use palisade_plan::change::{Effect, EffectKind, Print};
use palisade_policy::Reason;
use palisade_protocol::RawPath;
use palisade_text::escape_bytes;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The most effects that are named in words.
const NAMED: usize = 20;

/// The most effects that are listed one by one in JSON.
pub(crate) const MOST_LISTED: usize = 1000;

/// Describes effects for `data`, in the form that a change and its dry run share. A change of one
/// path has the fields of its effect at the top level as well.
pub(crate) fn described(effects: &[Effect]) -> Value {
    let all: Vec<Value> = effects.iter().take(MOST_LISTED).map(one).collect();
    let mut data = json!({"effects": all});
    if effects.len() > MOST_LISTED {
        data["more_effects"] = json!(effects.len() - MOST_LISTED);
    }
    // Directories that were created come before the file they were created for.
    if let Some(main) = effects.last().map(one)
        && let (Some(data), Value::Object(main)) = (data.as_object_mut(), main)
    {
        data.extend(main);
    }
    data
}

/// Describes a preview for the report of a dry run.
pub(crate) fn previewed(preview: &Preview) -> Value {
    let mut report = described(&preview.effects);
    report["diff"] = json!(preview.diff);
    report["diff_complete"] = json!(preview.complete);
    report["paths"] = json!(preview.paths().into_iter().map(RawPath).collect::<Vec<_>>());
    report
}

/// Lists where the bytes that existed before are kept: each reason, the number of paths, the first
/// path.
pub(crate) fn kept(reasons: &[(Vec<u8>, Reason)]) -> Value {
    let mut by_words: BTreeMap<&str, (u64, &[u8], Option<String>)> = BTreeMap::new();
    for (path, reason) in reasons.iter().filter(|(_, reason)| *reason != Reason::GitInternal) {
        by_words.entry(reason.words()).or_insert_with(|| (0, path, reason.place())).0 += 1;
    }
    let one = |(why, (paths, path, place)): (&str, (u64, &[u8], Option<String>))| {
        let mut kept = json!({"why": why, "paths": paths, "path": RawPath(path.to_vec())});
        if let Some(place) = place {
            kept["place"] = Value::from(place);
        }
        kept
    };
    by_words.into_iter().map(one).collect()
}

/// Describes one effect as JSON.
pub(crate) fn one(effect: &Effect) -> Value {
    let mut value = json!({
        "path": RawPath(effect.path.0.clone()),
        "effect": effect.kind.name(),
        "size": effect.size_after,
        "size_before": effect.size_before,
    });
    match &effect.kind {
        EffectKind::Deleted { entries } => value["entries"] = json!(entries),
        EffectKind::Moved { from } => value["from"] = json!(RawPath(from.0.clone())),
        EffectKind::Created => value["created"] = json!(true),
        EffectKind::Replaced
        | EffectKind::Appended
        | EffectKind::Edited
        | EffectKind::Mode
        | EffectKind::Touched
        | EffectKind::Special => value["created"] = json!(false),
    }
    if let Print::Tree { entries, .. } = effect.print {
        value["entries"] = json!(entries);
    }
    value
}

/// Describes effects for the model: one line for each path.
pub(crate) fn summary(task: &ChangeTask, effects: &[Effect]) -> String {
    if effects.is_empty() {
        let there = matches!(task, ChangeTask::MakeDir { .. });
        return if there { "the directory exists already\n" } else { "nothing to change\n" }.into();
    }
    let mut text: String = effects.iter().take(NAMED).map(line).collect();
    if effects.len() > NAMED {
        text.push_str(&format!("… and {} more\n", effects.len() - NAMED));
    }
    text
}

fn line(effect: &Effect) -> String {
    let path = escape_bytes(&effect.path.0);
    match &effect.kind {
        EffectKind::Deleted { entries } if *entries > 1 => {
            format!("deleted {path} ({entries} entries)\n")
        }
        EffectKind::Moved { from } => format!("moved {} to {path}\n", escape_bytes(&from.0)),
        EffectKind::Mode => format!("changed the mode of {path}\n"),
        EffectKind::Touched => format!("changed the times or attributes of {path}\n"),
        EffectKind::Special => format!("left out {path}: FIFOs and devices are not committed\n"),
        kind @ EffectKind::Appended => format!("{} to {path}\n", kind.name()),
        kind @ (EffectKind::Created
        | EffectKind::Replaced
        | EffectKind::Edited
        | EffectKind::Deleted { .. }) => format!("{} {path}\n", kind.name()),
    }
}
