//! Appends to a file what a program appended to it in its transaction. It stays the same file, so
//! that processes that have it open can go on using it. Runs in the cell.
//!
//! The bytes are written at whatever is the end by then, so that nothing is overwritten that
//! somebody else appends at the same moment. They are removed again only if nothing else was
//! appended since.

use super::{
    super::{
        act::{StepError, modified},
        done::TakenStep,
        spot::EntryLocation,
    },
    copy::CommitSource,
    resolve::StepProgress,
    staging::Staging,
};
use palisade_plan::{Durable, cell::FileError, change::InodeState};
use palisade_workspace::{EntryMetadata, tree::set_mode};
use rustix::{
    fs::{Mode, OFlags},
    io::Errno,
};
use std::{
    fs::File,
    io::{self, Read, Write as _},
    os::{
        fd::{AsFd, BorrowedFd},
        unix::fs::FileExt as _,
    },
    rc::Rc,
};

/// The number of bytes that are copied at once.
const PIECE: usize = 256 * 1024;

/// A step that appends to a file.
#[derive(Debug)]
pub(in super::super) struct Append {
    pub(in super::super) spot: EntryLocation,
    /// The file that the program left. It begins with the bytes of the existing file.
    pub(in super::super) source: CommitSource,
    /// The digest of the appended bytes.
    pub(super) rest: [u8; 32],
    pub(in super::super) staging: Rc<Staging>,
    pub(in super::super) old: EntryMetadata,
    /// The size, mode and time of the file after the step.
    pub(in super::super) new: InodeState,
}

impl Append {
    /// Copies the bytes to be appended into the staging directory.
    pub(in super::super) fn prepare(&self) -> Result<(), FileError> {
        self.source.copy_tail(&self.staging, self.old.size, self.rest)
    }

    /// Appends the bytes.
    pub(in super::super) fn take(self) -> Result<TakenStep, StepError> {
        let file = File::from(self.spot.open(OFlags::WRONLY | OFlags::APPEND)?);
        if !self.old.is_moved(&EntryMetadata::from(&rustix::fs::fstat(&file)?)) {
            return Err(StepError::Changed);
        }
        let tail = open_aside(self.staging.dir()?, &self.source.aside)?;
        let mut added = 0;
        let done = add(&file, tail, &mut added)
            .and_then(|()| set_mode_and_time(&file, self.new, self.staging.durable()));
        let Self { spot, old, .. } = self;
        let end = old.size + added;
        let appended = TakenStep::Appended { spot, old, end };
        match done {
            Ok(()) => Ok(appended),
            Err(error) => {
                // Remove the part that was written.
                appended.undo()?;
                Err(error.into())
            }
        }
    }
}

/// Opens the file in the staging directory with the bytes to be appended.
fn open_aside(staging: BorrowedFd<'_>, name: &[u8]) -> Result<File, Errno> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    rustix::fs::openat(staging, name, flags, Mode::empty()).map(File::from)
}

/// Appends everything from `tail` to a file, and counts the bytes in `added`.
pub(in super::super) fn add(
    mut file: &File,
    mut tail: impl Read,
    added: &mut u64,
) -> io::Result<()> {
    let mut piece = vec![0; PIECE];
    loop {
        let read = tail.read(&mut piece)?;
        let mut rest = piece.get(..read).unwrap_or_default();
        if rest.is_empty() {
            return Ok(());
        }
        while !rest.is_empty() {
            let written = file.write(rest)?;
            *added += written as u64;
            rest = rest.get(written..).unwrap_or_default();
        }
    }
}

/// Sets the final mode and time of a file, after its new content has reached the disk if it must.
fn set_mode_and_time(file: &File, new: InodeState, durable: Durable) -> io::Result<()> {
    let now = EntryMetadata::from(&rustix::fs::fstat(file)?);
    match durable {
        Durable::No => {}
        Durable::Replaced | Durable::All => file.sync_data()?,
    }
    if now.mode() != new.mode {
        rustix::fs::fchmod(file, Mode::from_raw_mode(new.mode))?;
    }
    // If somebody else appends too, the time is theirs.
    if now.size == new.size {
        rustix::fs::futimens(file, &modified(new.mtime))?;
    }
    Ok(())
}

/// Truncates a file to its earlier size, if it still ends at `end`. Restores its mode and time.
pub(in super::super) fn cut(
    spot: &EntryLocation,
    id: (u64, u64),
    end: u64,
    was: InodeState,
) -> Result<(), Errno> {
    let handle = spot.handle()?;
    let now = EntryMetadata::from(&rustix::fs::fstat(&handle)?);
    if (now.id(), now.size) != (id, end) {
        return Err(Errno::STALE);
    }
    if now.mode() & 0o200 == 0 {
        // Make it writable. Its final mode is set below.
        set_mode(&handle, was.mode | 0o200)?;
    }
    let file = spot.open(OFlags::WRONLY)?;
    let again = EntryMetadata::from(&rustix::fs::fstat(&file)?);
    if (again.id(), again.size) != (id, end) {
        set_mode(&handle, now.mode())?;
        return Err(Errno::STALE);
    }
    rustix::fs::ftruncate(&file, was.size)?;
    rustix::fs::futimens(&file, &modified(was.mtime))?;
    set_mode(&handle, was.mode)
}

/// Returns how far an interrupted append had come.
pub(super) fn standing(
    spot: &EntryLocation,
    aside: (impl AsFd, &[u8]),
    ino: u64,
    (old, new): (&InodeState, &InodeState),
) -> StepProgress {
    let Some(now) = spot.look().ok().flatten().filter(|now| now.ino == ino) else {
        return StepProgress::Foreign;
    };
    if now.size == old.size {
        return StepProgress::Before;
    }
    if now.size < old.size || now.size > new.size {
        return StepProgress::Foreign;
    }
    // A file with the final time has all of it, and perhaps a mode with which it can not be read.
    let whole = (now.size, now.mtime) == (new.size, new.mtime);
    match whole || has_first(spot, aside, old.size, now.size).unwrap_or(false) {
        true => StepProgress::After,
        false => StepProgress::Foreign,
    }
}

/// Returns `true` if a range of a file equals the beginning of the bytes to be appended.
fn has_first(
    spot: &EntryLocation,
    (dir, name): (impl AsFd, &[u8]),
    from: u64,
    to: u64,
) -> io::Result<bool> {
    let (file, tail) = (File::from(spot.open(OFlags::RDONLY)?), open_aside(dir.as_fd(), name)?);
    let (mut one, mut other, mut at) = (vec![0; PIECE], vec![0; PIECE], from);
    while at < to {
        let wanted = usize::try_from(to - at).unwrap_or(PIECE).min(PIECE);
        let (one, other) = (&mut one[..wanted], &mut other[..wanted]);
        file.read_exact_at(one, at)?;
        tail.read_exact_at(other, at - from)?;
        if one != other {
            return Ok(false);
        }
        at += wanted as u64;
    }
    Ok(true)
}
