//! Steps that were taken, to be rolled back or finished. Runs in the cell.

use super::{
    act::{DeletedContents, StepError, exchange, put_back, set_time},
    cut::Truncation,
    fresh::TemporaryFile,
    names::rename_new,
    settle::{
        append,
        back::{give_back, restore_name},
        staging::Staging,
        whole::files,
    },
    spot::EntryLocation,
    tree,
};
use palisade_plan::Path;
use palisade_workspace::{EntryMetadata, look, tree::set_mode};
use rustix::{
    fs::{AtFlags, FileType},
    io::Errno,
};
use std::rc::Rc;

/// A step that was taken, with what it takes to roll it back.
#[derive(Debug)]
pub(super) enum TakenStep {
    MadeDir {
        spot: EntryLocation,
        mode: Option<u32>,
    },
    New {
        spot: EntryLocation,
        id: Option<(u64, u64)>,
        fresh: Option<TemporaryFile>,
    },
    Aside {
        spot: EntryLocation,
        aside: String,
        below: DeletedContents,
        fresh: Option<TemporaryFile>,
    },
    Moved {
        from: EntryLocation,
        to: EntryLocation,
    },
    MovedOver {
        from: EntryLocation,
        to: EntryLocation,
        aside: String,
    },
    Mode {
        spot: EntryLocation,
        old: u32,
    },
    Placed {
        spot: EntryLocation,
        staging: Rc<Staging>,
        /// The name of the replaced entry in the staging directory.
        replaced: Option<Vec<u8>>,
        id: Option<(u64, u64)>,
        late: Vec<(Vec<u8>, u32)>,
    },
    Taken {
        spot: EntryLocation,
        staging: Rc<Staging>,
        kept: Vec<u8>,
    },
    Touched {
        spot: EntryLocation,
        old: (i64, u32),
    },
    Appended {
        spot: EntryLocation,
        old: EntryMetadata,
        /// The size of the file after the append.
        end: u64,
    },
    Cut(Box<Truncation>),
}

impl TakenStep {
    /// Returns the path at which the step was taken.
    pub(super) fn path(&self) -> Path {
        match self {
            Self::MadeDir { spot, .. }
            | Self::New { spot, .. }
            | Self::Aside { spot, .. }
            | Self::Placed { spot, .. }
            | Self::Taken { spot, .. }
            | Self::Touched { spot, .. }
            | Self::Appended { spot, .. }
            | Self::Mode { spot, .. } => spot.path(),
            Self::Cut(cut) => cut.spot.path(),
            Self::Moved { to, .. } | Self::MovedOver { to, .. } => to.path(),
        }
    }

    /// Returns the spot at which the step left something that the program or call wrote.
    pub(super) fn left(&self) -> Option<&EntryLocation> {
        match self {
            Self::New { spot, .. }
            | Self::Placed { spot, .. }
            | Self::Touched { spot, .. }
            | Self::Appended { spot, .. }
            | Self::Mode { spot, .. } => Some(spot),
            Self::Cut(cut) => Some(&cut.spot),
            Self::Aside { spot, fresh, .. } => fresh.as_ref().map(|_| spot),
            Self::Moved { to, .. } | Self::MovedOver { to, .. } => Some(to),
            Self::MadeDir { .. } | Self::Taken { .. } => None,
        }
    }

    /// Sets the final modes of directories, which is done after all steps. A directory that is
    /// read-only earlier could not be filled.
    pub(super) fn late(&self) -> Result<(), StepError> {
        match self {
            Self::MadeDir { spot, mode: Some(mode) } => Ok(set_mode(&spot.handle()?, *mode)?),
            Self::Placed { spot, late, .. } => {
                // Subdirectories go first: they can not be reached through a directory that may not
                // be entered.
                late.iter()
                    .rev()
                    .try_for_each(|(way, mode)| Ok(set_mode(&spot.below(way).handle()?, *mode)?))
            }
            Self::MadeDir { mode: None, .. }
            | Self::New { .. }
            | Self::Aside { .. }
            | Self::Moved { .. }
            | Self::MovedOver { .. }
            | Self::Mode { .. }
            | Self::Taken { .. }
            | Self::Touched { .. }
            | Self::Appended { .. }
            | Self::Cut(_) => Ok(()),
        }
    }

    /// Makes new directories writable again, so that they can be emptied.
    pub(super) fn reopen(&self) {
        if let Self::MadeDir { spot, mode: Some(_) } = self {
            // If this fails, so does the rollback, and that is reported.
            spot.handle().and_then(|handle| set_mode(&handle, 0o700)).ok();
        }
        if let Self::Placed { spot, late, .. } = self {
            for (way, mode) in late {
                let below = spot.below(way);
                below.handle().and_then(|handle| set_mode(&handle, mode | 0o700)).ok();
            }
        }
    }

    /// Rolls the step back.
    pub(super) fn undo(self) -> Result<(), StepError> {
        match self {
            Self::Aside { spot, aside, below: _, fresh: None } => {
                put_back(&spot.dir()?, &aside, &spot.name)
            }
            other @ (Self::MadeDir { .. }
            | Self::New { .. }
            | Self::Aside { .. }
            | Self::Moved { .. }
            | Self::MovedOver { .. }
            | Self::Mode { .. }
            | Self::Placed { .. }
            | Self::Taken { .. }
            | Self::Touched { .. }
            | Self::Appended { .. }
            | Self::Cut(_)) => Ok(other.rename_back()?),
        }
    }

