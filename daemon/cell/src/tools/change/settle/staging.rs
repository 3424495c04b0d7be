//! Where what is to be put in place waits, and what it replaces goes: one directory beside both,
//! that nobody else may enter. Room: the cell.
//!
//! It is locked while it is in use. One that is not is what a killed process left: with a journal, of
//! a commit that was cut off and is to be taken back before there is another; without, nothing of
//! worth, which goes when the next is made.

use super::super::{
    names::{is_ours, with_free_name},
    spot::{Dir, look},
    tree,
};
use super::copy::Copied;
use crate::tools::{failure, refused, shown};
use palisade_plan::{
    Durable, Path,
    cell::{FileError, FileErrorKind},
};
use rustix::{
    fs::{FlockOperation, Mode, OFlags},
    io::Errno,
};
use std::{
    cell::RefCell,
    cell::{Cell, OnceCell},
    collections::HashMap,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    rc::Rc,
};

/// A journal's name in the directory in which a commit works.
pub(super) const JOURNAL: &str = "journal";

/// How many names are looked at for what was left.
const NAMES: usize = 100_000;

/// The directory, made when it is needed.
#[derive(Debug)]
pub(in super::super) struct Staging {
    base: Rc<Dir>,
    durable: Durable,
    made: OnceCell<(OwnedFd, String)>,
    next: Cell<u64>,
    fate: Cell<Fate>,
    /// Files with several names: where the first is.
    pub(super) links: RefCell<HashMap<(u64, u64), Copied>>,
}

/// What becomes of the directory in the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Goes,
    /// Something in it could not be put back where it was.
    Stays,
}

impl Staging {
    /// One in a directory, that is not made yet.
    pub(super) fn new(base: &Rc<Dir>, durable: Durable) -> Self {
        Self {
            base: Rc::clone(base),
            durable,
            made: OnceCell::new(),
            next: Cell::new(0),
            fate: Cell::new(Fate::Goes),
            links: RefCell::new(HashMap::new()),
        }
    }

    /// A name that nothing has yet.
    pub(in super::super) fn name(&self) -> Vec<u8> {
        let number = self.next.get();
        self.next.set(number + 1);
        number.to_string().into_bytes()
    }

    /// Makes the directory.
    pub(in super::super) fn begin(&self) -> Result<(), FileError> {
        let path = Path(self.base.real.clone());
        if self.made.get().is_none() {
            if sweep(&self.base) == Left::CutOff {
                let message = format!(
                    "a commit in {} was cut off and is not taken back yet, so nothing was done: \
                     try again",
                    shown(&path)
                );
                return Err(failure(FileErrorKind::Conflict, Some(Errno::STALE), message));
            }
            let made = make(&self.base).map_err(|e| refused("write in", &path, e))?;
            self.made.get_or_init(|| made);
        }
        Ok(())
    }

    /// The directory.
    pub(in super::super) fn dir(&self) -> Result<BorrowedFd<'_>, Errno> {
        self.made.get().map(|(dir, _)| dir.as_fd()).ok_or(Errno::NOENT)
    }

    /// The directory that it is in.
    pub(super) fn base(&self) -> &Rc<Dir> {
        &self.base
    }

    /// What is on the disk before it counts.
    pub(super) const fn durable(&self) -> Durable {
        self.durable
    }

    /// Leaves it where it is, for what could not be put back.
    pub(in super::super) fn keep(&self) {
        self.fate.set(Fate::Stays);
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        if let (Some((_, name)), Fate::Goes) = (self.made.take(), self.fate.get()) {
            // What can not be removed has a name that says what it is.
            tree::remove(&self.base, name.as_bytes()).ok();
        }
    }
}

fn make(base: &Rc<Dir>) -> Result<(OwnedFd, String), Errno> {
    let ((), name) = with_free_name(|name| rustix::fs::mkdirat(base, name, Mode::RWXU))?;
    let dir = open(base, name.as_bytes())?;
    rustix::fs::flock(&dir, FlockOperation::NonBlockingLockExclusive)?;
    Ok((dir, name))
}

/// Whether something of worth was left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Left {
    Nothing,
    CutOff,
}

/// Removes what killed processes left. What can not be removed now is tried again later.
fn sweep(base: &Rc<Dir>) -> Left {
    let Ok(names) = open(base, b".").and_then(|top| tree::entries(&top, NAMES)) else {
        return Left::Nothing;
    };
    let mut left = Left::Nothing;
    for name in names.iter().filter(|name| is_ours(name)) {
        let Ok(dir) = open(base, name) else { continue };
        if rustix::fs::flock(&dir, FlockOperation::NonBlockingLockExclusive).is_err() {
            continue;
        }
        if is_in(&dir) {
            left = Left::CutOff;
        } else {
            tree::remove(base, name).ok();
        }
    }
    left
}

/// Opens a directory in another, whatever it is called.
pub(super) fn open(base: &Dir, name: &[u8]) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(base, name, flags, Mode::empty())
}

/// Whether a directory has a journal.
pub(super) fn is_in(dir: impl AsFd) -> bool {
    look(dir, JOURNAL.as_bytes()).is_ok_and(|found| found.is_some())
}
