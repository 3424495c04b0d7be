//! Ports of a session that a profile publishes: a program of the host reaches the server inside, no
//! other port of it, and nothing when the session has ended.

use palisade_audit::ConnectionVerdict;
use palisade_client::Open;
use palisade_protocol::ErrorCode;
use palisade_tests::{Mode, NamedHosts, Sandbox, named_profile, rooms::until, text};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::{
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
};

/// A port that nothing of the host listens on, as far as can be known.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn with_port(mode: Mode, port: u16, arguments: &[&str]) -> NamedHosts {
    let net = format!("mode = \"domains\"\n[net.publish]\nports = [{port}]");
    NamedHosts::with_arguments(mode, &[], &named_profile(&net), arguments)
}

/// Starts a server inside that answers each request with a line; returns when it listens.
fn serve(sandbox: &Sandbox, port: u16, answer: &str) {
    let line = format!(
        "mkdir -p /tmp/{port}; printf {answer} > /tmp/{port}/x; cd /tmp/{port}; \
                        exec /usr/bin/python3 -m http.server --bind 127.0.0.1 {port}"
    );
    sandbox.start_job(json!({"command": line}));
    let listening = format!("curl -s --noproxy '*' http://127.0.0.1:{port}/x");
    until("the server inside listens", || sandbox.bash(&listening).stdout == answer);
}

/// Fetches `/x` from an address of the host.
fn fetch(at: SocketAddr) -> String {
    let mut stream = TcpStream::connect(at).expect("the published port");
    stream.write_all(b"GET /x HTTP/1.0\r\nHost: localhost\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    text(&answer)
}

/// Returns where `palisade net` says that a port is published.
fn published_at(hosts: &NamedHosts, port: u16) -> Option<SocketAddr> {
    let listed = hosts.world.mode.act(|| hosts.palisade(&["net", "--json"]).output().unwrap());
    let listed: Value = serde_json::from_slice(&listed.stdout).unwrap();
    let connections = listed["connections"].as_array().unwrap();
    let row = connections.iter().find(|row| row["asked"] == "publish" && row["port"] == port)?;
    Some(row["address"].as_str().unwrap().parse().unwrap())
}

#[test]
fn a_server_in_the_session_is_reached_from_the_host_while_the_session_lives() {
    for mode in Mode::all() {
        let port = free_port();
        let hosts = with_port(mode, port, &["--allow-publish", &port.to_string()]);
        let sandbox = hosts.open();
        let at = published_at(&hosts, port).expect("it is listed");
        assert!(at.ip().is_loopback(), "{mode:?}: {at}");
        let nothing = fetch(at);
        assert!(nothing.contains("no program of the session answers"), "{mode:?}: {nothing}");
        serve(&sandbox, port, "inside");
        // More than there are sockets for it, one after the other.
        for _ in 0..20 {
            assert!(fetch(at).ends_with("\r\n\r\ninside"), "{mode:?}");
        }
        // A neighbour inside is reached by the session alone.
        let other = free_port();
        serve(&sandbox, other, "neighbour");
        let refused = TcpStream::connect(("127.0.0.1", other)).unwrap_err();
        assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused, "{mode:?}");
        drop(sandbox);
        until("the port is gone with its session", || TcpStream::connect(at).is_err());
        assert_eq!(published_at(&hosts, port), None, "{mode:?}");
        let records = hosts.connections();
        let of = |asked: &str| records.iter().filter(|one| one.asked == asked).collect::<Vec<_>>();
        let opened = of("publish");
        assert_eq!(opened.len(), 1, "{mode:?}: {records:?}");
        assert_eq!(opened[0].address.as_deref(), Some(at.to_string().as_str()));
        assert_eq!(opened[0].rule.as_str(), format!("net.publish.ports {port}"));
        let carried = of("published");
        assert_eq!(carried.len(), 21, "{mode:?}: {records:?}");
        assert!(carried.iter().all(|one| one.verdict == ConnectionVerdict::Allow));
        assert!(carried[1].sent_bytes > 6 && carried[1].received_bytes > 0, "{:?}", carried[1]);
    }
}

