//! Gives up every privilege: switches to the broker's own user and checks that nothing is left.

use crate::boot::confine::confine;
use caps::CapSet;
use nix::unistd::{Gid, Group, Uid, User, setgroups, setresgid, setresuid};
use palisade_plan::uids::DYNAMIC;
use rustix::process::DumpableBehavior;
use std::io;

/// The user that packages create for the broker.
const ACCOUNT: &str = "palisade";

/// The group that packages create for clients. It is not the broker's own group, which may own
/// files.
const CLIENTS: &str = "palisade-users";

/// The group that packages create for operators, who answer approval requests.
const OPERATORS: &str = "palisade-operators";
/// The group whose members may connect to the provider socket.
const PROVIDERS: &str = "palisade-providers";

/// The user and group that the broker runs as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Account {
    /// The user id.
    pub(crate) uid: u32,
    /// The group id.
    pub(crate) gid: u32,
}

impl Account {
    /// Returns `true` if a uid is the broker's, or may have been at an earlier start.
    pub(crate) fn was(self, uid: u32) -> bool {
        uid == self.uid || DYNAMIC.contains(&uid)
    }
}

/// An error from giving up the broker's privilege. The broker then does not serve.
#[derive(Debug, thiserror::Error)]
pub enum PrivilegeError {
    /// The user and group databases could not be read.
    #[error("can not look up accounts")]
    Lookup(#[source] nix::Error),
    /// The named user does not exist.
    #[error("there is no user {0:?} for the daemon; create it, or name another with --user")]
    NoUser(String),
    /// The user is root, which the daemon never runs as.
    #[error("the daemon must not run as uid 0; name an ordinary user with --user")]
    Root,
    /// No uid in the range is unused.
    #[error(
        "no uid from 61184 to 65519 is free; create a user `palisade`, or name one with --user"
    )]
    NoneFree,
    /// A system call failed.
    #[error(
        "can not {act}; start palisaded as an ordinary user, or with the capabilities SETUID, SETGID and SETPCAP"
    )]
    Act {
        /// The operation, as a verb.
        act: &'static str,
        /// The error that the kernel returned.
        source: io::Error,
    },
    /// The kernel took no filter of system calls.
    #[error(
        "the daemon can not install its own system call filter; the kernel needs \
         CONFIG_SECCOMP_FILTER"
    )]
    Filter(#[source] seccompiler::Error),
    /// The process still has privilege afterwards.
    #[error("the daemon still has privileges after giving them up: {0}")]
    Left(String),
}

/// Returns the user named by `wanted`, else the packaged account, else an unused uid.
pub(crate) fn account(wanted: Option<&str>) -> Result<Account, PrivilegeError> {
    let found = User::from_name(wanted.unwrap_or(ACCOUNT)).map_err(PrivilegeError::Lookup)?;
    match (found, wanted) {
        (Some(user), _) if user.uid.is_root() => Err(PrivilegeError::Root),
        (Some(user), _) => Ok(Account { uid: user.uid.as_raw(), gid: user.gid.as_raw() }),
        (None, Some(name)) => Err(PrivilegeError::NoUser(name.to_owned())),
        (None, None) => unused(),
    }
}

/// Returns the group whose members may connect to the agent socket, if it exists.
pub(crate) fn client_group() -> Result<Option<u32>, PrivilegeError> {
    group(CLIENTS)
}

/// Returns the group whose members are operators, if it exists.
pub(crate) fn operator_group() -> Result<Option<u32>, PrivilegeError> {
    group(OPERATORS)
}

/// Returns the group whose members may provide tools, if it exists.
pub(crate) fn provider_group() -> Result<Option<u32>, PrivilegeError> {
    group(PROVIDERS)
}

fn group(name: &str) -> Result<Option<u32>, PrivilegeError> {
    let group = Group::from_name(name).map_err(PrivilegeError::Lookup)?;
    Ok(group.map(|group| group.gid.as_raw()))
}

fn unused() -> Result<Account, PrivilegeError> {
    for id in DYNAMIC {
        let user = User::from_uid(Uid::from_raw(id)).map_err(PrivilegeError::Lookup)?;
        let group = Group::from_gid(Gid::from_raw(id)).map_err(PrivilegeError::Lookup)?;
        if user.is_none() && group.is_none() {
            return Ok(Account { uid: id, gid: id });
        }
    }
    Err(PrivilegeError::NoneFree)
}

/// Switches to `account` if given (that is, when started as root), gives up all capabilities, and
/// verifies the result. Must be called before any thread is started.
pub(crate) fn give_up(account: Option<Account>) -> Result<(), PrivilegeError> {
    // Clearing the bounding set needs a capability, so it comes first.
    if caps::has_cap(None, CapSet::Effective, caps::Capability::CAP_SETPCAP).map_err(capability)? {
        caps::clear(None, CapSet::Bounding).map_err(capability)?;
    }
    if let Some(account) = account {
        become_user(account)?;
    }
    for set in [CapSet::Ambient, CapSet::Inheritable, CapSet::Effective, CapSet::Permitted] {
        caps::clear(None, set).map_err(capability)?;
    }
    rustix::thread::set_no_new_privs(true).map_err(act("set no_new_privs"))?;
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)
        .map_err(act("become undumpable"))?;
    confine().map_err(PrivilegeError::Filter)?;
    let status = std::fs::read_to_string("/proc/self/status")
        .map_err(|source| PrivilegeError::Act { act: "read /proc/self/status", source })?;
    left_over(&status, account).map_or(Ok(()), |line| Err(PrivilegeError::Left(line)))
}

