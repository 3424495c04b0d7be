//! The user of a process, for messages, and the directory that locks it out.

use nix::unistd::{Uid, User};
use rustix::fs::{Access, AtFlags, CWD};
use std::{
    fmt,
    path::{Path, PathBuf},
};

/// A user as messages name them: `alice (uid 1000)`, or `uid 61184` without an account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Person {
    uid: u32,
    name: Option<String>,
}

impl Person {
    /// Returns the effective user of this process.
    #[must_use]
    pub fn this_process() -> Self {
        Self::of(rustix::process::geteuid().as_raw())
    }

    /// Returns the user with this uid.
    #[must_use]
    pub fn of(uid: u32) -> Self {
        // If the account can not be looked up, only the number is shown.
        let found = User::from_uid(Uid::from_raw(uid)).ok().flatten();
        Self { uid, name: found.map(|user| user.name) }
    }
}

impl fmt::Display for Person {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => write!(f, "{name} (uid {})", self.uid),
            None => write!(f, "uid {}", self.uid),
        }
    }
}

/// Returns the first directory on a path that this process may not enter.
#[must_use]
pub fn closed_directory(path: &Path) -> Option<PathBuf> {
    let way: Vec<_> = path.ancestors().skip(1).filter(|part| part.is_absolute()).collect();
    let is_closed = |directory: &&&Path| {
        let flags = AtFlags::EACCESS;
        let entered = rustix::fs::accessat(CWD, **directory, Access::EXEC_OK, flags);
        entered == Err(rustix::io::Errno::ACCESS)
    };
    way.iter().rev().find(is_closed).map(|directory| (*directory).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_have_a_name_if_there_is_one() {
        assert_eq!(Person::of(0).to_string(), "root (uid 0)");
        assert_eq!(Person::of(4_000_000).to_string(), "uid 4000000");
    }

    #[test]
    fn a_way_that_is_open_has_no_closed_directory() {
        assert_eq!(closed_directory(Path::new("/usr/bin/true")), None);
        assert_eq!(closed_directory(Path::new("/nonexistent/file")), None);
    }
}
