//! Determines the launcher's privilege, and gives up everything that is not needed.

use crate::{hindrance, spawn::StartIdentity};
use caps::{CapSet, Capability, CapsHashSet};
use nix::sched::{CloneFlags, unshare};
use palisade_plan::{Found, MountRights};
use std::io;

/// The capabilities that the launcher and the first steps of a cell need, each with its reason.
pub(crate) const NEEDED: [Capability; 9] = [
    // Creating namespaces and mounts.
    Capability::CAP_SYS_ADMIN,
    // Entering another mount namespace.
    Capability::CAP_SYS_CHROOT,
    // Switching to the session's user.
    Capability::CAP_SETUID,
    // Switching to the session's group, and dropping the others.
    Capability::CAP_SETGID,
    // Emptying the bounding set and locking the securebits.
    Capability::CAP_SETPCAP,
    // Bringing up the loopback of a new network namespace.
    Capability::CAP_NET_ADMIN,
    // Listening on ports below 1024 of a new network namespace, for names and for web servers.
    Capability::CAP_NET_BIND_SERVICE,
    // Ending cells, which run as other users.
    Capability::CAP_KILL,
    // Finding the owner of a workspace that root asked for.
    Capability::CAP_DAC_READ_SEARCH,
];

/// Capabilities that are kept if the launcher has them, and not required.
const WELCOME: [Capability; 2] = [
    // Receiving the kernel's records of denials.
    Capability::CAP_AUDIT_READ,
    // Needed for root's own sessions: overlays are mounted in a user namespace that maps the
    // session's user, and mapping root requires this.
    Capability::CAP_SETFCAP,
];

/// A capability that only an ordinary user's launcher keeps, in a user namespace without any other
/// user. It is needed for the directory in which overlayfs works on a transaction, which nobody may
/// enter, not even its owner.
const OVER_OWN_FILES: Capability = Capability::CAP_DAC_OVERRIDE;

/// The command line's claim whose launcher this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claim {
    /// Not given. A launcher that runs as root and lacks nothing is the system's; any other is its
    /// user's own.
    Unsaid,
    /// The system's, whatever user it runs as. It must have all the capabilities.
    System,
}

/// The description of namespaces that are still to be tried.
const UNTRIED: &str = "not tried";

/// The launcher's privilege.
#[derive(Debug, Clone)]
pub(crate) struct Privilege {
    /// True if the launcher may switch to other users' identities.
    pub(crate) privileged: bool,
    /// The user namespace it is in, or why there is none.
    pub(crate) user_namespace: Found,
    /// The availability of PID namespaces for its cells, as far as it is known without trying.
    pub(crate) pid_namespaces: Found,
}

impl Privilege {
    /// Returns the privilege of the system's launcher.
    pub(crate) fn system() -> Self {
        Self {
            privileged: true,
            user_namespace: Found::Yes("not needed: the launcher has the capabilities".into()),
            pid_namespaces: Found::Yes(UNTRIED.into()),
        }
    }

    /// Returns the privilege of a user's own launcher.
    pub(crate) fn user(user_namespace: Found) -> Self {
        Self { privileged: false, user_namespace, pid_namespaces: Found::Yes(UNTRIED.into()) }
    }

    /// Returns the rights with which its cells mount overlays.
    pub(crate) const fn mount_rights(&self) -> MountRights {
        match self.privileged {
            true => MountRights::Session,
            false => MountRights::Own,
        }
    }

    /// Returns the identity with which the processes of cells start.
    pub(crate) fn cell_start_identity(&self) -> StartIdentity {
        match (self.privileged, nix::unistd::geteuid().is_root()) {
            (true, false) => StartIdentity::AsRoot,
            (true, true) | (false, _) => StartIdentity::AsLauncher,
        }
    }
}

/// An error from determining or reducing the privilege.
#[derive(Debug, thiserror::Error)]
pub enum PrivilegeError {
    /// The capability sets could not be changed.
    #[error("capabilities: {0}")]
    Capabilities(#[from] caps::errors::CapsError),
    /// The system's launcher lacks capabilities.
    #[error(
        "the system's launcher (--system) lacks {0}; its unit must list them in \
         AmbientCapabilities= and in CapabilityBoundingSet="
    )]
    Missing(String),
}

