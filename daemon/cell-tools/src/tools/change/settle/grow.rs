//! Plans what a program appended to a file. Where possible it is appended to the same file. Runs in
//! the cell.

use super::{
    super::{
        evidence::LostEntry, plan::ModeTarget, spot::EntryLocation, step::Step, target::may_change,
    },
    append::Append,
    compare::FileComparison,
    content,
    earlier::changed_outside,
    emit::CommitPlanner,
    found::LayerChange,
    whole::{TreeEntry, each},
};
use crate::tools::{failure, refused};
use palisade_plan::{
    Path,
    cell::{FileError, FileErrorKind},
    change::{EffectKind, Print},
};
use palisade_workspace::EntryMetadata;
use rustix::fs::{AtFlags, FileType, OFlags, SeekFrom, StatxFlags};
use std::{collections::HashMap, rc::Rc};

/// The maximum number of entries of the workspace that are searched for other names of a file.
const MOST_LOOKED: u64 = 200_000;

/// The number of names or changes of each file, by device and inode.
pub(super) type InodeCounts = HashMap<(u64, u64), u64>;

/// Counts the changes that the program made to each file of the workspace.
pub(super) fn touched(items: &[LayerChange]) -> InodeCounts {
    let mut names = InodeCounts::new();
    let files = items.iter().filter_map(|item| item.lower.as_ref());
    for file in files.filter(|seen| seen.kind() == FileType::RegularFile) {
        *names.entry(file.id()).or_default() += 1;
    }
    names
}

impl CommitPlanner<'_, '_> {
    /// Returns `true` if the appended bytes can be appended to the file itself.
    pub(super) fn can_append(
        &self,
        spot: &EntryLocation,
        old: &EntryMetadata,
        new: &EntryMetadata,
    ) -> bool {
        // Otherwise the program changed the file under another name too.
        let once = self.touched.get(&old.id()) == Some(&1);
        once && !changed_outside(self.layers, &spot.path(), old)
            && self.is_dense(spot, old, new)
            && self.is_open_to(spot, old)
    }

    /// Returns `true` if the appended part has no hole. Appending would fill it.
    fn is_dense(&self, spot: &EntryLocation, old: &EntryMetadata, new: &EntryMetadata) -> bool {
        let Ok(dir) = self.upper.directory(&spot.way) else { return false };
        let Ok(file) = content::open_file(&dir, &spot.name, new) else { return false };
        match rustix::fs::seek(&file, SeekFrom::Hole(old.size)) {
            Ok(hole) => hole >= new.size,
            // A file system that can not tell has none.
            Err(_) => true,
        }
    }

    /// Returns `true` if the file can be written, and has no name outside the workspace.
    fn is_open_to(&self, spot: &EntryLocation, old: &EntryMetadata) -> bool {
        let Ok(file) = spot.open(OFlags::WRONLY | OFlags::APPEND) else { return false };
        let stat = rustix::fs::statx(&file, "", AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS);
        let Ok(stat) = stat else { return false };
        let names = u64::from(stat.stx_nlink);
        if EntryMetadata::from(&stat) != *old {
            return false;
        }
        let inside = || self.names.get_or_init(|| self.count_names().ok());
        names == 1 || inside().as_ref().is_some_and(|all| all.get(&old.id()) == Some(&names))
    }

    /// Counts the names that each file of the workspace has there.
    fn count_names(&self) -> Result<InodeCounts, FileError> {
        let base = self.staging.base();
        let (mut names, mut count) = (InodeCounts::new(), 0);
        let top = Path(base.real.clone());
        each(base, b".", &top, None, |part: &TreeEntry<'_>| -> Result<(), FileError> {
            count += 1;
            if count > MOST_LOOKED {
                let message = format!("there are more than {MOST_LOOKED} entries");
                return Err(failure(FileErrorKind::TooLarge, None, message));
            }
            if part.seen.kind() == FileType::RegularFile {
                *names.entry(part.seen.id()).or_default() += 1;
            }
            Ok(())
        })?;
        Ok(names)
    }

    /// Plans to append to a file what the program appended.
    pub(super) fn append(
        &mut self,
        spot: &EntryLocation,
        old: &EntryMetadata,
        new: &EntryMetadata,
        compared: &FileComparison,
    ) -> Result<(), FileError> {
        let path = spot.path();
        may_change(&path, "write", spot)?;
        let (Some(first), Some(rest)) = (compared.first, compared.rest) else {
            return Err(refused("read", &path, rustix::io::Errno::IO));
        };
        self.stage.note(b"append", &path, None);
        self.stage.found.push((spot.clone(), Some(*old)));
        self.note_file(&path, new, compared.digest);
        self.stage.note_old(old);
        self.stage.keep_same(spot, old, ModeTarget::Content(Some(first)))?;
        self.stage.lost.push(LostEntry { in_place: true, ..LostEntry::new(spot, old) });
        let print = Print::File { mode: new.mode(), digest: compared.digest };
        let sizes = (old.size, new.size);
        self.stage.effect(path.clone(), EffectKind::Appended, sizes, print.clone(), Some(old));
        let step = Append {
            spot: spot.clone(),
            source: self.source(spot, print.clone(), Some(old)),
            rest,
            staging: Rc::clone(&self.staging),
            old: *old,
            new: new.inode_state(),
        };
        self.stage.plan(path, Some(FileType::RegularFile), Step::Append(Box::new(step)))
    }
}
