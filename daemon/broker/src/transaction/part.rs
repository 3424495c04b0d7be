//! A part of what a command did: what is left out, and whether the rest was shown. Broker, pure.

use palisade_plan::{
    Path,
    change::{Effect, EffectKind},
};
use palisade_policy::Facts;
use palisade_protocol::Part;
use std::collections::{HashMap, HashSet};

/// The paths of what is left out. Of what was moved, the old name: then both are there. Of a git
/// directory, all of it: a part of what git wrote is a broken repository.
pub(super) fn left_out(effects: &[Effect], part: &Part) -> Vec<Vec<u8>> {
    let mut paths: Vec<Vec<u8>> = part.without.iter().map(|path| path.0.clone()).collect();
    if part.without_deletions {
        paths.extend(effects.iter().filter_map(|effect| match &effect.kind {
            EffectKind::Deleted { .. } => Some(effect.path.0.clone()),
            EffectKind::Moved { from } => Some(from.0.clone()),
            EffectKind::Created
            | EffectKind::Replaced
            | EffectKind::Appended
            | EffectKind::Edited
            | EffectKind::Mode
            | EffectKind::Touched
            | EffectKind::Special => None,
        }));
    }
    let whole: Vec<Vec<u8>> = paths.iter().filter_map(|path| git_directory(path)).collect();
    paths.extend(whole);
    paths.sort_unstable();
    paths.dedup();
    paths
}

/// The git directory that a path is in.
fn git_directory(path: &[u8]) -> Option<Vec<u8>> {
    let mut end = 0;
    for name in path.split(|byte| *byte == b'/') {
        end += name.len();
        if name == b".git" && end < path.len() {
            return path.get(..end).map(<[u8]>::to_vec);
        }
        end += 1;
    }
    None
}

/// Whether nothing is lost but what was shown.
pub(super) fn is_covered(rest: &Facts, shown: &Facts) -> bool {
    let targets = |facts: &Facts| -> HashSet<String> {
        facts.findings.iter().flat_map(|found| found.targets.clone()).collect()
    };
    targets(rest).is_subset(&targets(shown))
}

/// What was shown and is not among what was committed.
pub(super) fn not_committed<'a>(shown: &'a [Effect], committed: &[Effect]) -> Vec<&'a Effect> {
    let done: HashSet<&Path> = committed.iter().map(|effect| &effect.path).collect();
    shown.iter().filter(|effect| !done.contains(&effect.path)).collect()
}

/// Whether every effect was shown. What was moved is made where it was moved to.
pub(super) fn is_part(rest: &[Effect], shown: &[Effect]) -> bool {
    let mut by_path: HashMap<&Path, Vec<&Effect>> = HashMap::new();
    for one in shown {
        by_path.entry(&one.path).or_default().push(one);
    }
    rest.iter().all(|effect| {
        by_path.get(&effect.path).into_iter().flatten().any(|one| {
            let made = matches!(one.kind, EffectKind::Moved { .. })
                && matches!(effect.kind, EffectKind::Created | EffectKind::Replaced);
            one.print == effect.print && (one.kind == effect.kind || made)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use palisade_plan::change::Print;
    use palisade_protocol::RawPath;

    fn effect(path: &str, kind: EffectKind) -> Effect {
        Effect {
            path: Path(path.into()),
            kind,
            size_before: 0,
            size_after: 0,
            print: Print::Absent,
            replaces: None,
            below: None,
        }
    }

    #[test]
    fn a_git_directory_is_left_out_whole() {
        for (left, expected) in [
            ("/w/a", vec!["/w/a"]),
            ("/w/.git/refs/heads/main", vec!["/w/.git", "/w/.git/refs/heads/main"]),
            ("/w/sub/.git/index", vec!["/w/sub/.git", "/w/sub/.git/index"]),
            ("/w/.git", vec!["/w/.git"]),
            ("/w/.github/x", vec!["/w/.github/x"]),
            ("/w/x.git/y", vec!["/w/x.git/y"]),
        ] {
            let part = Part { without_deletions: false, without: vec![RawPath(left.into())] };
            let paths = left_out(&[], &part);
            let paths: Vec<_> = paths.iter().map(|path| String::from_utf8_lossy(path)).collect();
            assert_eq!(paths, expected);
        }
        // Also where all that deletes is left out.
        let gone = effect("/w/.git/refs/stash", EffectKind::Deleted { entries: 1 });
        let part = Part { without_deletions: true, without: Vec::new() };
        let expected = [b"/w/.git".to_vec(), b"/w/.git/refs/stash".to_vec()];
        assert_eq!(left_out(&[gone], &part), expected);
    }

    #[test]
    fn what_was_not_committed_is_told() {
        let shown = [effect("/w/a", EffectKind::Created), effect("/w/b", EffectKind::Created)];
        let left = not_committed(&shown, &shown[..1]);
        assert_eq!(left, [&shown[1]]);
    }
}
