//! The ceiling's rules for paths: which may be visible, writable or covered by a mount.

use super::{Ceiling, error::CeilingError};
use crate::{Access, Bind, Grant, LaunchPlan, Tmpfs};
use std::{
    collections::HashMap,
    os::unix::ffi::OsStrExt as _,
    path::{Component, Path, PathBuf},
};

/// Directories that belong to the system. Neither they nor a directory above them is ever writable.
const SYSTEM: [&str; 17] = [
    "/etc", "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/boot", "/dev",
    "/proc", "/sys", "/run", "/var", "/opt", "/home", "/nix",
];

/// System directories below which nothing may be writable either.
const SYSTEM_WHOLE: [&str; 10] =
    ["/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/boot", "/proc", "/sys", "/etc"];

/// Palisade's own directories: configuration, sockets and state.
pub(super) const OWN: [&str; 3] = ["/etc/palisade", "/run/palisade", "/var/lib/palisade"];

/// Directories with the files and sockets of running programs. With them a session could act outside
/// of itself, so that it gets neither them nor anything below them, not even to read.
const RUNNING: [&str; 2] = ["/proc", "/run/user"];

/// Names by which programs outside the sandbox decide whom to admit or what to run at a login. No
/// bind or workspace at or below them is writable.
const LOGIN: [&str; 22] = [
    ".ssh",
    ".gnupg",
    ".bashrc",
    ".bash_profile",
    ".bash_login",
    ".bash_logout",
    ".profile",
    ".zshrc",
    ".zshenv",
    ".zprofile",
    ".zlogin",
    ".zlogout",
    ".pam_environment",
    ".xinitrc",
    ".xsession",
    ".xprofile",
    ".forward",
    ".rhosts",
    ".shosts",
    ".k5login",
    ".config/systemd",
    ".config/autostart",
];

/// Returns `true` if a path is absolute and made of plain names: no `.`, no `..`, no `//`, no NUL,
/// no slash at its end.
#[must_use]
pub fn is_plain(path: &Path) -> bool {
    // `components` skips some of these forms, so the text must equal what the components join to.
    path.is_absolute()
        && !path.as_os_str().as_bytes().contains(&0)
        && path.components().all(|c| matches!(c, Component::RootDir | Component::Normal(_)))
        && path.components().collect::<PathBuf>().as_os_str() == path.as_os_str()
}

/// Returns `true` if a path is the root, a system directory, or below a system directory that is
/// never writable in any part.
#[must_use]
pub fn is_system(path: &Path) -> bool {
    SYSTEM.iter().any(|system| Path::new(system).starts_with(path))
        || SYSTEM_WHOLE.iter().any(|system| path.starts_with(system))
        || (path.starts_with("/dev") && !path.starts_with("/dev/shm"))
}

/// Returns `true` if a path has the files and sockets of running programs of the host.
#[must_use]
pub fn is_running(path: &Path) -> bool {
    RUNNING.iter().any(|running| path.starts_with(running))
}

/// Returns `true` if a path is a home below `/home`, root's home, or at or below a name of
/// [`LOGIN`].
fn is_login(path: &Path) -> bool {
    let is_home = path.parent() == Some(Path::new("/home")) || path == Path::new("/root");
    let below = |name: &str| {
        let count = name.split('/').count();
        let parts: Vec<_> = path.iter().collect();
        parts.windows(count).any(|parts| parts.iter().copied().eq(Path::new(name)))
    };
    is_home || LOGIN.iter().any(|name| below(name))
}

/// Checks where the path of a bind really leads, after its links were followed. Runs in the cell.
///
/// # Errors
/// If no session may have it, or not with this access.
pub fn check_resolved(path: &Path, access: Access) -> Result<(), CeilingError> {
    check_plain("bind", path)?;
    refuse_own("bind", path, OWN.iter().map(Path::new))?;
    check_access("bind", path, access)?;
    check_mounted("bind", path, access)
}

impl Ceiling {
    pub(super) fn check_paths(&self, plan: &LaunchPlan) -> Result<(), CeilingError> {
        self.check_bind("workspace", &plan.workspace)?;
        plan.binds.iter().try_for_each(|bind| self.check_bind("bind", bind))?;
        plan.sockets.iter().try_for_each(|bind| self.check_bind("socket", bind))?;
        plan.tmpfs.iter().try_for_each(check_tmpfs)?;
        if let Some(home) = plan.home.as_ref().filter(|home| !is_private(plan, home)) {
            return Err(CeilingError::NotPrivate(home.as_path().to_owned()));
        }
        plan.empty.iter().try_for_each(|path| check_plain("empty directory", path.as_path()))?;
        let mounts = mounts(plan);
        plan.grants.iter().try_for_each(|grant| self.check_grant(&mounts, grant))
    }

