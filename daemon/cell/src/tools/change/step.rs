//! The steps of a change, and how each is done. Room: the cell.

use super::{
    act::{Below, StepError, exchange, free, is_moved, replace_by_link, set_mode, set_time},
    aside::remove_as,
    cut::Cut,
    done::Done,
    fresh::Fresh,
    names::{random_name, rename_new, with_free_name},
    seen::Seen,
    settle::{
        append::Append,
        copy::Source,
        staging::Staging,
        swap::{place, take_away},
    },
    spot::{Handle, Spot, look},
};
use palisade_plan::cell::FileError;
use rustix::{
    fs::{AtFlags, FileType, Mode},
    io::Errno,
};
use std::rc::Rc;

/// One step. What it needs to find as it was is in it.
#[derive(Debug)]
pub(super) enum Step {
    /// Make a directory; its mode is given to it when all else is done.
    MakeDir { spot: Spot, mode: Option<u32> },
    /// Make a symbolic link.
    Link { spot: Spot, target: Vec<u8> },
    /// Put a file where nothing is.
    Put { spot: Spot, fresh: Fresh },
    /// Put a file in the place of another.
    Replace { spot: Spot, fresh: Fresh, old: Seen },
    /// Take something away.
    Remove { spot: Spot, old: Seen, below: Below },
    /// Give something a name that is free; `old` is none for what an earlier step put there.
    Move { from: Spot, to: Spot, old: Option<Seen> },
    /// Give something the name of another.
    MoveOver { from: Spot, to: Spot, old: Seen, over: Seen },
    /// Give something another mode.
    Mode { spot: Spot, old: Seen, mode: u32 },
    /// Put what a program left in a transaction in the place of what is there, or of nothing.
    Place { spot: Spot, source: Box<Source>, staging: Rc<Staging>, old: Option<(Seen, Below)> },
    /// Take away what a program removed in a transaction.
    Take {
        spot: Spot,
        old: Seen,
        below: Below,
        staging: Rc<Staging>,
        /// Its name there.
        kept: Vec<u8>,
        /// Or where it is, if it can not be moved.
        beside: String,
    },
    /// Give a file another time.
    Touch { spot: Spot, old: Seen, mtime: (i64, u32) },
    /// Add to a file what a program added in a transaction.
    Append(Box<Append>),
    /// Take away what a call added to a file.
    Cut(Box<Cut>),
}

impl Step {
    /// What there is before it under the name that it is about.
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
        old.map(Seen::kind)
    }
}

impl Step {
    /// Does what can be done before anything is changed that anybody sees.
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

    /// Does it, whole or not at all.
    pub(super) fn take(self) -> Result<Done, StepError> {
        match self {
            Self::MakeDir { spot, mode } => {
                let first = Mode::from_raw_mode(if mode.is_some() { 0o700 } else { 0o777 });
                free(rustix::fs::mkdirat(spot.dir()?, spot.name.as_slice(), first))?;
                Ok(Done::MadeDir { spot, mode })
            }
            Self::Link { spot, target } => {
                let dir = spot.dir()?;
                free(rustix::fs::symlinkat(target.as_slice(), &dir, spot.name.as_slice()))?;
                let id = look(&dir, &spot.name)?.map(|made| made.id());
                drop(dir);
                Ok(Done::New { spot, id, fresh: None })
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
                Ok(Done::New { spot, id, fresh: Some(fresh) })
            }
            Self::Replace { spot, fresh, old } => replace(spot, fresh, &old),
            Self::Remove { spot, old, below } => remove(spot, &old, below),
            Self::Move { from, to, old } => move_new(from, to, old.as_ref()),
            Self::MoveOver { from, to, old, over } => move_over(from, to, &old, &over),
            Self::Mode { spot, old, mode } => {
                let handle = spot.handle()?;
                let now = Seen::from(&rustix::fs::fstat(&handle)?);
                // What is in a directory may have changed by another step.
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
                Ok(Done::Mode { spot, old: old.mode() })
            }
            Self::Place { spot, source, staging, old } => place(spot, *source, staging, old),
            Self::Take { spot, old, below, staging, kept, beside } => {
                take_away(spot, &old, below, (staging, kept), &beside)
            }
            Self::Touch { spot, old, mtime } => {
                let handle = spot.handle()?;
                let now = Seen::from(&rustix::fs::fstat(&handle)?);
                if (old.id(), old.size, old.mtime) != (now.id(), now.size, now.mtime) {
                    return Err(StepError::Changed);
                }
                set_time(&handle, mtime)?;
                Ok(Done::Touched { spot, old: old.mtime })
            }
            Self::Append(append) => append.take(),
            Self::Cut(cut) => cut.take(),
        }
    }
}

fn replace(spot: Spot, mut fresh: Fresh, old: &Seen) -> Result<Done, StepError> {
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
    Ok(Done::Aside { spot, aside, below: Below::Nothing, fresh: Some(fresh) })
}

fn remove(spot: Spot, old: &Seen, below: Below) -> Result<Done, StepError> {
    let aside = random_name()?;
    remove_as(spot, old, below, &aside)
}

fn move_new(from: Spot, to: Spot, old: Option<&Seen>) -> Result<Done, StepError> {
    let (from_dir, to_dir) = (from.dir()?, to.dir()?);
    match rename_new((&from_dir, from.name.as_slice()), (&to_dir, to.name.as_slice())) {
        Err(Errno::EXIST | Errno::NOENT) => return Err(StepError::Changed),
        done => done?,
    }
    if old.is_some_and(|old| !is_moved(old, &to_dir, &to.name)) {
        return Err(move_back((&to_dir, &to.name), (&from_dir, &from.name))?);
    }
    drop((from_dir, to_dir));
    Ok(Done::Moved { from, to })
}

/// Gives what should not have been moved its name back, as [`put_back`] does.
fn move_back(
    moved: (&Handle<'_>, &[u8]),
    home: (&Handle<'_>, &[u8]),
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

fn move_over(from: Spot, to: Spot, old: &Seen, over: &Seen) -> Result<Done, StepError> {
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
            Ok(Done::MovedOver { from, to, aside })
        }
        Err(error) => {
            exchange((&from_dir, from.name.as_slice()), (&to_dir, to.name.as_slice()))?;
            Err(error)
        }
    }
}
