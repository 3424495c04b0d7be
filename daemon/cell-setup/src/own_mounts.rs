//! Gives a runner its own copy of the session's mounts. Runs in the cell, while it has privilege.

use crate::{
    failure::StepFailure,
    kernel::{self, Recursive},
    mounts::{self, NO_DEV, NO_EXEC, NO_SUID, READ_ONLY},
    root::{proc, terminals},
    worktree,
};
use palisade_plan::{Access, Bind, MissingPath, ProcView};
use palisade_workspace::MainRepository;
use rustix::{
    fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags},
    io::Errno,
};
use std::{
    os::fd::{AsFd as _, OwnedFd},
    path::Path,
};

/// The files of `/proc` that list keys of the kernel.
const KEY_LISTS: [&str; 2] = ["/proc/keys", "/proc/key-users"];

/// Gives a runner its own copy of the session's mounts, in which `/proc` shows its own processes and
/// `/dev/pts` its own terminals: no program can open the terminal of another call or job.
/// Returns the main repository, if the workspace was a linked worktree of git when the session began.
pub(crate) fn own_mounts(repository: Access) -> Result<Option<MainRepository>, StepFailure> {
    nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNS)
        .map_err(StepFailure::kernel("unshare Mount"))?;
    mounts::make_private()?;
    mount_over("/proc", proc(ProcView::Own)?)?;
    mount_over("/dev/pts", terminals()?)?;
    let stat = rustix::fs::statat(CWD, "/proc/self", AtFlags::SYMLINK_NOFOLLOW);
    stat.map(drop).map_err(StepFailure::kernel("look at own /proc"))?;
    hide_keys()?;
    let main = worktree::recorded()?;
    if let Some(main) = main.as_ref().filter(|_| repository != Access::Write) {
        make_repository_read_only(main)?;
    }
    Ok(main)
}

/// Attaches a mount over a directory of the session's.
fn mount_over(path: &str, mount: OwnedFd) -> Result<(), StepFailure> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let links = ResolveFlags::NO_SYMLINKS;
    let at = rustix::fs::openat2(CWD, path, flags, Mode::empty(), links)
        .map_err(StepFailure::kernel(format!("open {path}")))?;
    mounts::attach(mount.as_fd(), at.as_fd(), Path::new(""))
        .map_err(StepFailure::kernel(format!("mount {path}")))
}

/// Makes a linked worktree's main repository read-only in a runner's own copy of the session's
/// mounts.
pub(crate) fn make_repository_read_only(main: &MainRepository) -> Result<(), StepFailure> {
    let (path, missing) = (main.path.clone(), MissingPath::Refuse);
    make_read_only(&Bind { path, access: Access::Write, missing })
}

/// Makes the writable binds read-only in a runner's own copy of the session's mounts.
pub(crate) fn read_only(binds: &[Bind]) -> Result<(), StepFailure> {
    binds.iter().try_for_each(make_read_only)
}

fn make_read_only(bind: &Bind) -> Result<(), StepFailure> {
    let act = || StepFailure::kernel(format!("read-only {:?}", bind.path));
    let mount = match (mounts::resolve(bind.path.as_path()), bind.missing) {
        (Ok(mount), _) => mount,
        (Err(Errno::NOENT | Errno::NOTDIR), MissingPath::Skip) => return Ok(()),
        (Err(error), _) => return Err(act()(error)),
    };
    // The host has nothing at this path, and what is there now is the session's own.
    if bind.missing == MissingPath::Skip && !mounts::is_mount(&mount).map_err(act())? {
        return Ok(());
    }
    kernel::set_mount_attributes(mount.as_fd(), READ_ONLY, Recursive::Yes)
        .map_err(StepFailure::kernel(format!("read-only {:?}", bind.path)))
}

/// Covers the lists of keys, which describe the user's keys outside, and which users have some. A
/// device on a mount without devices can not be opened.
pub(crate) fn hide_keys() -> Result<(), StepFailure> {
    let null = mounts::resolve(Path::new("/dev/null")).map_err(StepFailure::kernel("/dev/null"))?;
    for path in KEY_LISTS {
        let act = || StepFailure::kernel(format!("cover {path}"));
        let at = match mounts::resolve(Path::new(path)) {
            Ok(at) => at,
            // A kernel without keys.
            Err(Errno::NOENT) => continue,
            Err(error) => return Err(act()(error.into())),
        };
        let cover = mounts::copy(null.as_fd(), READ_ONLY | NO_SUID | NO_DEV | NO_EXEC);
        mounts::attach(cover.map_err(act())?.as_fd(), at.as_fd(), Path::new("")).map_err(act())?;
    }
    Ok(())
}
