//! Changes to files inside a git repository's own directory. Pure: no I/O.

use super::{Judge, Reason, UndoRecord};
use palisade_plan::evidence::EarlierEntry;

/// Directories of which the comparison of a repository accounts for every byte.
const PROVEN_DIRECTORIES: [&[u8]; 3] = [b"objects/", b"refs/", b"logs/"];

/// Files of which the comparison of a repository accounts for every byte.
const PROVEN_FILES: [&[u8]; 3] = [b"index", b"HEAD", b"packed-refs"];

impl Judge<'_> {
    /// Returns the reason why a change to a file inside a git repository is not a loss. Comparing
    /// the two states of the repository finds its other losses.
    pub(super) fn internal(
        &self,
        earlier: &EarlierEntry,
        git_dir: &[u8],
        is_compared: bool,
    ) -> Option<Reason> {
        let is_own = self.is_own(earlier);
        if is_compared {
            let is_proven = is_own || is_proven(&earlier.path.0, git_dir);
            return match (is_proven, self.context.undo) {
                (true, UndoRecord::Kept | UndoRecord::Unavailable) => Some(Reason::GitInternal),
                (false, UndoRecord::Kept) => Some(Reason::GitState),
                (false, UndoRecord::Unavailable) => None,
            };
        }
        let is_pinned = self.context.memory.is_pinned(git_dir);
        (is_own && !is_pinned).then_some(Reason::Own)
    }
}

/// Returns `true` if comparing the repository accounts for every byte of one of its files. Others
/// have the state of an operation, such as the list of a rebase.
fn is_proven(path: &[u8], git_dir: &[u8]) -> bool {
    let rest = path.strip_prefix(git_dir).and_then(|rest| rest.strip_prefix(b"/"));
    let rest = rest.unwrap_or_default();
    let in_worktree = rest.strip_prefix(b"worktrees/").and_then(|rest| {
        let slash = rest.iter().position(|byte| *byte == b'/')?;
        rest.get(slash + 1..)
    });
    let name = in_worktree.unwrap_or(rest);
    let is_listed = PROVEN_FILES.contains(&name)
        || PROVEN_DIRECTORIES.iter().any(|directory| name.starts_with(directory));
    is_listed && !name.ends_with(b".lock")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_comparison_reads_is_proven() {
        for (name, expected) in [
            ("objects/ab/cd", true),
            ("refs/heads/main", true),
            ("logs/HEAD", true),
            ("index", true),
            ("HEAD", true),
            ("worktrees/w/index", true),
            ("index.lock", false),
            ("refs/heads/main.lock", false),
            ("config", false),
            ("COMMIT_EDITMSG", false),
            ("rebase-merge/git-rebase-todo", false),
            ("rr-cache/ab/preimage", false),
            ("worktrees/w/ORIG_HEAD", false),
        ] {
            let path = [b"/w/.git/".as_slice(), name.as_bytes()].concat();
            assert_eq!(is_proven(&path, b"/w/.git"), expected, "{name}");
        }
    }
}
