//! Finds the directories of noise, such as caches and build output, that a watching program may
//! write. Runs in the cell.

use super::{change::tracked_below, failure, open_with, shown};
use palisade_plan::{
    Path,
    cell::{FileError, FileErrorKind, FileReply, MOST_NOISE},
    names::{Kind, Matcher, NameList},
};
use palisade_workspace::View;
use rustix::{
    fs::{CWD, FileType, OFlags, RawDir, ResolveFlags},
    io::Errno,
};
use std::{collections::VecDeque, os::unix::ffi::OsStrExt as _};

/// The maximum number of entries that are examined.
const MOST_ENTRIES: usize = 50_000;

/// The maximum depth at which such a directory is looked for.
const DEEPEST: usize = 6;

const BUFFER: usize = 32 * 1024;

/// Finds the directories. Those that can not be read are left out, like those that contain anything
/// that git tracks.
pub(crate) fn noise(patterns: &[String], view: &View) -> Result<FileReply, FileError> {
    let invalid = |why: String| failure(FileErrorKind::Invalid, None, why);
    let matcher = Matcher::new(&[NameList(patterns.to_vec())]);
    let matcher = matcher.map_err(|error| invalid(error.to_string()))?;
    let top = Path(view.workspace.as_os_str().as_bytes().to_vec());
    let base = open_with(CWD, &top.0, OFlags::PATH | OFlags::DIRECTORY, ResolveFlags::NO_SYMLINKS)
        .map_err(|error| invalid(format!("{}: {error}", shown(&top))))?;
    let (mut found, mut examined) = (Vec::new(), 0);
    // The nearest directories first.
    let mut waiting = VecDeque::from([(Vec::new(), 0)]);
    while let Some((way, depth)) = waiting.pop_front() {
        let Ok(names) = directories(&base, &way, &mut examined) else { continue };
        for name in names {
            let path = if way.is_empty() { name } else { [&way, b"/".as_slice(), &name].concat() };
            let is_noise = matcher.names(&path, Kind::Directory).is_some();
            if is_noise && std::str::from_utf8(&path).is_ok() {
                found.push(path);
            } else if depth < DEEPEST && !path.ends_with(b".git") {
                waiting.push_back((path, depth + 1));
            }
        }
        if examined > MOST_ENTRIES {
            break;
        }
    }
    found
        .retain(|way| !view.hides(&Path([&top.0, b"/".as_slice(), way].concat()), Kind::Directory));
    let tracked = tracked_below(view, &found);
    let found = found.into_iter().zip(tracked).filter(|(_, is_tracked)| !is_tracked);
    Ok(FileReply::Noise(found.map(|(way, _)| Path(way)).take(MOST_NOISE).collect()))
}

/// Returns the names of the directories in a directory.
fn directories(
    base: impl std::os::fd::AsFd,
    way: &[u8],
    examined: &mut usize,
) -> Result<Vec<Vec<u8>>, Errno> {
    let way = if way.is_empty() { b".".as_slice() } else { way };
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    let dir = open_with(base, way, OFlags::RDONLY | OFlags::DIRECTORY, resolve)?;
    let mut names = Vec::new();
    let mut buffer = Vec::with_capacity(BUFFER);
    let mut entries = RawDir::new(&dir, buffer.spare_capacity_mut());
    while let Some(entry) = entries.next() {
        let entry = entry?;
        *examined += 1;
        let name = entry.file_name().to_bytes();
        if entry.file_type() == FileType::Directory && !matches!(name, b"." | b"..") {
            names.push(name.to_vec());
        }
    }
    names.sort_unstable();
    Ok(names)
}
