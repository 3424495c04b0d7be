//! Bodies of requests in chunks, written so that two parsers could disagree about where one ends: with
//! extensions, trailers and odd sizes. The host gets what the room has read, written anew, and no
//! request that the room has not judged.

use palisade_tests::{Mode, NamedHosts, TestAuthority, named_profile, rooms::until};
use std::{
    fs,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

/// Sends bytes to a host and shows the answer: `speak.py HOW HOST PORT FILE`.
const SPEAK: &str = r#"
import socket, ssl, sys
how, host, port, message = sys.argv[1:]
direct = (host, int(port)) if how == "direct" else ("127.0.0.1", 61080)
s = socket.create_connection(direct, 60)
if how == "inspected":
    s.sendall(f"CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
    head = b""
    while not head.endswith(b"\r\n\r\n"): head += s.recv(1)
    s = ssl.create_default_context().wrap_socket(s, server_hostname=host)
try:
    s.sendall(open(message, "rb").read())
    while piece := s.recv(4096): print(piece.decode("latin1"))
except OSError as error: print(type(error).__name__)
"#;

/// A server that keeps what each connection sent, byte by byte.
struct ByteServer {
    port: u16,
    heard: Arc<Mutex<Vec<Vec<u8>>>>,
    accepted: Arc<AtomicU64>,
}

impl ByteServer {
    fn start(settings: Option<Arc<rustls::ServerConfig>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (heard, accepted) = <(Arc<Mutex<Vec<Vec<u8>>>>, Arc<AtomicU64>)>::default();
        let (shared, count) = (Arc::clone(&heard), Arc::clone(&accepted));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (shared, settings) = (Arc::clone(&shared), settings.clone());
                count.fetch_add(1, Ordering::AcqRel);
                std::thread::spawn(move || {
                    let stream: TcpStream = stream.unwrap();
                    let bytes = match settings {
                        None => hear(stream),
                        Some(settings) => {
                            let tls = rustls::ServerConnection::new(settings).unwrap();
                            hear(rustls::StreamOwned::new(tls, stream))
                        }
                    };
                    shared.lock().unwrap().push(bytes);
                });
            }
        });
        Self { port, heard, accepted }
    }

    /// Takes the bytes of the connections so far, which have ended.
    fn heard(&self) -> Vec<String> {
        until("each connection has ended", || {
            self.heard.lock().unwrap().len() as u64 == self.accepted.load(Ordering::Acquire)
        });
        self.accepted.store(0, Ordering::Release);
        let heard = std::mem::take(&mut *self.heard.lock().unwrap());
        heard.iter().map(|bytes| String::from_utf8_lossy(bytes).into_owned()).collect()
    }
}

/// Reads to the end of a connection. After the first whole request it answers.
fn hear(mut stream: impl Read + Write) -> Vec<u8> {
    let (mut bytes, mut piece, mut is_answered) = (Vec::new(), [0; 4096], false);
    while let Ok(read @ 1..) = stream.read(&mut piece) {
        bytes.extend_from_slice(&piece[..read]);
        let text = String::from_utf8_lossy(&bytes).to_lowercase();
        let is_chunked = text.contains("transfer-encoding: chunked");
        let is_whole = bytes.ends_with(b"\r\n\r\n") && (!is_chunked || text.contains("\r\n0\r\n"));
        if is_whole && !is_answered {
            is_answered = true;
            let answer =
                b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: close\r\n\r\nhello\n";
            // The room may be gone.
            if stream.write_all(answer).and_then(|()| stream.flush()).is_err() {
                break;
            }
        }
    }
    bytes
}

/// Bodies with the chunk `xx`, each with a name. A request that is hidden in one is for another host.
fn bodies(port: u16) -> Vec<(&'static str, String)> {
    let hidden = format!("GET /hidden HTTP/1.1\r\nHost: other.test:{port}\r\n\r\n");
    let long = "leak".repeat(64 * 1024);
    vec![
        ("an extension", "2;leak=1\r\nxx\r\n0;leak\r\n\r\n".to_owned()),
        ("an open quotation", format!("2;leak=\"\r\nxx\r\n0\r\n\r\n{hidden}")),
        ("an extension with a line feed", format!("2;\nxx\r\n0\r\n\r\n{hidden}")),
        ("an extension with a carriage return", format!("2;\rxx\r\n0\r\n\r\n{hidden}")),
        ("an extension without end", format!("2;{long}\r\nxx\r\n0\r\n\r\n{hidden}")),
        ("lines that end in line feeds", format!("2\nxx\n0\n\n{hidden}")),
        ("a chunk that is longer than it says", format!("2\r\nxxx\r\n0\r\n\r\n{hidden}")),
        ("a size that overflows", format!("10000000000000002\r\nxx\r\n0\r\n\r\n{hidden}")),
        ("a hexadecimal prefix", format!("0x2\r\nxx\r\n0\r\n\r\n{hidden}")),
        ("a sign", format!("+2\r\nxx\r\n0\r\n\r\n{hidden}")),
        ("a negative size", format!("-2\r\nxx\r\n0\r\n\r\n{hidden}")),
        ("no size", format!("\r\nxx\r\n0\r\n\r\n{hidden}")),
        (
            "trailers",
            "2\r\nxx\r\n0\r\nHost: other.test\r\nContent-Length: 9\r\nX-Leak: leak\r\n\r\n"
                .to_owned(),
        ),
        ("a request among the trailers", format!("2\r\nxx\r\n0\r\nX: y\n{hidden}")),
        ("trailers without end", format!("2\r\nxx\r\n0\r\nX: {long}\r\n\r\n{hidden}")),
    ]
}

