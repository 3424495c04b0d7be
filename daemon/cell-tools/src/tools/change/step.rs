//! The steps of a change, and how each is taken. Runs in the cell.

use super::{
    act::{DeletedContents, StepError, exchange, free, is_moved, replace_by_link, set_time},
    aside::remove_as,
    cut::Truncation,
    done::TakenStep,
    fresh::TemporaryFile,
    names::{random_name, rename_new, with_free_name},
    settle::{
        append::Append,
        copy::CommitSource,
        staging::Staging,
        swap::{place, take_away},
    },
    spot::{DirHandle, EntryLocation},
};
use palisade_plan::cell::FileError;
use palisade_workspace::{EntryMetadata, look, tree::set_mode};
use rustix::{
    fs::{AtFlags, FileType, Mode},
    io::Errno,
};
use std::rc::Rc;

/// One step, with what it expects to find unchanged.
#[derive(Debug)]
pub(super) enum Step {
    /// Makes a directory. Its mode is set after all steps.
    MakeDir { spot: EntryLocation, mode: Option<u32> },
    /// Makes a symbolic link.
    Link { spot: EntryLocation, target: Vec<u8> },
    /// Puts a file at a free name.
    Put { spot: EntryLocation, fresh: TemporaryFile },
    /// Replaces a file by another.
    Replace { spot: EntryLocation, fresh: TemporaryFile, old: EntryMetadata },
    /// Deletes an entry.
    Remove { spot: EntryLocation, old: EntryMetadata, below: DeletedContents },
    /// Renames an entry to a free name. `old` is `None` for an entry that an earlier step put
    /// there.
    Move { from: EntryLocation, to: EntryLocation, old: Option<EntryMetadata> },
    /// Renames an entry over another one.
    MoveOver { from: EntryLocation, to: EntryLocation, old: EntryMetadata, over: EntryMetadata },
    /// Changes the mode of an entry.
    Mode { spot: EntryLocation, old: EntryMetadata, mode: u32 },
    /// Puts an entry that a program left in a transaction at a spot, in place of `old` if there is
    /// one.
    Place {
        spot: EntryLocation,
        source: Box<CommitSource>,
        staging: Rc<Staging>,
        old: Option<(EntryMetadata, DeletedContents)>,
    },
    /// Deletes an entry that a program deleted in a transaction.
    Take {
        spot: EntryLocation,
        old: EntryMetadata,
        below: DeletedContents,
        staging: Rc<Staging>,
        /// Its name in the staging directory.
        kept: Vec<u8>,
        /// Its name in its own directory, used if it can not be moved.
        beside: String,
    },
    /// Changes the modification time of a file.
    Touch { spot: EntryLocation, old: EntryMetadata, mtime: (i64, u32) },
    /// Appends to a file what a program appended in a transaction.
    Append(Box<Append>),
    /// Cuts off what a call appended to a file.
    Cut(Box<Truncation>),
}

impl Step {
    /// Returns the type of the entry that the step replaces or changes; `None` if the name is free.
    pub(super) fn replaced(&self) -> Option<FileType> {
        let old = match self {
            Self::MakeDir { .. } | Self::Link { .. } | Self::Put { .. } | Self::Move { .. } => None,
            Self::Replace { old, .. }
            | Self::Remove { old, .. }
            | Self::MoveOver { over: old, .. }
            | Self::Mode { old, .. }
            | Self::Take { old, .. }
            | Self::Touch { old, .. } => Some(old),
            Self::Place { old, .. } => old.as_ref().map(|(old, _)| old),
            Self::Append(append) => Some(&append.old),
            Self::Cut(cut) => Some(&cut.old),
        };
        old.map(EntryMetadata::kind)
    }
}

impl Step {
    /// Does the work that has no visible effect.
    pub(super) fn prepare(&mut self) -> Result<(), FileError> {
        match self {
            Self::Place { source, staging, .. } => source.copy(staging),
            Self::Append(append) => append.prepare(),
            Self::MakeDir { .. }
            | Self::Link { .. }
            | Self::Put { .. }
            | Self::Replace { .. }
            | Self::Remove { .. }
            | Self::Move { .. }
            | Self::MoveOver { .. }
            | Self::Mode { .. }
            | Self::Take { .. }
            | Self::Touch { .. }
            | Self::Cut(_) => Ok(()),
        }
    }

