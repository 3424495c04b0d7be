//! Which privilege the launcher has, and giving up all of it that is not needed.

use crate::{hindrance, spawn::Begins};
use caps::{CapSet, Capability, CapsHashSet};
use nix::sched::{CloneFlags, unshare};
use palisade_plan::{Found, MountRights};

/// The capabilities that the launcher and the first steps of a cell need, each for one reason.
pub(crate) const NEEDED: [Capability; 8] = [
    // Namespaces and mounts.
    Capability::CAP_SYS_ADMIN,
    // Entering another mount namespace.
    Capability::CAP_SYS_CHROOT,
    // Taking on the session's user.
    Capability::CAP_SETUID,
    // Taking on the session's group, and giving up the others.
    Capability::CAP_SETGID,
    // Emptying the bounding set and locking the securebits.
    Capability::CAP_SETPCAP,
    // Bringing up the loopback of a new network namespace.
    Capability::CAP_NET_ADMIN,
    // Ending cells, which run as other users.
    Capability::CAP_KILL,
    // Seeing who owns a workspace that root asked for.
    Capability::CAP_DAC_READ_SEARCH,
];

/// Kept where they are there, and done without where they are not.
const WELCOME: [Capability; 2] = [
    // Listening for the kernel's records of what it refused.
    Capability::CAP_AUDIT_READ,
    // Root's own sessions: overlays are mounted in a user namespace that has the session's user, and one
    // that has root takes this.
    Capability::CAP_SETFCAP,
];

/// Kept by an ordinary user's launcher alone, in a user namespace that has nobody else: the directory in
/// which overlayfs works on a transaction, which nobody may enter, not even its owner.
const OVER_OWN_FILES: Capability = Capability::CAP_DAC_OVERRIDE;

/// Whose launcher the command line says that this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claim {
    /// Root's is the system's; anybody else's, and one that lacks something, is its user's own.
    Unsaid,
    /// The system's, whoever it runs as: it must have what that takes.
    System,
}

/// What the launcher may do.
#[derive(Debug, Clone)]
pub(crate) struct Privilege {
    /// May take on other users' identities.
    pub(crate) privileged: bool,
    /// The user namespace it stands in, or why not.
    pub(crate) user_namespace: Found,
}

impl Privilege {
    /// The system's.
    pub(crate) fn system() -> Self {
        Self {
            privileged: true,
            user_namespace: Found::Yes("not needed: the launcher has the capabilities".into()),
        }
    }

    /// Whose rights its cells lay layers with.
    pub(crate) const fn mount_rights(&self) -> MountRights {
        match self.privileged {
            true => MountRights::Session,
            false => MountRights::Own,
        }
    }

    /// Whom its cells begin as.
    pub(crate) fn cells_begin(&self) -> Begins {
        match (self.privileged, nix::unistd::geteuid().is_root()) {
            (true, false) => Begins::AsRoot,
            (true, true) | (false, _) => Begins::AsLauncher,
        }
    }
}

/// Why privilege could not be arranged.
#[derive(Debug, thiserror::Error)]
pub enum PrivilegeError {
    /// The capability sets could not be changed.
    #[error("capabilities: {0}")]
    Capabilities(#[from] caps::errors::CapsError),
    /// The system's launcher, without what that takes.
    #[error(
        "this is the system's launcher (--system) and lacks {0}; as a service it has what its unit \
         lists, in AmbientCapabilities= and in CapabilityBoundingSet="
    )]
    Missing(String),
}

/// Finds out what privilege there is, enters a user namespace where there is none, and gives up
/// what is not needed. Called first, before anything is heard.
pub(crate) fn settle(claim: Claim) -> Result<Privilege, PrivilegeError> {
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
            Privilege { privileged: false, user_namespace }
        }
    };
    if privilege.user_namespace.is_yes() {
        keep_only_needed(privilege.privileged)?;
    }
    Ok(privilege)
}

/// The names of those needed that are not there.
fn missing(effective: &CapsHashSet) -> Option<String> {
    let missing = NEEDED.iter().filter(|needed| !effective.contains(needed));
    let names: Vec<_> = missing.map(ToString::to_string).collect();
    (!names.is_empty()).then(|| names.join(", "))
}

/// A user namespace in which this user is itself and has capabilities over what it makes there.
fn enter_user_namespace() -> Result<(), String> {
    let (uid, gid) = (nix::unistd::geteuid(), nix::unistd::getegid());
    let why = hindrance::of_user_namespaces;
    unshare(CloneFlags::CLONE_NEWUSER)
        .map_err(|error| format!("unshare user namespace: {error}; {}", why()))?;
    let write = |file: &str, text: String| {
        std::fs::write(file, text).map_err(|error| format!("write {file}: {error}; {}", why()))
    };
    write("/proc/self/setgroups", "deny".into())?;
    write("/proc/self/uid_map", format!("{uid} {uid} 1"))?;
    write("/proc/self/gid_map", format!("{gid} {gid} 1"))
}

/// The needed ones in every set (ambient, so that a cell has them for its first steps where the
/// launcher is not root), and no others, not even to be had by executing.
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
        assert!(error.contains("(--system) and lacks CAP_SYS_CHROOT, CAP_KILL; "), "{error}");
    }
}
