//! Who a peer is beyond its credentials: its groups and its systemd unit, read of the very process
//! that connected. Broker.

use crate::peer::Peer;
use nix::sys::socket::{getsockopt, sockopt::PeerPidfd};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::{
    fmt, fs,
    os::fd::{AsFd, OwnedFd},
};

/// A peer, with what its roles may depend on.
#[derive(Debug, Clone)]
pub(crate) struct Who {
    pub(crate) peer: Peer,
    /// Supplementary ones; empty if they can not be known.
    groups: Vec<u32>,
    /// The system's unit; none if it can not be known.
    unit: Option<String>,
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "uid {}, gid {}, ", self.peer.uid, self.peer.gid)?;
        match &self.unit {
            Some(unit) => write!(f, "unit {unit}"),
            None => f.write_str("unit not known"),
        }
    }
}

impl Who {
    /// Who is at the other end of a socket.
    pub(crate) fn of(socket: &impl AsFd, peer: Peer) -> Self {
        let unknown = Self { peer, groups: Vec::new(), unit: None };
        // Kernels before 6.5 do not say which process it was; a number alone may be another's by now.
        let (Ok(process), Some(pid)) = (getsockopt(socket, PeerPidfd), peer.pid) else {
            return unknown;
        };
        let read = |name| fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap_or_default();
        let (cgroup, status) = (read("cgroup"), read("status"));
        // As long as it lives nobody else has its number, so what was read was its own.
        if has_ended(&process) {
            return unknown;
        }
        Self { peer, groups: groups(&status), unit: unit(&cgroup) }
    }

    #[cfg(test)]
    pub(crate) fn known(peer: Peer, groups: Vec<u32>, unit: Option<&str>) -> Self {
        Self { peer, groups, unit: unit.map(str::to_owned) }
    }

    /// The system's unit, if it is known.
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

/// The first part of a cgroup's path that is not a slice: what is below that is the unit's own to
/// name, a user's units among it.
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
            // Seen from another cgroup namespace.
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
        let who = Who::of(&ours, Peer { uid, gid, pid: Some(std::process::id()) });
        let own = groups(&fs::read_to_string("/proc/self/status").unwrap());
        assert_eq!(who.groups, own);
    }
}