    fn rename_back(self) -> Result<(), Errno> {
        match self {
            Self::MadeDir { spot, .. } => {
                rustix::fs::unlinkat(spot.dir()?, spot.name.as_slice(), AtFlags::REMOVEDIR)
            }
            Self::New { spot, id, fresh: _ } => {
                let dir = spot.dir()?;
                match look(&dir, &spot.name)? {
                    // If somebody else has replaced it, it stays.
                    Some(now) if Some(now.id()) == id => {
                        rustix::fs::unlinkat(&dir, spot.name.as_slice(), AtFlags::empty())
                    }
                    Some(_) | None => Ok(()),
                }
            }
            // This replaces the new file.
            Self::Aside { spot, aside, .. } => {
                let dir = spot.dir()?;
                rustix::fs::renameat(&dir, aside.as_str(), &dir, spot.name.as_slice())
            }
            Self::Moved { from, to } => {
                rename_new((to.dir()?, to.name.as_slice()), (from.dir()?, from.name.as_slice()))
            }
            Self::MovedOver { from, to, aside } => {
                let (from_dir, to_dir) = (from.dir()?, to.dir()?);
                exchange((&from_dir, aside.as_bytes()), (&to_dir, to.name.as_slice()))?;
                rename_new((&from_dir, aside.as_bytes()), (&from_dir, from.name.as_slice()))
            }
            Self::Mode { spot, old } => set_mode(&spot.handle()?, old),
            Self::Touched { spot, old } => set_time(&spot.handle()?, old),
            Self::Appended { spot, old, end } => {
                append::cut(&spot, old.id(), end, old.inode_state())
            }
            Self::Cut(cut) => cut.undo(),
            Self::Taken { spot, staging, kept } => {
                give_back(&staging, &kept, &spot.dir()?, &spot.name)
            }
            Self::Placed { spot, staging, replaced: Some(kept), .. } => {
                let put_back = staging
                    .dir()
                    .and_then(|aside| restore_name(aside, &kept, &spot.dir()?, &spot.name));
                put_back.inspect_err(|_| staging.keep())
            }
            Self::Placed { spot, staging, replaced: None, id, .. } => {
                let dir = spot.dir()?;
                match look(&dir, &spot.name)? {
                    // If somebody else has replaced it, it stays.
                    Some(now) if Some(now.id()) == id => {
                        rename_new((&dir, &spot.name), (staging.dir()?, &staging.name()))
                    }
                    Some(_) | None => Ok(()),
                }
            }
        }
    }

    /// Deletes what the step replaced. An entry that can not be deleted keeps its temporary name,
    /// and is removed later.
    pub(super) fn finish(&self) {
        match self {
            Self::Aside { spot, aside, below, .. } => {
                let Ok(dir) = spot.dir() else { return };
                match below {
                    DeletedContents::Nothing => {
                        rustix::fs::unlinkat(&dir, aside.as_str(), AtFlags::empty()).ok();
                    }
                    DeletedContents::Empty | DeletedContents::Tree(_) => {
                        tree::remove(&dir, aside.as_bytes()).ok();
                    }
                }
            }
            Self::MovedOver { from, aside, .. } => {
                let Ok(dir) = from.dir() else { return };
                rustix::fs::unlinkat(&dir, aside.as_str(), AtFlags::empty()).ok();
            }
            // The replaced entry is deleted with the staging directory that it is in.
            Self::Placed { staging, .. } | Self::Taken { staging, .. } => staging.remove(),
            Self::Touched { .. }
            | Self::Appended { .. }
            | Self::Cut(_)
            | Self::MadeDir { .. }
            | Self::New { .. }
            | Self::Moved { .. }
            | Self::Mode { .. } => {}
        }
    }

    /// Returns the files and links that the step wrote, with their paths and their present state.
    pub(super) fn wrote(&self) -> Vec<(Path, EntryMetadata)> {
        let now = |spot: &EntryLocation| spot.look().ok().flatten();
        let one = |spot: &EntryLocation, seen: Option<EntryMetadata>| {
            seen.map(|seen| (spot.path(), seen)).into_iter().collect()
        };
        match self {
            Self::New { spot, fresh: Some(fresh), .. }
            | Self::Aside { spot, fresh: Some(fresh), .. } => {
                one(spot, fresh.version().or_else(|| now(spot)))
            }
            Self::Placed { spot, .. } => files(spot),
            Self::Touched { spot, .. } => one(spot, now(spot)),
            // If somebody else appended too, the file also has their bytes.
            Self::Appended { spot, end, .. } => {
                one(spot, now(spot).filter(|seen| seen.size == *end))
            }
            // A new mode is a new version of a file.
            Self::Mode { spot, .. } => {
                let file = now(spot).filter(|seen| seen.kind() == FileType::RegularFile);
                one(spot, file)
            }
            Self::Cut(cut) => one(&cut.spot, now(&cut.spot)),
            Self::Moved { to, .. } | Self::MovedOver { to, .. } => files(to),
            Self::New { fresh: None, .. }
            | Self::Aside { fresh: None, .. }
            | Self::MadeDir { .. }
            | Self::Taken { .. } => Vec::new(),
        }
    }
}
