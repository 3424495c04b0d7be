//! The main repository of a workspace that is a linked worktree of git, and what a worktree's
//! command may change in it. Runs in the cell.

use palisade_plan::Path;

/// The main repository of a linked worktree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MainRepository {
    /// Its directory, with objects and references.
    pub path: Path,
    /// The name of the worktree's own directory in `worktrees`.
    pub name: Vec<u8>,
}

impl MainRepository {
    /// Returns the contents of the file in the session's root that names this repository.
    #[must_use]
    pub fn record(&self) -> Vec<u8> {
        [self.name.as_slice(), b"\0", self.path.0.as_slice()].concat()
    }

    /// Reads the contents of such a file; `None` if it names no repository.
    #[must_use]
    pub fn of_record(text: &[u8]) -> Option<Self> {
        let end = text.iter().position(|byte| *byte == 0)?;
        let (name, path) = (text.get(..end)?.to_vec(), Path(text.get(end + 1..)?.to_vec()));
        Some(Self { path, name })
    }

    /// Returns a path relative to the repository's directory; `None` if it is not inside.
    #[must_use]
    pub fn below<'p>(&self, path: &'p [u8]) -> Option<&'p [u8]> {
        path.strip_prefix(self.path.0.as_slice())?.strip_prefix(b"/")
    }

    /// Returns `true` if a worktree's command may change a path, relative to the repository's
    /// directory. That is everything git writes in a worktree. Configuration, hooks and links
    /// belong to the main repository.
    #[must_use]
    pub fn may_change(&self, rest: &[u8], becomes_directory: bool) -> bool {
        const SHARED: [&[u8]; 4] = [b"objects", b"refs", b"logs", b"rr-cache"];
        const FILES: [&[u8]; 4] = [b"packed-refs", b"info/refs", b"gc.pid", b"gc.log"];
        const FIXED: [&[u8]; 4] = [b"gitdir", b"commondir", b"config.worktree", b"locked"];
        let below = |directory: &[u8]| rest.strip_prefix(directory)?.strip_prefix(b"/");
        let own = [b"worktrees/", self.name.as_slice()].concat();
        FILES.contains(&rest)
            || SHARED.iter().any(|name| below(name).is_some())
            || (becomes_directory && SHARED.contains(&rest))
            || below(&own).is_some_and(|file| !FIXED.contains(&file))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_names_its_repository() {
        let main = MainRepository { path: Path::from("/a b/.git"), name: b"t\xff".to_vec() };
        assert_eq!(MainRepository::of_record(&main.record()), Some(main));
        assert_eq!(MainRepository::of_record(b"no end"), None);
    }

    #[test]
    fn configuration_and_hooks_can_not_be_changed() {
        let main = MainRepository { path: Path::from("/r/.git"), name: b"x".to_vec() };
        for (path, expected) in [
            ("objects/ab/cd", true),
            ("refs/heads/main", true),
            ("logs/refs/heads/main", true),
            ("packed-refs", true),
            ("worktrees/x/index", true),
            ("worktrees/x/HEAD", true),
            ("objects", false),
            ("worktrees/x", false),
            ("worktrees/x/gitdir", false),
            ("worktrees/x/commondir", false),
            ("worktrees/x/config.worktree", false),
            ("worktrees/y/index", false),
            ("config", false),
            ("hooks/pre-commit", false),
            ("info/exclude", false),
            ("index", false),
            ("HEAD", false),
        ] {
            assert_eq!(main.may_change(path.as_bytes(), false), expected, "{path}");
        }
        assert!(main.may_change(b"logs", true));
    }
}
