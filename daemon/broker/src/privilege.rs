//! Gives up every privilege for a user of the broker's own, and checks that nothing is left.

use caps::CapSet;
use nix::unistd::{Gid, Group, Uid, User, setgroups, setresgid, setresuid};
use palisade_plan::uids::DYNAMIC;
use rustix::process::DumpableBehavior;
use std::io;

/// The account that packages make for the broker.
const ACCOUNT: &str = "palisade";

/// The group that packages make for clients. Not the broker's own, which may have files.
const CLIENTS: &str = "palisade-users";

/// The group that packages make for those who answer checkpoints.
const OPERATORS: &str = "palisade-operators";
/// Whose members may connect to the provider socket.
const PROVIDERS: &str = "palisade-providers";

/// Whom the broker runs as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Account {
    /// User.
    pub(crate) uid: u32,
    /// Group.
    pub(crate) gid: u32,
}

impl Account {
    /// Whether a uid is, or may have been at an earlier start, the broker's.
    pub(crate) fn was(self, uid: u32) -> bool {
        uid == self.uid || DYNAMIC.contains(&uid)
    }
}

/// Why the broker kept its privilege, and hence does not serve.
#[derive(Debug, thiserror::Error)]
pub enum PrivilegeError {
    /// The accounts could not be read.
    #[error("can not look up accounts")]
    Lookup(#[source] nix::Error),
    /// No such user.
    #[error("there is no user {0:?} for the daemon; make one, or name another with --user")]
    NoUser(String),
    /// The daemon is never root.
    #[error("the daemon must not run as uid 0; name an ordinary user with --user")]
    Root,
    /// Nothing free in the range.
    #[error("no uid from 61184 to 65519 is free; make a user `palisade`, or name one with --user")]
    NoneFree,
    /// An act failed.
    #[error(
        "can not {act}; start palisaded as an ordinary user, or with the capabilities SETUID, SETGID and SETPCAP"
    )]
    Act {
        /// Which.
        act: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
    /// Something is left after all.
    #[error("privilege is left after giving it up: {0}")]
    Left(String),
}

/// The user that is wanted, else the daemon's account, else a uid that nobody has.
pub(crate) fn account(wanted: Option<&str>) -> Result<Account, PrivilegeError> {
    let found = User::from_name(wanted.unwrap_or(ACCOUNT)).map_err(PrivilegeError::Lookup)?;
    match (found, wanted) {
        (Some(user), _) if user.uid.is_root() => Err(PrivilegeError::Root),
        (Some(user), _) => Ok(Account { uid: user.uid.as_raw(), gid: user.gid.as_raw() }),
        (None, Some(name)) => Err(PrivilegeError::NoUser(name.to_owned())),
        (None, None) => unused(),
    }
}

/// The group whose members may connect, if it exists.
pub(crate) fn client_group() -> Result<Option<u32>, PrivilegeError> {
    group(CLIENTS)
}

/// The group whose members may operate, if it exists.
pub(crate) fn operator_group() -> Result<Option<u32>, PrivilegeError> {
    group(OPERATORS)
}

/// The group whose members may provide tools, if it exists.
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

/// Becomes `account` if there is one to become (that is, as root), gives up all capabilities, and
/// makes sure of it. Only before there are threads.
pub(crate) fn give_up(account: Option<Account>) -> Result<(), PrivilegeError> {
    // The bounding set can only be emptied while there is the capability to do so.
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

/// The first line of `/proc/self/status` that shows privilege; all lines looked for must be there.
fn left_over(status: &str, account: Option<Account>) -> Option<String> {
    let (mut wanted, none) = (Vec::new(), "0000000000000000");
    for set in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
        wanted.push((set, none.to_owned()));
    }
    wanted.push(("NoNewPrivs", "1".to_owned()));
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
        CapAmb:\t0000000000000000\nNoNewPrivs:\t1\n";
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
