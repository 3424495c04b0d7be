//! Adds to a file what a program added to it in its transaction, and leaves it the same file: whoever
//! has it open goes on with it. Room: the cell.
//!
//! What is added is written at whatever is the end by then, so that nothing that somebody else adds
//! at the same moment is written over. It is taken back only if nothing else was added since.

use super::{
    super::{
        act::{StepError, modified, set_mode},
        done::Done,
        seen::Seen,
        spot::Spot,
    },
    copy::Source,
    resolve::Standing,
    staging::Staging,
};
use palisade_plan::{Durable, cell::FileError, change::Past};
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

/// How much is copied at once.
const PIECE: usize = 256 * 1024;

/// More at the end of a file.
#[derive(Debug)]
pub(in super::super) struct Append {
    pub(in super::super) spot: Spot,
    /// What the program left: its first bytes are the file's own.
    pub(in super::super) source: Source,
    /// The digest of what is added.
    pub(super) rest: [u8; 32],
    pub(in super::super) staging: Rc<Staging>,
    pub(in super::super) old: Seen,
    /// What it is then.
    pub(in super::super) new: Past,
}

impl Append {
    /// Has what is to be added beside the workspace's files.
    pub(in super::super) fn prepare(&self) -> Result<(), FileError> {
        self.source.copy_tail(&self.staging, self.old.size, self.rest)
    }

    /// Adds it.
    pub(in super::super) fn take(self) -> Result<Done, StepError> {
        let file = File::from(self.spot.open(OFlags::WRONLY | OFlags::APPEND)?);
        if !self.old.is_moved(&Seen::from(&rustix::fs::fstat(&file)?)) {
            return Err(StepError::Changed);
        }
        let tail = open_aside(self.staging.dir()?, &self.source.aside)?;
        let mut added = 0;
        let done = add(&file, tail, &mut added)
            .and_then(|()| dress(&file, self.new, self.staging.durable()));
        let Self { spot, old, .. } = self;
        let end = old.size + added;
        let appended = Done::Appended { spot, old, end };
        match done {
            Ok(()) => Ok(appended),
            Err(error) => {
                // What is there of it goes again.
                appended.undo()?;
                Err(error.into())
            }
        }
    }
}

/// What is to be added to a file.
fn open_aside(staging: BorrowedFd<'_>, name: &[u8]) -> Result<File, Errno> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    rustix::fs::openat(staging, name, flags, Mode::empty()).map(File::from)
}

/// Adds all of something to a file, and counts.
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

/// The mode and the time that a file is to have; what it has more is on the disk by then.
fn dress(file: &File, new: Past, durable: Durable) -> io::Result<()> {
    let now = Seen::from(&rustix::fs::fstat(file)?);
    match durable {
        Durable::No => {}
        Durable::Replaced | Durable::All => file.sync_data()?,
    }
    if now.mode() != new.mode {
        rustix::fs::fchmod(file, Mode::from_raw_mode(new.mode))?;
    }
    // If somebody else adds to it, the time is theirs.
    if now.size == new.size {
        rustix::fs::futimens(file, &modified(new.mtime))?;
    }
    Ok(())
}

/// Cuts a file to what it was, if it ends where it was left.
pub(in super::super) fn cut(spot: &Spot, id: (u64, u64), end: u64, was: Past) -> Result<(), Errno> {
    let handle = spot.handle()?;
    let now = Seen::from(&rustix::fs::fstat(&handle)?);
    if (now.id(), now.size) != (id, end) {
        return Err(Errno::STALE);
    }
    if now.mode() & 0o200 == 0 {
        // Its mode is another in the end.
        set_mode(&handle, was.mode | 0o200)?;
    }
    let file = spot.open(OFlags::WRONLY)?;
    let again = Seen::from(&rustix::fs::fstat(&file)?);
    if (again.id(), again.size) != (id, end) {
        set_mode(&handle, now.mode())?;
        return Err(Errno::STALE);
    }
    rustix::fs::ftruncate(&file, was.size)?;
    rustix::fs::futimens(&file, &modified(was.mtime))?;
    set_mode(&handle, was.mode)
}

/// How far adding to a file had come that was cut off.
pub(super) fn standing(
    spot: &Spot,
    aside: (impl AsFd, &[u8]),
    ino: u64,
    (old, new): (&Past, &Past),
) -> Standing {
    let Some(now) = spot.look().ok().flatten().filter(|now| now.ino == ino) else {
        return Standing::Foreign;
    };
    if now.size == old.size {
        return Standing::Before;
    }
    if now.size < old.size || now.size > new.size {
        return Standing::Foreign;
    }
    // What has its time has all of it, and perhaps a mode with which it can not be read.
    let whole = (now.size, now.mtime) == (new.size, new.mtime);
    match whole || has_first(spot, aside, old.size, now.size).unwrap_or(false) {
        true => Standing::After,
        false => Standing::Foreign,
    }
}

/// Whether what a file has from one length to another is the first of what was to be added.
fn has_first(spot: &Spot, (dir, name): (impl AsFd, &[u8]), from: u64, to: u64) -> io::Result<bool> {
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