#[test]
fn a_taken_port_is_published_at_another_one() {
    for mode in Mode::all() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        taken.set_nonblocking(true).unwrap();
        let port = taken.local_addr().unwrap().port();
        let hosts = with_port(mode, port, &["--allow-publish", "any"]);
        let sandbox = hosts.open();
        let at = published_at(&hosts, port).expect("it is listed");
        assert!(at.ip().is_loopback() && at.port() != port, "{mode:?}: {at}");
        serve(&sandbox, port, "inside");
        assert!(fetch(at).ends_with("\r\n\r\ninside"), "{mode:?}");
        let accepted = taken.accept().err().map(|error| error.kind());
        assert_eq!(accepted, Some(std::io::ErrorKind::WouldBlock), "{mode:?}: the other server");
    }
}

#[test]
fn the_operator_decides_whether_a_port_is_published() {
    for mode in Mode::all() {
        let port = free_port();
        for allowed in ["none", "1"] {
            let hosts = with_port(mode, port, &["--allow-publish", allowed]);
            let refused = hosts.try_open(Open::new(hosts.world.workspace())).unwrap_err();
            let refused = refused.wire().expect("an answer");
            assert_eq!(refused.code, ErrorCode::OverCeiling, "{mode:?}: {refused:?}");
            let told = format!("net.publish of profile \"named\" has {port}, which this daemon");
            assert!(refused.message.contains(&told), "{mode:?}: {refused:?}");
            assert!(refused.hint.contains("allow_publish"), "{mode:?}: {refused:?}");
            assert!(TcpStream::connect(("127.0.0.1", port)).is_err(), "{mode:?}");
        }
        // Root's daemon allows none unless it is told to, and a user's own allows any.
        let hosts = with_port(mode, port, &[]);
        let opened = hosts.try_open(Open::new(hosts.world.workspace()));
        assert_eq!(opened.is_ok(), mode == Mode::User, "{mode:?}");
    }
}

#[test]
fn a_published_port_serves_again_after_its_room_was_killed() {
    for mode in Mode::all() {
        let port = free_port();
        let hosts = with_port(mode, port, &["--allow-publish", &port.to_string()]);
        let sandbox = hosts.open();
        let at = published_at(&hosts, port).expect("it is listed");
        serve(&sandbox, port, "inside");
        assert!(fetch(at).ends_with("\r\n\r\ninside"), "{mode:?}");
        let mut held = TcpStream::connect(at).unwrap();
        held.write_all(b"GET /x HTTP/1.0\r\n").unwrap();
        let is_carried = || {
            let listed = sandbox.wait(sandbox.client.connections()).unwrap().connections;
            listed.iter().any(|one| one.asked == "published" && one.address.is_some())
        };
        until("the connection is carried", is_carried);
        let old = hosts.rooms();
        kill_process(Pid::from_raw(old[0]).unwrap(), Signal::KILL).unwrap();
        // The connection ends with its room: with nothing, or reset.
        let mut rest = Vec::new();
        drop(held.read_to_end(&mut rest));
        assert_eq!(rest, b"", "{mode:?}");
        until("there is another room", || {
            let now = hosts.rooms();
            !now.is_empty() && now != old
        });
        until("the port serves again", || {
            let Ok(mut stream) = TcpStream::connect(at) else { return false };
            let mut answer = Vec::new();
            let asked = stream.write_all(b"GET /x HTTP/1.0\r\n\r\n").is_ok();
            asked && stream.read_to_end(&mut answer).is_ok() && answer.ends_with(b"\r\n\r\ninside")
        });
        assert_eq!(published_at(&hosts, port), Some(at), "{mode:?}: at the same place");
    }
}
