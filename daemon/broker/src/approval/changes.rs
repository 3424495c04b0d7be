//! Renders a change for an approver: a line for each path, what would be lost, the diff. Pure: no
//! I/O.

use crate::{base::preview::Preview, cells::seen::TargetSnapshot};
use palisade_plan::change::{Effect, EffectKind, Print};
use palisade_policy::is_asked;
use palisade_protocol::{FileChange, Finding, RawPath, Target, View, ViewLine};
use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
};

/// The most lines for what needs approval, and for the rest. More paths are counted by directory.
const LINES: usize = 400;
/// The most paths that are listed in the change set.
const CHANGES: usize = 4096;
/// The most bytes of a diff that are shown.
const DIFF: usize = 32 * 1024;

/// Renders the effects of a change. What needs approval comes first, and all of it is there: a
/// command can not hide a loss behind many other changes.
pub(super) fn view(preview: &Preview, seen: &TargetSnapshot, findings: &[Finding]) -> View {
    let needing = findings.iter().filter(|found| is_asked(found));
    let needing: HashSet<&str> =
        needing.flat_map(|found| found.targets.iter().map(String::as_str)).collect();
    let needs = |effect: &&Effect| needing.contains(shown(&effect.path.0).as_ref());
    let (first, rest): (Vec<&Effect>, Vec<&Effect>) = preview.effects.iter().partition(needs);
    let lines =
        [lines(&first, &AskedFindings::new(findings)), lines(&rest, &AskedFindings::new(&[]))];
    let in_order = || first.iter().chain(&rest).copied();
    let mut diff = palisade_text::escape_lines(&preview.diff);
    let cut = diff.len() > DIFF;
    if cut {
        diff.truncate(diff.floor_char_boundary(DIFF));
    }
    View {
        lines: lines.concat(),
        targets: in_order().take(LINES).map(|effect| target(effect, seen)).collect(),
        diff_cut: cut || !preview.complete,
        diff: Some(diff).filter(|diff| !diff.is_empty()),
        changes: in_order().take(CHANGES).map(|effect| change(effect, &needing)).collect(),
    }
}

fn shown(path: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(path)
}

/// The numbers of the findings that need approval, by their targets.
struct AskedFindings<'a>(HashMap<&'a str, Vec<u32>>);

impl<'a> AskedFindings<'a> {
    fn new(findings: &'a [Finding]) -> Self {
        let mut numbers: HashMap<&str, Vec<u32>> = HashMap::new();
        for (number, found) in (0..).zip(findings).filter(|(_, found)| is_asked(found)) {
            for target in &found.targets {
                numbers.entry(target).or_default().push(number);
            }
        }
        Self(numbers)
    }

    /// Returns the numbers of the findings about any of some effects.
    fn about(&self, effects: &[&Effect]) -> Vec<u32> {
        let numbers =
            effects.iter().filter_map(|effect| self.0.get(shown(&effect.path.0).as_ref()));
        numbers.flatten().copied().collect::<BTreeSet<_>>().into_iter().collect()
    }
}

/// Renders a line for each effect, or, if there are too many, for each directory with its counts.
fn lines(effects: &[&Effect], findings: &AskedFindings<'_>) -> Vec<ViewLine> {
    if effects.len() <= LINES {
        return effects.iter().map(|effect| line(effect, findings)).collect();
    }
    let deepest = effects.iter().map(|effect| depth(&effect.path.0)).max().unwrap_or_default();
    // The deepest directories that are few enough: the deeper, the more. All paths are below one,
    // the root.
    let depths: Vec<usize> = (0..deepest).collect();
    let few = depths.partition_point(|depth| by_directory(effects, *depth).len() <= LINES);
    let folded = by_directory(effects, few.saturating_sub(1));
    folded.into_iter().map(|(directory, effects)| fold(directory, &effects, findings)).collect()
}

fn depth(path: &[u8]) -> usize {
    path.iter().filter(|byte| **byte == b'/').count()
}

/// Groups effects by the directory that has so many slashes in its path, or less if it is not as deep.
fn by_directory<'a>(effects: &[&'a Effect], depth: usize) -> BTreeMap<&'a [u8], Vec<&'a Effect>> {
    let mut groups: BTreeMap<&[u8], Vec<&Effect>> = BTreeMap::new();
    for effect in effects {
        let path = effect.path.0.as_slice();
        let slashes = (0..).zip(path).filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
        let ends: Vec<usize> = slashes.collect();
        let end = ends.get(depth).or(ends.last()).copied().unwrap_or_default();
        groups.entry(path.get(..end).unwrap_or_default()).or_default().push(effect);
    }
    groups
}

