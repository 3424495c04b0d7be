//! The ways in which proxies of other sandboxes were talked past, each tried from inside of a session.
//! A server outside hears no byte of it, and the same attempt at an allowed host succeeds.

use palisade_audit::{Connection, ConnectionVerdict};
use palisade_client::{Event, Running};
use palisade_tests::{
    Mode, NamedHosts, Place, Sandbox, WebServer, effort, named_profile, resident,
};
use std::{fs, net::TcpListener, path::Path, time::Duration};

/// Names that the host resolves. Those below `inward.test` are allowed, and lead where none may.
const NAMES: [&str; 12] = [
    "packages.test",
    "a.packages.test",
    "paste.packages.test",
    "other.test",
    "plain.inward.test",
    "six.inward.test=::1",
    "mapped.inward.test=::ffff:127.0.0.1",
    "compatible.inward.test=::127.0.0.1",
    "nat64.inward.test=64:ff9b::7f00:1",
    "sixtofour.inward.test=2002:7f00:1::1",
    "metadata.inward.test=169.254.169.254",
    "private.inward.test=10.0.0.1",
];

/// Speaks bytes with a port of the session: `raw.py HOST PORT STEP…`, and shows what comes back.
const RAW: &str = r#"
import socket, sys
s = socket.create_connection((sys.argv[1], int(sys.argv[2])), 300)
def read(done):
    got = b""
    while not done(got):
        piece = s.recv(1)
        if not piece: break
        got += piece
    return got
for step in sys.argv[3:]:
    how, _, what = step.partition(":")
    try:
        if how == "send": s.sendall(bytes.fromhex(what))
        elif how == "file": s.sendall(open(what, "rb").read())
        elif how == "read": print(read(lambda got: len(got) == int(what)).hex())
        elif how == "head": print(read(lambda got: got.endswith(b"\r\n\r\n")).decode("latin1"))
        elif how == "end": print(read(lambda got: False).decode("latin1"))
    except ConnectionError as error: print(type(error).__name__)
"#;

/// Asks the session's name server: `names.py TYPE NAME`, and shows the code and the number of answers.
const QUERY: &str = r#"
import socket, struct, sys
name = b"".join(bytes([len(part)]) + part for part in sys.argv[2].encode().split(b"."))
query = struct.pack(">6H", 7, 0x100, 1, 0, 0, 0) + name + b"\0" + struct.pack(">2H", int(sys.argv[1]), 1)
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(300)
s.sendto(query, ("127.0.0.1", 53))
answer = s.recv(600)
print("code", answer[3] & 15, "answers", struct.unpack(">H", answer[6:8])[0])
"#;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn send(bytes: impl AsRef<[u8]>) -> String {
    format!(" send:{}", hex(bytes.as_ref()))
}

const PROXY: &str = "/usr/bin/python3 raw.py 127.0.0.1 61080";

/// A line that asks the proxy for a tunnel and shows the head of the answer.
fn connect(authority: &str) -> String {
    let head = format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n");
    format!("{PROXY}{} head", send(head))
}

/// A line that asks the proxy for a tunnel by SOCKS5, and shows its two answers.
fn socks(address: &[u8], port: u16) -> String {
    let request = [&[5, 1, 0], address, &port.to_be_bytes()].concat();
    format!("{PROXY}{} read:2{} read:10", send([5, 1, 0]), send(request))
}

fn socks_name(name: &[u8], port: u16) -> String {
    socks(&[&[3, u8::try_from(name.len()).unwrap()], name].concat(), port)
}

/// The answer of SOCKS5 to a request that is not allowed.
const NOT_ALLOWED: &str = "0500\n05020001000000000000\n";

/// A ClientHello with this server name.
fn client_hello(name: &str) -> Vec<u8> {
    let vector =
        |bytes: &[u8]| [&u16::try_from(bytes.len()).unwrap().to_be_bytes(), bytes].concat();
    let entry = [&[0], vector(name.as_bytes()).as_slice()].concat();
    let extensions = [&[0, 0], vector(&vector(&entry)).as_slice()].concat();
    let fixed = [&[3, 3], [9; 32].as_slice(), &[0], &[0, 2, 0x13, 1], &[1, 0]].concat();
    let hello = [fixed, vector(&extensions)].concat();
    let length = u32::try_from(hello.len()).unwrap().to_be_bytes();
    let message = [&[1], &length[1..], &hello].concat();
    [&[22, 3, 1], vector(&message).as_slice()].concat()
}

