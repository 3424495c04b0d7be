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

/// The maximum number of files of a renamed directory of which the names are examined.
const MOST_MET: usize = 200_000;

/// An entry that will no longer be at its path as it is.
#[derive(Debug, Clone)]
pub(in super::super) struct LostEntry {
    pub(in super::super) spot: EntryLocation,
    pub(in super::super) seen: EntryMetadata,
    /// Its new path, if it is only renamed.
    pub(in super::super) moved_to: Option<Path>,
    /// True if only extended attributes are lost.
    pub(in super::super) attributes: bool,
    /// True if the file stays the same one, so that its other names (hard links) show the change.
    pub(in super::super) in_place: bool,
    /// The number of entries, if this is a directory that stands for everything in it.
    pub(in super::super) entries: Option<u64>,
}

impl LostEntry {
    pub(in super::super) fn new(spot: &EntryLocation, seen: &EntryMetadata) -> Self {
        Self {
            spot: spot.clone(),
            seen: *seen,
            moved_to: None,
            attributes: false,
            in_place: false,
            entries: None,
        }
    }

    /// Returns the number of hard links of a regular file; 1 if the change breaks none.
    fn links(&self) -> u64 {
        if self.in_place || self.seen.kind() != FileType::RegularFile {
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

/// Replaces renamed directories in the list by the files in them. `meet` is called with the new path
/// and the type of every renamed file, also where there are too many to be listed, and `unmet` with
/// the path of a directory in which not all of them could be found.
pub(super) fn expanded(
    lost: Vec<LostEntry>,
    mut meet: impl FnMut(&Path, FileType),
    mut unmet: impl FnMut(&Path),
) -> Vec<LostEntry> {
    let mut all = Vec::with_capacity(lost.len());
    for one in lost {
        let Some(to) = &one.moved_to else {
            all.push(one);
            continue;
        };
        if one.seen.kind() != FileType::Directory {
            meet(to, one.seen.kind());
            all.push(one);
            continue;
        }
        let files = files(&one, to, &mut meet);
        if files.is_none() {
            unmet(to);
        }
        match files.filter(|files| files.len() <= MOST_FILES) {
            Some(files) => all.extend(files),
            // Too many files to list the new path of each.
            None => {
                let entries = Some(MOST_FILES as u64);
                all.push(LostEntry { moved_to: None, entries, ..one });
            }
        }
    }
    all
}

/// Lists the files of a renamed directory; one more than `MOST_FILES`, if there are more. `None` if
/// not all of them could be found.
fn files(
    moved: &LostEntry,
    to: &Path,
    meet: &mut impl FnMut(&Path, FileType),
) -> Option<Vec<LostEntry>> {
    let (from, spot) = (moved.spot.path(), &moved.spot);
    let dir = spot.dir().ok()?;
    let (mut files, mut met) = (Vec::new(), 0);
    let listed = whole::each(&dir, &spot.name, &from, None, |part| -> Result<(), FileError> {
        if part.seen.kind() == FileType::Directory {
            return Ok(());
        }
        met += 1;
        if met > MOST_MET {
            let message = "too many files to be examined".to_owned();
            return Err(failure(FileErrorKind::TooLarge, None, message));
        }
        let to = Path([&to.0, b"/".as_slice(), part.way].concat());
        meet(&to, part.seen.kind());
        if files.len() <= MOST_FILES {
            let moved_to = Some(to);
            files.push(LostEntry { moved_to, ..LostEntry::new(&spot.below(part.way), part.seen) });
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
