//! User namespaces, which serve two purposes. Mounts use them to show one user's files as
//! another's: a session with its own uid owns the peer's files where it may write. They also limit
//! capabilities to the files of certain users. Runs in the cell, while it has privilege.

use crate::{
    failure::StepFailure,
    kernel::NamespaceHolder,
    mounts::{self, NO_DEV, NO_EXEC, NO_SUID},
    overlay::unescaped,
};
use palisade_plan::{Identity, Path, Runs};
use rustix::{
    fs::{Mode, OFlags},
    process::DumpableBehavior,
};
use std::{
    fs::File,
    io::{self, Write as _},
    os::{
        fd::{AsFd as _, BorrowedFd, OwnedFd},
        unix::ffi::OsStrExt as _,
    },
};

/// Makes a user namespace that maps the session's ids outside to the peer's ids inside. It maps no
/// other id: files of other owners show as nobody's and can not be written.
pub(crate) fn make(runs: &Runs) -> Result<OwnedFd, StepFailure> {
    let one = |inside, outside| format!("{inside} {outside} 1\n");
    namespace(&one(runs.peer.uid, runs.own.uid), &one(runs.peer.gid, runs.own.gid))
}

/// A gid map that leaves every group unchanged.
const EVERY_GROUP: &str = "0 0 4294967295\n";

/// Makes a user namespace with one user and every group. Capabilities in it apply to that user's
/// files, of whichever group, and to no other user's.
pub(crate) fn of_user(identity: Identity) -> Result<OwnedFd, StepFailure> {
    let uid = identity.uid;
    let made = namespace(&format!("{uid} {uid} 1\n"), EVERY_GROUP);
    match made {
        Err(StepFailure::Kernel { act, source })
            if uid == 0 && source.raw_os_error() == Some(libc::EPERM) =>
        {
            let act = format!("{act} for root (the launcher needs CAP_SETFCAP)");
            Err(StepFailure::Kernel { act, source })
        }
        made => made,
    }
}

/// Makes a user namespace with every user, or without root if the launcher may not map root.
pub(crate) fn of_every_user() -> Result<OwnedFd, StepFailure> {
    match namespace("0 0 4294967295\n", EVERY_GROUP) {
        Err(StepFailure::Kernel { source, .. }) if source.raw_os_error() == Some(libc::EPERM) => {
            namespace("1 1 4294967294\n", EVERY_GROUP)
        }
        made => made,
    }
}

