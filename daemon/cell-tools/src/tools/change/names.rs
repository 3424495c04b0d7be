//! Temporary names, and renames to names that are free. Runs in the cell.

use palisade_workspace::look;
use rustix::{fs::RenameFlags, io::Errno, rand::GetRandomFlags};
use std::os::fd::AsFd;

/// The number of random names that are tried.
const TRIES: usize = 16;

const PREFIX: &[u8] = b".palisade-";
const SUFFIX: &[u8] = b".tmp";
const DIGITS: usize = 8;

/// Returns `true` if a name has the form of our temporary names.
pub(in crate::tools) fn is_ours(name: &[u8]) -> bool {
    name.strip_prefix(PREFIX).and_then(|rest| rest.strip_suffix(SUFFIX)).is_some_and(|middle| {
        middle.len() == DIGITS
            && middle.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    })
}

/// Calls `act` with random names until one is free, and returns that name.
pub(crate) fn with_free_name<T>(
    mut act: impl FnMut(&str) -> Result<T, Errno>,
) -> Result<(T, String), Errno> {
    for _try in 0..TRIES {
        let name = random_name()?;
        match act(&name) {
            Err(Errno::EXIST) => {}
            done => return done.map(|done| (done, name)),
        }
    }
    Err(Errno::EXIST)
}

/// Returns a random temporary name.
pub(super) fn random_name() -> Result<String, Errno> {
    let mut random = [0; 4];
    rustix::rand::getrandom(&mut random, GetRandomFlags::empty())?;
    Ok(format!(".palisade-{:08x}.tmp", u32::from_ne_bytes(random)))
}

/// Renames an entry to a name that must be free.
pub(super) fn rename_new(from: (impl AsFd, &[u8]), to: (impl AsFd, &[u8])) -> Result<(), Errno> {
    let (from_dir, to_dir) = (from.0.as_fd(), to.0.as_fd());
    match rustix::fs::renameat_with(from_dir, from.1, to_dir, to.1, RenameFlags::NOREPLACE) {
        Err(Errno::INVAL) => rename_checked((from_dir, from.1), (to_dir, to.1)),
        done => done,
    }
}

/// Renames an entry on a file system without `RENAME_NOREPLACE`: checks first that the name is
/// free.
pub(super) fn rename_checked(
    from: (impl AsFd, &[u8]),
    to: (impl AsFd, &[u8]),
) -> Result<(), Errno> {
    match look(&to.0, to.1)? {
        Some(_) => Err(Errno::EXIST),
        None => rustix::fs::renameat(from.0, from.1, to.0, to.1),
    }
}
