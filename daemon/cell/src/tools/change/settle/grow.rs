//! Planning what a program added to the end of a file: added to the same file, where that can be done.
//! Room: the cell.

use super::{
    super::{plan::Known, seen::Seen, spot::Spot, step::Step, target::may_change},
    append::Append,
    compare::Compared,
    content,
    earlier::changed_outside,
    emit::Emission,
    found::Item,
    whole::{Part, each},
};
use crate::tools::{failure, refused};
use palisade_plan::{
    Path,
    cell::{FileError, FileErrorKind},
    change::{EffectKind, Print},
};
use rustix::fs::{AtFlags, FileType, OFlags, SeekFrom, StatxFlags};
use std::{collections::HashMap, rc::Rc};

/// How many entries of the workspace are looked at for other names of a file.
const MOST_LOOKED: u64 = 200_000;

/// How often something has a name, by device and inode.
pub(super) type Names = HashMap<(u64, u64), u64>;

/// How many of the things that the program did are about one file of the workspace.
pub(super) fn touched(items: &[Item]) -> Names {
    let mut names = Names::new();
    let files = items.iter().filter_map(|item| item.lower.as_ref());
    for file in files.filter(|seen| seen.kind() == FileType::RegularFile) {
        *names.entry(file.id()).or_default() += 1;
    }
    names
}

impl Emission<'_, '_> {
    /// Whether what was added can be added to the file itself.
    pub(super) fn can_append(&self, spot: &Spot, old: &Seen, new: &Seen) -> bool {
        // By another name the program did something else to it.
        let once = self.touched.get(&old.id()) == Some(&1);
        once && !changed_outside(self.layers, &spot.path(), old)
            && self.is_dense(spot, old, new)
            && self.is_open_to(spot, old)
    }

    /// Whether there is no hole in what was added: that would be filled.
    fn is_dense(&self, spot: &Spot, old: &Seen, new: &Seen) -> bool {
        let Ok(dir) = self.upper.directory(&spot.way) else { return false };
        let Ok(file) = content::open_file(&dir, &spot.name, new) else { return false };
        match rustix::fs::seek(&file, SeekFrom::Hole(old.size)) {
            Ok(hole) => hole >= new.size,
            // A file system that does not know has none.
            Err(_) => true,
        }
    }

    /// Whether the file can be written, and has no name outside of the workspace.
    fn is_open_to(&self, spot: &Spot, old: &Seen) -> bool {
        let Ok(file) = spot.open(OFlags::WRONLY | OFlags::APPEND) else { return false };
        let stat = rustix::fs::statx(&file, "", AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS);
        let Ok(stat) = stat else { return false };
        let names = u64::from(stat.stx_nlink);
        if Seen::from(&stat) != *old {
            return false;
        }
        let inside = || self.names.get_or_init(|| self.count_names().ok());
        names == 1 || inside().as_ref().is_some_and(|all| all.get(&old.id()) == Some(&names))
    }

    /// How often each file of the workspace has a name there.
    fn count_names(&self) -> Result<Names, FileError> {
        let base = self.staging.base();
        let (mut names, mut count) = (Names::new(), 0);
        let top = Path(base.real.clone());
        each(base, b".", &top, None, |part: &Part<'_>| -> Result<(), FileError> {
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

    /// Plans to add to a file what the program added.
    pub(super) fn append(
        &mut self,
        spot: &Spot,
        old: &Seen,
        new: &Seen,
        compared: &Compared,
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
        self.stage.keep_same(spot, old, Known::Content(Some(first)))?;
        let print = Print::File { mode: new.mode(), digest: compared.digest };
        let sizes = (old.size, new.size);
        self.stage.effect(path.clone(), EffectKind::Appended, sizes, print.clone(), Some(old));
        let step = Append {
            spot: spot.clone(),
            source: self.source(spot, print.clone(), Some(old)),
            rest,
            staging: Rc::clone(&self.staging),
            old: *old,
            new: new.past(),
        };
        self.stage.plan(path, Some(FileType::RegularFile), Step::Append(Box::new(step)))
    }
}
