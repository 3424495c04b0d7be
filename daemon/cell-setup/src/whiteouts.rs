//! Makes a layer of whiteouts for the hidden names. It lies between the workspace and what a
//! program writes. A file that gets such a name in the workspace later stays hidden too. Runs in
//! the cell, while it has privilege.

use crate::{failure::StepFailure, overlay::DirectoryMaker};
use palisade_plan::{codec, names::Kind};
use palisade_workspace::{View, kind_of, memory_file};
use rustix::{
    fs::{AtFlags, FileType, Mode, OFlags},
    io::Errno,
};
use std::{collections::BTreeSet, io, os::fd::OwnedFd};

/// Returns the hidden names that were found for this program; `None` if the profile hides nothing.
pub(crate) fn hits(
    view: &View,
    scanned: Option<&OwnedFd>,
) -> Result<Option<Vec<Vec<u8>>>, StepFailure> {
    match (view.matchers.hidden.is_empty(), scanned) {
        (true, _) => Ok(None),
        (false, Some(scanned)) => {
            let known = read_hits(scanned);
            let known = known.map_err(StepFailure::kernel("read what is hidden"))?;
            match known.iter().find(|hit| !is_plain(hit)) {
                None => Ok(Some(known)),
                Some(_) => Err(StepFailure::Setup("a hidden name is no path below".into())),
            }
        }
        (false, None) => {
            Err(StepFailure::Setup("names are hidden, and nobody looked for them".into()))
        }
    }
}

/// Reads the hidden names from the memory file of a scan.
fn read_hits(scanned: &OwnedFd) -> io::Result<Vec<Vec<u8>>> {
    codec::decode(&memory_file::read(scanned)?).map_err(io::Error::other)
}

/// Returns `true` if a relative path has no empty, `.` or `..` component.
fn is_plain(path: &[u8]) -> bool {
    path.split(|byte| *byte == b'/').all(|name| !matches!(name, b"" | b"." | b".."))
}

/// Makes the directory of whiteouts in a layer.
pub(crate) fn make(
    maker: &mut DirectoryMaker,
    layer: &OwnedFd,
    name: &str,
    (workspace, view): (&OwnedFd, &View),
    hits: &[Vec<u8>],
) -> Result<(), StepFailure> {
    let mut directories = BTreeSet::from([Vec::new()]);
    for hit in hits {
        let slashes = hit.iter().enumerate().filter(|(_, byte)| **byte == b'/');
        directories.extend(slashes.filter_map(|(at, _)| Some(hit.get(..at)?.to_vec())));
    }
    let fail = || StepFailure::kernel::<Errno>("mark what is hidden");
    let at = |path: &[u8]| match path {
        [] => name.as_bytes().to_vec(),
        path => [name.as_bytes(), b"/", path].concat(),
    };
    let mut made = Vec::with_capacity(directories.len());
    // Each directory comes before those in it.
    for directory in directories {
        let likeness = maker.look(workspace, &directory)?;
        maker.make(layer, &at(&directory), likeness.as_ref())?;
        made.push((directory, likeness));
    }
    // The workspace is examined with the session's rights.
    maker.become_session()?;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let whiteouts = rustix::fs::openat(layer, name, flags, Mode::empty()).map_err(fail())?;
    for hit in hits {
        make_whiteout(&whiteouts, hit).map_err(fail())?;
    }
    for (directory, _) in &made {
        make_permanent(&whiteouts, workspace, view, directory).map_err(fail())?;
    }
    made.iter().rev().try_for_each(|(path, like)| maker.finish(layer, &at(path), like.as_ref()))
}

fn make_whiteout(whiteouts: &OwnedFd, path: &[u8]) -> Result<(), Errno> {
    match rustix::fs::mknodat(whiteouts, path, FileType::CharacterDevice, Mode::empty(), 0) {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Makes whiteouts in a directory for the names that are always hidden, whether or not they exist
/// yet.
fn make_permanent(
    whiteouts: &OwnedFd,
    workspace: &OwnedFd,
    view: &View,
    directory: &[u8],
) -> Result<(), Errno> {
    let hidden = &view.matchers.hidden;
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
            make_whiteout(whiteouts, &path)?;
        }
    }
    Ok(())
}
