//! Files in memory, which pass contents between processes of a cell. Runs in the cell.

use palisade_plan::codec::{CodecError, MAX_MESSAGE};
use rustix::{
    fs::{MemfdFlags, memfd_create},
    io::Errno,
};
use std::{
    ffi::CStr,
    fs::File,
    io::{self, Seek as _, Write as _},
    os::{
        fd::{AsFd, OwnedFd},
        unix::fs::FileExt as _,
    },
};

/// Makes a memory file that programs can read, with the given contents.
///
/// # Errors
/// The kernel's error.
pub fn make(name: &CStr, contents: &[u8]) -> io::Result<OwnedFd> {
    let fd = match memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::NOEXEC_SEAL) {
        // Kernels before 6.3 do not know this flag.
        Err(Errno::INVAL) => memfd_create(name, MemfdFlags::CLOEXEC),
        made => made,
    }?;
    let mut file = File::from(fd);
    file.write_all(contents)?;
    file.rewind()?;
    Ok(file.into())
}

/// Reads the contents of a memory file that is no longer than a message.
///
/// # Errors
/// The kernel's error, or that the file is too long.
pub fn read(file: &OwnedFd) -> io::Result<Vec<u8>> {
    let file = File::from(file.as_fd().try_clone_to_owned()?);
    let size = usize::try_from(file.metadata()?.len()).unwrap_or(usize::MAX);
    if size > MAX_MESSAGE {
        return Err(io::Error::other(CodecError::TooLarge(size, MAX_MESSAGE)));
    }
    let mut bytes = vec![0; size];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(bytes)
}
