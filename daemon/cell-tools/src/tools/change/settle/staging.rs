//! The staging directory of a commit. New entries wait in it, and replaced ones go there. It is in
//! the workspace, and nobody else may enter it. Runs in the cell.
//!
//! It is locked while it is in use. One that is not locked was left by a killed process. With a
//! journal, it belongs to an interrupted commit, which must be rolled back before another one.
//! Without, it holds nothing of value, and is deleted when the next one is made.

use super::{
    super::{
        names::{is_ours, with_free_name},
        spot::Dir,
        step::Step,
        tree,
    },
    copy::CopiedFile,
    sync::spots,
};
use crate::tools::{failure, refused, shown};
use palisade_plan::{
    Durable, Path,
    cell::{FileError, FileErrorKind},
};
use palisade_workspace::look;
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

/// The name of a journal in the staging directory.
pub(super) const JOURNAL: &str = "journal";

/// The number of names that are searched for staging directories that were left.
const NAMES: usize = 100_000;

/// The staging directory, made when it is needed.
#[derive(Debug)]
pub(in super::super) struct Staging {
    base: Rc<Dir>,
    durable: Durable,
    made: OnceCell<(OwnedFd, String)>,
    next: Cell<u64>,
    fate: Cell<Fate>,
    /// Files with several names: the first copy of each.
    pub(super) links: RefCell<HashMap<(u64, u64), CopiedFile>>,
}

/// The fate of the directory when the commit is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Goes,
    /// It stays, because something in it could not be put back.
    Stays,
    /// It was deleted.
    Gone,
}

impl Staging {
    /// Prepares a staging directory in `base`, without making it yet.
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

    /// Returns `true` if a step changes the directory that this belongs to.
    pub(in super::super) fn has(&self, step: &Step) -> bool {
        spots(step).any(|spot| Rc::ptr_eq(&spot.base, &self.base))
    }

    /// Returns a name that is not used yet.
    pub(in super::super) fn name(&self) -> Vec<u8> {
        let number = self.next.get();
        self.next.set(number + 1);
        number.to_string().into_bytes()
    }

    /// Makes the directory.
    pub(in super::super) fn begin(&self) -> Result<(), FileError> {
        let path = Path(self.base.real.clone());
        if self.made.get().is_none() {
            if sweep(&self.base) == SweepResult::CutOff {
                let message = format!(
                    "a commit in {} was cut off and is not rolled back yet, so nothing was done: \
                     try again",
                    shown(&path)
                );
                return Err(failure(FileErrorKind::InterruptedCommit, Some(Errno::STALE), message));
            }
            let made = make(&self.base).map_err(|e| refused("write in", &path, e))?;
            self.made.get_or_init(|| made);
        }
        Ok(())
    }

    /// Returns the directory.
    pub(in super::super) fn dir(&self) -> Result<BorrowedFd<'_>, Errno> {
        self.made.get().map(|(dir, _)| dir.as_fd()).ok_or(Errno::NOENT)
    }

    /// Returns the directory that it is in.
    pub(super) fn base(&self) -> &Rc<Dir> {
        &self.base
    }

    /// Returns which writes must reach the disk before the commit takes effect.
    pub(super) const fn durable(&self) -> Durable {
        self.durable
    }

    /// Keeps the directory, because something in it could not be put back.
    pub(in super::super) fn keep(&self) {
        self.fate.set(Fate::Stays);
    }

    /// Deletes the directory with everything in it, unless it is to be kept.
    pub(in super::super) fn remove(&self) {
        if let (Some((_, name)), Fate::Goes) = (self.made.get(), self.fate.get()) {
            self.fate.set(Fate::Gone);
            // If it can not be deleted, its name says what it is.
            tree::remove(&self.base, name.as_bytes()).ok();
        }
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        self.remove();
    }
}

fn make(base: &Rc<Dir>) -> Result<(OwnedFd, String), Errno> {
    let ((), name) = with_free_name(|name| rustix::fs::mkdirat(base, name, Mode::RWXU))?;
    let dir = open(base, name.as_bytes())?;
    rustix::fs::flock(&dir, FlockOperation::NonBlockingLockExclusive)?;
    Ok((dir, name))
}

/// The result of a search for interrupted commits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SweepResult {
    Nothing,
    CutOff,
}

/// Deletes what killed processes left. What can not be deleted now is tried again later.
fn sweep(base: &Rc<Dir>) -> SweepResult {
    let Ok(names) = open(base, b".").and_then(|top| tree::entries(&top, NAMES)) else {
        return SweepResult::Nothing;
    };
    let mut left = SweepResult::Nothing;
    for name in names.iter().filter(|name| is_ours(name)) {
        let Ok(dir) = open(base, name) else { continue };
        if rustix::fs::flock(&dir, FlockOperation::NonBlockingLockExclusive).is_err() {
            continue;
        }
        if is_in(&dir) {
            left = SweepResult::CutOff;
        } else {
            tree::remove(base, name).ok();
        }
    }
    left
}

/// Opens a subdirectory.
pub(super) fn open(base: &Dir, name: &[u8]) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(base, name, flags, Mode::empty())
}

/// Returns `true` if a directory contains a journal.
pub(super) fn is_in(dir: impl AsFd) -> bool {
    look(dir, JOURNAL.as_bytes()).is_ok_and(|found| found.is_some())
}
