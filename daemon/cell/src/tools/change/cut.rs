//! Takes away again what a call added to the end of a file, and leaves it the same file. Room: the cell.

use super::{
    act::{StepError, modified, set_mode},
    done::Done,
    fresh::Fresh,
    seen::Seen,
    settle::append::{add, cut},
    spot::Spot,
};
use palisade_plan::change::Past;
use rustix::{fs::OFlags, io::Errno};
use std::fs::File;

/// Less at the end of a file.
#[derive(Debug)]
pub(super) struct Cut {
    pub(super) spot: Spot,
    /// What it is now.
    pub(super) old: Seen,
    /// What it was once.
    pub(super) was: Past,
    /// What is taken away, if it can be read.
    pub(super) tail: Option<Fresh>,
}

impl Cut {
    /// Takes it away.
    pub(super) fn take(self) -> Result<Done, StepError> {
        let now = self.spot.look()?.ok_or(StepError::Changed)?;
        if !self.old.is_moved(&now) {
            return Err(StepError::Changed);
        }
        match cut(&self.spot, self.old.id(), self.old.size, self.was) {
            Err(Errno::STALE) => Err(StepError::Changed),
            done => Ok(done.map(|()| Done::Cut(Box::new(self)))?),
        }
    }

    /// Adds it again.
    pub(super) fn undo(self) -> Result<(), Errno> {
        let tail = self.tail.ok_or(Errno::ACCESS)?;
        let tail = tail.read_again().map_err(|e| Errno::from_io_error(&e).unwrap_or(Errno::IO))?;
        let handle = self.spot.handle()?;
        set_mode(&handle, self.old.mode() | 0o200)?;
        let file = File::from(self.spot.open(OFlags::WRONLY | OFlags::APPEND)?);
        let now = Seen::from(&rustix::fs::fstat(&file)?);
        if (now.id(), now.size) != (self.old.id(), self.was.size) {
            return Err(Errno::STALE);
        }
        add(&file, tail, &mut 0).map_err(|e| Errno::from_io_error(&e).unwrap_or(Errno::IO))?;
        rustix::fs::futimens(&file, &modified(self.old.mtime))?;
        set_mode(&handle, self.old.mode())
    }
}