/// Determines the privilege, enters a user namespace if there is none, and gives up what is not
/// needed. Called first, before any message is read.
pub(crate) fn establish(claim: Claim) -> Result<Privilege, PrivilegeError> {
    let missing = missing(&caps::read(None, CapSet::Effective)?);
    let root = nix::unistd::geteuid().is_root();
    let privilege = match (claim, missing) {
        (Claim::System, Some(missing)) => return Err(PrivilegeError::Missing(missing)),
        (Claim::System, None) => Privilege::system(),
        (Claim::Unsaid, None) if root => Privilege::system(),
        (Claim::Unsaid, _) => {
            let user_namespace = match enter_user_namespace() {
                Ok(()) => Found::Yes("the launcher's own".into()),
                Err(error) => Found::No(error),
            };
            Privilege::user(user_namespace)
        }
    };
    if privilege.user_namespace.is_yes() {
        keep_only_needed(privilege.privileged)?;
    }
    Ok(privilege)
}

/// Returns the names of needed capabilities that are missing.
fn missing(effective: &CapsHashSet) -> Option<String> {
    let missing = NEEDED.iter().filter(|needed| !effective.contains(needed));
    let names: Vec<_> = missing.map(ToString::to_string).collect();
    (!names.is_empty()).then(|| names.join(", "))
}

/// Enters a user namespace in which this user is mapped to itself and has capabilities over what it
/// creates there.
fn enter_user_namespace() -> Result<(), String> {
    let (uid, gid) = (nix::unistd::geteuid(), nix::unistd::getegid());
    let why = hindrance::of_user_namespaces;
    unshare(CloneFlags::CLONE_NEWUSER)
        .map_err(|error| format!("unshare: {}; {}", io::Error::from(error), why()))?;
    let write = |file: &str, text: String| {
        std::fs::write(file, text).map_err(|error| format!("write {file}: {error}; {}", why()))
    };
    write("/proc/self/setgroups", "deny".into())?;
    write("/proc/self/uid_map", format!("{uid} {uid} 1"))?;
    write("/proc/self/gid_map", format!("{gid} {gid} 1"))?;
    bound_watches();
    // A launcher needs a mount namespace of its own to change overlays. What is mounted on the host
    // later appears there too, where the host shares its mounts. If the kernel refuses this, it also
    // refuses it to cells: then there are no overlays, and the facts say why.
    unshare(CloneFlags::CLONE_NEWNS).unwrap_or_default();
    Ok(())
}

/// The limits of `inotify` on the host for one user, and those of a user namespace, which count for all
/// sessions together.
const WATCHES: [(&str, &str); 2] = [
    ("/proc/sys/fs/inotify/max_user_instances", "/proc/sys/user/max_inotify_instances"),
    ("/proc/sys/fs/inotify/max_user_watches", "/proc/sys/user/max_inotify_watches"),
];

/// Leaves half of the user's `inotify` instances and watches to programs outside of this namespace.
/// Where `/proc/sys` is read-only, as in many containers, sessions can use up all of them.
fn bound_watches() {
    for (of_host, of_sessions) in WATCHES {
        let most = std::fs::read_to_string(of_host).ok();
        let most = most.and_then(|text| text.trim().parse::<u64>().ok());
        if most.is_some_and(|most| std::fs::write(of_sessions, (most / 2).to_string()).is_err()) {
            return;
        }
    }
}

/// Keeps the needed capabilities in every set and drops all others for good, also from the bounding
/// set. They are kept in the ambient set so that a cell has them for its first steps if the
/// launcher is not root.
fn keep_only_needed(privileged: bool) -> Result<(), PrivilegeError> {
    let mut needed: CapsHashSet = NEEDED.into_iter().collect();
    for welcome in WELCOME.into_iter().chain((!privileged).then_some(OVER_OWN_FILES)) {
        if caps::has_cap(None, CapSet::Permitted, welcome)? {
            needed.insert(welcome);
        }
    }
    for capability in caps::runtime::thread_all_supported() {
        if !needed.contains(&capability) {
            caps::drop(None, CapSet::Bounding, capability)?;
        }
    }
    caps::set(None, CapSet::Inheritable, &needed)?;
    caps::set(None, CapSet::Effective, &needed)?;
    caps::set(None, CapSet::Permitted, &needed)?;
    caps::set(None, CapSet::Ambient, &needed)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named() {
        let mut effective: CapsHashSet = NEEDED.into_iter().collect();
        assert_eq!(missing(&effective), None);
        effective.remove(&Capability::CAP_KILL);
        effective.remove(&Capability::CAP_SYS_CHROOT);
        assert_eq!(missing(&effective), Some("CAP_SYS_CHROOT, CAP_KILL".to_owned()));
        let error = PrivilegeError::Missing(missing(&effective).unwrap()).to_string();
        assert!(error.contains("(--system) lacks CAP_SYS_CHROOT, CAP_KILL; "), "{error}");
    }
}
