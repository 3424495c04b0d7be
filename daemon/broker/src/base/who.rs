//! The groups and the systemd unit of a peer, read from the very process that connected. Runs in
//! the broker.

use crate::base::peer::Peer;
use nix::sys::socket::{getsockopt, sockopt::PeerPidfd};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::{
    fmt, fs,
    os::fd::{AsFd, OwnedFd},
};

/// A peer, with all that roles may depend on.
#[derive(Debug, Clone)]
pub(crate) struct PeerIdentity {
    pub(crate) peer: Peer,
    /// Its supplementary groups; empty if they can not be determined.
    groups: Vec<u32>,
    /// Its system unit; `None` if it can not be determined.
    unit: Option<String>,
}

impl fmt::Display for PeerIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "uid {}, gid {}, ", self.peer.uid, self.peer.gid)?;
        match &self.unit {
            Some(unit) => write!(f, "unit {unit}"),
            None => f.write_str("unit unknown"),
        }
    }
}

impl PeerIdentity {
    /// Returns the peer at the other end of a socket.
    pub(crate) fn of(socket: &impl AsFd, peer: Peer) -> Self {
        let unknown = Self { peer, groups: Vec::new(), unit: None };
        // Kernels before 6.5 give no pidfd of the peer, and a process id alone may have been
        // reused.
        let (Ok(process), Some(pid)) = (getsockopt(socket, PeerPidfd), peer.pid) else {
            return unknown;
        };
        let read = |name| fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap_or_default();
        let (cgroup, status) = (read("cgroup"), read("status"));
        // While the process lives its id is not reused, so what was read belongs to it.
        if has_ended(&process) {
            return unknown;
        }
        Self { peer, groups: groups(&status), unit: unit(&cgroup) }
    }

    #[cfg(test)]
    pub(crate) fn known(peer: Peer, groups: Vec<u32>, unit: Option<&str>) -> Self {
        Self { peer, groups, unit: unit.map(str::to_owned) }
    }

    /// Returns the system unit, if it is known.
    pub(crate) fn unit(&self) -> Option<&str> {
        self.unit.as_deref()
    }

    pub(crate) fn has_group(&self, gid: u32) -> bool {
        self.peer.gid == gid || self.groups.contains(&gid)
    }

    pub(crate) fn is_of_unit(&self, unit: &str) -> bool {
        self.unit.as_deref() == Some(unit)
    }
}

fn has_ended(process: &OwnedFd) -> bool {
    let mut polled = [PollFd::new(process, PollFlags::IN)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    !matches!(poll(&mut polled, Some(&now)), Ok(0))
}

fn groups(status: &str) -> Vec<u32> {
    let line = status.lines().find_map(|line| line.strip_prefix("Groups:")).unwrap_or_default();
    line.split_whitespace().filter_map(|word| word.parse().ok()).collect()
}

/// Returns the first component of a cgroup's path that is not a slice. The unit itself names what
/// is below, which includes a user's own units.
fn unit(cgroup: &str) -> Option<String> {
    let path_of = |controllers: &str| {
        cgroup.lines().find_map(|line| {
            let (_, rest) = line.split_once(':')?;
            rest.split_once(':').filter(|(of, _)| *of == controllers).map(|(_, path)| path)
        })
    };
    let path = path_of("name=systemd").or_else(|| path_of(""))?;
    let mut parts = path.strip_prefix('/')?.split('/');
    let found = parts.find(|part| !part.ends_with(".slice"))?;
    (found.ends_with(".service") || found.ends_with(".scope")).then(|| found.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unit_is_the_systems() {
        for (cgroup, expected) in [
            ("0::/system.slice/agent.service\n", Some("agent.service")),
            ("0::/system.slice/agent.service/payload/x.service\n", Some("agent.service")),
            (
                "9:pids:/a.service\n1:name=systemd:/system.slice/b.service\n0::/\n",
                Some("b.service"),
            ),
            // A user's own unit may have any name.
            (
                "0::/user.slice/user-7.slice/user@7.service/app.slice/agent.service\n",
                Some("user@7.service"),
            ),
            ("0::/user.slice/user-7.slice/session-3.scope\n", Some("session-3.scope")),
            ("0::/\n", None),
            // The path as seen from another cgroup namespace.
            ("0::/../agent.service\n", None),
            ("", None),
        ] {
            assert_eq!(unit(cgroup).as_deref(), expected, "{cgroup}");
        }
    }

    #[test]
    fn groups_are_those_of_the_status() {
        assert_eq!(groups("Name:\tx\nGroups:\t4 27 \nCapInh:\t0\n"), [4, 27]);
        assert_eq!(groups("Name:\tx\n"), Vec::<u32>::new());
    }

    #[tokio::test]
    async fn this_process_is_known_by_its_socket() {
        let (ours, _theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        let uid = rustix::process::geteuid().as_raw();
        let gid = rustix::process::getegid().as_raw();
        let who = PeerIdentity::of(&ours, Peer { uid, gid, pid: Some(std::process::id()) });
        let own = groups(&fs::read_to_string("/proc/self/status").unwrap());
        assert_eq!(who.groups, own);
    }
}
