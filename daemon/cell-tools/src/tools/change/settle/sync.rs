//! Waits for data to reach the disk before a commit takes effect: contents before they get their
//! names, and directories before what they replaced is deleted. Runs in the cell.

use super::{
    super::{spot::EntryLocation, stage::Stage, step::Step},
    found::directory_of,
    staging::Staging,
    whole::each,
};
use crate::tools::{refused, refused_io};
use palisade_plan::{Durable, Path, cell::FileError};
use rustix::{
    fs::{FileType, Mode, OFlags},
    io::Errno,
};
use std::{
    collections::BTreeSet,
    fs::File,
    io,
    os::fd::{AsFd, BorrowedFd},
    rc::Rc,
};

/// Up to so many files are synced one by one; with more, the whole file system is synced once.
const ONE_BY_ONE: usize = 16;

/// The data that must reach the disk for one commit.
#[derive(Debug)]
pub(super) struct SyncSet {
    staging: Rc<Staging>,
    /// The directories to sync, relative to the workspace; empty if nothing is synced.
    directories: BTreeSet<Vec<u8>>,
}

impl SyncSet {
    /// Syncs the contents.
    pub(super) fn of(stage: &Stage<'_>, staging: &Rc<Staging>) -> Result<Self, FileError> {
        let mut syncing = Self { staging: Rc::clone(staging), directories: BTreeSet::new() };
        let mut tops = Vec::new();
        for step in stage.steps.iter().filter(|step| staging.has(step)) {
            if counts(step, staging.durable()) {
                syncing.directories.extend(spots(step).map(|spot| spot.way.clone()));
                if let Step::Place { source, .. } = step {
                    tops.push((source.aside.as_slice(), &source.path));
                } else if let Step::Append(append) = step {
                    tops.push((append.source.aside.as_slice(), &append.source.path));
                }
            }
        }
        syncing.contents(&tops)?;
        Ok(syncing)
    }

    fn contents(&self, tops: &[(&[u8], &Path)]) -> Result<(), FileError> {
        let Some((_, first)) = tops.first() else { return Ok(()) };
        let dir = self.staging.dir().map_err(|e| refused("sync", first, e))?;
        let mut files = Vec::new();
        for (name, path) in tops {
            each(dir, name, path, None, |part| {
                if part.seen.kind() == FileType::RegularFile && files.len() <= ONE_BY_ONE {
                    let way = [name, b"/".as_slice(), part.way].concat();
                    files.push(if part.way.is_empty() { name.to_vec() } else { way });
                }
                Ok::<_, FileError>(())
            })?;
            if files.len() > ONE_BY_ONE {
                return rustix::fs::syncfs(dir).map_err(|e| refused("sync", path, e));
            }
        }
        files.iter().try_for_each(|name| sync(dir, name)).map_err(|e| refused("sync", first, e))
    }

    /// Syncs the journal.
    pub(super) fn file(&self, file: &File) -> io::Result<()> {
        if self.directories.is_empty() { Ok(()) } else { file.sync_all() }
    }

    /// Syncs the names in the staging directory.
    pub(super) fn staging(&self, dir: BorrowedFd<'_>) -> io::Result<()> {
        if self.directories.is_empty() { Ok(()) } else { Ok(rustix::fs::fsync(dir)?) }
    }

    /// Syncs the names in the workspace.
    pub(super) fn directories(&self) -> Result<(), FileError> {
        let base = self.staging.base();
        let fail = |error: &io::Error| refused_io("sync", &Path(base.real.clone()), error);
        if self.directories.len() > ONE_BY_ONE {
            return rustix::fs::syncfs(base).map_err(|e| fail(&e.into()));
        }
        for way in &self.directories {
            match directory_of(base, way).and_then(rustix::fs::fsync) {
                // A directory that may be written but not read can not be synced.
                Ok(()) | Err(Errno::ACCESS) => {}
                Err(error) => return Err(fail(&error.into())),
            }
        }
        Ok(())
    }
}

/// Returns `true` if a step must reach the disk.
fn counts(step: &Step, durable: Durable) -> bool {
    match durable {
        Durable::No => false,
        Durable::All => true,
        Durable::Replaced => {
            matches!(step, Step::Place { old: Some(_), .. } | Step::Append(_))
        }
    }
}

/// Returns the spots whose directories a step changes.
pub(super) fn spots(step: &Step) -> impl Iterator<Item = &EntryLocation> {
    let (one, other) = match step {
        Step::Move { from, to, .. } | Step::MoveOver { from, to, .. } => (from, Some(to)),
        Step::MakeDir { spot, .. }
        | Step::Link { spot, .. }
        | Step::Put { spot, .. }
        | Step::Replace { spot, .. }
        | Step::Remove { spot, .. }
        | Step::Mode { spot, .. }
        | Step::Place { spot, .. }
        | Step::Take { spot, .. }
        | Step::Touch { spot, .. } => (spot, None),
        Step::Append(append) => (&append.spot, None),
        Step::Cut(cut) => (&cut.spot, None),
    };
    std::iter::once(one).chain(other)
}

fn sync(dir: impl AsFd, name: &[u8]) -> Result<(), Errno> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    match rustix::fs::openat(&dir, name, flags, Mode::empty()) {
        // Nobody may read it, not even its owner, so sync the file system.
        Err(Errno::ACCESS) => rustix::fs::syncfs(dir),
        opened => rustix::fs::fsync(opened?),
    }
}
