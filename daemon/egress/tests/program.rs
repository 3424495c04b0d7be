//! The program as a process of its own: it confines itself and serves, and ends with its broker.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests")]

use palisade_channel::Datagrams;
use palisade_egress_protocol::{
    EgressBudget, EgressReply, EgressRequest, EgressVerdict, NamedAddresses, Tunnel,
};
use palisade_plan::{BUILD_ID, listeners::Listener};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use std::{
    fs,
    io::{Read as _, Write as _},
    net::{Ipv4Addr, TcpListener, TcpStream},
    os::fd::{AsFd as _, OwnedFd},
    process::{Child, Command, Stdio},
};

struct Program {
    child: Child,
    broker: Datagrams,
}

impl Drop for Program {
    fn drop(&mut self) {
        // It may have ended already.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

#[allow(clippy::disallowed_methods, reason = "the test starts the program")]
fn start() -> Program {
    let kind = (AddressFamily::UNIX, SocketType::SEQPACKET);
    let (ours, theirs) = socketpair(kind.0, kind.1, SocketFlags::CLOEXEC, None).unwrap();
    let child = Command::new(env!("CARGO_BIN_EXE_palisade-egress"))
        .env_clear()
        .stdin(Stdio::from(theirs))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    Program { child, broker: Datagrams::new(ours) }
}

impl Program {
    fn welcomed() -> Self {
        let program = start();
        program.send(&EgressRequest::Hello { build_id: BUILD_ID.to_owned(), proxy: None }, &[]);
        assert_eq!(program.receive(), EgressReply::Welcome { build_id: BUILD_ID.to_owned() });
        program
    }

    fn send(&self, request: &EgressRequest, fds: &[OwnedFd]) {
        let fds: Vec<_> = fds.iter().map(|fd| fd.as_fd()).collect();
        self.broker.send(request, &fds).unwrap();
    }

    fn receive(&self) -> EgressReply {
        self.broker.receive().unwrap().expect("the room runs").0
    }

    /// Opens a session with a proxy, and returns its address. Addresses of this host are allowed.
    fn open(&self, session: u32) -> std::net::SocketAddr {
        let proxy = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let at = proxy.local_addr().unwrap();
        let loopback = NamedAddresses { first: Ipv4Addr::LOCALHOST.into(), bits: 8, port: None };
        let request = EgressRequest::Open {
            session,
            listeners: vec![Listener::Proxy],
            budget: EgressBudget { connections: 16, upload_bytes: 1 << 20 },
            named: vec![loopback],
            denied: Vec::new(),
            host_ports: Vec::new(),
            authority: None,
            credentials: Vec::new(),
        };
        self.send(&request, &[proxy.into()]);
        at
    }

    /// Allows the next question.
    fn allow(&self) {
        let EgressReply::Question { session, question, .. } = self.receive() else { panic!() };
        let verdict = EgressVerdict::Allow { rule: "test".to_owned(), tunnel: Tunnel::Any };
        self.send(&EgressRequest::Answer { session, question, verdict }, &[]);
    }

    /// Makes a connection through the proxy, and returns both ends.
    fn connect(&self, proxy: std::net::SocketAddr, host: &str) -> (TcpStream, TcpStream) {
        let outside = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let mut client = TcpStream::connect(proxy).unwrap();
        let port = outside.local_addr().unwrap().port();
        write!(client, "CONNECT {host}:{port} HTTP/1.1\r\n\r\n").unwrap();
        self.allow();
        let connected = self.receive();
        assert!(matches!(connected, EgressReply::Connected { .. }), "{connected:?}");
        let server = outside.accept().unwrap().0;
        let mut answer = [0; 19];
        client.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"HTTP/1.1 200 OK\r\nda");
        while !answer.ends_with(b"\r\n\r\n") {
            answer.rotate_left(1);
            client.read_exact(&mut answer[18..]).unwrap();
        }
        (client, server)
    }
}

#[test]
fn it_is_confined_and_looks_up_names() {
    let program = Program::welcomed();
    let status = fs::read_to_string(format!("/proc/{}/status", program.child.id())).unwrap();
    let none = "0000000000000000";
    for (field, value) in [
        ("CapEff", none),
        ("CapPrm", none),
        ("CapInh", none),
        ("NoNewPrivs", "1"),
        ("Seccomp", "2"),
    ] {
        let found = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(":\t"));
        assert_eq!(found, Some(value), "{field}");
    }
    let proxy = program.open(1);
    // The first is in the hosts file of every host; the second is not a name of any.
    let (mut client, mut server) = program.connect(proxy, "localhost");
    client.write_all(b"there").unwrap();
    server.write_all(b"back").unwrap();
    let (mut there, mut back) = ([0; 5], [0; 4]);
    server.read_exact(&mut there).unwrap();
    client.read_exact(&mut back).unwrap();
    assert_eq!((&there, &back), (b"there", b"back"));
    let mut client = TcpStream::connect(proxy).unwrap();
    write!(client, "CONNECT no-such-name.invalid:443 HTTP/1.1\r\n\r\n").unwrap();
    program.allow();
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 502 "), "{answer}");
    assert!(answer.contains("no-such-name.invalid could not be looked up"), "{answer}");
}

#[test]
fn it_ends_with_its_broker_and_cuts_every_connection() {
    let mut program = Program::welcomed();
    let proxy = program.open(1);
    let (mut client, mut server) = program.connect(proxy, "127.0.0.1");
    let (other, _) =
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
    program.broker = Datagrams::new(other);
    assert!(program.child.wait().unwrap().success());
    let mut rest = Vec::new();
    assert_eq!(server.read_to_end(&mut rest).unwrap_or(0), 0);
    assert_eq!(client.read_to_end(&mut rest).unwrap_or(0), 0);
    assert!(TcpStream::connect(proxy).is_err(), "nobody listens any more");
}

#[test]
fn killed_in_the_middle_of_a_transfer_it_leaves_no_connection() {
    let mut program = Program::welcomed();
    let proxy = program.open(1);
    let (mut client, mut server) = program.connect(proxy, "127.0.0.1");
    client.write_all(b"half").unwrap();
    let mut half = [0; 4];
    server.read_exact(&mut half).unwrap();
    program.child.kill().unwrap();
    program.child.wait().unwrap();
    let mut rest = Vec::new();
    assert_eq!(server.read_to_end(&mut rest).unwrap_or(0), 0, "no byte after the kill");
    assert!(program.broker.receive::<EgressReply>().unwrap().is_none());
    assert!(TcpStream::connect(proxy).is_err(), "nobody listens any more");
}

#[test]
fn a_broker_of_another_build_is_refused() {
    let mut program = start();
    program.send(&EgressRequest::Hello { build_id: "another".to_owned(), proxy: None }, &[]);
    assert_eq!(program.child.wait().unwrap().code(), Some(1));
    let mut said = String::new();
    program.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    let start = "palisade-egress: the broker is of build another, and this program of ";
    assert!(said.starts_with(start), "{said}");
}
