//! The network by name: connections and bytes through an egress room, beside those without one.

use super::{Bench, Unit};
use palisade_tests::{Mode, NamedHosts, Sandbox, named_profile, resident, text};
use std::{
    fs,
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    path::Path,
    process::Command,
    time::Duration,
};

const GROUP: &str = "network by name";

/// The connections that are open at once.
const MANY: usize = 1000;

/// The idle sessions whose memory is measured.
const SESSIONS: u64 = 10;

/// The client, the same inside and outside: `client.py WAY HOST PORT WHAT COUNT`, which prints the
/// median in microseconds of a connection and one byte each way, or the seconds for many connections at
/// once or for many megabytes.
const CLIENT: &str = r#"
import socket, statistics, sys, time
way, host, port, what, count = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4], int(sys.argv[5])
def connect():
    if way == "direct": return socket.create_connection((host, port), 300)
    s = socket.create_connection(("127.0.0.1", 61080), 300)
    at = f"{host}:{port}".encode()
    s.sendall(b"CONNECT " + at + b" HTTP/1.1\r\nHost: " + at + b"\r\n\r\n")
    head = b""
    while not head.endswith(b"\r\n\r\n"): head += s.recv(4096)
    assert b" 200 " in head, head
    return s
def ask(s):
    s.sendall(b"\0"); assert s.recv(1) == b"\0"
if what == "connect":
    times = []
    for _ in range(count):
        begin = time.perf_counter(); s = connect(); ask(s); times.append(time.perf_counter() - begin); s.close()
    print(statistics.median(times) * 1e6)
elif what == "many":
    begin = time.perf_counter(); held = []
    for _ in range(count): s = connect(); ask(s); held.append(s)
    print(time.perf_counter() - begin)
else:
    s = connect(); s.sendall(b"m" + count.to_bytes(4, "big")); got, room = 0, bytearray(1 << 20)
    begin = time.perf_counter()
    while got < count << 20: got += s.recv_into(room)
    print(time.perf_counter() - begin)
"#;

/// Starts a server that sends back a byte, or as many megabytes as it is asked for.
fn serve() -> u16 {
    listen(|mut stream| {
        let mut first = [0];
        while stream.read_exact(&mut first).is_ok() {
            if first == *b"m" {
                let (mut count, chunk) = ([0; 4], vec![b'x'; 1 << 20]);
                let Ok(()) = stream.read_exact(&mut count) else { return };
                for _ in 0..u32::from_be_bytes(count) {
                    let Ok(()) = stream.write_all(&chunk) else { return };
                }
            } else if stream.write_all(&first).is_err() {
                return;
            }
        }
    })
}

/// Starts a plain relay to a port.
fn relay(to: u16) -> u16 {
    listen(move |client| {
        let server = TcpStream::connect(("127.0.0.1", to)).unwrap();
        let (mut from, mut back) = (client.try_clone().unwrap(), server.try_clone().unwrap());
        let up = std::thread::spawn(move || drop(std::io::copy(&mut from, &mut back)));
        let (mut server, mut client) = (server, client);
        drop(std::io::copy(&mut server, &mut client));
        drop(client.shutdown(std::net::Shutdown::Both));
        up.join().unwrap();
    })
}

fn listen(serve: impl Fn(TcpStream) + Clone + Send + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let serve = serve.clone();
            std::thread::spawn(move || serve(stream));
        }
    });
    port
}

/// The client outside, and its number.
fn outside(script: &Path, port: u16, what: &str, count: usize) -> f64 {
    let mut command = Command::new("/usr/bin/python3");
    command.arg(script).args(["direct", "127.0.0.1", &port.to_string(), what, &count.to_string()]);
    text(&command.output().unwrap().stdout).trim().parse().unwrap()
}

/// The client in a session, and its number.
fn inside(sandbox: &Sandbox, way: &str, port: u16, what: &str, count: usize) -> f64 {
    let line = format!("/usr/bin/python3 client.py {way} server.test {port} {what} {count}");
    let call = sandbox.session.bash(line).timeout(Duration::from_secs(600));
    let done = sandbox.wait(call.into_future()).unwrap();
    done.stdout.trim().parse().unwrap_or_else(|_| panic!("{}{:?}", done.stderr, done.error))
}

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}

impl Bench {
    /// Measures connections and bytes of a session with `net.mode = "domains"`.
    pub(super) fn network(&self, megabytes: usize) {
        let port = serve();
        let net =
            format!("mode = \"domains\"\nallow = [\"server.test:{port}\", \"127.0.0.1:{port}\"]\n");
        let limit = format!("[limits]\nconnections = {}\n", MANY + 24);
        let profile = named_profile(&net).replacen("[limits]\n", &limit, 1);
        let hosts = NamedHosts::with_profile(Mode::all()[0], &["server.test"], &profile);
        let script = hosts.world.workspace().join("client.py");
        fs::write(&script, CLIENT).unwrap();
        assert!(hosts.rooms().is_empty(), "nothing runs before a session needs it");
        let sandbox = hosts.open();
        let room = || resident(hosts.rooms()[0].unsigned_abs());
        let (batches, each) = (self.rounds.div_ceil(20).max(3), 50);
        let mut times = [Vec::new(), Vec::new(), Vec::new()];
        for _ in 0..batches {
            times[0].push(outside(&script, port, "connect", each));
            times[1].push(inside(&sandbox, "direct", port, "connect", each));
            times[2].push(inside(&sandbox, "proxy", port, "connect", each));
        }
        let [bare, direct, proxy] = times.map(median);
        let row = |what: &str, time: f64, ratio: Option<(f64, &str)>| {
            self.number(GROUP, what, (time, Unit::Microseconds), ratio);
        };
        row("connect and one byte, bare", bare, None);
        row("connect and one byte, by name", direct, Some((direct / bare, "bare")));
        row("connect and one byte, by the proxy", proxy, Some((proxy / bare, "bare")));
        let before = room();
        let (bare, took) =
            (outside(&script, port, "many", MANY), inside(&sandbox, "proxy", port, "many", MANY));
        let name = format!("{MANY} connections at once");
        row(&name, took * 1e6, Some((took / bare, "bare")));
        let each = room().saturating_sub(before) as f64 / 1024.0 / MANY as f64;
        self.number(GROUP, "… the room's memory for each", (each, Unit::KiB), None);
        let relayed = relay(port);
        let mut times = [Vec::new(), Vec::new()];
        for _ in 0..3 {
            times[0].push(outside(&script, relayed, "bytes", megabytes));
            times[1].push(inside(&sandbox, "proxy", port, "bytes", megabytes));
        }
        let [plain, took] = times.map(median);
        row(&format!("{megabytes} MiB, a plain relay"), plain * 1e6, None);
        let name = format!("{megabytes} MiB, by the proxy");
        row(&name, took * 1e6, Some((took / plain, "a plain relay")));
        let before = room();
        let sessions: Vec<_> = (0..SESSIONS).map(|_| hosts.open()).collect();
        let each = room().saturating_sub(before) as f64 / 1024.0 / SESSIONS as f64;
        self.number(GROUP, "the room's memory for an idle session", (each, Unit::KiB), None);
        drop(sessions);
    }
}