fn namespace(users: &str, groups: &str) -> Result<OwnedFd, StepFailure> {
    // This process's own PID namespace: the host's `/proc` may show another one.
    let proc = mounts::new("proc", &[], NO_SUID | NO_DEV | NO_EXEC)
        .map_err(StepFailure::kernel("a /proc to write maps in"))?;
    let sleeper = start().map_err(|error| StepFailure::Kernel {
        act: "make a user namespace (a unit's RestrictNamespaces= has to allow `user`)".into(),
        source: error,
    })?;
    let made = write_maps(&proc, sleeper.pid(), users, groups).and_then(|()| {
        let file = format!("{}/ns/user", sleeper.pid());
        rustix::fs::openat(&proc, file, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
            .map_err(StepFailure::kernel("open the user namespace"))
    });
    sleeper.end().map_err(StepFailure::kernel("end what held the user namespace"))?;
    made
}

/// Starts a process whose namespace can be opened. A process that has become root is not dumpable.
/// Its children would not be either, and could not be opened even by its parent.
fn start() -> io::Result<NamespaceHolder> {
    let before = rustix::process::dumpable_behavior()?;
    rustix::process::set_dumpable_behavior(DumpableBehavior::Dumpable)?;
    let sleeper = NamespaceHolder::start();
    let after = match before {
        DumpableBehavior::Dumpable => DumpableBehavior::Dumpable,
        // Only the kernel may set the last of these.
        DumpableBehavior::NotDumpable | DumpableBehavior::DumpableReadableOnlyByRoot => {
            DumpableBehavior::NotDumpable
        }
    };
    rustix::process::set_dumpable_behavior(after)?;
    sleeper
}

fn write_maps(proc: &OwnedFd, pid: i32, users: &str, groups: &str) -> Result<(), StepFailure> {
    for (map, lines) in [("gid_map", groups), ("uid_map", users)] {
        let file = format!("{pid}/{map}");
        let opened =
            rustix::fs::openat(proc, file, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())
                .map_err(StepFailure::kernel(format!("open {map}")))?;
        File::from(opened)
            .write_all(lines.as_bytes())
            .map_err(StepFailure::kernel(format!("write {map}")))?;
    }
    Ok(())
}

/// Finds the mount that could not be mapped, and returns an error that names it.
pub(crate) fn mapping_failure(
    path: &Path,
    users: BorrowedFd<'_>,
    error: &io::Error,
) -> StepFailure {
    let text = std::fs::read("/proc/self/mountinfo").unwrap_or_default();
    let candidates = mounts_of(&text, path);
    let refused = candidates.into_iter().find_map(|(point, kind)| {
        // The user may be unable to reach the mount's root, so try the path itself if it is on that
        // mount.
        let at = if path.as_path().starts_with(point.as_path()) { path } else { &point };
        let found = mounts::resolve(at.as_path()).ok()?;
        let why = mounts::copy_one_mapped(found.as_fd(), users).err()?;
        Some((point, kind, why.to_string()))
    });
    let (mount, kind, why) =
        refused.unwrap_or_else(|| (path.clone(), "unknown".to_owned(), error.to_string()));
    StepFailure::Mount { path: path.clone(), mount, kind, why }
}

/// Returns the mount that `path` is on, and the mounts below it, each with its file system type.
fn mounts_of(mountinfo: &[u8], path: &Path) -> Vec<(Path, String)> {
    let mut on = None;
    let mut below = Vec::new();
    for line in mountinfo.split(|byte| *byte == b'\n') {
        let words: Vec<_> = line.split(|byte| *byte == b' ').collect();
        let (Some(point), Some(dash)) = (words.get(4), words.iter().position(|word| *word == b"-"))
        else {
            continue;
        };
        let kind = words.get(dash + 1).copied().unwrap_or_default();
        let mount = (Path(unescaped(point)), String::from_utf8_lossy(kind).into_owned());
        let at = mount.0.as_path();
        if path.as_path().starts_with(at) {
            // Of several mounts at the same point, the last one listed is on top.
            let depth = |(at, _): &(Path, String)| at.as_path().as_os_str().as_bytes().len();
            if on.as_ref().is_none_or(|known| depth(known) <= depth(&mount)) {
                on = Some(mount);
            }
        } else if at.starts_with(path.as_path()) {
            below.push(mount);
        }
    }
    on.into_iter().chain(below).collect()
}

/// Refuses a root whose workspace is not an id-mapped mount.
pub(crate) fn check(workspace: &Path) -> Result<(), StepFailure> {
    let text = std::fs::read("/proc/self/mountinfo")
        .map_err(StepFailure::kernel("read /proc/self/mountinfo"))?;
    let mapped = text.split(|byte| *byte == b'\n').any(|line| {
        let mut words = line.split(|byte| *byte == b' ').skip(4);
        let here = words.next().is_some_and(|point| unescaped(point) == workspace.0);
        let options = words.next().unwrap_or_default();
        here && options.split(|byte| *byte == b',').any(|option| option == b"idmapped")
    });
    match mapped {
        true => Ok(()),
        false => Err(StepFailure::NotInForce("the workspace's files are not mapped".into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mount_of_a_path_and_those_below_it_are_found() {
        let text = b"1 0 8:1 / / rw - ext4 /dev/a rw\n\
            2 1 0:9 / /home rw,relatime shared:1 - nfs4 host:/x rw\n\
            3 2 0:10 / /home/a\\040b/p/in rw - tmpfs t rw\n\
            4 1 0:11 / /home/a rw - xfs t rw\n\
            5 1 0:11 / /homes rw - xfs t rw\n\
            broken\n";
        let found = |path: &str| -> Vec<_> {
            let mounts = mounts_of(text, &Path::from(path));
            mounts
                .into_iter()
                .map(|(at, kind)| format!("{} {kind}", at.as_path().display()))
                .collect()
        };
        assert_eq!(found("/home/a b/p"), ["/home nfs4", "/home/a b/p/in tmpfs"]);
        assert_eq!(found("/srv"), ["/ ext4"]);
        assert_eq!(found("/home/a"), ["/home/a xfs"]);
        assert_eq!(found("/home/a b"), ["/home nfs4", "/home/a b/p/in tmpfs"]);
    }
}
