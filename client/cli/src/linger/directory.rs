//! The directory of the sockets of lingering daemons: one that only this user can enter.

use rustix::fs::{FlockOperation, flock};
use std::{
    env,
    fs::{self, DirBuilder, File, OpenOptions},
    io::ErrorKind,
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};
use tokio::net::UnixStream;

/// Root's directory, if `$XDG_RUNTIME_DIR` is not a directory of root's.
const OF_ROOT: &str = "/run/palisade-root";

/// The directory in `$XDG_RUNTIME_DIR`.
const NAME: &str = "palisade";

/// The beginning and the end of a socket's name.
pub(super) const NAMES: (&str, &str) = ("linger-", ".sock");

/// The file whose lock a command holds while it starts a daemon.
const LOCK: &str = "linger.lock";

/// The result of connecting to a socket.
#[derive(Debug)]
pub(super) enum Found {
    /// A process of this user listens: the connection, and the process.
    Daemon { stream: UnixStream, pid: Option<i32> },
    /// Nobody listens any more.
    Stale,
    /// There is nothing, or something else.
    Other,
}

/// Returns the path of the directory, which may not exist. `None` if this user has none.
fn path() -> Option<PathBuf> {
    let runtime = env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let runtime = runtime.filter(|path| path.is_absolute() && is_closed(path));
    let of_root = || rustix::process::geteuid().is_root().then(|| PathBuf::from(OF_ROOT));
    runtime.map(|path| path.join(NAME)).or_else(of_root)
}

/// Returns the directory, and creates it if it is missing. `None` if others could enter it.
pub(super) fn make() -> Option<PathBuf> {
    let path = path()?;
    match DirBuilder::new().mode(0o700).create(&path) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        Err(_) => return None,
    }
    is_closed(&path).then_some(path)
}

/// Returns `true` if a path is a directory of this user that nobody else can enter.
fn is_closed(path: &Path) -> bool {
    let own = rustix::process::geteuid().as_raw();
    fs::symlink_metadata(path)
        .is_ok_and(|found| found.is_dir() && found.uid() == own && found.mode() & 0o077 == 0)
}

/// Takes the lock that the starter of a daemon holds. `None` if another process has it.
pub(super) fn lock(directory: &Path) -> Option<File> {
    let mut options = OpenOptions::new();
    let no_follow = rustix::fs::OFlags::NOFOLLOW.bits();
    options.create(true).truncate(false).write(true).mode(0o600).custom_flags(no_follow as i32);
    let file = options.open(directory.join(LOCK)).ok()?;
    flock(&file, FlockOperation::NonBlockingLockExclusive).ok().map(|()| file)
}

/// Connects to a socket, if a process of this user listens on it.
pub(super) async fn dial(socket: &Path) -> Found {
    let stream = match UnixStream::connect(socket).await {
        Ok(stream) => stream,
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => return Found::Stale,
        Err(_) => return Found::Other,
    };
    match stream.peer_cred() {
        Ok(peer) if peer.uid() == rustix::process::geteuid().as_raw() => {
            Found::Daemon { stream, pid: peer.pid() }
        }
        Ok(_) | Err(_) => Found::Other,
    }
}

/// Removes the sockets on which nobody listens any more. Returns how many are left.
pub(super) async fn sweep(directory: &Path) -> usize {
    let mut left = 0;
    for socket in sockets(directory) {
        let is_stale = matches!(dial(&socket).await, Found::Stale);
        if !(is_stale && fs::remove_file(&socket).is_ok()) {
            left += 1;
        }
    }
    left
}

/// Returns the sockets of this user's daemons that answer, and the process of each.
pub(super) async fn daemons() -> Vec<(PathBuf, Option<i32>)> {
    let directory = path().filter(|path| is_closed(path));
    let mut found = Vec::new();
    for socket in directory.iter().flat_map(|directory| sockets(directory)) {
        if let Found::Daemon { pid, .. } = dial(&socket).await {
            found.push((socket, pid));
        }
    }
    found
}

fn sockets(directory: &Path) -> Vec<PathBuf> {
    let (begin, end) = NAMES;
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let is_socket = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name.starts_with(begin) && name.ends_with(end))
    };
    let mut found: Vec<_> = entries.map(|entry| entry.path()).filter(is_socket).collect();
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::{
        fs::{PermissionsExt as _, symlink},
        net::UnixListener,
    };

    fn closed() -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o700)).unwrap();
        directory
    }

    #[test]
    fn a_directory_that_others_can_enter_or_replace_is_not_used() {
        let directory = closed();
        assert!(is_closed(directory.path()));
        let link = directory.path().join("link");
        symlink(directory.path(), &link).unwrap();
        assert!(!is_closed(&link));
        for mode in [0o750, 0o701, 0o704, 0o1777] {
            fs::set_permissions(directory.path(), fs::Permissions::from_mode(mode)).unwrap();
            assert!(!is_closed(directory.path()), "{mode:o}");
        }
        assert!(!is_closed(&directory.path().join("missing")));
    }

    #[tokio::test]
    async fn a_socket_that_nobody_listens_on_is_removed_and_others_stay() {
        let directory = closed();
        let path = |name: &str| directory.path().join(name);
        drop(UnixListener::bind(path("linger-1.sock")).unwrap());
        let _living = UnixListener::bind(path("linger-2.sock")).unwrap();
        drop(UnixListener::bind(path("agent.sock")).unwrap());
        fs::write(path("linger-3.sock"), "").unwrap();
        assert_eq!(sweep(directory.path()).await, 1);
        let names = ["agent.sock", "linger-2.sock"].map(path);
        let mut left: Vec<_> =
            fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
        left.sort();
        assert_eq!(left, names);
    }

    #[test]
    fn two_commands_do_not_start_daemons_at_once() {
        let directory = closed();
        let first = lock(directory.path()).unwrap();
        assert!(lock(directory.path()).is_none());
        drop(first);
        assert!(lock(directory.path()).is_some());
    }
}
