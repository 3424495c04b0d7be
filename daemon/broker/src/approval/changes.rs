//! Renders a change for an approver: a line for each path, what would be lost, the diff. Pure: no
//! I/O.

use super::visible;
use crate::{base::preview::Preview, cells::seen::TargetSnapshot};
use palisade_plan::change::{Effect, EffectKind, Print};
use palisade_policy::is_asked;
use palisade_protocol::{FileChange, Finding, RawPath, Target, View, ViewLine};
use std::collections::HashSet;

/// The most paths that are shown as lines; the rest are counted.
const LINES: usize = 400;
/// The most paths that are listed in the change set.
const CHANGES: usize = 4096;
/// The most bytes of a diff that are shown.
const DIFF: usize = 32 * 1024;

/// Renders the effects of a change.
pub(super) fn view(preview: &Preview, seen: &TargetSnapshot, findings: &[Finding]) -> View {
    let effects = &preview.effects;
    let mut lines: Vec<ViewLine> =
        effects.iter().take(LINES).map(|effect| line(effect, findings)).collect();
    if effects.len() > LINES {
        let text = format!("… and {} more", effects.len() - LINES);
        lines.push(ViewLine { text, findings: asked(findings, |_| true) });
    }
    let lost = findings.iter().filter(|found| is_asked(found));
    let lost: HashSet<&str> =
        lost.flat_map(|found| found.targets.iter().map(String::as_str)).collect();
    let mut diff = visible::lines(&preview.diff);
    let cut = diff.len() > DIFF;
    if cut {
        diff.truncate(diff.floor_char_boundary(DIFF));
    }
    View {
        lines,
        targets: effects.iter().take(LINES).map(|effect| target(effect, seen)).collect(),
        diff_cut: cut || !preview.complete,
        diff: Some(diff).filter(|diff| !diff.is_empty()),
        changes: effects.iter().take(CHANGES).map(|effect| change(effect, &lost)).collect(),
    }
}

fn change(effect: &Effect, lost: &HashSet<&str>) -> FileChange {
    let shown = String::from_utf8_lossy(&effect.path.0);
    FileChange {
        path: RawPath(effect.path.0.clone()),
        effect: effect.kind.name().to_owned(),
        from: effect.kind.moved_from().map(|from| RawPath(from.0.clone())),
        entries: palisade_policy::entries_of(effect),
        size_before: effect.size_before,
        size: effect.size_after,
        lost: lost.contains(shown.as_ref()),
    }
}

/// The numbers of the findings that need approval and match `about`.
fn asked(findings: &[Finding], about: impl Fn(&Finding) -> bool) -> Vec<u32> {
    let numbered = (0..).zip(findings);
    numbered
        .filter(|(_, found)| is_asked(found) && about(found))
        .map(|(number, _)| number)
        .collect()
}

fn line(effect: &Effect, findings: &[Finding]) -> ViewLine {
    let text = |path: &[u8]| String::from_utf8_lossy(path).into_owned();
    let path = text(&effect.path.0);
    let words = match &effect.kind {
        EffectKind::Created if let Print::Tree { entries, .. } = effect.print => {
            format!("create the directory {path} ({entries} entries)")
        }
        EffectKind::Created if effect.print == Print::Directory => {
            format!("create the directory {path}")
        }
        EffectKind::Created => format!("create {path}"),
        EffectKind::Replaced => format!("replace {path}"),
        EffectKind::Appended => format!("append to {path}"),
        EffectKind::Edited => format!("edit {path}"),
        EffectKind::Deleted { entries } if *entries > 1 => {
            format!("delete all of {path} ({entries} entries)")
        }
        EffectKind::Deleted { .. } => format!("delete {path}"),
        EffectKind::Moved { from } => format!("move {} to {path}", text(&from.0)),
        EffectKind::Mode => format!("change the mode of {path}"),
        EffectKind::Touched => format!("change the times or attributes of {path}"),
        EffectKind::Special => format!("leave out {path}, a FIFO or device"),
    };
    let findings = asked(findings, |found| found.targets.contains(&path));
    ViewLine { text: visible::line(&words), findings }
}

fn target(effect: &Effect, seen: &TargetSnapshot) -> Target {
    let looked = seen.targets.iter().find(|target| target.real == effect.path.0);
    let there = match (&effect.kind, looked) {
        (EffectKind::Created | EffectKind::Special, _) => None,
        (_, Some(looked)) => looked.there(),
        (EffectKind::Moved { .. }, None) => effect.replaces.map(|_| "file"),
        (EffectKind::Deleted { entries }, None) if *entries > 1 => Some("directory"),
        (
            EffectKind::Replaced
            | EffectKind::Appended
            | EffectKind::Edited
            | EffectKind::Deleted { .. }
            | EffectKind::Mode
            | EffectKind::Touched,
            None,
        ) => Some("file"),
    };
    let path = RawPath(effect.path.0.clone());
    Target {
        path,
        there: there.map(str::to_owned),
        size: effect.size_before,
        lost: effect.is_loss(),
    }
}
