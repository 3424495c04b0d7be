//! Finds directories that git takes for its own although they are not called `.git`: bare
//! repositories, and those of submodules. Git obeys their configuration and runs their hooks. Runs in
//! the cell.

use super::{
    git_configuration::{CONFIGURATION_FILES, file_changes},
    linked::joined,
    trees::{self, TreeView, Trees},
};
use palisade_plan::{
    evidence::{PlantedPath, git_directory},
    plants::{GIT_DIRECTORY_PARTS, GIT_OPERATIONS, is_sample_hook},
};
use rustix::fs::FileType;
use std::collections::{BTreeMap, BTreeSet};

/// The maximum number of directories that are examined. If there are more, one of them may be git's.
const MOST_DIRECTORIES: usize = 4096;

const HEAD: &[u8] = b"HEAD";
const OBJECTS: &[u8] = b"objects";
const REFERENCES: &[u8] = b"refs";
const COMMON_DIRECTORY: &[u8] = b"commondir";
const HOOKS: &[u8] = b"hooks";

/// Directories in which a change writes something that is called like a part of a directory of git.
#[derive(Debug, Default)]
pub(super) struct PossibleGitDirectories {
    /// The names that change, by directory. Directories are relative to the workspace.
    parts: BTreeMap<Vec<u8>, BTreeSet<&'static [u8]>>,
    /// The first directory that is not in `parts` because there are too many.
    left_out: Option<Vec<u8>>,
}

impl PossibleGitDirectories {
    /// Records an entry that is new or changed.
    pub(super) fn note(&mut self, way: &[u8], kind: FileType) {
        let mut start = 0;
        for name in way.split(|byte| *byte == b'/') {
            let end = start + name.len();
            let part = GIT_DIRECTORY_PARTS.into_iter().find(|part| *part == name);
            if let Some(part) = part
                && is_part(part, way.get(end..).unwrap_or_default(), kind)
            {
                self.insert(way.get(..start.saturating_sub(1)).unwrap_or_default(), part);
            }
            start = end + 1;
        }
    }

    fn insert(&mut self, directory: &[u8], part: &'static [u8]) {
        // A directory `.git` is compared as a repository.
        if git_directory(&joined(directory, part)) == Some(directory) {
            return;
        }
        if let Some(parts) = self.parts.get_mut(directory) {
            parts.insert(part);
        } else if self.parts.len() < MOST_DIRECTORIES {
            self.parts.insert(directory.to_vec(), BTreeSet::from([part]));
        } else {
            self.left_out.get_or_insert_with(|| directory.to_vec());
        }
    }

    pub(super) fn extend(&mut self, other: Self) {
        for (directory, parts) in other.parts {
            parts.into_iter().for_each(|part| self.insert(&directory, part));
        }
        self.left_out = self.left_out.take().or(other.left_out);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Returns those of these directories that are git's and in which an operation, such as a rebase,
    /// may change.
    pub(super) fn with_operations(&self, trees: &Trees) -> impl Iterator<Item = Vec<u8>> {
        let has_operation = |parts: &BTreeSet<&[u8]>| {
            GIT_OPERATIONS.into_iter().any(|operation| parts.contains(operation))
        };
        let is_gits = |directory: &[u8]| {
            is_git_directory(|name| trees::seen(trees.after(), &joined(directory, name)).is_some())
        };
        let found = self
            .parts
            .iter()
            .filter(move |(directory, parts)| has_operation(parts) && is_gits(directory));
        found.map(|(directory, _)| directory.clone())
    }

    /// Returns what git would run or obey in these directories, and the directories that git would
    /// take for its own from now on. `is_made` says whether the workspace shows the change already.
    pub(super) fn plants(&self, trees: &Trees, is_made: bool) -> Vec<PlantedPath> {
        let plant = |way: Vec<u8>, reader: &str| PlantedPath {
            path: trees.path(&way),
            reader: reader.to_owned(),
        };
        let mut found = Vec::new();
        if let Some(directory) = &self.left_out {
            found.push(plant(joined(directory, HEAD), "git, if it is a repository,"));
        }
        for (directory, parts) in &self.parts {
            let has = |tree: TreeView<'_>, name: &[u8]| {
                trees::seen(tree, &joined(directory, name)).is_some()
            };
            let has_later = |name: &[u8]| parts.contains(name) || has(trees.after(), name);
            if !is_git_directory(has_later) {
                continue;
            }
            let head = joined(directory, HEAD);
            if !is_git_directory(|name| has(trees.before(), name)) {
                found.push(plant(head, "git, as a repository,"));
                continue;
            }
            let is_bare = git_directory(&head).is_none() && has_later(OBJECTS);
            if parts.contains(HEAD) && is_bare {
                found.push(plant(head, "git, as a repository,"));
            }
            for name in [HOOKS, COMMON_DIRECTORY] {
                if parts.contains(name) {
                    found.push(plant(joined(directory, name), "git"));
                }
            }
            for name in GIT_OPERATIONS.into_iter().filter(|name| !is_made && parts.contains(name)) {
                found.push(plant(joined(directory, name), "git"));
            }
            for name in CONFIGURATION_FILES.into_iter().filter(|name| parts.contains(name)) {
                let way = joined(directory, name);
                if !is_made {
                    found.push(plant(way, "git"));
                    continue;
                }
                let changes = file_changes(trees, &way);
                let changes = changes.iter().filter(|change| !change.is_harmless_addition());
                let readers = changes.map(|change| format!("git ({})", change.key));
                found.extend(readers.map(|reader| plant(way.clone(), &reader)));
            }
        }
        found
    }
}

