//! The directory for transactions that are stored on disk, with a subdirectory for each. What is
//! left when a transaction's process has ended is deleted by a separate process, so that nobody
//! waits for it.
//!
//! Several launchers of one user share the place. Each holds a lock on its own directory for as
//! long as it lives. A directory without a lock was left by a killed launcher, and is deleted when
//! the next one starts.

use crate::spawn::{Process, Spawner};
use palisade_plan::{Identity, MountRights, Role, Step, Store, cell::Setup};
use rustix::{
    event::{PollFd, PollFlags, Timespec},
    fs::{AtFlags, CWD, FlockOperation, Mode, OFlags, ResolveFlags},
    io::Errno,
};
use std::{
    io,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

/// The time that the launcher waits for deletions when it ends.
const PATIENCE: Duration = Duration::from_secs(10);

/// The number of names that are tried for the launcher's own directory.
const TRIES: u32 = 64;

/// The launcher's directories for transactions on disk.
#[derive(Debug)]
pub(crate) struct Stores {
    /// The directory in which all launchers of this user have theirs, or why there is none.
    place: Result<PathBuf, String>,
    /// This launcher's directory, and its lock.
    own: Option<(PathBuf, OwnedFd)>,
    next: u64,
    sweeps: Vec<Sweep>,
    /// With whose rights the leftovers of transactions are deleted.
    rights: MountRights,
}

/// A process that deletes a directory.
#[derive(Debug)]
struct Sweep {
    process: Process,
    /// Held until the directory is deleted, so that nobody else takes it.
    _lock: Option<OwnedFd>,
}

impl Stores {
    /// Uses a place if nobody else can write to it, and starts deleting what killed launchers left
    /// there. A place that can not be used is ignored: transactions are then held in memory.
    pub(crate) fn open(place: Option<PathBuf>, spawner: &Spawner, rights: MountRights) -> Self {
        let place = match place {
            None => Err("the launcher has no directory for transactions (--store)".to_owned()),
            Some(place) => match open(&place).and_then(check) {
                Ok(()) => Ok(place),
                Err(why) => Err(format!("--store {}: {why}", place.display())),
            },
        };
        if let (MountRights::Session, Err(why)) = (rights, &place) {
            eprintln!("palisade-launcher: {why}");
        }
        let sweeps = Vec::new();
        let mut stores = Self { place, own: None, next: 0, sweeps, rights };
        for (place, name, lock) in stores.place.as_deref().map(left).unwrap_or_default() {
            stores.sweep_in(&place, name, Some(lock), spawner);
        }
        stores
    }

    /// Returns a new directory for a transaction; `None` if transactions can not be stored on disk.
    pub(crate) fn take(&mut self, identity: Identity) -> Option<Store> {
        if self.own.is_none() {
            // If this fails, transactions are held in memory, as with a place that can not be used.
            self.own = own(self.place.as_deref().ok()?)
                .inspect_err(|why| eprintln!("palisade-launcher: --store: {why}"))
                .ok();
        }
        let (own, _) = self.own.as_ref()?;
        self.next += 1;
        Some(Store { directory: own.into(), name: self.next.to_string(), identity })
    }

    /// Returns why transactions can not be stored on disk, if the place can not be used.
    pub(crate) fn hindrance(&self) -> Option<&str> {
        self.place.as_ref().err().map(String::as_str)
    }

    /// Starts deleting the directory of a transaction that has ended.
    pub(crate) fn sweep(&mut self, name: String, spawner: &Spawner) {
        if let Some((own, _)) = &self.own {
            let own = own.clone();
            self.sweep_in(&own, name, None, spawner);
        }
    }

    fn sweep_in(&mut self, above: &Path, name: String, lock: Option<OwnedFd>, spawner: &Spawner) {
        let steps = vec![Step::Sweep { directory: above.into(), name, rights: self.rights }];
        let setup = Setup { role: Role::Sweep, session: 0, steps, channels: 0, scanned: 0 };
        // What can not be deleted now is deleted at the next start.
        let process = match spawner.start() {
            Ok(process) => process,
            Err(error) => {
                return eprintln!(
                    "palisade-launcher: can not delete a transaction's directory: {error}"
                );
            }
        };
        if let Err(error) = process.set_up(&setup, &[]) {
            eprintln!("palisade-launcher: can not delete a transaction's directory: {error}");
            process.kill();
        }
        self.sweeps.push(Sweep { process, _lock: lock });
    }

    /// Returns the processes that are deleting something now.
    pub(crate) fn processes(&self) -> impl Iterator<Item = &Process> {
        self.sweeps.iter().map(|sweep| &sweep.process)
    }

    /// Reaps the processes that have ended.
    pub(crate) fn collect(&mut self) {
        self.sweeps.retain(|sweep| !sweep.process.has_ended());
    }

    /// Waits a little for deletions to finish, and deletes the launcher's own directory.
    pub(crate) fn finish(&mut self) {
        let until = Instant::now() + PATIENCE;
        for Sweep { process, .. } in self.sweeps.drain(..) {
            let left = until.saturating_duration_since(Instant::now());
            let mut polled = [PollFd::new(&process.pidfd, PollFlags::IN)];
            let left = Timespec::try_from(left).unwrap_or(Timespec { tv_sec: 0, tv_nsec: 0 });
            if !rustix::event::poll(&mut polled, Some(&left)).is_ok_and(|ended| ended > 0) {
                process.kill();
            }
            process.collect();
        }
        if let Some((own, _)) = self.own.take() {
            // If it is not empty, the next launcher deletes it.
            rustix::fs::unlinkat(CWD, &own, AtFlags::REMOVEDIR).unwrap_or_default();
        }
    }
}

fn open(directory: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let resolve = ResolveFlags::NO_SYMLINKS;
    Ok(rustix::fs::openat2(CWD, directory, flags, Mode::empty(), resolve)?)
}

/// Refuses a directory in which somebody else could place files.
fn check(opened: OwnedFd) -> io::Result<()> {
    let stat = rustix::fs::fstat(&opened)?;
    let own = rustix::process::geteuid().as_raw();
    if ![0, own].contains(&stat.st_uid) || stat.st_mode & 0o022 != 0 {
        return Err(io::Error::other(format!(
            "it belongs to uid {}, mode {:04o}; only uid {own}, or root, may be its owner and write \
             it: chown {own} and chmod 0711 it",
            stat.st_uid,
            stat.st_mode & 0o7777
        )));
    }
    Ok(())
}

/// Creates and locks a directory for this launcher.
fn own(place: &Path) -> io::Result<(PathBuf, OwnedFd)> {
    for number in 0..TRIES {
        let directory = place.join(number.to_string());
        match rustix::fs::mkdir(&directory, Mode::RWXU) {
            Err(Errno::EXIST) => continue,
            made => made?,
        }
        let opened = open(&directory)?;
        // Another launcher may have taken it for a leftover and deleted it.
        let locked = rustix::fs::flock(&opened, FlockOperation::NonBlockingLockExclusive).is_ok();
        if locked && rustix::fs::fstat(&opened)?.st_nlink > 0 {
            return Ok((directory, opened));
        }
    }
    Err(io::Error::other("too many launchers have a directory there"))
}

/// Finds the directories that killed launchers left: nobody holds their locks.
fn left(place: &Path) -> Vec<(PathBuf, String, OwnedFd)> {
    let Ok(entries) = std::fs::read_dir(place) else { return Vec::new() };
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    names
        .filter_map(|name| {
            let opened = open(&place.join(&name)).ok()?;
            rustix::fs::flock(&opened, FlockOperation::NonBlockingLockExclusive).ok()?;
            Some((place.to_owned(), name, opened))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        fs,
        os::unix::fs::{PermissionsExt as _, symlink},
    };

    #[test]
    fn only_a_directory_that_nobody_else_writes_is_taken() {
        let temp = tempfile::tempdir().unwrap();
        let own = temp.path().join("own");
        let checked = |path: &Path| open(path).and_then(check);
        fs::create_dir(&own).unwrap();
        fs::set_permissions(&own, fs::Permissions::from_mode(0o711)).unwrap();
        assert!(checked(&own).is_ok());
        let link = temp.path().join("link");
        symlink(&own, &link).unwrap();
        assert_eq!(checked(&link).unwrap_err().raw_os_error(), Some(20));
        fs::set_permissions(&own, fs::Permissions::from_mode(0o777)).unwrap();
        let refused = checked(&own).unwrap_err().to_string();
        assert!(refused.contains(", mode 0777; only uid "), "{refused}");
        assert_eq!(checked(&temp.path().join("none")).unwrap_err().raw_os_error(), Some(2));
    }

    #[test]
    fn what_a_living_launcher_has_is_not_what_a_killed_one_left() {
        let temp = tempfile::tempdir().unwrap();
        let (first, lock) = own(temp.path()).unwrap();
        let (second, other) = own(temp.path()).unwrap();
        assert_ne!(first, second);
        let names = || left(temp.path()).into_iter().map(|(_, name, _)| name).collect::<Vec<_>>();
        assert_eq!(names(), Vec::<String>::new());
        drop(lock);
        assert_eq!(names(), ["0"]);
        drop(other);
        assert_eq!(names().len(), 2);
    }
}
