//! Evidence about a change: what existed at the paths that it touches, and where those bytes are
//! kept afterwards. The cell collects it, and policy decides from it what is a loss.

use crate::{
    Path,
    change::Version,
    parts::{ENTRY, ListEntry, parts},
};
use bincode::{Decode, Encode};

/// All evidence about one change.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
pub struct Evidence {
    /// Files and other entries that existed before and were moved, replaced or deleted.
    pub earlier: Vec<EarlierEntry>,
    /// New files that have the bytes of something in `earlier`.
    pub copies: Vec<NewCopy>,
    /// Repositories whose own files the change touches.
    pub repositories: Vec<RepositoryChange>,
    /// Paths that a program outside the sandbox would run or obey.
    pub plants: Vec<PlantedPath>,
    /// Files with git ignore rules that the change touches.
    pub ignore_files: Vec<Path>,
}

/// Something that existed before a change and is not unchanged at its path afterwards.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct EarlierEntry {
    /// The earlier path.
    pub path: Path,
    /// The type of the entry.
    pub kind: EarlierKind,
    /// The version of the file.
    pub version: Version,
    /// Size in bytes, of a regular file.
    pub size: u64,
    /// The number of hard links of the file; 1 if it stays the same file.
    pub links: u64,
    /// The new path, if it was renamed and is otherwise unchanged.
    pub moved_to: Option<NewPlace>,
    /// SHA-256 of its bytes and attributes, or of a link's target, computed only if a new file has
    /// the same size.
    pub digest: Option<[u8; 32]>,
    /// Git's knowledge about it.
    pub git: GitEvidence,
}

/// The new place of something that was renamed.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct NewPlace {
    /// The new path.
    pub path: Path,
    /// True if git ignores the new path.
    pub is_ignored: bool,
}

/// The type of something that existed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum EarlierKind {
    /// A regular file.
    File,
    /// A symbolic link.
    SymbolicLink,
    /// Extended attributes of a file that itself remains.
    Attributes,
    /// A directory with more files than are listed one by one.
    Tree {
        /// Number of entries, the directory itself included.
        entries: u64,
    },
    /// A FIFO, socket or device.
    Other,
}

/// Git's knowledge about a path.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
pub enum GitEvidence {
    /// The path is in no repository that could be read.
    #[default]
    None,
    /// The path is in a working tree.
    WorkingTree(WorkingTreeEvidence),
    /// Git tracks the path, or may track it, in a repository that can not be read any further. So
    /// the path is no noise, and nothing keeps it.
    Tracked,
    /// The path is inside a repository's own directory.
    Internal {
        /// The repository's directory.
        git_dir: Path,
        /// True if comparing the repository as a whole accounts for the contents of the path.
        is_compared: bool,
    },
}

/// Git's knowledge about a path of a working tree.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct WorkingTreeEvidence {
    /// The repository's directory.
    pub git_dir: Path,
    /// True if the index of this repository, or of one around it, listed the path, or something
    /// below it, before the change. The same holds if the commit that was checked out had it.
    pub is_tracked: bool,
    /// True if the index lists the path afterwards, or the path from which the file was renamed
    /// without git.
    pub stays_tracked: bool,
    /// A commit, reachable afterwards, that has these bytes at this path, or at the path from which
    /// the file was renamed without git.
    pub commit: Option<String>,
    /// The ignored directory that contains the path, or is the path.
    pub ignored: Option<Path>,
}

/// A new regular file or link that is the same as something that existed before.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct NewCopy {
    /// The path of the new file.
    pub path: Path,
    /// SHA-256 of its bytes and attributes, or of a link's target.
    pub digest: [u8; 32],
    /// True if git ignores the path.
    pub is_ignored: bool,
}