    fn check_bind(&self, what: &'static str, bind: &Bind) -> Result<(), CeilingError> {
        let path = bind.path.as_path();
        check_plain(what, path)?;
        self.check_never(what, path)?;
        check_access(what, path, bind.access)?;
        check_mounted(what, path, bind.access)
    }

    fn check_grant(&self, mounts: &Mounts<'_>, grant: &Grant) -> Result<(), CeilingError> {
        let path = grant.path.as_path();
        check_plain("grant", path)?;
        let on = path.ancestors().find_map(|above| mounts.get(above).copied());
        if on != Some(Mount::Private) {
            // A grant on a private file system can not reach the host's directories below it. Any
            // other grant could.
            self.check_never("grant", path)?;
        }
        check_access("grant", path, grant.access)?;
        match (grant.access, on) {
            (Access::Write, None | Some(Mount::ReadOnly)) => {
                Err(CeilingError::Uncovered(path.to_owned()))
            }
            (Access::Write, Some(Mount::Private | Mount::Writable))
            | (Access::List | Access::Read | Access::Execute | Access::Device, _) => Ok(()),
        }
    }

    /// Refuses Palisade's own directories, also read-only: a socket on a read-only mount still
    /// accepts connections.
    fn check_never(&self, what: &'static str, path: &Path) -> Result<(), CeilingError> {
        refuse_own(what, path, self.never.iter().map(crate::Path::as_path))
    }
}

fn refuse_own<'a>(
    what: &'static str,
    path: &Path,
    mut own: impl Iterator<Item = &'a Path>,
) -> Result<(), CeilingError> {
    match own.find(|own| own.starts_with(path) || path.starts_with(own)) {
        Some(own) => Err(CeilingError::Never { what, path: path.into(), never: own.into() }),
        None => Ok(()),
    }
}

/// Checks what may be mounted at all, and what may be mounted writable.
fn check_mounted(what: &'static str, path: &Path, access: Access) -> Result<(), CeilingError> {
    if is_running(path) {
        return Err(CeilingError::Running { what, path: path.to_owned() });
    }
    match access {
        Access::Write if is_login(path) => Err(CeilingError::Login { what, path: path.to_owned() }),
        Access::List | Access::Read | Access::Execute | Access::Write | Access::Device => Ok(()),
    }
}

/// The kind of mount that a path is on, ordered from lax to strict.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Mount {
    Private,
    Writable,
    ReadOnly,
}

/// The mounts of a plan by their places, which are plain paths.
type Mounts<'a> = HashMap<&'a Path, Mount>;

/// Collects the mounts of a plan. Of two at one place the stricter counts, whichever is mounted
/// last.
fn mounts(plan: &LaunchPlan) -> Mounts<'_> {
    let tmpfs = plan.tmpfs.iter().map(|tmpfs| (tmpfs.path.as_path(), Mount::Private));
    let binds = std::iter::once(&plan.workspace).chain(&plan.binds).map(|bind| {
        let mount = match bind.access {
            Access::Write => Mount::Writable,
            Access::List | Access::Read | Access::Execute | Access::Device => Mount::ReadOnly,
        };
        (bind.path.as_path(), mount)
    });
    let mut all: Vec<_> = tmpfs.chain(binds).collect();
    all.sort_by_key(|(_, mount)| *mount);
    all.into_iter().collect()
}

fn check_plain(what: &'static str, path: &Path) -> Result<(), CeilingError> {
    if is_plain(path) { Ok(()) } else { Err(CeilingError::NotPlain { what, path: path.into() }) }
}

fn check_access(what: &'static str, path: &Path, access: Access) -> Result<(), CeilingError> {
    match access {
        Access::Write if is_system(path) => Err(CeilingError::System { what, path: path.into() }),
        Access::Device if !path.starts_with("/dev") => Err(CeilingError::Device(path.to_owned())),
        Access::List | Access::Read | Access::Execute | Access::Write | Access::Device => Ok(()),
    }
}

/// Returns `true` if a path is a private file system of the session.
fn is_private(plan: &LaunchPlan, path: &crate::Path) -> bool {
    plan.tmpfs.iter().any(|tmpfs| tmpfs.path == *path)
}

fn check_tmpfs(tmpfs: &Tmpfs) -> Result<(), CeilingError> {
    let what = "private file system";
    let path = tmpfs.path.as_path();
    check_plain(what, path)?;
    // A session has an empty `/run` in place of the host's.
    if is_system(path) && path != Path::new("/run") {
        return Err(CeilingError::System { what, path: path.to_owned() });
    }
    if tmpfs.mode & !0o1777 != 0 {
        return Err(CeilingError::Mode { path: path.to_owned(), mode: tmpfs.mode });
    }
    Ok(())
}
