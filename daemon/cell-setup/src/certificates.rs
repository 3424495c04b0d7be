//! The certificates that a session's programs trust: the host's, and that of the session's own
//! authority. Runs in the cell, while it has privilege.

use crate::{
    failure::StepFailure,
    mounts::{self, NO_DEV, NO_EXEC, NO_SUID, READ_ONLY},
    root::skipped,
};
use palisade_plan::authority::{
    Authority, HOST_CERTIFICATES, MAX_HOST_CERTIFICATES, TRUSTED_CERTIFICATES,
};
use rustix::fs::{FileType, Mode, OFlags, ResolveFlags};
use std::{
    io::Read as _,
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
    path::Path,
};

/// Returns the text of the file with all of them.
pub(crate) fn trusted(authority: &Authority) -> Result<Vec<u8>, StepFailure> {
    let mut text = Vec::new();
    for path in HOST_CERTIFICATES {
        let failed = StepFailure::kernel(format!("read {path}"));
        let file = match std::fs::File::open(path) {
            Ok(file) => file,
            Err(error) if skipped(&error) => continue,
            Err(error) => return Err(failed(error)),
        };
        file.take(MAX_HOST_CERTIFICATES).read_to_end(&mut text).map_err(failed)?;
        break;
    }
    text.push(b'\n');
    text.extend(authority.pem().into_bytes());
    Ok(text)
}

/// Mounts that file over each of the host's own that the new root has, for programs that do not look
/// at the variables which name it.
pub(crate) fn cover(root: BorrowedFd<'_>) -> Result<(), StepFailure> {
    let open = |path: &str| -> std::io::Result<OwnedFd> {
        // A link leads to what the session has there, not to the host's file.
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        Ok(rustix::fs::openat2(root, path, flags, Mode::empty(), resolve)?)
    };
    let own = open(TRUSTED_CERTIFICATES)
        .map_err(StepFailure::kernel(format!("open {TRUSTED_CERTIFICATES}")))?;
    for path in HOST_CERTIFICATES {
        let failed = |error: std::io::Error| StepFailure::kernel(format!("cover {path}"))(error);
        let file = match open(path) {
            Ok(file) => file,
            Err(error) if skipped(&error) => continue,
            Err(error) => return Err(failed(error)),
        };
        let stat = rustix::fs::fstat(&file).map_err(|error| failed(error.into()))?;
        if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile {
            let mount = mounts::copy(own.as_fd(), READ_ONLY | NO_SUID | NO_DEV | NO_EXEC);
            let mount = mount.map_err(failed)?;
            mounts::attach(mount.as_fd(), file.as_fd(), Path::new("")).map_err(failed)?;
        }
    }
    Ok(())
}
