//! A layer of marks that say of each hidden name that it is not there. It lies between the workspace
//! and what a program writes, so that whatever comes to have such a name in the workspace is not
//! seen either. Room: the cell, while it has privilege.

use crate::{
    failure::StepFailure,
    hidden::{self, kind_of},
    view::View,
};
use palisade_plan::names::Kind;
use rustix::{
    fs::{AtFlags, FileType, Mode, OFlags, Timestamps},
    io::Errno,
};
use std::{collections::BTreeSet, os::fd::OwnedFd};

/// What is hidden, as it was found for this program; none if nothing ever is.
pub(crate) fn hits(
    view: &View,
    scanned: Option<&OwnedFd>,
) -> Result<Option<Vec<Vec<u8>>>, StepFailure> {
    match (view.veil.hidden.is_empty(), scanned) {
        (true, _) => Ok(None),
        (false, Some(scanned)) => {
            let known = hidden::known(scanned);
            known.map(Some).map_err(StepFailure::kernel("read what is hidden"))
        }
        (false, None) => {
            Err(StepFailure::NotInForce("names are hidden, and nobody looked for them".into()))
        }
    }
}

/// Makes the marks in an empty directory. As the session's identity: it makes nothing that the
/// session could not.
pub(crate) fn make(
    marks: &OwnedFd,
    workspace: &OwnedFd,
    view: &View,
    hits: &[Vec<u8>],
) -> Result<(), StepFailure> {
    let mut directories = BTreeSet::from([Vec::new()]);
    for hit in hits {
        let slashes = hit.iter().enumerate().filter(|(_, byte)| **byte == b'/');
        directories.extend(slashes.filter_map(|(at, _)| Some(hit.get(..at)?.to_vec())));
    }
    let fail = || StepFailure::kernel::<Errno>("mark what is hidden");
    // Each comes before those in it.
    for directory in directories.iter().filter(|directory| !directory.is_empty()) {
        rustix::fs::mkdirat(marks, &directory[..], Mode::RWXU).map_err(fail())?;
    }
    for hit in hits {
        mark(marks, hit).map_err(fail())?;
    }
    for directory in &directories {
        forestall(marks, workspace, view, directory).map_err(fail())?;
    }
    directories.iter().rev().try_for_each(|one| resemble(marks, workspace, one).map_err(fail()))
}

fn mark(marks: &OwnedFd, path: &[u8]) -> Result<(), Errno> {
    match rustix::fs::mknodat(marks, path, FileType::CharacterDevice, Mode::empty(), 0) {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Marks in a directory the names that are always hidden, whether they are there or not yet.
fn forestall(
    marks: &OwnedFd,
    workspace: &OwnedFd,
    view: &View,
    directory: &[u8],
) -> Result<(), Errno> {
    let hidden = &view.veil.hidden;
    for name in hidden.literals() {
        let path = match directory {
            [] => name.to_vec(),
            directory => [directory, b"/", name].concat(),
        };
        let there = match rustix::fs::statat(workspace, &path[..], AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => kind_of(FileType::from_raw_mode(stat.st_mode)),
            Err(_) => Kind::Either,
        };
        if hidden.names(&path, there).is_some() {
            mark(marks, &path)?;
        }
    }
    Ok(())
}

/// Gives a directory of marks the mode and time of what it lies over: these are what is seen.
fn resemble(marks: &OwnedFd, workspace: &OwnedFd, directory: &[u8]) -> Result<(), Errno> {
    let here: &[u8] = if directory.is_empty() { b"." } else { directory };
    let stat = match rustix::fs::statat(workspace, here, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => stat,
        Err(Errno::NOENT | Errno::NOTDIR | Errno::ACCESS) => return Ok(()),
        Err(error) => return Err(error),
    };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let made = rustix::fs::openat(marks, here, flags, Mode::empty())?;
    rustix::fs::fchmod(&made, Mode::from_raw_mode(stat.st_mode & 0o1777))?;
    let time =
        rustix::fs::Timespec { tv_sec: stat.st_mtime, tv_nsec: nanoseconds(stat.st_mtime_nsec) };
    rustix::fs::futimens(&made, &Timestamps { last_access: time, last_modification: time })
}

fn nanoseconds<N: TryInto<i64>>(value: N) -> i64 {
    value.try_into().unwrap_or(0)
}
