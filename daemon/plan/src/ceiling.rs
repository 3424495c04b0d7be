//! Root-owned bounds that every plan is held against, whoever asks.

use std::path::{Component, Path};

/// Directories of the system's own. None of them, and nothing that holds one, is ever writable.
const SYSTEM: [&str; 17] = [
    "/etc", "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/boot", "/dev",
    "/proc", "/sys", "/run", "/var", "/opt", "/home", "/nix",
];

/// Those of them whose insides are not for writing either.
const SYSTEM_WHOLE: [&str; 10] = [
    "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/boot", "/proc", "/sys", "/etc",
];

/// Whether a path is absolute and made of plain names: no `.`, no `..`, no NUL.
#[must_use]
pub fn is_plain(path: &Path) -> bool {
    use std::os::unix::ffi::OsStrExt as _;
    // Components pass over `.` and `//`, which the kernel does not see the same way in a mount
    // table: the text must be what the components make of it.
    path.is_absolute()
        && !path.as_os_str().as_bytes().contains(&0)
        && path.components().all(|c| matches!(c, Component::RootDir | Component::Normal(_)))
        && path.components().collect::<std::path::PathBuf>().as_os_str() == path.as_os_str()
}

/// Whether a path is the root, one of the system's own directories, or inside one that is the
/// system's to the last file.
#[must_use]
pub fn is_system(path: &Path) -> bool {
    SYSTEM.iter().any(|system| Path::new(system).starts_with(path))
        || SYSTEM_WHOLE.iter().any(|system| path.starts_with(system))
        || (path.starts_with("/dev") && !path.starts_with("/dev/shm"))
}
