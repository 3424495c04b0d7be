//! Clears a cgroup v2 group of processes, so that it can share out its controllers: they stand in a
//! leaf below it. The launcher, before it starts anything.

use crate::hierarchy::{LEAF, controllers, hierarchy_v2};
use std::{fs, io, path::Path};

/// By what systemd marks a group that it has given away: the first for everybody to read.
const MARKS: [&str; 2] = ["user.delegate", "trusted.delegate"];
/// How often processes are moved that start others meanwhile.
const ROUNDS: usize = 20;

/// Who stands in the way, and may be moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Who {
    /// All of them: the group is Palisade's, or was given to whoever runs in it.
    All,
    /// This process alone: the others' place is somebody else's affair.
    Own,
}

/// Moves processes out of the way: a v2 group with processes in it can not share out its controllers.
/// In a group that is marked as delegated everybody is moved, whoever started the daemon among them; in
/// one without a mark (a user's own systemd makes none) only where nothing but Palisade's programs
/// runs. Elsewhere this process alone moves, in vain where there are others: then everything is left as
/// it was, and `Cgroups::find` says why there is no v2.
/// Before another process is started, which then stands there, too.
pub(crate) fn step_aside() {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let Ok(parents) = hierarchy_v2(&mounts, &own) else { return };
    let Some((_, group)) = parents.first() else { return };
    if share_out(group).is_ok() {
        return;
    }
    let who = if is_delegated(group) || is_ours(group) { Who::All } else { Who::Own };
    let leaf = group.join(LEAF);
    fs::create_dir(&leaf).unwrap_or_default();
    let cleared = (0..ROUNDS).any(|_| {
        let moved = movable(who, group).iter().all(|pid| enter(&leaf, pid).is_ok());
        moved && share_out(group).is_ok()
    });
    if !cleared && enter(group, OWN).is_ok() {
        fs::remove_dir(&leaf).unwrap_or_default();
    }
}

/// This process, as the kernel takes it.
const OWN: &str = "0";

fn movable(who: Who, group: &Path) -> Vec<String> {
    match who {
        Who::Own => vec![OWN.to_owned()],
        Who::All => {
            let listed = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
            listed.lines().map(str::to_owned).collect()
        }
    }
}

fn enter(group: &Path, pid: &str) -> io::Result<()> {
    match fs::write(group.join("cgroup.procs"), pid) {
        // It has ended.
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error()) => {
            Ok(())
        }
        done => done,
    }
}

/// Whether nothing runs in a group but the programs of Palisade.
fn is_ours(group: &Path) -> bool {
    movable(Who::All, group).iter().all(|pid| {
        let name = fs::read_to_string(Path::new("/proc").join(pid).join("comm"));
        name.is_ok_and(|name| name.starts_with("palisade"))
    })
}

fn is_delegated(group: &Path) -> bool {
    let mut value = [0; 8];
    MARKS.iter().any(|mark| {
        let length = rustix::fs::getxattr(group, *mark, &mut value);
        length.is_ok_and(|length| value.get(..length) == Some(b"1"))
    })
}

/// Lets the groups below a v2 group have those of its controllers that hold limits.
pub(crate) fn share_out(group: &Path) -> io::Result<()> {
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
        share_out(group.path()).unwrap();
        let shared = fs::read_to_string(group.path().join("cgroup.subtree_control")).unwrap();
        // The kernel would refuse all of it for one that the group has not.
        assert_eq!(shared, "+memory +pids");
    }

    #[test]
    fn moves_everybody_where_the_group_was_given_away_and_else_itself_alone() {
        let group = tempfile::tempdir().unwrap();
        fs::write(group.path().join("cgroup.procs"), "7\n12\n").unwrap();
        assert_eq!(movable(Who::All, group.path()), ["7", "12"]);
        assert_eq!(movable(Who::Own, group.path()), ["0"]);
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
        // Where temporary files are on a file system without attributes, there is no mark to see.
        assert_eq!(is_delegated(group.path()), marked.is_ok());
    }
}
