//! Makes programs the first victims of the OOM killer, before the processes that serve their
//! session. Otherwise memory that no process maps would be blamed on the largest process. Runs in
//! the cell.

use rustix::fs::{Mode, OFlags};
use std::{
    io,
    os::fd::{AsRawFd as _, OwnedFd, RawFd},
};

/// The score that the kernel always kills first.
const FIRST: &[u8] = b"1000";

/// This process's own OOM score, which a new process inherits.
#[derive(Debug)]
pub struct OomScore {
    score: OwnedFd,
    own: Vec<u8>,
}

impl OomScore {
    /// Opens and reads the score. Must be called before the session's own `/proc` is mounted, which
    /// is read-only.
    pub(crate) fn new() -> io::Result<Self> {
        let flags = OFlags::RDWR | OFlags::CLOEXEC;
        let score = rustix::fs::open("/proc/self/oom_score_adj", flags, Mode::empty())?;
        let mut own = vec![0; 16];
        let length = rustix::io::read(&score, &mut own)?;
        own.truncate(length);
        Ok(Self { score, own })
    }

    pub(crate) fn descriptor(&self) -> RawFd {
        self.score.as_raw_fd()
    }

    /// Starts a program with the score to be killed first. This process restores its own score at
    /// once. That needs no privilege, and the program can not do the same without a writable
    /// `/proc`.
    ///
    /// # Errors
    /// The error of `start`, or the kernel's.
    pub fn start<T>(&self, start: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        rustix::io::write(&self.score, FIRST)?;
        let started = start();
        rustix::io::write(&self.score, &self.own)?;
        started
    }
}
