//! The owner of the daemon: root or an ordinary user.
#![allow(unsafe_code)]

use crate::effort;

/// An ordinary user without an account, for tests that are started by root.
pub const ORDINARY: u32 = 4242;

/// The owner of the daemon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Root: the launcher has privilege, the broker gives it up.
    System,
    /// An ordinary user: broker, launcher and cells run on user namespaces.
    User,
}

impl Mode {
    /// Returns both modes if root runs the tests; an ordinary user can only be itself. With
    /// `PALISADE_TEST_MODE=system` root leaves the user's mode to an ordinary user who runs the tests
    /// too.
    ///
    /// # Panics
    /// If `PALISADE_TEST_MODE` has another value.
    #[must_use]
    pub fn all() -> Vec<Self> {
        if !rustix::process::geteuid().is_root() {
            return vec![Self::User];
        }
        match std::env::var("PALISADE_TEST_MODE").as_deref() {
            Ok("system") => vec![Self::System],
            Ok(other) => panic!("PALISADE_TEST_MODE={other}: only `system` is known"),
            Err(_) => vec![Self::System, Self::User],
        }
    }

    /// Returns the modes of a test whose scene only root can furnish, such as files of several users: both
    /// if root runs it, whatever `PALISADE_TEST_MODE` says, because an ordinary user's run does not try it.
    #[must_use]
    pub fn every() -> Vec<Self> {
        match rustix::process::geteuid().is_root() {
            true => vec![Self::System, Self::User],
            false => vec![Self::User],
        }
    }

    /// Returns whether one of many cases is tried in this mode: all of them in the long form; in the short
    /// form each in one of the modes, in turn.
    #[must_use]
    pub fn has_turn(self, case: usize) -> bool {
        let all = Self::all();
        effort(all.get(case % all.len()) == Some(&self), true)
    }

    /// Runs `act` with this mode's identity. Sockets and processes that it creates belong to that
    /// user.
    pub fn act<T: Send>(self, act: impl FnOnce() -> T + Send) -> T {
        self.act_in(&[], act)
    }

    /// Runs `act` with this mode's identity; an ordinary user's is in these supplementary groups too,
    /// which only root can arrange.
    pub fn act_in<T: Send>(self, groups: &[u32], act: impl FnOnce() -> T + Send) -> T {
        if self == Self::System || !rustix::process::geteuid().is_root() {
            return act();
        }
        act_as_in(ORDINARY, groups, act)
    }

    /// Returns the uid that tools run as.
    #[must_use]
    pub fn uid(self) -> u32 {
        let own = rustix::process::geteuid();
        if self == Self::User && own.is_root() { ORDINARY } else { own.as_raw() }
    }
}

/// Runs `act` with another user's identity, which only root may do.
pub fn act_as<T: Send>(uid: u32, act: impl FnOnce() -> T + Send) -> T {
    act_as_in(uid, &[], act)
}

fn act_as_in<T: Send>(uid: u32, groups: &[u32], act: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            become_user(uid, groups);
            act()
        });
        match thread.join() {
            Ok(value) => value,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

/// Gives this thread, and what it starts, a user's identity.
fn become_user(uid: u32, groups: &[u32]) {
    let id = libc::c_long::from(uid);
    // SAFETY: the raw call changes the credentials of this thread only, which is about to do one
    // thing and end; it reads the slice, of this length.
    let groups = unsafe { libc::syscall(libc::SYS_setgroups, groups.len(), groups.as_ptr()) };
    // SAFETY: as above; it reads no memory.
    let gid = unsafe { libc::syscall(libc::SYS_setresgid, id, id, id) };
    // SAFETY: as above.
    let uid = unsafe { libc::syscall(libc::SYS_setresuid, id, id, id) };
    assert_eq!((groups, gid, uid), (0, 0, 0), "the tests must be able to become an ordinary user");
}
