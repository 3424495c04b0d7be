//! What a change did or would do, for programs and in words. Broker, pure.

use super::preview::Preview;
use crate::{escaped::escaped, task::ChangeTask};
use palisade_plan::change::{Effect, EffectKind, Print};
use palisade_protocol::{FileChange, RawPath};
use serde_json::{Value, json};

/// How many effects are named in words.
const NAMED: usize = 20;

/// What happens to a path, in a word.
pub(crate) const fn word(kind: &EffectKind) -> &'static str {
    match kind {
        EffectKind::Created => "created",
        EffectKind::Replaced => "replaced",
        EffectKind::Appended => "appended",
        EffectKind::Edited => "edited",
        EffectKind::Deleted { .. } => "deleted",
        EffectKind::Moved { .. } => "moved",
        EffectKind::Mode => "mode",
        EffectKind::Touched => "touched",
        EffectKind::Special => "special",
    }
}

/// How many effects are told one by one for programs.
pub(crate) const TOLD: usize = 1000;

/// For `data`: what is the same for a change and its dry run. A change of one path has it at the
/// top as well.
pub(crate) fn described(effects: &[Effect]) -> Value {
    let all: Vec<Value> = effects.iter().take(TOLD).map(one).collect();
    let mut data = json!({"effects": all});
    if effects.len() > TOLD {
        data["more_effects"] = json!(effects.len() - TOLD);
    }
    // Parents that were made stand in front of what they were made for.
    if let Some(main) = effects.last().map(one)
        && let (Some(data), Value::Object(main)) = (data.as_object_mut(), main)
    {
        data.extend(main);
    }
    data
}

/// For the report of a dry run.
pub(crate) fn previewed(preview: &Preview) -> Value {
    let mut report = described(&preview.effects);
    report["diff"] = json!(preview.diff);
    report["diff_complete"] = json!(preview.complete);
    report["paths"] = json!(preview.paths().into_iter().map(RawPath).collect::<Vec<_>>());
    report
}

/// One effect.
pub(crate) fn one(effect: &Effect) -> Value {
    let mut value = json!({
        "path": RawPath(effect.path.0.clone()),
        "effect": word(&effect.kind),
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

/// One effect, for a question.
pub(crate) fn file_change(effect: &Effect, lost: bool) -> FileChange {
    let from = match &effect.kind {
        EffectKind::Moved { from } => Some(RawPath(from.0.clone())),
        EffectKind::Created
        | EffectKind::Replaced
        | EffectKind::Appended
        | EffectKind::Edited
        | EffectKind::Deleted { .. }
        | EffectKind::Mode
        | EffectKind::Touched
        | EffectKind::Special => None,
    };
    FileChange {
        path: RawPath(effect.path.0.clone()),
        effect: word(&effect.kind).to_owned(),
        from,
        entries: palisade_policy::entries_of(effect),
        size_before: effect.size_before,
        size: effect.size_after,
        lost,
    }
}

/// For the model: a line for each path.
pub(crate) fn summary(task: &ChangeTask, effects: &[Effect]) -> String {
    if effects.is_empty() {
        let there = matches!(task, ChangeTask::MakeDir { .. });
        return if there { "it is there already\n" } else { "nothing had to be changed\n" }.into();
    }
    let mut text: String = effects.iter().take(NAMED).map(line).collect();
    if effects.len() > NAMED {
        text.push_str(&format!("… and {} more\n", effects.len() - NAMED));
    }
    text
}

fn line(effect: &Effect) -> String {
    let path = escaped(&effect.path.0);
    match &effect.kind {
        EffectKind::Deleted { entries } if *entries > 1 => {
            format!("deleted {path} ({entries} entries)\n")
        }
        EffectKind::Moved { from } => format!("moved {} to {path}\n", escaped(&from.0)),
        EffectKind::Mode => format!("changed the mode of {path}\n"),
        EffectKind::Touched => format!("changed the times or attributes of {path}\n"),
        EffectKind::Special => format!("left out {path}: a FIFO or device is not kept\n"),
        kind @ EffectKind::Appended => format!("{} to {path}\n", word(kind)),
        kind @ (EffectKind::Created
        | EffectKind::Replaced
        | EffectKind::Edited
        | EffectKind::Deleted { .. }) => format!("{} {path}\n", word(kind)),
    }
}
