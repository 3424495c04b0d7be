//! Makes, in the upper layer of an ordinary user's transaction, the workspace's directories whose
//! group is not the session's. Overlayfs copies up nothing with a group that its user namespace
//! does not map. That includes the directory in which a program makes or deletes a file. Runs in
//! the cell, while it has privilege.

use super::alike::DirectoryMaker;
use crate::failure::StepFailure;
use palisade_plan::Path;
use rustix::{
    fs::{AtFlags, FileType, Mode, OFlags, RawDir, ResolveFlags},
    io::Errno,
};
use std::os::fd::OwnedFd;

/// The maximum number of directories made for one transaction.
const MOST: usize = 10_000;

const BUFFER: usize = 32 * 1024;

/// Makes the counterparts of all directories of the workspace.
pub(super) fn make(
    maker: &mut DirectoryMaker,
    workspace: &Path,
    lower: &OwnedFd,
    upper: &OwnedFd,
) -> Result<(), StepFailure> {
    let mut made = Vec::new();
    let mut waiting = vec![Vec::new()];
    while let Some(directory) = waiting.pop() {
        for path in below(lower, &directory)? {
            let Some(likeness) = maker.look(lower, &path)? else { continue };
            if made.len() == MOST {
                let why = format!(
                    "its group is not the daemon's, and it has more than {MOST} directories: start the \
                     daemon with that group (`sg GROUP palisaded`), or give the workspace your own (chgrp)"
                );
                return Err(StepFailure::Workspace { path: workspace.clone(), why });
            }
            maker.make(upper, &path, Some(&likeness))?;
            made.push((path.clone(), likeness));
            waiting.push(path);
        }
    }
    // Children are finished before their directory, so that its time is set last.
    made.iter().rev().try_for_each(|(path, likeness)| maker.finish(upper, path, Some(likeness)))
}

/// Returns the subdirectories of a directory; none if it can not be listed.
fn below(lower: &OwnedFd, directory: &[u8]) -> Result<Vec<Vec<u8>>, StepFailure> {
    let here: &[u8] = if directory.is_empty() { b"." } else { directory };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    let fail = || StepFailure::kernel::<Errno>("list a directory of the workspace");
    let opened = match rustix::fs::openat2(lower, here, flags, Mode::empty(), resolve) {
        Err(Errno::ACCESS | Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(Vec::new()),
        opened => opened.map_err(fail())?,
    };
    let mut found = Vec::new();
    let mut buffer = Vec::with_capacity(BUFFER);
    let mut entries = RawDir::new(&opened, buffer.spare_capacity_mut());
    while let Some(entry) = entries.next() {
        let entry = entry.map_err(fail())?;
        let name = entry.file_name().to_bytes();
        let told = entry.file_type();
        let kind = if told == FileType::Unknown {
            rustix::fs::statat(&opened, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW)
                .map_or(told, |stat| FileType::from_raw_mode(stat.st_mode))
        } else {
            told
        };
        if kind == FileType::Directory && !matches!(name, b"." | b"..") {
            found.push(match directory {
                [] => name.to_vec(),
                directory => [directory, b"/", name].concat(),
            });
        }
    }
    Ok(found)
}
