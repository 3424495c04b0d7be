//! Checks who could change the daemon's own files. If anybody but root and the daemon's user can,
//! the daemon does not start. Runs in the broker.

use crate::base::reach::{self, OpenDirectories};
use palisade_policy::Owner;
use std::{
    fs::{self, Metadata},
    io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

/// The reason that a path is not safe.
#[derive(Debug, thiserror::Error)]
pub enum UnsafePlace {
    /// The path could not be inspected.
    #[error("can not look at {path}")]
    Look {
        /// The path.
        path: PathBuf,
        /// The error that the kernel returned.
        source: io::Error,
    },
    /// The path belongs to another user.
    #[error("{path} belongs to uid {owner}, who could change it; `chown {wanted} {path}`")]
    Owner {
        /// The path.
        path: PathBuf,
        /// The user id of its owner.
        owner: u32,
        /// The user id that should own it.
        wanted: u32,
    },
    /// Other users may write to the path.
    #[error("{path} has mode {mode:04o}, so other users could change it; `chmod {fix} {path}`")]
    Writable {
        /// The path.
        path: PathBuf,
        /// Its mode.
        mode: u32,
        /// The argument of `chmod` that fixes the mode.
        fix: &'static str,
    },
}

/// Refuses a path that anybody but root and this user can change. Returns `Owner::Root` if root
/// alone can.
pub(crate) fn check(path: &Path, reach: &OpenDirectories) -> Result<Owner, UnsafePlace> {
    let found = look(path, reach)?;
    let own = rustix::process::geteuid().as_raw();
    let owner = found.uid();
    if owner != 0 && owner != own {
        return Err(UnsafePlace::Owner { path: path.to_owned(), owner, wanted: own });
    }
    let mode = found.mode() & 0o7777;
    let writable = |fix| UnsafePlace::Writable { path: path.to_owned(), mode, fix };
    if mode & 0o002 != 0 {
        return Err(writable(if mode & 0o020 == 0 { "o-w" } else { "go-w" }));
    }
    // Where every user has a private group, files are writable to that group by default.
    let own_group = owner == own && found.gid() == rustix::process::getegid().as_raw();
    if mode & 0o020 != 0 && found.gid() != 0 && !own_group {
        return Err(writable("g-w"));
    }
    check_above(path, reach)?;
    let roots = owner == 0 && (mode & 0o020 == 0 || found.gid() == 0);
    Ok(if roots { Owner::Root } else { Owner::Other })
}

/// Refuses a path that could be replaced because anybody may write to a directory above it.
pub(crate) fn check_above(path: &Path, reach: &OpenDirectories) -> Result<(), UnsafePlace> {
    for above in path.ancestors().skip(1).filter(|above| !above.as_os_str().is_empty()) {
        let mode = look(above, reach)?.mode() & 0o7777;
        if mode & 0o1002 == 0o002 {
            return Err(UnsafePlace::Writable { path: above.to_owned(), mode, fix: "o-w" });
        }
    }
    Ok(())
}

fn look(path: &Path, reach: &OpenDirectories) -> Result<Metadata, UnsafePlace> {
    fs::metadata(reach.enter(path)).map_err(|error| {
        let source = reach::explain(path, error);
        UnsafePlace::Look { path: path.to_owned(), source }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs::Permissions, os::unix::fs::PermissionsExt as _};

    fn checked(path: &Path) -> Result<Owner, UnsafePlace> {
        check(path, &OpenDirectories::default())
    }

    #[test]
    fn what_others_can_change_is_refused_with_the_fix() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        fs::write(&file, "").unwrap();
        let set = |path: &Path, mode| {
            fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        };
        set(&file, 0o644);
        checked(&file).unwrap();
        for (mode, fix) in [(0o646, "chmod o-w"), (0o666, "chmod go-w")] {
            set(&file, mode);
            let error = checked(&file).unwrap_err().to_string();
            let path = file.display();
            assert_eq!(
                error,
                format!(
                    "{path} has mode {mode:04o}, so other users could change it; `{fix} {path}`"
                )
            );
        }
        set(&file, 0o600);
        set(directory.path(), 0o777);
        let error = checked(&file).unwrap_err();
        assert!(matches!(error, UnsafePlace::Writable { mode: 0o777, .. }), "{error}");
        set(directory.path(), 0o1777);
        checked(&file).unwrap();
        let missing = checked(&directory.path().join("missing"));
        assert!(matches!(missing, Err(UnsafePlace::Look { .. })));
    }

    #[test]
    fn another_users_file_is_refused() {
        if !rustix::process::geteuid().is_root() {
            // A file that root owns is safe for every user.
            assert_eq!(checked(Path::new("/etc/passwd")).unwrap(), Owner::Root);
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        fs::write(&file, "").unwrap();
        assert_eq!(checked(&file).unwrap(), Owner::Root);
        std::os::unix::fs::chown(&file, Some(4242), Some(4242)).unwrap();
        let error = checked(&file).unwrap_err();
        assert!(matches!(error, UnsafePlace::Owner { owner: 4242, wanted: 0, .. }), "{error}");
        std::os::unix::fs::chown(&file, Some(0), Some(4242)).unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o660)).unwrap();
        let error = checked(&file).unwrap_err();
        assert!(matches!(error, UnsafePlace::Writable { fix: "g-w", .. }), "{error}");
    }
}