/// Renders one line for all effects below a directory.
fn fold(directory: &[u8], effects: &[&Effect], findings: &AskedFindings<'_>) -> ViewLine {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for effect in effects {
        *counts.entry(effect.kind.name()).or_default() += 1;
    }
    let counts: Vec<_> = counts.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
    let total = match effects.len() {
        1 => "1 path".to_owned(),
        total => format!("{total} paths"),
    };
    let text = format!("{total} below {}/: {}", shown(directory), counts.join(", "));
    ViewLine { text: palisade_text::escape_line(&text), findings: findings.about(effects) }
}

fn change(effect: &Effect, lost: &HashSet<&str>) -> FileChange {
    FileChange {
        path: RawPath(effect.path.0.clone()),
        effect: effect.kind.name().to_owned(),
        from: effect.kind.moved_from().map(|from| RawPath(from.0.clone())),
        entries: palisade_policy::entries_of(effect),
        size_before: effect.size_before,
        size: effect.size_after,
        lost: lost.contains(shown(&effect.path.0).as_ref()),
    }
}

fn line(effect: &Effect, findings: &AskedFindings<'_>) -> ViewLine {
    let text = |path: &[u8]| shown(path).into_owned();
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
    let findings = findings.about(&[effect]);
    ViewLine { text: palisade_text::escape_line(&words), findings }
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

#[cfg(test)]
mod tests {
    use super::*;
    use palisade_plan::evidence::Evidence;
    use palisade_protocol::Severity;

    fn effect(path: &str, kind: EffectKind) -> Effect {
        Effect {
            path: path.into(),
            kind,
            size_before: 1,
            size_after: 0,
            print: Print::Absent,
            replaces: None,
        }
    }

    fn deletion(path: &str) -> (Effect, Finding) {
        let mut found = Finding::new("destructive", Severity::Warning, "deletes it");
        found.targets = vec![path.to_owned()];
        (effect(path, EffectKind::Deleted { entries: 1 }), found)
    }

    fn preview(effects: Vec<Effect>) -> Preview {
        Preview {
            effects,
            digest: [0; 32],
            diff: String::new(),
            complete: true,
            conflicts: Vec::new(),
            evidence: Evidence::default(),
        }
    }

    fn seen() -> TargetSnapshot {
        TargetSnapshot { cwd: b"/w".to_vec(), targets: Vec::new(), change: None }
    }

    #[test]
    fn a_loss_comes_before_any_number_of_other_changes() {
        let mut effects: Vec<_> =
            (0..1000).map(|n| effect(&format!("/w/a{n}"), EffectKind::Created)).collect();
        let (lost, found) = deletion("/w/z");
        effects.push(lost);
        let view = view(&preview(effects), &seen(), &[found]);
        assert_eq!(view.lines[0].text, "delete /w/z");
        assert_eq!(view.lines[0].findings, [0]);
        assert_eq!(view.lines[1].text, "1000 paths below /w/: 1000 created");
        assert_eq!(view.lines.len(), 2);
        assert_eq!(view.targets[0].path, "/w/z".into());
        assert!(view.changes[0].lost);
    }

    #[test]
    fn one_deep_path_among_many_changes_nothing_for_the_others() {
        let deep = format!("/w{}", "/d".repeat(1000));
        let paths = (0..1000).map(|n| format!("/w/d{n}/f")).chain([deep]);
        let (effects, findings): (Vec<_>, Vec<_>) = paths.map(|path| deletion(&path)).unzip();
        let view = view(&preview(effects), &seen(), &findings);
        assert_eq!(view.lines.len(), 1);
        assert_eq!(view.lines[0].text, "1001 paths below /w/: 1001 deleted");
        assert_eq!(view.lines[0].findings, (0..1001).collect::<Vec<_>>());
    }

    #[test]
    fn many_losses_are_counted_by_directory_and_none_is_left_out() {
        let paths = (0..10).flat_map(|d| (0..100).map(move |n| format!("/w/d{d}/e{n}/f")));
        let (effects, findings): (Vec<_>, Vec<_>) =
            paths.map(|path| deletion(&path)).chain([deletion("/w/top")]).unzip();
        let view = view(&preview(effects), &seen(), &findings);
        assert_eq!(view.lines.len(), 11);
        assert_eq!(view.lines[0].text, "1 path below /w/: 1 deleted");
        assert_eq!(view.lines[1].text, "100 paths below /w/d0/: 100 deleted");
        let findings: usize = view.lines.iter().map(|line| line.findings.len()).sum();
        assert_eq!(findings, 1001, "each finding is at a line");
    }
}