/// The effect of a change on a repository.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct RepositoryChange {
    /// The repository's directory.
    pub git_dir: Path,
    /// True if the change created the repository.
    pub is_new: bool,
    /// Commits, branches and other data that git can no longer reach or read.
    pub losses: Vec<RepositoryLoss>,
    /// Configuration that differs from before.
    pub configuration: Vec<ConfigurationChange>,
    /// Paths of the working tree that still exist and that git no longer tracks.
    pub untracked: Vec<Path>,
    /// Content that the change staged or stashed.
    pub stored: Vec<StoredContent>,
    /// Files of the working tree that keep content which was staged or stashed.
    pub keepers: Vec<KeepingFile>,
    /// True if `untracked` or `keepers` is incomplete.
    pub is_cut: bool,
}

/// Content that git has for somebody who has not committed it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode, Decode)]
pub struct StoredContent {
    /// The path of a staged file, or the repository's directory for a stash.
    pub path: Path,
    /// The id of the blob, or of the stash.
    pub id: String,
}

/// A file of the working tree that keeps content which a repository had, and no longer has.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct KeepingFile {
    /// The path.
    pub path: Path,
    /// The version before the change, if the file existed.
    pub version: Option<Version>,
    /// The content that it keeps.
    pub content: StoredContent,
}

/// Something that a repository lost.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum RepositoryLoss {
    /// A commit that no reference and no reflog leads to any more.
    Commit {
        /// The reference that led to it.
        reference: String,
        /// The commit's id.
        id: String,
    },
    /// A branch or tag that was deleted and that no other reference leads to.
    Branch {
        /// The name of the branch or tag.
        reference: String,
        /// The id that it pointed to.
        id: String,
    },
    /// A reflog that no longer has all of its earlier entries.
    Log(String),
    /// A reference that is damaged.
    Reference(String),
    /// Objects that can not be read any more.
    Objects {
        /// The number of objects.
        count: u64,
        /// The id of one of them.
        example: String,
    },
    /// A file that redirects git elsewhere, or truncates history.
    Link(String),
    /// A staged file that is in no commit and not in the working tree.
    Staged(StoredContent),
    /// The repository could not be read before or afterwards, so nothing counts as kept.
    Unreadable(String),
}

/// A configuration key that differs.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct ConfigurationChange {
    /// The file with the configuration.
    pub file: Path,
    /// The key's name, as git writes it.
    pub key: String,
    /// SHA-256 of the key with its earlier values, if it had any.
    pub before: Option<[u8; 32]>,
    /// SHA-256 of the key with its new values, if it has any and the earlier ones could be read.
    pub after: Option<[u8; 32]>,
    /// True if the new values could be added without approval.
    pub is_harmless: bool,
}

impl ConfigurationChange {
    /// Returns `true` if the key is new, with values that need no approval.
    #[must_use]
    pub const fn is_harmless_addition(&self) -> bool {
        self.is_harmless && self.before.is_none()
    }
}

/// A path that a program outside the sandbox would run or obey.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct PlantedPath {
    /// The path.
    pub path: Path,
    /// The program that would run or obey it.
    pub reader: String,
}

impl Evidence {
    /// Returns an upper bound for the bytes that the evidence takes in messages.
    #[must_use]
    pub fn max_encoded_len(&self) -> usize {
        let Self { earlier, copies, repositories, plants, ignore_files } = self;
        let lists = [
            earlier.iter().map(ListEntry::max_encoded_len).sum::<usize>(),
            copies.iter().map(ListEntry::max_encoded_len).sum(),
            repositories.iter().map(ListEntry::max_encoded_len).sum(),
            plants.iter().map(ListEntry::max_encoded_len).sum(),
            ignore_files.iter().map(ListEntry::max_encoded_len).sum(),
        ];
        lists.iter().sum()
    }

    /// Adds the evidence of another part.
    pub fn extend(&mut self, part: Self) {
        let Self { earlier, copies, repositories, plants, ignore_files } = part;
        self.earlier.extend(earlier);
        self.copies.extend(copies);
        self.repositories.extend(repositories);
        self.plants.extend(plants);
        self.ignore_files.extend(ignore_files);
    }

