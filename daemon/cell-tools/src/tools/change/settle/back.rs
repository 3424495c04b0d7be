//! Restores the names of entries that were replaced or deleted. Runs in the cell.

use super::{
    super::{act::exchange, names::rename_new, spot::DirHandle},
    staging::Staging,
};
use rustix::io::Errno;
use std::os::fd::BorrowedFd;

/// Puts a replaced entry back at its name, and its replacement into the staging directory.
pub(in super::super) fn restore_name(
    aside: BorrowedFd<'_>,
    kept: &[u8],
    dir: &DirHandle<'_>,
    name: &[u8],
) -> Result<(), Errno> {
    match exchange((aside, kept), (dir, name)) {
        Err(Errno::INVAL) => {
            rename_new((dir, name), (aside, &[kept, b".new"].concat()))?;
            rename_new((aside, kept), (dir, name))
        }
        done => done,
    }
}

/// Puts a deleted entry back at its name.
pub(in super::super) fn give_back(
    staging: &Staging,
    kept: &[u8],
    dir: &DirHandle<'_>,
    name: &[u8],
) -> Result<(), Errno> {
    let given = staging.dir().and_then(|aside| rename_new((aside, kept), (dir, name)));
    given.inspect_err(|_| staging.keep())
}
