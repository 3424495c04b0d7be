//! The ceiling's rules on paths: what may be seen, written and hidden.

use super::{Ceiling, error::CeilingError};
use crate::{Access, Bind, Grant, LaunchPlan, Tmpfs};
use std::{
    os::unix::ffi::OsStrExt as _,
    path::{Component, Path, PathBuf},
};

/// Directories of the system's own. None of them, and nothing that holds one, is ever writable.
const SYSTEM: [&str; 17] = [
    "/etc", "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/boot", "/dev",
    "/proc", "/sys", "/run", "/var", "/opt", "/home", "/nix",
];

/// Those of them whose insides are not for writing either.
const SYSTEM_WHOLE: [&str; 10] =
    ["/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/boot", "/proc", "/sys", "/etc"];

/// Whether a path is absolute and made of plain names: no `.`, no `..`, no `//`, no NUL, no slash
/// at its end.
#[must_use]
pub fn is_plain(path: &Path) -> bool {
    // Components pass over some of these, so the text must be what the components make of it.
    path.is_absolute()
        && !path.as_os_str().as_bytes().contains(&0)
        && path.components().all(|c| matches!(c, Component::RootDir | Component::Normal(_)))
        && path.components().collect::<PathBuf>().as_os_str() == path.as_os_str()
}

/// Whether a path is the root, one of the system's own directories, or inside one that is the
/// system's to the last file.
#[must_use]
pub fn is_system(path: &Path) -> bool {
    SYSTEM.iter().any(|system| Path::new(system).starts_with(path))
        || SYSTEM_WHOLE.iter().any(|system| path.starts_with(system))
        || (path.starts_with("/dev") && !path.starts_with("/dev/shm"))
}

impl Ceiling {
    pub(super) fn check_paths(&self, plan: &LaunchPlan) -> Result<(), CeilingError> {
        self.check_bind("workspace", &plan.workspace)?;
        plan.binds.iter().try_for_each(|bind| self.check_bind("bind", bind))?;
        plan.tmpfs.iter().try_for_each(check_tmpfs)?;
        plan.empty.iter().try_for_each(|path| check_plain("empty directory", path.as_path()))?;
        plan.grants.iter().try_for_each(|grant| self.check_grant(plan, grant))
    }

    fn check_bind(&self, what: &'static str, bind: &Bind) -> Result<(), CeilingError> {
        let path = bind.path.as_path();
        check_plain(what, path)?;
        self.check_never(what, path)?;
        check_access(what, path, bind.access)
    }

    fn check_grant(&self, plan: &LaunchPlan, grant: &Grant) -> Result<(), CeilingError> {
        let path = grant.path.as_path();
        check_plain("grant", path)?;
        let on = innermost(plan, path);
        if on != Some(Mount::Private) {
            // A private file system hides what lies below it; anything else would show it.
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

    /// Also read-only: a socket can be connected to on a read-only mount.
    fn check_never(&self, what: &'static str, path: &Path) -> Result<(), CeilingError> {
        let mut never = self.never.iter().map(crate::Path::as_path);
        match never.find(|never| never.starts_with(path) || path.starts_with(never)) {
            Some(never) => {
                Err(CeilingError::Never { what, path: path.to_owned(), never: never.to_owned() })
            }
            None => Ok(()),
        }
    }
}

/// What a path lies on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Mount {
    Private,
    Writable,
    ReadOnly,
}

/// The innermost mount of the plan's that a path lies on.
fn innermost(plan: &LaunchPlan, path: &Path) -> Option<Mount> {
    let tmpfs = plan.tmpfs.iter().map(|tmpfs| (tmpfs.path.as_path(), Mount::Private));
    let binds = std::iter::once(&plan.workspace).chain(&plan.binds).map(|bind| {
        let mount = match bind.access {
            Access::Write => Mount::Writable,
            Access::List | Access::Read | Access::Execute | Access::Device => Mount::ReadOnly,
        };
        (bind.path.as_path(), mount)
    });
    let over = tmpfs.chain(binds).filter(|(mount, _)| path.starts_with(mount));
    // Of two at one place the stricter counts, whichever is mounted last.
    over.max_by_key(|(at, mount)| (at.components().count(), *mount)).map(|(_, mount)| mount)
}

fn check_plain(what: &'static str, path: &Path) -> Result<(), CeilingError> {
    if is_plain(path) {
        return Ok(());
    }
    Err(CeilingError::NotPlain { what, path: path.to_owned() })
}

fn check_access(what: &'static str, path: &Path, access: Access) -> Result<(), CeilingError> {
    match access {
        Access::Write if is_system(path) => {
            Err(CeilingError::System { what, path: path.to_owned() })
        }
        Access::Device if !path.starts_with("/dev") => Err(CeilingError::Device(path.to_owned())),
        Access::List | Access::Read | Access::Execute | Access::Write | Access::Device => Ok(()),
    }
}

fn check_tmpfs(tmpfs: &Tmpfs) -> Result<(), CeilingError> {
    let what = "private file system";
    let path = tmpfs.path.as_path();
    check_plain(what, path)?;
    // An empty /run is what a session has instead of the host's.
    if is_system(path) && path != Path::new("/run") {
        return Err(CeilingError::System { what, path: path.to_owned() });
    }
    if tmpfs.mode & !0o1777 != 0 {
        return Err(CeilingError::Mode { path: path.to_owned(), mode: tmpfs.mode });
    }
    Ok(())
}