    /// Splits the evidence into parts that each fit into a message; there are none if there is
    /// nothing to send.
    #[must_use]
    pub fn into_parts(self) -> Vec<Self> {
        let Self { earlier, copies, repositories, plants, ignore_files } = self;
        let mut all = Vec::new();
        all.extend(parts(earlier).into_iter().map(|earlier| Self { earlier, ..Self::default() }));
        all.extend(parts(copies).into_iter().map(|copies| Self { copies, ..Self::default() }));
        all.extend(
            parts(repositories)
                .into_iter()
                .map(|repositories| Self { repositories, ..Self::default() }),
        );
        all.extend(parts(plants).into_iter().map(|plants| Self { plants, ..Self::default() }));
        all.extend(
            parts(ignore_files)
                .into_iter()
                .map(|ignore_files| Self { ignore_files, ..Self::default() }),
        );
        all.retain(|part| *part != Self::default());
        all
    }
}

/// Returns the directory of the repository that a path is inside of: the part up to its first
/// `.git`.
#[must_use]
pub fn git_directory(path: &[u8]) -> Option<&[u8]> {
    let mut end = 0;
    for name in path.split(|byte| *byte == b'/') {
        end += name.len();
        if name == b".git" && end < path.len() {
            return path.get(..end);
        }
        end += 1;
    }
    None
}

impl ListEntry for EarlierEntry {
    fn max_encoded_len(&self) -> usize {
        let git = match &self.git {
            GitEvidence::None | GitEvidence::Tracked => 0,
            GitEvidence::Internal { git_dir, .. } => git_dir.0.len(),
            GitEvidence::WorkingTree(tree) => {
                tree.git_dir.0.len() + tree.ignored.as_ref().map_or(0, |path| path.0.len())
            }
        };
        let moved = self.moved_to.as_ref().map_or(0, |place| place.path.0.len());
        self.path.0.len() + moved + git + ENTRY
    }
}

impl ListEntry for NewCopy {
    fn max_encoded_len(&self) -> usize {
        self.path.0.len() + ENTRY
    }
}

impl ListEntry for PlantedPath {
    fn max_encoded_len(&self) -> usize {
        self.path.0.len() + self.reader.len() + ENTRY
    }
}

impl ListEntry for StoredContent {
    fn max_encoded_len(&self) -> usize {
        self.path.0.len() + self.id.len() + ENTRY / 4
    }
}

impl ListEntry for KeepingFile {
    fn max_encoded_len(&self) -> usize {
        self.path.0.len() + self.content.max_encoded_len() + ENTRY / 2
    }
}

impl ListEntry for RepositoryChange {
    fn max_encoded_len(&self) -> usize {
        let losses = self.losses.iter().map(|loss| match loss {
            RepositoryLoss::Commit { reference, id } | RepositoryLoss::Branch { reference, id } => {
                reference.len() + id.len()
            }
            RepositoryLoss::Objects { example, .. } => example.len(),
            RepositoryLoss::Log(name)
            | RepositoryLoss::Reference(name)
            | RepositoryLoss::Link(name)
            | RepositoryLoss::Unreadable(name) => name.len(),
            RepositoryLoss::Staged(content) => content.path.0.len() + content.id.len(),
        });
        let keys = self
            .configuration
            .iter()
            .map(|change| change.file.0.len() + change.key.len() + ENTRY / 4);
        let paths = self.untracked.iter().map(|path| path.0.len());
        let stored = self.stored.iter().map(StoredContent::max_encoded_len);
        let keepers = self.keepers.iter().map(KeepingFile::max_encoded_len);
        let names = losses.chain(keys).chain(paths).map(|length| length + ENTRY / 4);
        names.chain(stored).chain(keepers).sum::<usize>() + ENTRY
    }
}
