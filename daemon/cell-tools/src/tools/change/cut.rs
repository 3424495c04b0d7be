//! Truncates a file by what a call appended to it, and leaves it the same file. Runs in the cell.

use super::{
    act::{StepError, modified},
    done::TakenStep,
    fresh::TemporaryFile,
    settle::append::{add, cut},
    spot::EntryLocation,
};
use palisade_plan::change::InodeState;
use palisade_workspace::{EntryMetadata, tree::set_mode};
use rustix::{fs::OFlags, io::Errno};
use std::fs::File;

/// A step that truncates a file.
#[derive(Debug)]
pub(super) struct Truncation {
    pub(super) spot: EntryLocation,
    /// The file as it is now.
    pub(super) old: EntryMetadata,
    /// The file as it is to be again.
    pub(super) was: InodeState,
    /// The bytes that are cut off, if they can be read.
    pub(super) tail: Option<TemporaryFile>,
}

impl Truncation {
    /// Truncates the file.
    pub(super) fn take(self) -> Result<TakenStep, StepError> {
        let now = self.spot.look()?.ok_or(StepError::Changed)?;
        if !self.old.is_moved(&now) {
            return Err(StepError::Changed);
        }
        match cut(&self.spot, self.old.id(), self.old.size, self.was) {
            Err(Errno::STALE) => Err(StepError::Changed),
            done => Ok(done.map(|()| TakenStep::Cut(Box::new(self)))?),
        }
    }

    /// Appends the bytes again.
    pub(super) fn undo(self) -> Result<(), Errno> {
        let tail = self.tail.ok_or(Errno::ACCESS)?;
        let tail = tail.read_again().map_err(|e| Errno::from_io_error(&e).unwrap_or(Errno::IO))?;
        let handle = self.spot.handle()?;
        set_mode(&handle, self.old.mode() | 0o200)?;
        let file = File::from(self.spot.open(OFlags::WRONLY | OFlags::APPEND)?);
        let now = EntryMetadata::from(&rustix::fs::fstat(&file)?);
        if (now.id(), now.size) != (self.old.id(), self.was.size) {
            return Err(Errno::STALE);
        }
        add(&file, tail, &mut 0).map_err(|e| Errno::from_io_error(&e).unwrap_or(Errno::IO))?;
        rustix::fs::futimens(&file, &modified(self.old.mtime))?;
        set_mode(&handle, self.old.mode())
    }
}
