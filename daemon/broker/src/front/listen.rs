//! Creates the daemon's sockets, only where no other user could have created or could replace them.
//! Runs in the broker, before it gives up its privilege.

use rustix::{
    fs::{FlockOperation, Mode, OFlags, flock},
    io::Errno,
};
use std::{
    fs::{self, DirBuilder, Permissions},
    io,
    os::{
        fd::OwnedFd,
        unix::{
            fs::{DirBuilderExt as _, FileTypeExt as _, MetadataExt as _, PermissionsExt as _},
            net::{UnixListener, UnixStream},
        },
    },
    path::{Path, PathBuf},
};

/// The users who may connect to a socket.
#[derive(Debug, Clone, Copy)]
pub(crate) enum SocketAccess {
    /// Only the daemon's own user.
    Owner,
    /// Root, and the members of a group if there is one.
    Group(Option<u32>),
}

/// A listening socket, with the lock that is held for as long as it exists.
#[derive(Debug)]
pub(crate) struct BoundSocket {
    pub(crate) listener: UnixListener,
    pub(crate) path: PathBuf,
    _lock: OwnedFd,
}

/// An error from creating a socket.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// The path is relative, or is `/`.
    #[error("the socket {0} needs an absolute path; give one with --socket")]
    NotAbsolute(PathBuf),
    /// A file operation failed.
    #[error("can not {act} {path}")]
    Io {
        /// The operation, as a verb.
        act: &'static str,
        /// The path it was applied to.
        path: PathBuf,
        /// The error that the kernel returned.
        source: io::Error,
    },
    /// The directory is a symbolic link or not a directory.
    #[error(
        "{0} is a symbolic link or a file, not a directory; remove it, or choose another --socket"
    )]
    NotDirectory(PathBuf),
    /// The directory belongs to another user.
    #[error(
        "{path} belongs to uid {owner}, who could replace the socket; `chown {wanted} {path}`, or choose another --socket"
    )]
    Owner {
        /// The directory.
        path: PathBuf,
        /// The user id of its owner.
        owner: u32,
        /// The user id that should own it.
        wanted: u32,
    },
    /// Other users may write to the directory.
    #[error(
        "{path} has mode {mode:04o}, so other users could replace the socket; `chmod go-w {path}`, \
         or choose another --socket"
    )]
    Writable {
        /// The directory.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// The path exists and is not a socket.
    #[error("{path} is {what}, not a socket; remove it, or choose another --socket")]
    NotSocket {
        /// The path.
        path: PathBuf,
        /// The kind of file that was found.
        what: &'static str,
    },
    /// Another daemon listens on the path.
    #[error("a daemon is already listening on {0}; stop it first, or choose another --socket")]
    InUse(PathBuf),
}

impl ListenError {
    /// Returns `true` if the error means that another user could remove or replace the socket.
    pub(crate) const fn is_unsafe(&self) -> bool {
        match self {
            Self::NotAbsolute(_)
            | Self::NotDirectory(_)
            | Self::Owner { .. }
            | Self::Writable { .. }
            | Self::NotSocket { .. } => true,
            Self::Io { .. } | Self::InUse(_) => false,
        }
    }
}

/// Refuses a socket path that could not be used, as far as can be told without creating it.
pub(crate) fn check(path: &Path) -> Result<(), ListenError> {
    let Some(directory) = path.parent().filter(|_| path.is_absolute()) else {
        return Err(ListenError::NotAbsolute(path.to_owned()));
    };
    if fs::symlink_metadata(directory).is_ok() {
        check_directory(directory)?;
    }
    Ok(())
}

/// Creates the socket, and its directory if that is missing.
pub(crate) fn bind(path: &Path, audience: SocketAccess) -> Result<BoundSocket, ListenError> {
    let Some(directory) = path.parent().filter(|_| path.is_absolute()) else {
        return Err(ListenError::NotAbsolute(path.to_owned()));
    };
    make_directory(directory, audience)?;
    check_directory(directory)?;
    let lock = lock(path)?;
    remove_stale(path)?;
    // The umask keeps other users out between `bind` and `chmod`.
    let umask = rustix::process::umask(Mode::from_raw_mode(0o177));
    let listener = UnixListener::bind(path);
    rustix::process::umask(umask);
    let listener = listener.map_err(failed("bind", path))?;
    open_up(path, audience)?;
    Ok(BoundSocket { listener, path: path.to_owned(), _lock: lock })
}

