//! Commits of a part of a change set: which paths are left out, and whether the rest was shown to
//! the approver. Runs in the broker. Pure: no I/O.

use palisade_plan::{
    Path,
    change::{Effect, EffectKind},
    evidence::git_directory,
};
use palisade_policy::Facts;
use palisade_protocol::Part;
use std::collections::{HashMap, HashSet};

/// Returns the paths to leave out. For a move this is the old name, so that the file stays at both.
/// For a path in a git directory it is the whole directory: a partial one is a broken repository.
pub(super) fn left_out(effects: &[Effect], part: &Part) -> Vec<Vec<u8>> {
    let mut paths: Vec<Vec<u8>> = part.without.iter().map(|path| path.0.clone()).collect();
    if part.without_deletions {
        let is_deleted = |effect: &&Effect| matches!(effect.kind, EffectKind::Deleted { .. });
        let deleted = effects.iter().filter(is_deleted).map(|effect| &effect.path);
        let moved = effects.iter().filter_map(|effect| effect.kind.moved_from());
        paths.extend(deleted.chain(moved).map(|path| path.0.clone()));
    }
    let whole = paths.iter().filter_map(|path| git_directory(path));
    let whole: Vec<Vec<u8>> = whole.map(<[u8]>::to_vec).collect();
    paths.extend(whole);
    paths.sort_unstable();
    paths.dedup();
    paths
}

/// Returns `true` if every loss of `rest` is among those that were shown.
pub(super) fn is_covered(rest: &Facts, shown: &Facts) -> bool {
    let targets = |facts: &Facts| -> HashSet<String> {
        facts.findings.iter().flat_map(|found| found.targets.clone()).collect()
    };
    targets(rest).is_subset(&targets(shown))
}

/// Returns the effects that were shown and not committed.
pub(super) fn not_committed<'a>(shown: &'a [Effect], committed: &[Effect]) -> Vec<&'a Effect> {
    let done: HashSet<&Path> = committed.iter().map(|effect| &effect.path).collect();
    shown.iter().filter(|effect| !done.contains(&effect.path)).collect()
}

/// Returns `true` if every effect of `rest` was shown. A moved file may appear as created at its
/// new path.
pub(super) fn is_part(rest: &[Effect], shown: &[Effect]) -> bool {
    let mut by_path: HashMap<&Path, Vec<&Effect>> = HashMap::new();
    for one in shown {
        by_path.entry(&one.path).or_default().push(one);
    }
    rest.iter().all(|effect| {
        by_path.get(&effect.path).into_iter().flatten().any(|one| {
            let made = one.kind.moved_from().is_some()
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
        // The same applies where all deletions are left out.
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