/// Returns `true` if a changed entry counts as a part of a directory of git. `below` is its path in
/// the part, with a slash in front, or nothing.
fn is_part(part: &[u8], below: &[u8], kind: FileType) -> bool {
    match part {
        OBJECTS | REFERENCES => true,
        _ if GIT_OPERATIONS.contains(&part) => true,
        HOOKS => kind != FileType::Directory && !is_sample_hook(below),
        _ => below.is_empty() && kind != FileType::Directory,
    }
}

/// Returns `true` if git takes a directory with these names for its own. Links count, since git
/// follows them, and it is not looked into what the names stand for.
fn is_git_directory(has: impl Fn(&[u8]) -> bool) -> bool {
    has(HEAD) && (has(COMMON_DIRECTORY) || (has(OBJECTS) && has(REFERENCES)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noted(ways: &[(&str, FileType)]) -> Vec<(String, Vec<String>)> {
        let mut possible = PossibleGitDirectories::default();
        for (way, kind) in ways {
            possible.note(way.as_bytes(), *kind);
        }
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let parts = possible.parts.iter();
        parts
            .map(|(way, parts)| (text(way), parts.iter().map(|part| text(part)).collect()))
            .collect()
    }

    #[test]
    fn parts_of_git_directories_are_found_at_any_depth() {
        use FileType::{Directory, RegularFile, Symlink};
        let one = |directory: &str, part: &str| vec![(directory.to_owned(), vec![part.to_owned()])];
        for (way, kind, expected) in [
            ("HEAD", RegularFile, one("", "HEAD")),
            ("m.git/HEAD", Symlink, one("m.git", "HEAD")),
            ("m.git/HEAD", Directory, vec![]),
            ("m.git/refs", Directory, one("m.git", "refs")),
            ("m.git/objects/ab/cd", RegularFile, one("m.git", "objects")),
            ("m.git/hooks/update", RegularFile, one("m.git", "hooks")),
            ("m.git/hooks", Symlink, one("m.git", "hooks")),
            ("m.git/hooks", Directory, vec![]),
            ("m.git/hooks/update.sample", RegularFile, vec![]),
            (".git/worktrees/x/rebase-merge/git-rebase-todo", RegularFile, {
                one(".git/worktrees/x", "rebase-merge")
            }),
            ("m.git/sequencer", Symlink, one("m.git", "sequencer")),
            (".git/rebase-merge/git-rebase-todo", RegularFile, vec![]),
            ("src/config/main.rs", RegularFile, vec![]),
            (".git/config", RegularFile, vec![]),
            (".git/modules/a/b/config", RegularFile, one(".git/modules/a/b", "config")),
            (".git/x/.git/config", RegularFile, one(".git/x/.git", "config")),
            ("sub/.git/refs/heads/main", RegularFile, vec![]),
        ] {
            assert_eq!(noted(&[(way, kind)]), expected, "{way}");
        }
    }

    #[test]
    fn too_many_directories_are_not_forgotten() {
        let mut possible = PossibleGitDirectories::default();
        for number in 0..=MOST_DIRECTORIES {
            assert!(possible.left_out.is_none());
            possible.note(format!("{number}/HEAD").as_bytes(), FileType::RegularFile);
        }
        assert_eq!(possible.left_out, Some(MOST_DIRECTORIES.to_string().into_bytes()));
    }
}
