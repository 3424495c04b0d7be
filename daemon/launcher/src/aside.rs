//! Moves processes out of a cgroup v2 group into a leaf below it, so that the group can distribute
//! its controllers. Runs in the launcher, before it starts anything.

use crate::hierarchy::{LEAF, controllers, hierarchy_v2};
use std::{fs, io, path::Path};

/// Attributes by which systemd marks a group that it has delegated. Everybody can read the first.
const DELEGATE_ATTRIBUTES: [&str; 2] = ["user.delegate", "trusted.delegate"];
/// The number of times that the move is repeated, since processes may start others meanwhile.
const ROUNDS: usize = 20;

/// The processes that may be moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MoveScope {
    /// All of them: the group is Palisade's, or was delegated to whoever runs in it.
    All,
    /// Only this process: the place of the others is not ours to change.
    Own,
}

/// Moves processes out of the group, because a v2 group with processes in it can not distribute its
/// controllers.
///
/// In a group that is marked as delegated all processes are moved, including the one that started
/// the daemon. In a group without a mark (a user's own systemd sets none), all are moved only if
/// nothing but Palisade's programs runs there. Otherwise only this process moves. If others remain,
/// that is in vain: everything is left as it was, and `Cgroups::find` reports why v2 is
/// unavailable.
///
/// This must come before another process is started, which would be in the group too.
pub(crate) fn move_to_leaf() {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let Ok(parents) = hierarchy_v2(&mounts, &own) else { return };
    let Some((_, group)) = parents.first() else { return };
    if enable_controllers(group).is_ok() {
        return;
    }
    let who = if is_delegated(group) || is_ours(group) { MoveScope::All } else { MoveScope::Own };
    let leaf = group.join(LEAF);
    fs::create_dir(&leaf).unwrap_or_default();
    let cleared = (0..ROUNDS).any(|_| {
        let moved = movable(who, group).iter().all(|pid| enter(&leaf, pid).is_ok());
        moved && enable_controllers(group).is_ok()
    });
    if !cleared && enter(group, OWN).is_ok() {
        fs::remove_dir(&leaf).unwrap_or_default();
    }
}

/// The pid with which the kernel means the writing process.
const OWN: &str = "0";

fn movable(who: MoveScope, group: &Path) -> Vec<String> {
    match who {
        MoveScope::Own => vec![OWN.to_owned()],
        MoveScope::All => {
            let listed = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
            listed.lines().map(str::to_owned).collect()
        }
    }
}

fn enter(group: &Path, pid: &str) -> io::Result<()> {
    match fs::write(group.join("cgroup.procs"), pid) {
        // The process has ended.
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error()) => {
            Ok(())
        }
        done => done,
    }
}

/// Returns `true` if only Palisade's programs run in a group.
fn is_ours(group: &Path) -> bool {
    movable(MoveScope::All, group).iter().all(|pid| {
        let name = fs::read_to_string(Path::new("/proc").join(pid).join("comm"));
        name.is_ok_and(|name| name.starts_with("palisade"))
    })
}

fn is_delegated(group: &Path) -> bool {
    let mut value = [0; 8];
    DELEGATE_ATTRIBUTES.iter().any(|attribute| {
        let length = rustix::fs::getxattr(group, *attribute, &mut value);
        length.is_ok_and(|length| value.get(..length) == Some(b"1"))
    })
}

/// Enables the controllers that enforce limits for the groups below a v2 group.
pub(crate) fn enable_controllers(group: &Path) -> io::Result<()> {
    let wanted: Vec<_> = controllers(group).iter().map(|name| format!("+{name}")).collect();
    fs::write(group.join("cgroup.subtree_control"), wanted.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_out_what_a_group_has_and_no_more() {
        let group = tempfile::tempdir().unwrap();
        fs::write(group.path().join("cgroup.controllers"), "cpuset io memory pids\n").unwrap();
        enable_controllers(group.path()).unwrap();
        let shared = fs::read_to_string(group.path().join("cgroup.subtree_control")).unwrap();
        // The kernel would refuse the whole list for one controller that the group does not have.
        assert_eq!(shared, "+memory +pids");
    }

    #[test]
    fn moves_everybody_where_the_group_was_given_away_and_else_itself_alone() {
        let group = tempfile::tempdir().unwrap();
        fs::write(group.path().join("cgroup.procs"), "7\n12\n").unwrap();
        assert_eq!(movable(MoveScope::All, group.path()), ["7", "12"]);
        assert_eq!(movable(MoveScope::Own, group.path()), ["0"]);
        assert!(!is_delegated(group.path()));
        fs::write(group.path().join("cgroup.procs"), std::process::id().to_string()).unwrap();
        let own = fs::read_to_string("/proc/self/comm").unwrap();
        assert_eq!(is_ours(group.path()), own.starts_with("palisade"), "{own}");
        fs::write(group.path().join("cgroup.procs"), format!("{}\n1\n", std::process::id()))
            .unwrap();
        assert!(!is_ours(group.path()), "the first process is none of ours");
        let marked = rustix::fs::setxattr(
            group.path(),
            "user.delegate",
            b"1",
            rustix::fs::XattrFlags::empty(),
        );
        // On a file system without extended attributes there is no mark to see.
        assert_eq!(is_delegated(group.path()), marked.is_ok());
    }
}
