//! Entries that will no longer be at their paths as they are. Runs in the cell.

use super::super::{settle::whole, spot::EntryLocation};
use crate::tools::{failure, split};
use palisade_plan::{
    Path,
    cell::{FileError, FileErrorKind},
    evidence::{EarlierEntry, EarlierKind, GitEvidence, NewPlace},
};
use palisade_workspace::EntryMetadata;
use rustix::fs::{AtFlags, FileType};

/// The maximum number of files of a directory that are listed one by one.
const MOST_FILES: usize = 4096;

/// An entry that will no longer be at its path as it is.
#[derive(Debug, Clone)]
pub(in super::super) struct LostEntry {
    pub(in super::super) spot: EntryLocation,
    pub(in super::super) seen: EntryMetadata,
    /// Its new path, if it is only renamed.
    pub(in super::super) moved_to: Option<Path>,
    /// True if only extended attributes are lost.
    pub(in super::super) attributes: bool,
    /// The number of entries, if this is a directory that stands for everything in it.
    pub(in super::super) entries: Option<u64>,
}

impl LostEntry {
    pub(in super::super) fn new(spot: &EntryLocation, seen: &EntryMetadata) -> Self {
        Self { spot: spot.clone(), seen: *seen, moved_to: None, attributes: false, entries: None }
    }

    /// Returns the number of hard links of a regular file.
    fn links(&self) -> u64 {
        if self.seen.kind() != FileType::RegularFile {
            return 1;
        }
        let stat = self.spot.dir().and_then(|dir| {
            rustix::fs::statat(&dir, self.spot.name.as_slice(), AtFlags::SYMLINK_NOFOLLOW)
        });
        stat.map_or(1, |stat| stat.st_nlink)
    }

    pub(super) fn evidence(&self) -> EarlierEntry {
        let kind = match (self.entries, self.seen.kind()) {
            (_, FileType::RegularFile) if self.attributes => EarlierKind::Attributes,
            (Some(entries), _) => EarlierKind::Tree { entries },
            (None, FileType::RegularFile) => EarlierKind::File,
            (None, FileType::Symlink) => EarlierKind::SymbolicLink,
            (None, FileType::Directory) => EarlierKind::Tree { entries: 1 },
            (
                None,
                FileType::Fifo
                | FileType::Socket
                | FileType::CharacterDevice
                | FileType::BlockDevice
                | FileType::Unknown,
            ) => EarlierKind::Other,
        };
        EarlierEntry {
            path: self.spot.path(),
            kind,
            version: self.seen.version(),
            size: self.seen.file_size(),
            links: self.links(),
            // Counts as ignored until it is known that it is not.
            moved_to: self.moved_to.clone().map(|path| NewPlace { path, is_ignored: true }),
            digest: None,
            git: GitEvidence::None,
        }
    }
}

/// Replaces renamed directories in the list by the files in them.
pub(super) fn expanded(lost: Vec<LostEntry>) -> Vec<LostEntry> {
    let mut all = Vec::with_capacity(lost.len());
    for one in lost {
        match &one.moved_to {
            Some(to) if one.seen.kind() == FileType::Directory => match files(&one, to) {
                Some(files) => all.extend(files),
                // Too many files to list the new path of each.
                None => {
                    let entries = Some(MOST_FILES as u64);
                    all.push(LostEntry { moved_to: None, entries, ..one });
                }
            },
            _ => all.push(one),
        }
    }
    all
}

fn files(moved: &LostEntry, to: &Path) -> Option<Vec<LostEntry>> {
    let (from, spot) = (moved.spot.path(), &moved.spot);
    let dir = spot.dir().ok()?;
    let mut files = Vec::new();
    let listed = whole::each(&dir, &spot.name, &from, None, |part| -> Result<(), FileError> {
        if files.len() >= MOST_FILES {
            let message = "too many files to be listed".to_owned();
            return Err(failure(FileErrorKind::TooLarge, None, message));
        }
        if part.seen.kind() != FileType::Directory {
            let to = Path([&to.0, b"/".as_slice(), part.way].concat());
            files.push(LostEntry {
                moved_to: Some(to),
                ..LostEntry::new(&spot.below(part.way), part.seen)
            });
        }
        Ok(())
    });
    listed.ok().map(|()| files)
}

/// Returns the directories above a path, the nearest first.
pub(super) fn ancestors(way: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::successors(Some(way), |way| {
        let slash = way.iter().rposition(|byte| *byte == b'/');
        slash
            .and_then(|slash| way.get(..slash))
            .or_else(|| (!way.is_empty()).then_some(b"" as &[u8]))
    })
    .skip(1)
}

/// Returns the last component of a path.
pub(super) fn last_name(path: &Path) -> &[u8] {
    split(&path.0).1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ancestors_end_at_the_top() {
        let all: Vec<&[u8]> = ancestors(b"a/b/c").collect();
        assert_eq!(all, [b"a/b".as_slice(), b"a", b""]);
        assert_eq!(ancestors(b"a").collect::<Vec<_>>(), [b""]);
        assert_eq!(ancestors(b"").count(), 0);
    }
}