fn failed<'a>(act: &'static str, path: &'a Path) -> impl Fn(io::Error) -> ListenError + 'a {
    move |source| ListenError::Io { act, path: path.to_owned(), source }
}

fn make_directory(directory: &Path, audience: SocketAccess) -> Result<(), ListenError> {
    if fs::symlink_metadata(directory).is_ok() {
        return Ok(());
    }
    let mode = match audience {
        SocketAccess::Owner => 0o700,
        SocketAccess::Group(_) => 0o755,
    };
    DirBuilder::new()
        .mode(mode)
        .recursive(true)
        .create(directory)
        .map_err(failed("create the directory", directory))
}

/// Refuses a directory that is not this user's or root's, or that others may write. Also refuses
/// directories above it that anybody may write, unless they have the sticky bit.
fn check_directory(directory: &Path) -> Result<(), ListenError> {
    let found = fs::symlink_metadata(directory).map_err(failed("look at", directory))?;
    if !found.is_dir() {
        return Err(ListenError::NotDirectory(directory.to_owned()));
    }
    let (owner, wanted) = (found.uid(), rustix::process::geteuid().as_raw());
    if owner != 0 && owner != wanted {
        return Err(ListenError::Owner { path: directory.to_owned(), owner, wanted });
    }
    if found.mode() & 0o022 != 0 {
        let mode = found.mode() & 0o7777;
        return Err(ListenError::Writable { path: directory.to_owned(), mode });
    }
    for above in directory.ancestors().skip(1) {
        let mode = fs::metadata(above).map_err(failed("look at", above))?.mode() & 0o7777;
        if mode & 0o1002 == 0o002 {
            return Err(ListenError::Writable { path: above.to_owned(), mode });
        }
    }
    Ok(())
}

/// Takes the lock beside the socket. Without it, two daemons that start at once could take each
/// other's new socket for a stale one.
fn lock(path: &Path) -> Result<OwnedFd, ListenError> {
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    let name = PathBuf::from(name);
    let flags = OFlags::CREATE | OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = rustix::fs::open(&name, flags, Mode::from_raw_mode(0o600))
        .map_err(|errno| failed("open the lock", &name)(errno.into()))?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(file),
        Err(Errno::WOULDBLOCK) => Err(ListenError::InUse(path.to_owned())),
        Err(errno) => Err(failed("lock", &name)(errno.into())),
    }
}

fn remove_stale(path: &Path) -> Result<(), ListenError> {
    let found = match fs::symlink_metadata(path) {
        Ok(found) => found.file_type(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed("look at", path)(error)),
    };
    let what = match found {
        kind if kind.is_socket() => return remove_unused_socket(path),
        kind if kind.is_symlink() => "a symbolic link",
        kind if kind.is_dir() => "a directory",
        kind if kind.is_file() => "a file",
        _ => "a FIFO or device",
    };
    Err(ListenError::NotSocket { path: path.to_owned(), what })
}

fn remove_unused_socket(path: &Path) -> Result<(), ListenError> {
    match UnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            fs::remove_file(path).map_err(failed("remove the stale socket", path))
        }
        Ok(_) => Err(ListenError::InUse(path.to_owned())),
        Err(error) => Err(failed("find out whether a daemon listens on", path)(error)),
    }
}