/// A daemon with an allowed server, one that nothing may reach, and a session.
struct Broken {
    allowed: WebServer,
    closed: WebServer,
    closed_six: Option<TcpListener>,
    hosts: NamedHosts,
    sandbox: Sandbox,
    files: Place,
}

impl Broken {
    fn new(mode: Mode) -> Self {
        let files = Place::new();
        let allowed = WebServer::start(files.path());
        let closed = WebServer::start(Path::new("/nonexistent"));
        // Hosts without IPv6 have no such listener.
        let closed_six = TcpListener::bind(("::1", closed.port)).ok();
        let (open, shut) = (allowed.port, closed.port);
        let net = format!(
            "mode = \"domains\"\nallow = [\"packages.test:{open}\", \"*.packages.test:{open}\", \
             \"127.0.0.1:{open}\", \"*.inward.test:{shut}\"]\ndeny = [\"paste.packages.test\"]\n"
        );
        let hosts = NamedHosts::new(mode, &NAMES, &net);
        let workspace = hosts.world.workspace();
        fs::write(workspace.join("raw.py"), RAW).unwrap();
        fs::write(workspace.join("names.py"), QUERY).unwrap();
        let sandbox = hosts.open();
        Self { allowed, closed, closed_six, hosts, sandbox, files }
    }

    /// Runs a line whose output must have a text, and which no server may hear.
    fn refused(&self, what: &str, line: &str, told: &str) {
        let before = self.allowed.received();
        let tried = self.sandbox.bash(line);
        let shown = format!("{what}: {}\n{}\n{:?}", tried.stdout, tried.stderr, tried.error);
        assert!(tried.stdout.contains(told), "{shown}");
        assert!(!tried.stdout.contains("hello"), "{shown}");
        assert_eq!(self.allowed.received(), before, "{shown}");
        assert_eq!(self.closed.connections(), 0, "{shown}");
    }

