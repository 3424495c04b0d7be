//! Makes programs the first to be killed for want of memory, before the processes that hold their
//! session: memory that no process maps would else be blamed on whoever is largest. Room: the cell.

use rustix::fs::{Mode, OFlags};
use std::{
    io,
    os::fd::{AsRawFd as _, OwnedFd, RawFd},
};

/// The score that is always chosen first.
const FIRST: &[u8] = b"1000";

/// This process's own score, which a new process takes over.
#[derive(Debug)]
pub(crate) struct Victim {
    score: OwnedFd,
    own: Vec<u8>,
}

impl Victim {
    /// To be called before the session's own `/proc`, which is read-only.
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

    /// Starts a program that will go first. This process takes its own score back at once: it
    /// needs no privilege for that, and the program, without a `/proc` to write to, can not.
    pub(crate) fn start<T>(&self, start: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        rustix::io::write(&self.score, FIRST)?;
        let started = start();
        rustix::io::write(&self.score, &self.own)?;
        started
    }
}