fn become_user(account: Account) -> Result<(), PrivilegeError> {
    let (uid, gid) = (Uid::from_raw(account.uid), Gid::from_raw(account.gid));
    let failed = |act| move |errno: nix::Error| PrivilegeError::Act { act, source: errno.into() };
    setgroups(&[]).map_err(failed("give up supplementary groups"))?;
    setresgid(gid, gid, gid).map_err(failed("change the group"))?;
    setresuid(uid, uid, uid).map_err(failed("change the user"))
}

fn capability(error: caps::errors::CapsError) -> PrivilegeError {
    PrivilegeError::Act { act: "give up capabilities", source: io::Error::other(error) }
}

fn act(act: &'static str) -> impl Fn(rustix::io::Errno) -> PrivilegeError {
    move |errno| PrivilegeError::Act { act, source: errno.into() }
}

/// Returns the first field of `/proc/self/status` that shows remaining privilege. A field that is
/// missing counts as remaining privilege.
fn left_over(status: &str, account: Option<Account>) -> Option<String> {
    let (mut wanted, none) = (Vec::new(), "0000000000000000");
    for set in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
        wanted.push((set, none.to_owned()));
    }
    wanted.push(("NoNewPrivs", "1".to_owned()));
    wanted.push(("Seccomp", "2".to_owned()));
    if let Some(Account { uid, gid }) = account {
        wanted.push(("CapBnd", none.to_owned()));
        wanted.push(("Uid", format!("{uid}\t{uid}\t{uid}\t{uid}")));
        wanted.push(("Gid", format!("{gid}\t{gid}\t{gid}\t{gid}")));
        wanted.push(("Groups", String::new()));
    }
    for (name, value) in wanted {
        let found = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        if found.map(str::trim) != Some(value.as_str()) {
            return Some(format!("{name}:{}", found.unwrap_or(" not shown by the kernel")));
        }
    }
    let root = status.lines().any(|line| {
        line.strip_prefix("Uid:").is_some_and(|ids| ids.split_whitespace().any(|id| id == "0"))
    });
    root.then(|| "Uid: 0".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLEAN: &str = "Name:\tpalisaded\nUid:\t61184\t61184\t61184\t61184\n\
        Gid:\t61184\t61184\t61184\t61184\nGroups:\t \nCapInh:\t0000000000000000\n\
        CapPrm:\t0000000000000000\nCapEff:\t0000000000000000\nCapBnd:\t0000000000000000\n\
        CapAmb:\t0000000000000000\nNoNewPrivs:\t1\nSeccomp:\t2\n";
    const OWN: Option<Account> = Some(Account { uid: 61184, gid: 61184 });

    #[test]
    fn nothing_left_is_nothing_left() {
        assert_eq!(left_over(CLEAN, OWN), None);
    }

    #[test]
    fn every_remnant_is_found() {
        for (clean, dirty, line) in [
            ("Uid:\t61184\t61184\t61184\t61184", "Uid:\t61184\t61184\t0\t61184", "Uid:"),
            ("Gid:\t61184\t61184\t61184\t61184", "Gid:\t0\t0\t0\t0", "Gid:"),
            ("Groups:\t ", "Groups:\t4 27 ", "Groups:"),
            ("CapInh:\t0000000000000000", "CapInh:\t0000000000000001", "CapInh:"),
            ("CapPrm:\t0000000000000000", "CapPrm:\t0000000000000001", "CapPrm:"),
            ("CapEff:\t0000000000000000", "CapEff:\t0000000000000001", "CapEff:"),
            ("CapBnd:\t0000000000000000", "CapBnd:\t000001ffffffffff", "CapBnd:"),
            ("CapAmb:\t0000000000000000", "CapAmb:\t0000000000000001", "CapAmb:"),
            ("NoNewPrivs:\t1", "NoNewPrivs:\t0", "NoNewPrivs:"),
            ("NoNewPrivs:\t1\n", "", "NoNewPrivs: not shown"),
            ("Seccomp:\t2", "Seccomp:\t0", "Seccomp:"),
        ] {
            let status = CLEAN.replace(clean, dirty);
            let left = left_over(&status, OWN).unwrap_or_default();
            assert!(left.starts_with(line), "{dirty:?}: {left:?}");
        }
    }

    #[test]
    fn an_ordinary_user_may_keep_a_bounding_set_but_not_be_root() {
        let status = CLEAN.replace("CapBnd:\t0000000000000000", "CapBnd:\t000001ffffffffff");
        assert_eq!(left_over(&status, None), None);
        let root = status.replace("Uid:\t61184", "Uid:\t0");
        assert_eq!(left_over(&root, None).as_deref(), Some("Uid: 0"));
    }

    #[test]
    fn root_is_no_account() {
        assert!(matches!(account(Some("root")), Err(PrivilegeError::Root)));
        assert!(matches!(account(Some("no-such-user")), Err(PrivilegeError::NoUser(_))));
    }
}
