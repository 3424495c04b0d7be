//! Where what is to be put in place waits, and what it replaces goes: one directory beside both,
//! that nobody else may enter. Room: the cell.
//!
//! It is locked while it is in use. One that is not is what a killed process left, and goes when
//! the next is made.

use super::super::{
    names::{is_ours, with_free_name},
    spot::{Dir, look},
    tree,
};
use rustix::{
    fs::{FileType, FlockOperation, Mode, OFlags},
    io::Errno,
};
use std::{
    cell::RefCell,
    cell::{Cell, OnceCell},
    collections::HashMap,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    rc::Rc,
};

/// How many names are looked at for what was left.
const NAMES: usize = 100_000;

/// The directory, made when it is needed.
#[derive(Debug)]
pub(in super::super) struct Staging {
    base: Rc<Dir>,
    made: OnceCell<(OwnedFd, String)>,
    next: Cell<u64>,
    fate: Cell<Fate>,
    /// Files with several names: where the first is.
    pub(super) links: RefCell<HashMap<(u64, u64), Vec<u8>>>,
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
    pub(super) fn new(base: &Rc<Dir>) -> Self {
        Self {
            base: Rc::clone(base),
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

    /// The directory.
    pub(in super::super) fn dir(&self) -> Result<BorrowedFd<'_>, Errno> {
        if self.made.get().is_none() {
            sweep(&self.base);
            let made = make(&self.base)?;
            self.made.get_or_init(|| made);
        }
        self.made.get().map(|(dir, _)| dir.as_fd()).ok_or(Errno::NOENT)
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

fn open(base: &Rc<Dir>, name: &[u8]) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(base, name, flags, Mode::empty())
}

/// Removes what killed processes left. What can not be removed now is tried again later.
fn sweep(base: &Rc<Dir>) {
    let Ok(top) = open(base, b".") else { return };
    let Ok(names) = tree::entries(&top, NAMES) else { return };
    for name in names.iter().filter(|name| is_ours(name)) {
        let is_directory = look(base, name)
            .is_ok_and(|found| found.is_some_and(|seen| seen.kind() == FileType::Directory));
        let Some(dir) = is_directory.then(|| open(base, name).ok()).flatten() else { continue };
        if rustix::fs::flock(&dir, FlockOperation::NonBlockingLockExclusive).is_ok() {
            tree::remove(base, name).ok();
        }
    }
}
