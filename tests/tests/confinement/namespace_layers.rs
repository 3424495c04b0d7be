//! Each namespace alone holds what it claims, as [`crate::layers`] shows it of the other layers.

use crate::layers::{with_and_without, world};
use palisade_plan::{Namespace, Step};
use palisade_tests::{Cell, Pids};

#[test]
fn the_network_namespace_alone_leaves_only_its_own_loopback() {
    let world = world();
    let tcp = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    tcp.set_nonblocking(true).unwrap();
    let udp = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    udp.set_nonblocking(true).unwrap();
    let connect = format!("tcp:127.0.0.1:{}", tcp.local_addr().unwrap().port());
    let send = format!("udp:127.0.0.1:{}", udp.local_addr().unwrap().port());
    let steps = vec![Step::Namespaces(vec![Namespace::Network]), Step::Loopback];
    let [held, free] = with_and_without(
        &world,
        steps,
        Pids::Shared,
        &[&connect, &send, "tcp:192.0.2.1:80", "loopback"],
    );
    assert_eq!(held, ["ECONNREFUSED", "ok", "ENETUNREACH", "ok"]);
    assert_eq!([free[0].as_str(), &free[1]], ["ok", "ok"]);
    assert!(tcp.accept().is_ok() && tcp.accept().is_err(), "one connection: the control's");
    let mut buffer = [0; 16];
    assert!(
        udp.recv(&mut buffer).is_ok() && udp.recv(&mut buffer).is_err(),
        "one datagram: the control's"
    );
}

#[test]
fn the_ipc_namespace_alone_has_its_own_segments() {
    let world = world();
    // A segment of the tests' own, found by its key.
    let key = 0x5041_0000 | (std::process::id() & 0xffff);
    let made = Command::shm(key);
    let attempt = format!("shm:{key}");
    let steps = vec![Step::Namespaces(vec![Namespace::Ipc])];
    let [held, free] = with_and_without(&world, steps, Pids::Shared, &[&attempt]);
    made.remove();
    assert_eq!(held, ["ENOENT"]);
    assert_eq!(free, ["ok"]);
}

/// A System V segment, by the command line tools of util-linux.
struct Command(String);

impl Command {
    #[allow(clippy::disallowed_methods)]
    fn shm(key: u32) -> Self {
        let script = format!(
            "import ctypes; l = ctypes.CDLL(None, use_errno=True); print(l.shmget({key}, 4096, 0o1666))"
        );
        let made = std::process::Command::new("python3").args(["-c", &script]).output().unwrap();
        let id = String::from_utf8(made.stdout).unwrap().trim().to_owned();
        assert!(!id.is_empty() && id != "-1", "a segment is needed: {id}");
        Self(id)
    }

    #[allow(clippy::disallowed_methods)]
    fn remove(self) {
        std::process::Command::new("ipcrm").args(["-m", &self.0]).status().unwrap();
    }
}

#[test]
fn the_uts_namespace_alone_has_its_own_host_name() {
    let world = world();
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let steps = vec![Step::Namespaces(vec![Namespace::Uts])];
    let [held, free] = with_and_without(&world, steps, Pids::Shared, &["hostname:palisade"]);
    assert_eq!(held, ["ok"]);
    assert_eq!(free, ["EINVAL"]);
    assert_eq!(rustix::system::uname().nodename().to_string_lossy(), host);
}

#[test]
fn the_pid_namespace_alone_hides_and_protects_the_processes_outside() {
    let world = world();
    let own = std::process::id();
    let attempts = [format!("kill:{own}:0"), format!("sys:pidfd_open:{own}:0")];
    let attempts: Vec<_> = attempts.iter().map(String::as_str).collect();
    let held = Cell::with_steps(vec![], Pids::Own).unwrap();
    let lines = held.probe(&world.workspace(), &attempts);
    assert!(lines.iter().all(|line| line.ends_with("=ESRCH")), "{lines:?}");
    let free = Cell::with_steps(vec![], Pids::Shared).unwrap();
    let lines = free.probe(&world.workspace(), &attempts[1..]);
    assert!(lines.iter().all(|line| line.ends_with("=ok")), "{lines:?}");
}