    /// Checks that the server which nothing may reach was never connected to, and that it listens.
    fn assert_closed(&self) {
        assert_eq!(self.closed.connections(), 0);
        if let Some(six) = &self.closed_six {
            six.set_nonblocking(true).unwrap();
            assert_eq!(six.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
        }
        drop(std::net::TcpStream::connect(("127.0.0.1", self.closed.port)).unwrap());
        palisade_tests::rooms::until("it listens", || self.closed.connections() == 1);
    }
}

#[test]
fn a_place_that_is_written_in_another_way_is_not_reached() {
    for mode in Mode::all() {
        let broken = Broken::new(mode);
        let (open, shut) = (broken.allowed.port, broken.closed.port);
        // The controls: the same ways lead to the allowed host, however its name is written.
        let get = |host: &str| format!("GET /x HTTP/1.0\r\nHost: {host}:{open}\r\n\r\n");
        for host in ["packages.test", "PACKAGES.Test", "packages.test.", "a.packages.test"] {
            let get = get(host);
            let line = format!("{}{} end", connect(&format!("{host}:{open}")), send(&get));
            let done = broken.sandbox.ok(&line);
            assert!(done.contains("hello from /x"), "{mode:?}: {host}: {done}");
            let line = format!("{}{} end", socks_name(host.as_bytes(), open), send(&get));
            let done = broken.sandbox.ok(&line);
            assert!(done.contains("hello from /x"), "{mode:?}: {host}: {done}");
        }
        let other = send(get("other.test"));
        let way = connect(&format!("packages.test:{open}"));
        broken.refused("another host by CONNECT", &format!("{way}{other} end"), "403");
        let way = socks_name(b"packages.test", open);
        broken.refused("another host by SOCKS", &format!("{way}{other} end"), "403");
        for (name, told) in [
            ("other.test", "403"),
            ("paste.packages.test", "403"),
            ("Paste.PACKAGES.test.", "403"),
            ("packages.test..", "400"),
            (".packages.test", "400"),
            ("other.test%00.packages.test", "400"),
            ("other.test%2f.packages.test", "400"),
            ("other.test#.packages.test", "400"),
            ("packages.test@other.test", "400"),
            ("p\u{430}ckages.test", "400"),
            ("localhost", "403"),
            ("127.0.0.1", "403"),
            ("2130706433", "400"),
            ("0x7f000001", "400"),
            ("0177.0.0.1", "400"),
            ("127.1", "400"),
            ("0.0.0.0", "403"),
            ("[::1]", "403"),
            ("[::ffff:127.0.0.1]", "403"),
            ("[::ffff:7f00:1]", "403"),
            ("[64:ff9b::7f00:1]", "403"),
            ("169.254.169.254", "403"),
            ("[fd00:ec2::254]", "403"),
        ] {
            broken.refused(name, &connect(&format!("{name}:{shut}")), told);
        }
        let nul = b"other.test\0.packages.test".as_slice();
        let names =
            [nul, b"packages.test\0.other.test", b"other.test", b"127.1", b"127.0.0.1", b""];
        for name in names {
            let what = String::from_utf8_lossy(name).into_owned();
            broken.refused(&what, &socks_name(name, shut), NOT_ALLOWED);
        }
        let mapped = "::ffff:127.0.0.1".parse::<std::net::Ipv6Addr>().unwrap().octets();
        for address in [[&[1], [127, 0, 0, 1].as_slice()].concat(), [&[4], &mapped[..]].concat()] {
            broken.refused("SOCKS5 address", &socks(&address, shut), NOT_ALLOWED);
        }
        broken.assert_closed();
    }
}

#[test]
fn an_allowed_name_that_leads_inward_is_not_dialled() {
    for mode in Mode::all() {
        let broken = Broken::new(mode);
        let shut = broken.closed.port;
        for name in NAMES.iter().filter_map(|name| name.split('=').next()) {
            if !name.ends_with(".inward.test") {
                continue;
            }
            let why = "is not reachable from a session";
            let curl = |how: &str| format!("curl -sS {how} http://{name}:{shut}/x");
            broken.refused(name, &curl(""), why);
            broken.refused(name, &curl("--noproxy '*'"), why);
            broken.refused(name, &socks_name(name.as_bytes(), shut), NOT_ALLOWED);
        }
        broken.assert_closed();
        // They were allowed by their names, and failed by their addresses.
        let is_failed = |record: &Connection| {
            record.verdict == ConnectionVerdict::Allow
                && record.failure.as_ref().is_some_and(|why| why.as_str().contains("not reachable"))
        };
        palisade_tests::rooms::until("each of them is recorded", || {
            broken.hosts.connections().iter().filter(|record| is_failed(record)).count() == 8 * 3
        });
    }
}

#[test]
fn requests_for_another_place_than_was_asked_for_are_not_carried() {
    for mode in Mode::all() {
        let broken = Broken::new(mode);
        let (open, shut) = (broken.allowed.port, broken.closed.port);
        let own = format!("packages.test:{open}");
        let request = |line: &str, headers: &str| {
            format!("{PROXY}{} head", send(format!("{line} HTTP/1.1\r\n{headers}\r\n")))
        };
        let host = format!("Host: {own}\r\n");
        let elsewhere = format!("http://other.test:{shut}/x");
        broken.refused("plain HTTP", &request(&format!("GET {elsewhere}"), &host), "400");
        let both = format!("{host}Host: other.test:{shut}\r\n");
        broken.refused("two hosts", &request(&format!("GET http://{own}/x"), &both), "400");
        let other = format!("Host: other.test:{shut}\r\n");
        broken.refused("another host", &request(&format!("GET http://{own}/x"), &other), "400");
        broken.refused("no scheme", &request("GET /x", &host), "400");
        broken.refused("scheme", &request(&format!("GET gopher://{own}/x"), &host), "400");
        let huge = format!("{host}X: {}\r\n", "x".repeat(1024 * 1024));
        fs::write(
            broken.hosts.world.workspace().join("huge"),
            format!("GET http://{own}/x HTTP/1.1\r\n{huge}\r\n"),
        )
        .unwrap();
        broken.refused("a huge header", &format!("{PROXY} file:huge head"), "431");
        // A tunnel to an allowed host, with TLS for another one.
        let hello = format!("{}{} end", connect(&own), send(client_hello("other.test")));
        broken.refused("another server name", &hello, "HTTP/1.1 200");
        // A second request on the same connection is judged by itself.
        let first = format!("GET http://{own}/first HTTP/1.1\r\n{host}\r\n");
        let second = format!("GET {elsewhere} HTTP/1.1\r\n{other}\r\n");
        let line = format!("{PROXY}{} end", send(format!("{first}{second}")));
        let done = broken.sandbox.ok(&line);
        assert!(done.contains("hello from /first") && done.contains("403"), "{mode:?}: {done}");
        // A request that is hidden in the body of another one stays there.
        let heads = [
            format!("Content-Length: {}\r\nTransfer-Encoding: chunked\r\n", second.len() + 5),
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n".to_owned(),
            "Content-Length: 0\r\nContent-Length: 7\r\n".to_owned(),
        ];
        let hidden = format!("GET http://{own}/hidden HTTP/1.1\r\n{host}\r\n");
        drop(broken.allowed.requests());
        for head in heads {
            let post = format!("POST http://{own}/ok HTTP/1.1\r\n{host}{head}\r\n0\r\n\r\n");
            drop(broken.sandbox.bash(&format!("{PROXY}{} end", send(format!("{post}{second}")))));
            let heard = broken.allowed.requests();
            let is_plain = |head: &String| head.starts_with("POST /ok") && !head.contains("other");
            assert!(heard.len() <= 1 && heard.iter().all(is_plain), "{mode:?}: {head}: {heard:?}");
        }
        // The control: by itself, the request is heard.
        let line = format!("{PROXY}{} head", send(&hidden));
        assert!(broken.sandbox.ok(&line).contains("200"), "{mode:?}");
        assert_eq!(broken.allowed.requests().len(), 1, "{mode:?}");
        broken.assert_closed();
    }
}

#[test]
fn redirects_and_names_carry_nothing_out() {
    for mode in Mode::all() {
        let broken = Broken::new(mode);
        let (open, shut) = (broken.allowed.port, broken.closed.port);
        for (number, to) in
            ["127.0.0.1", "plain.inward.test", "169.254.169.254", "[::1]", "other.test"]
                .into_iter()
                .enumerate()
        {
            let answer = format!(
                "HTTP/1.1 302 Found\r\nLocation: http://{to}:{shut}/x\r\nContent-Length: 0\r\n\
                 Connection: close\r\n\r\n"
            );
            fs::write(broken.files.path().join(number.to_string()), answer).unwrap();
            let url = format!("http://packages.test:{open}/raw/{number}");
            let followed = broken.sandbox.bash(&format!("curl -sS -L -w ' %{{http_code}}' {url}"));
            // The session's own loopback is reached without the proxy, and nothing answers there.
            let is_refused = followed.stdout.ends_with(" 403")
                || matches!(followed.exit_code, Some(7 | 52 | 56));
            assert!(is_refused, "{mode:?}: {to}: {followed:?}");
            assert_eq!(broken.closed.connections(), 0, "{mode:?}: {to}");
            assert_eq!(broken.allowed.requests().len(), 1, "{mode:?}: the control");
        }
        // A, TXT and any other record of a name with data in it: no such name, and no lookup.
        for (kind, told) in [(1, "code 3 answers 0"), (16, "answers 0"), (255, "answers 0")] {
            let line = format!("/usr/bin/python3 names.py {kind} c2VjcmV0.other.test");
            broken.refused("a query", &line, told);
        }
        broken.refused("data", "/usr/bin/python3 names.py 16 packages.test", "code 0 answers 0");
        let control = "/usr/bin/python3 names.py 1 packages.test";
        assert_eq!(broken.sandbox.ok(control), "code 0 answers 1\n", "{mode:?}");
        broken.assert_closed();
    }
}

#[test]
fn with_an_empty_list_nothing_is_reached() {
    for mode in Mode::all() {
        let server = WebServer::start(Path::new("/nonexistent"));
        let port = server.port;
        let name = format!("\"packages.test:{port}\", \"127.0.0.1:{port}\"");
        for allow in ["", &name] {
            // A profile must name something: a host for `web_fetch`, which is not open to programs.
            let fetch = format!("\"other.test:{port}\"");
            let net = format!("mode = \"domains\"\nallow = [{allow}]\nfetch = [{fetch}]\n");
            let hosts = NamedHosts::new(mode, &NAMES, &net);
            let sandbox = hosts.open();
            for host in ["packages.test", "a.packages.test", "other.test"] {
                let is_open = host == "packages.test" && !allow.is_empty();
                for how in ["", "--noproxy '*'", "--socks5-hostname 127.0.0.1:61080", "-p"] {
                    let before = server.connections();
                    let line = format!("curl -sS {how} http://{host}:{port}/x");
                    let done = sandbox.bash(&line);
                    assert_eq!(
                        done.stdout.contains("hello"),
                        is_open,
                        "{mode:?}: {line}: {done:?}"
                    );
                    let made = server.connections() - before;
                    assert_eq!(made, u64::from(is_open), "{mode:?}: {allow}: {line}");
                }
            }
        }
    }
}

/// Sends the head of a request byte by byte, until the connection ends.
const SLOW: &str = r#"
import select, socket
s = socket.create_connection(("127.0.0.1", 61080), 300)
s.sendall(b"GET http://packages.test:PORT/slow HTTP/1.1\r\nX: ")
print("open", flush=True)
try:
    while not select.select([s], [], [], 0.5)[0]: s.sendall(b"x")
    while s.recv(100): pass
except ConnectionError: pass
print("closed")
"#;

#[test]
fn a_head_that_never_ends_gives_up_its_place() {
    for mode in Mode::all() {
        let server = WebServer::start(Path::new("/nonexistent"));
        let port = server.port;
        let hosts = NamedHosts::with_profile(mode, &NAMES, &limited(port, 1));
        let slow = SLOW.replace("PORT", &port.to_string());
        fs::write(hosts.world.workspace().join("slow.py"), slow).unwrap();
        let sandbox = hosts.open();
        sandbox.wait(async {
            let running = hold(&sandbox, "exec /usr/bin/python3 slow.py".to_owned()).await;
            // It waits for the only place.
            let fetch = format!("curl -sS http://packages.test:{port}/x");
            let done = sandbox.session.bash(&fetch).await.unwrap();
            assert_eq!(done.stdout, "hello from /x\n", "{mode:?}: {}", done.stderr);
            let ended = running.result().await.unwrap();
            assert!(ended.stdout.contains("closed"), "{mode:?}: {ended:?}");
        });
        assert_eq!(server.requests().len(), 1, "{mode:?}: nothing of the slow one");
    }
}

/// Opens connections to the proxy in several processes: one half send nothing, the others a part of a
/// request. `half_open.py PROCESSES EACH`.
const HALF_OPEN: &str = r#"
import os, resource, socket, sys, time
processes, each = int(sys.argv[1]), int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
ready, done = os.pipe()
for number in range(processes):
    if os.fork() == 0:
        held = []
        for n in range(each):
            s = socket.socket(); s.setblocking(False); held.append(s)
            s.connect_ex(("127.0.0.1", 61080))
            if n % 2:
                try: s.send(b"GET http://packages")
                except OSError: pass
        os.write(done, b"x")
        time.sleep(100000)
for number in range(processes): os.read(ready, 1)
print("open", flush=True)
time.sleep(100000)
"#;

fn limited(port: u16, connections: u32) -> String {
    let net =
        format!("mode = \"domains\"\nallow = [\"packages.test:{port}\", \"127.0.0.1:{port}\"]\n");
    let limit = format!("[limits]\nconnections = {connections}\n");
    named_profile(&net).replacen("[limits]\n", &limit, 1)
}

/// Starts a line that holds connections, and waits until it says that they are open.
async fn hold(sandbox: &Sandbox, line: String) -> Running {
    let call = sandbox.session.bash(line).timeout(Duration::from_secs(600));
    let mut running = call.stream().start().await.unwrap();
    while let Some(event) = running.next().await {
        if matches!(event, Event::Output { .. }) {
            return running;
        }
    }
    panic!("the line ended: {:?}", running.result().await);
}

#[test]
fn half_open_connections_hold_up_neither_another_session_nor_the_room() {
    for mode in Mode::all() {
        let server = WebServer::start(Path::new("/nonexistent"));
        let port = server.port;
        let hosts = NamedHosts::with_profile(mode, &NAMES, &limited(port, 16));
        fs::write(hosts.world.workspace().join("half_open.py"), HALF_OPEN).unwrap();
        let (busy, other) = (hosts.open(), hosts.open());
        let room = hosts.rooms();
        assert_eq!(room.len(), 1, "{mode:?}: both sessions have the same room");
        let fetch = format!("curl -sS http://packages.test:{port}/x");
        let (processes, each) = effort((2, 300), (5, 2_000));
        let line = format!("exec /usr/bin/python3 half_open.py {processes} {each}");
        busy.wait(async {
            let running = hold(&busy, line).await;
            for _ in 0..3 {
                let done = other.session.bash(&fetch).await.unwrap();
                assert_eq!(done.stdout, "hello from /x\n", "{mode:?}: {}", done.stderr);
            }
            running.cancel().await.unwrap();
            assert!(running.result().await.unwrap().cancelled, "{mode:?}");
        });
        assert_eq!(hosts.rooms(), room, "{mode:?}: the room lives");
        let memory = resident(room[0].unsigned_abs());
        assert!(memory < 256 * 1024 * 1024, "{mode:?}: {memory}");
        // The session itself is served again, too.
        assert_eq!(busy.ok(&fetch), "hello from /x\n", "{mode:?}");
    }
}

/// Asks for an endless answer over many connections at once.
const MANY: &str = r#"
import socket, time
held = []
for _ in range(24):
    s = socket.create_connection(("127.0.0.1", 61080), 300); held.append(s)
    s.sendall(b"GET http://packages.test:PORT/endless HTTP/1.1\r\nHost: packages.test:PORT\r\n\r\n")
print("open", flush=True)
time.sleep(100000)
"#;

#[test]
fn a_session_has_no_more_connections_at_once_than_its_profile_allows() {
    for mode in Mode::all() {
        // With 64, all are made: the control.
        for (limit, most) in [(4, 4), (64, 24)] {
            let server = WebServer::start(Path::new("/nonexistent"));
            let port = server.port;
            let hosts = NamedHosts::with_profile(mode, &NAMES, &limited(port, limit));
            let many = MANY.replace("PORT", &port.to_string());
            fs::write(hosts.world.workspace().join("many.py"), many).unwrap();
            let (busy, other) = (hosts.open(), hosts.open());
            let fetch = format!("curl -sS http://packages.test:{port}/x");
            busy.wait(async {
                let running = hold(&busy, "exec /usr/bin/python3 many.py".to_owned()).await;
                loop {
                    let listed = busy.client.connections().await.unwrap().connections;
                    let made = listed.iter().filter(|one| one.address.is_some()).count();
                    assert!(made <= most, "{mode:?}: {made} with a limit of {limit}");
                    if made == most {
                        break;
                    }
                    tokio::task::yield_now().await;
                }
                // By now the room has had turns enough for one too many.
                for _ in 0..3 {
                    let done = other.session.bash(&fetch).await.unwrap();
                    assert_eq!(done.stdout, "hello from /x\n", "{mode:?}: {}", done.stderr);
                }
                assert_eq!(server.connections(), most as u64 + 3, "{mode:?}: {limit}");
                running.cancel().await.unwrap();
                assert!(running.result().await.unwrap().cancelled, "{mode:?}");
            });
            assert_eq!(busy.ok(&fetch), "hello from /x\n", "{mode:?}");
        }
    }
}