    /// Takes the step, completely or not at all.
    pub(super) fn take(self) -> Result<TakenStep, StepError> {
        match self {
            Self::MakeDir { spot, mode } => {
                let first = Mode::from_raw_mode(if mode.is_some() { 0o700 } else { 0o777 });
                free(rustix::fs::mkdirat(spot.dir()?, spot.name.as_slice(), first))?;
                Ok(TakenStep::MadeDir { spot, mode })
            }
            Self::Link { spot, target } => {
                let dir = spot.dir()?;
                free(rustix::fs::symlinkat(target.as_slice(), &dir, spot.name.as_slice()))?;
                let id = look(&dir, &spot.name)?.map(|made| made.id());
                drop(dir);
                Ok(TakenStep::New { spot, id, fresh: None })
            }
            Self::Put { spot, mut fresh } => {
                match fresh.put(&spot.dir()?, &spot.name) {
                    Err(error) if Errno::from_io_error(&error) == Some(Errno::EXIST) => {
                        return Err(StepError::Changed);
                    }
                    done => done?,
                }
                let id = match fresh.version() {
                    Some(made) => Some(made.id()),
                    None => spot.look()?.map(|made| made.id()),
                };
                Ok(TakenStep::New { spot, id, fresh: Some(fresh) })
            }
            Self::Replace { spot, fresh, old } => replace(spot, fresh, &old),
            Self::Remove { spot, old, below } => remove(spot, &old, below),
            Self::Move { from, to, old } => move_new(from, to, old.as_ref()),
            Self::MoveOver { from, to, old, over } => move_over(from, to, &old, &over),
            Self::Mode { spot, old, mode } => {
                let handle = spot.handle()?;
                let now = EntryMetadata::from(&rustix::fs::fstat(&handle)?);
                // Another step may have changed the contents of a directory.
                let same = match old.kind() {
                    FileType::Directory => {
                        (old.id(), old.kind(), old.mode()) == (now.id(), now.kind(), now.mode())
                    }
                    FileType::RegularFile
                    | FileType::Symlink
                    | FileType::Fifo
                    | FileType::Socket
                    | FileType::CharacterDevice
                    | FileType::BlockDevice
                    | FileType::Unknown => old.is_moved(&now),
                };
                if !same {
                    return Err(StepError::Changed);
                }
                set_mode(&handle, mode)?;
                Ok(TakenStep::Mode { spot, old: old.mode() })
            }
            Self::Place { spot, source, staging, old } => place(spot, *source, staging, old),
            Self::Take { spot, old, below, staging, kept, beside } => {
                take_away(spot, &old, below, (staging, kept), &beside)
            }
            Self::Touch { spot, old, mtime } => {
                let handle = spot.handle()?;
                let now = EntryMetadata::from(&rustix::fs::fstat(&handle)?);
                if (old.id(), old.size, old.mtime) != (now.id(), now.size, now.mtime) {
                    return Err(StepError::Changed);
                }
                set_time(&handle, mtime)?;
                Ok(TakenStep::Touched { spot, old: old.mtime })
            }
            Self::Append(append) => append.take(),
            Self::Cut(cut) => cut.take(),
        }
    }
}

fn replace(
    spot: EntryLocation,
    mut fresh: TemporaryFile,
    old: &EntryMetadata,
) -> Result<TakenStep, StepError> {
    let dir = spot.dir()?;
    let aside = fresh.give_name(&dir)?;
    let swapped = match exchange((&dir, aside.as_bytes()), (&dir, &spot.name)) {
        Err(Errno::INVAL) => replace_by_link(&dir, &spot.name, &aside),
        done => done.map(|()| aside.clone()),
    };
    let aside = swapped.map_err(|error| {
        rustix::fs::unlinkat(&dir, aside.as_str(), AtFlags::empty()).ok();
        match error {
            Errno::NOENT => StepError::Changed,
            error => error.into(),
        }
    })?;
    if !is_moved(old, &dir, aside.as_bytes()) {
        rustix::fs::renameat(&dir, aside.as_str(), &dir, spot.name.as_slice())?;
        return Err(StepError::Changed);
    }
    drop(dir);
    Ok(TakenStep::Aside { spot, aside, below: DeletedContents::Nothing, fresh: Some(fresh) })
}

fn remove(
    spot: EntryLocation,
    old: &EntryMetadata,
    below: DeletedContents,
) -> Result<TakenStep, StepError> {
    let aside = random_name()?;
    remove_as(spot, old, below, &aside)
}

fn move_new(
    from: EntryLocation,
    to: EntryLocation,
    old: Option<&EntryMetadata>,
) -> Result<TakenStep, StepError> {
    let (from_dir, to_dir) = (from.dir()?, to.dir()?);
    match rename_new((&from_dir, from.name.as_slice()), (&to_dir, to.name.as_slice())) {
        Err(Errno::EXIST | Errno::NOENT) => return Err(StepError::Changed),
        done => done?,
    }
    if old.is_some_and(|old| !is_moved(old, &to_dir, &to.name)) {
        return Err(move_back((&to_dir, &to.name), (&from_dir, &from.name))?);
    }
    drop((from_dir, to_dir));
    Ok(TakenStep::Moved { from, to })
}

/// Renames an entry back that should not have been moved, as [`put_back`] does.
fn move_back(
    moved: (&DirHandle<'_>, &[u8]),
    home: (&DirHandle<'_>, &[u8]),
) -> Result<StepError, StepError> {
    match rename_new(moved, home) {
        Err(Errno::EXIST) => {
            let ((), kept) = with_free_name(|free| {
                rename_new(moved, (home.0, free.replace(".tmp", ".kept").as_bytes()))
            })?;
            Ok(StepError::Displaced(kept.replace(".tmp", ".kept")))
        }
        done => Ok(done.map(|()| StepError::Changed)?),
    }
}

fn move_over(
    from: EntryLocation,
    to: EntryLocation,
    old: &EntryMetadata,
    over: &EntryMetadata,
) -> Result<TakenStep, StepError> {
    let (from_dir, to_dir) = (from.dir()?, to.dir()?);
    match exchange((&from_dir, from.name.as_slice()), (&to_dir, to.name.as_slice())) {
        Err(Errno::NOENT) => return Err(StepError::Changed),
        done => done?,
    }
    let same = is_moved(old, &to_dir, &to.name) && is_moved(over, &from_dir, &from.name);
    let aside = if same {
        let renamed = with_free_name(|free| {
            rename_new((&from_dir, from.name.as_slice()), (&from_dir, free.as_bytes()))
        });
        renamed.map(|((), aside)| aside).map_err(StepError::from)
    } else {
        Err(StepError::Changed)
    };
    match aside {
        Ok(aside) => {
            drop((from_dir, to_dir));
            Ok(TakenStep::MovedOver { from, to, aside })
        }
        Err(error) => {
            exchange((&from_dir, from.name.as_slice()), (&to_dir, to.name.as_slice()))?;
            Err(error)
        }
    }
}