/// Tries every body in one way.
fn try_bodies(hosts: &NamedHosts, server: &ByteServer, how: &str, name: &str) {
    let (sandbox, port, mode) = (hosts.open(), server.port, hosts.world.mode);
    let own = format!("{name}:{port}");
    let before = if how == "proxy" { format!("http://{own}") } else { String::new() };
    let request = |path: &str, headers: &str, body: &str| {
        format!("POST {before}{path} HTTP/1.1\r\nHost: {own}\r\n{headers}\r\n{body}")
    };
    // With the last request every connection ends that has not ended before.
    let last = request("/last", "Content-Length: 0\r\nConnection: close\r\n", "");
    let speak = |message: &str| {
        fs::write(hosts.world.workspace().join("speak.py"), SPEAK).unwrap();
        fs::write(hosts.world.workspace().join("message"), message).unwrap();
        sandbox.bash(&format!("/usr/bin/python3 speak.py {how} {name} {port} message"))
    };
    for (what, body) in bodies(port) {
        for trailer in ["", "Trailer: X-Leak, Host, Content-Length\r\nTE: trailers\r\n"] {
            let headers = format!("Transfer-Encoding: chunked\r\n{trailer}");
            let tried = speak(&format!("{}{last}", request("/ok", &headers, &body)));
            assert!(!tried.timed_out, "{mode:?} {how}: {what}: {tried:?}");
            // A connection whose request was refused before its first byte has none.
            for heard in server.heard().into_iter().filter(|heard| !heard.is_empty()) {
                let shown = format!("{mode:?} {how}: {what}: {heard}\n{}", tried.stdout);
                let is_judged = ["POST /ok HTTP/1.1\r\n", "POST /last HTTP/1.1\r\n"];
                assert!(is_judged.iter().any(|line| heard.starts_with(line)), "{shown}");
                assert_eq!(heard.matches(" HTTP/1.1\r\n").count(), 1, "{shown}");
                for never in ["hidden", "other.test", "leak", ";"] {
                    assert!(!heard.contains(never), "{never}: {shown}");
                }
            }
        }
    }
    // The controls: a body in chunks arrives, also with an extension, and so does the next request.
    for body in ["2\r\nxx\r\n0\r\n\r\n", "2;leak=1\r\nxx\r\n0\r\n\r\n"] {
        let ok = request("/ok", "Transfer-Encoding: chunked\r\n", body);
        let done = speak(&format!("{ok}{last}"));
        assert_eq!(done.stdout.matches("hello").count(), 2, "{mode:?} {how}: {done:?}");
        let heard = server.heard();
        assert_eq!(heard.len(), 2, "{mode:?} {how}: {heard:?}");
        assert!(heard[0].ends_with("\r\n\r\n2\r\nxx\r\n0\r\n\r\n"), "{mode:?} {how}: {heard:?}");
    }
}

#[test]
fn a_body_in_chunks_hides_no_request_of_plain_http() {
    for mode in Mode::all() {
        let server = ByteServer::start(None);
        let port = server.port;
        let net = format!(
            "mode = \"domains\"\nallow = [\"packages.test:{port}\", \"127.0.0.1:{port}\"]\n"
        );
        let names = ["packages.test", "other.test"];
        let hosts = NamedHosts::with_profile(mode, &names, &named_profile(&net));
        try_bodies(&hosts, &server, "proxy", "packages.test");
        try_bodies(&hosts, &server, "direct", "packages.test");
    }
}

#[test]
fn a_body_in_chunks_hides_no_request_to_an_inspected_host() {
    for mode in Mode::all() {
        let authority = TestAuthority::default();
        let server = ByteServer::start(Some(authority.server(&["api.test"])));
        let port = server.port;
        let net = format!(
            "mode = \"domains\"\nallow = [\"127.0.0.1:{port}\"]\n[[net.rule]]\n\
             host = \"api.test:{port}\"\nmethods = [\"POST /ok\", \"POST /last\"]\n"
        );
        let names = ["api.test", "other.test"];
        let hosts = NamedHosts::trusting(mode, &names, &named_profile(&net), Some(&authority));
        try_bodies(&hosts, &server, "inspected", "api.test");
    }
}