fn open_up(path: &Path, audience: SocketAccess) -> Result<(), ListenError> {
    let mode = match audience {
        SocketAccess::Owner => 0o600,
        SocketAccess::Group(group) => {
            std::os::unix::fs::lchown(path, None, group).map_err(failed("chown", path))?;
            0o660
        }
    };
    fs::set_permissions(path, Permissions::from_mode(mode)).map_err(failed("chmod", path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn private() -> tempfile::TempDir {
        let directory = tempfile::tempdir().expect("a directory");
        fs::set_permissions(directory.path(), Permissions::from_mode(0o700)).expect("chmod");
        directory
    }

    #[test]
    fn a_private_directory_is_fine_and_the_mode_is_tight() {
        let directory = private();
        let path = directory.path().join("new/agent.sock");
        let bound = bind(&path, SocketAccess::Owner).expect("bound");
        assert_eq!(fs::metadata(&path).expect("there").mode() & 0o7777, 0o600);
        assert_eq!(fs::metadata(path.parent().expect("one")).expect("there").mode() & 0o777, 0o700);
        UnixStream::connect(&path).expect("somebody listens");
        drop(bound);
    }

    #[test]
    fn a_stale_socket_is_replaced_and_a_living_one_is_not() {
        let directory = private();
        let path = directory.path().join("agent.sock");
        drop(UnixListener::bind(&path).expect("bound"));
        let bound = bind(&path, SocketAccess::Owner).expect("the stale one is replaced");
        assert!(matches!(bind(&path, SocketAccess::Owner), Err(ListenError::InUse(_))));
        UnixStream::connect(&path).expect("the first still listens");
        drop(bound);
        let other = directory.path().join("other.sock");
        let listening = UnixListener::bind(&other).expect("bound without our lock");
        assert!(matches!(bind(&other, SocketAccess::Owner), Err(ListenError::InUse(_))));
        drop(listening);
    }

    #[test]
    fn whatever_is_not_a_socket_stays() {
        let directory = private();
        let path = directory.path().join("agent.sock");
        let refused = |what: &str| match bind(&path, SocketAccess::Owner) {
            Err(ListenError::NotSocket { what: found, .. }) => assert_eq!(found, what),
            other => panic!("expected {what}, got {other:?}"),
        };
        fs::write(&path, "kept").expect("written");
        refused("a file");
        assert_eq!(fs::read(&path).expect("still there"), b"kept");
        fs::remove_file(&path).expect("removed");
        symlink(directory.path().join("target"), &path).expect("linked");
        refused("a symbolic link");
        assert!(!directory.path().join("target").exists());
        fs::remove_file(&path).expect("removed");
        fs::create_dir(&path).expect("made");
        refused("a directory");
    }

    #[test]
    fn a_directory_that_others_write_to_is_refused() {
        let directory = private();
        for mode in [0o777, 0o1777, 0o770] {
            fs::set_permissions(directory.path(), Permissions::from_mode(mode)).expect("chmod");
            let path = directory.path().join("agent.sock");
            match bind(&path, SocketAccess::Owner) {
                Err(ListenError::Writable { mode: found, .. }) => assert_eq!(found, mode),
                other => panic!("mode {mode:o}: {other:?}"),
            }
            assert!(!path.exists());
        }
    }

    #[test]
    fn a_linked_directory_or_one_under_an_open_one_is_refused() {
        let directory = private();
        fs::create_dir(directory.path().join("real")).expect("made");
        symlink(directory.path().join("real"), directory.path().join("link")).expect("linked");
        let linked = bind(&directory.path().join("link/agent.sock"), SocketAccess::Owner);
        assert!(matches!(linked, Err(ListenError::NotDirectory(_))));
        fs::create_dir_all(directory.path().join("open/own")).expect("made");
        for (name, mode) in [("open", 0o777), ("open/own", 0o700)] {
            let path = directory.path().join(name);
            fs::set_permissions(path, Permissions::from_mode(mode)).expect("chmod");
        }
        let below = bind(&directory.path().join("open/own/agent.sock"), SocketAccess::Owner);
        assert!(matches!(below, Err(ListenError::Writable { mode: 0o777, .. })));
        assert!(matches!(
            bind(Path::new("agent.sock"), SocketAccess::Owner),
            Err(ListenError::NotAbsolute(_))
        ));
    }
}
