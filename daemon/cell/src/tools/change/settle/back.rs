//! Gives what was replaced or taken away its name back. Room: the cell.

use super::{
    super::{act::exchange, names::rename_new, spot::Handle},
    staging::Staging,
};
use rustix::io::Errno;
use std::os::fd::BorrowedFd;

/// Gives what was replaced its name back; what replaced it goes where it was.
pub(in super::super) fn restore_name(
    aside: BorrowedFd<'_>,
    kept: &[u8],
    dir: &Handle<'_>,
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

/// Gives what was taken away its name back.
pub(in super::super) fn give_back(
    staging: &Staging,
    kept: &[u8],
    dir: &Handle<'_>,
    name: &[u8],
) -> Result<(), Errno> {
    let given = staging.dir().and_then(|aside| rename_new((aside, kept), (dir, name)));
    given.inspect_err(|_| staging.keep())
}
