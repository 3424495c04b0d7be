//! HTTP/2 to hosts with a `[[net.rule]]`: each stream is a request that is judged by itself, with hosts
//! that speak HTTP/2 and with hosts that do not.

use palisade_tests::{
    CredentialsFrom, Mode, NamedHosts, Sandbox, TestAuthority, WebServer, named_profile,
    rooms::until,
};
use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
};

const TOKEN: &str = "s3cret-0123456789-abcdef";

/// A server that speaks only HTTP/2. It prints its port, and then each request as it heard it. It answers
/// with that, and with trailers.
const SERVER: &str = r#"
const pem = (kind, hex) => `-----BEGIN ${kind}-----\n` +
    Buffer.from(hex, 'hex').toString('base64').match(/.{1,64}/g).join('\n') + `\n-----END ${kind}-----\n`;
const [cert, key] = [pem('CERTIFICATE', process.argv[1]), pem('PRIVATE KEY', process.argv[2])];
const server = require('http2').createSecureServer({ cert, key });
server.on('session', () => console.log('connection'));
server.on('stream', (stream, headers) => {
    let body = '';
    stream.on('error', () => {}).on('data', piece => body += piece).on('end', () => {
        const heard = JSON.stringify({ ...headers, body });
        console.log(heard);
        stream.on('wantTrailers', () =>
            stream.sendTrailers({ 'grpc-status': '0', 'x-echo': headers.authorization ?? 'none' }));
        stream.respond({ ':status': 200 }, { waitForTrailers: true });
        stream.end(`heard ${heard}\n`);
    });
});
server.listen(0, '127.0.0.1', () => console.log(server.address().port));
"#;

struct Http2Server {
    port: u16,
    child: Child,
    lines: Arc<Mutex<Vec<String>>>,
}

impl Http2Server {
    fn start((certificate, key): (Vec<u8>, Vec<u8>)) -> Self {
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let mut child = Command::new("node")
            .args(["-e", SERVER, &hex(&certificate), &hex(&key)])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut told = BufReader::new(child.stdout.take().unwrap()).lines();
        let port = told.next().unwrap().unwrap().parse().unwrap();
        let lines = Arc::<Mutex<Vec<String>>>::default();
        let kept = Arc::clone(&lines);
        std::thread::spawn(move || {
            while let Some(Ok(line)) = told.next() {
                kept.lock().unwrap().push(line);
            }
        });
        Self { port, child, lines }
    }

    /// Takes what was heard so far: a line for each connection and each request.
    fn heard(&self) -> Vec<String> {
        std::mem::take(&mut *self.lines.lock().unwrap())
    }
}

impl Drop for Http2Server {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// A host that speaks only HTTP/2, one that speaks only HTTP/1.1, and a daemon whose sessions reach both.
struct Inspected {
    second: Http2Server,
    first: WebServer,
    hosts: NamedHosts,
}

impl Inspected {
    fn new(mode: Mode) -> Self {
        let authority = TestAuthority::default();
        let second = Http2Server::start(authority.issue(&["api.test"]));
        let first = WebServer::start_tls(Path::new("/none"), authority.server(&["old.test"]));
        let (port, old) = (second.port, first.port);
        let methods = "methods = [\"GET\", \"POST /ok\"]";
        let net = format!(
            "mode = \"domains\"\nallow = [\"127.0.0.1:{port}\", \"127.0.0.1:{old}\"]\n\
             [[net.rule]]\nhost = \"api.test:{port}\"\ncredential = \"api\"\n{methods}\n\
             [[net.rule]]\nhost = \"old.test:{old}\"\n{methods}\n"
        );
        let bearer = format!("bearer {TOKEN}\n");
        let hosts = NamedHosts::with_credentials(
            mode,
            &["api.test", "old.test"],
            &named_profile(&net),
            &authority,
            (CredentialsFrom::Directory, &[("api", &bearer, 0o600)]),
        );
        let inspected = Self { second, first, hosts };
        for (name, text) in [("raw.py", RAW), ("resets.py", RESETS)] {
            let script = [FRAMES, text].concat();
            fs::write(inspected.hosts.world.workspace().join(name), script).unwrap();
        }
        inspected
    }
}

/// Fetches with curl, which shows headers, body and trailers, and then the version and the status.
fn curl(sandbox: &Sandbox, arguments: &str) -> String {
    let line = format!("curl -sS --http2 -D - -w ' %{{http_version}} %{{http_code}}' {arguments}");
    let done = sandbox.bash(&line);
    format!("{}{}", done.stdout, done.stderr)
}

#[test]
fn http_2_is_carried_and_each_request_is_judged() {
    for mode in Mode::all() {
        let Inspected { second, first, hosts } = Inspected::new(mode);
        let sandbox = hosts.open();
        let url = format!("https://api.test:{}", second.port);
        for how in ["", "--noproxy '*'", "--socks5-hostname 127.0.0.1:61080"] {
            let told = curl(&sandbox, &format!("{how} -H 'te: trailers' {url}/x?q=1"));
            assert!(told.ends_with(" 2 200"), "{mode:?}: {told}");
            // The credential is filled in, and the host's echoes of it are not told, in trailers either.
            let stars = "*".repeat(TOKEN.len());
            assert!(!told.contains(TOKEN), "{mode:?}: {told}");
            assert!(told.contains(&format!("x-echo: Bearer {stars}")), "{mode:?}: {told}");
            assert!(told.contains("grpc-status: 0"), "{mode:?}: {told}");
            let heard = second.heard().join("\n");
            assert!(heard.contains(&format!("Bearer {TOKEN}")), "{mode:?}: {heard}");
            assert!(heard.contains("\":path\":\"/x?q=1\""), "{mode:?}: {heard}");
            assert!(heard.contains("\"te\":\"trailers\""), "{mode:?}: {heard}");
        }
        let told = curl(&sandbox, &format!("-d a=b {url}/ok"));
        assert!(told.ends_with(" 2 200") && told.contains("\"body\":\"a=b\""), "{mode:?}: {told}");
        second.heard();
        for (refused, why) in [
            (format!("-X DELETE {url}/x"), "but not DELETE"),
            (format!("-d a=b {url}/x"), "but not POST /x"),
            (format!("-H 'Host: old.test' {url}/x"), "the request is for old.test:443"),
            (
                format!("-H 'X-HTTP-Method-Override: DELETE' {url}/x"),
                "take the request for another",
            ),
            (format!("{url}/x?$PALISADE_CREDENTIAL_API"), "has the placeholder of credential"),
        ] {
            let told = curl(&sandbox, &refused);
            assert!(told.ends_with(" 2 403") && told.contains(why), "{mode:?}: {refused}: {told}");
        }
        // A program that speaks only HTTP/1.1 has no way to such a host: nothing is translated for it.
        let told = sandbox.bash(&format!("curl -sS --http1.1 {url}/x")).stdout;
        assert!(told.contains("TLS with api.test"), "{mode:?}: {told}");
        assert_eq!(second.heard(), [""; 0], "{mode:?}");
        // A host that speaks only HTTP/1.1 gets one request of that, with one cookie.
        let old = format!("https://old.test:{}", first.port);
        let told = curl(&sandbox, &format!("-H 'Cookie: a=1' -H 'Cookie: b=2' -d a=b {old}/ok"));
        assert!(told.ends_with("hello from /ok\n 2 200"), "{mode:?}: {told}");
        let heard = first.requests();
        assert_eq!(heard.len(), 1, "{mode:?}: {heard:?}");
        assert!(heard[0].contains("cookie: a=1; b=2\r\n"), "{mode:?}: {heard:?}");
        assert!(heard[0].contains("content-length: 3\r\n"), "{mode:?}: {heard:?}");
    }
}

/// Frames of HTTP/2, by hand.
const FRAMES: &str = r#"
import socket, ssl, struct, sys
def number(value, bits):
    most = (1 << bits) - 1
    if value < most: return bytes([value])
    value -= most; out = bytearray([most])
    while value > 127: out.append(value & 127 | 128); value >>= 7
    return bytes(out + bytes([value]))
def text(value): return number(len(value), 7) + value
def block(headers): return b"".join(b"\0" + text(n) + text(v) for n, v in headers)
def frame(kind, flags, stream, body=b""):
    return struct.pack(">I", len(body))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + body
def begin(port):
    context = ssl.create_default_context(); context.set_alpn_protocols(["h2"])
    s = context.wrap_socket(socket.create_connection((host, port)), server_hostname=host)
    assert s.selected_alpn_protocol() == "h2"
    s.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0))
    return s
def frames(s):
    kept = b""
    while True:
        try: more = s.recv(65536)
        except OSError: return
        if not more: return
        kept += more
        while len(kept) >= 9 and len(kept) >= 9 + int.from_bytes(kept[:3], "big"):
            size = int.from_bytes(kept[:3], "big")
            yield kept[3], kept[4], int.from_bytes(kept[5:9], "big"), kept[9:9 + size]
            kept = kept[9 + size:]
host, port = sys.argv[1], int(sys.argv[2])
"#;

/// Sends one request, given as lines `name=value`, and shows the body, or how it was refused.
const RAW: &str = r#"
s = begin(port)
lines = [line for line in open("request", "rb").read().split(b"\x01") if line]
data = [line[5:] for line in lines if line.startswith(b"DATA=")]
headers = [tuple(line.split(b"=", 1)) for line in lines if not line.startswith(b"DATA=")]
body = block(headers)
s.sendall(frame(1, 0 if data else 1, 1, body[:16000]) if len(body) > 16000 else frame(1, 4 if data else 5, 1, body))
rest = body[16000:] if len(body) > 16000 else b""
while rest:
    piece, rest = rest[:16000], rest[16000:]
    try: s.sendall(frame(9, 0 if rest else 4, 1, piece))
    except OSError: break
for at, piece in enumerate(data): s.sendall(frame(0, at == len(data) - 1, 1, piece))
for kind, flags, stream, body in frames(s):
    if kind == 0: sys.stdout.write(body.decode())
    if kind == 3: print("reset", int.from_bytes(body, "big")); break
    if kind == 7: print("goaway", int.from_bytes(body[4:8], "big")); break
    if kind in (0, 1) and stream == 1 and flags & 1: print("end"); break
"#;

/// Begins requests and gives each of them up at once, until the connection ends.
const RESETS: &str = r#"
s = begin(port)
at = f"{host}:{port}".encode()
head = block([(b":method", b"GET"), (b":scheme", b"https"), (b":authority", at), (b":path", b"/x")])
count = 0
try:
    while count < 1000000:
        stream = 2 * count + 1
        s.sendall(frame(1, 5, stream, head) + (b"" if pause else frame(3, 0, stream, b"\0\0\0\x08")))
        if pause and count >= 8: s.sendall(frame(3, 0, stream - 16, b"\0\0\0\x08"))
        count += 1
except OSError: pass
print("cut off" if count < 1000000 else "served")
"#;

#[test]
fn a_stream_is_one_request_to_the_host_that_was_asked_for() {
    for mode in Mode::all() {
        let Inspected { second, first, hosts } = Inspected::new(mode);
        let sandbox = hosts.open();
        for (host, port) in [("api.test", second.port), ("old.test", first.port)] {
            let send = |headers: &[(&str, &str)]| {
                let line = |(name, value): &(&str, &str)| format!("{name}={value}\x01");
                let lines: String = headers.iter().map(line).collect();
                fs::write(hosts.world.workspace().join("request"), lines).unwrap();
                let done = sandbox.bash(&format!("/usr/bin/python3 raw.py {host} {port}"));
                format!("{}{}", done.stdout, done.stderr)
            };
            let at = format!("{host}:{port}");
            let to = |authority: &'static str| {
                [
                    (":method", "GET"),
                    (":scheme", "https"),
                    (":path", "/x"),
                    (":authority", authority),
                ]
            };
            let good = [
                (":method", "GET"),
                (":scheme", "https"),
                (":path", "/x"),
                (":authority", at.as_str()),
            ];
            let with = |more: &[(&'static str, &'static str)]| {
                let all = good.iter().copied().chain(more.iter().copied());
                send(&all.collect::<Vec<_>>())
            };
            let long = "a".repeat(60 * 1024);
            let longer = "a".repeat(80 * 1024);
            let told = send(&[&good[..], &[("x-a", long.as_str())]].concat());
            assert!(told.contains("/x") && told.ends_with("end\n"), "{mode:?}: {host}: {told}");
            let heard = second.heard().len() + first.requests().len();
            assert!(heard > 0, "{mode:?}: {host}");
            let hidden = "x\r\nHost: other.test\r\n\r\nDELETE /x HTTP/1.1";
            for (what, told) in [
                ("another authority", send(&to("other.test"))),
                ("an authority with a user", send(&to("api.test@other.test"))),
                ("another Host", with(&[("host", "other.test")])),
                ("a header that ends a line", with(&[("x-a", hidden)])),
                ("a name that ends a line", with(&[("x-a: 1\r\nx-b", "1")])),
                ("an upper case name", with(&[("X-A", "1")])),
                ("a connection header", with(&[("connection", "x-a")])),
                ("a transfer encoding", with(&[("transfer-encoding", "chunked")])),
                ("an upgrade", with(&[("upgrade", "h2c")])),
                ("two lengths", with(&[("content-length", "0"), ("content-length", "5")])),
                (
                    "a wrong length",
                    with(&[("content-length", "5"), ("DATA", "GET /hidden HTTP/1.1")]),
                ),
                ("a pseudo-header of a header", with(&[(":path", "/y")])),
                (
                    "a method with a space",
                    send(&[&[(":method", "GET /y HTTP/1.1\r\nx: y")], &good[1..]].concat()),
                ),
                (
                    "a path with a space",
                    send(&[&good[..2], &[(":path", "/x HTTP/1.1\r\nx: y")], &good[3..]].concat()),
                ),
                (
                    "another scheme",
                    send(&[&good[..1], &[(":scheme", "http")], &good[2..]].concat()),
                ),
                ("CONNECT", send(&[(":method", "CONNECT"), (":authority", at.as_str())])),
                (
                    "CONNECT for a protocol",
                    send(
                        &[&[(":method", "CONNECT"), (":protocol", "websocket")], &good[1..]]
                            .concat(),
                    ),
                ),
                (
                    "a head of more than 64 KiB",
                    send(&[&good[..], &[("x-a", longer.as_str())]].concat()),
                ),
            ] {
                let is_refused = told.contains("palisade: ")
                    || told.contains("reset ")
                    || told.contains("goaway ")
                    || told == "end\n"
                    || told.is_empty();
                assert!(
                    is_refused && !told.contains("hello") && !told.contains("heard"),
                    "{mode:?}: {host}: {what}: {told}"
                );
            }
            let heard = [second.heard(), first.requests()].concat();
            // The head of a request may be passed on before its body turns out to have another
            // length, and nothing of that body.
            let is_head = |line: &str| {
                let says = [r#""content-length":"5""#, "content-length: 5\r\n"];
                says.iter().any(|says| line.contains(says)) && !line.contains("hidden")
            };
            let heard = heard.iter().filter(|line| *line != "connection" && !is_head(line));
            let heard: Vec<_> = heard.collect();
            assert!(heard.is_empty(), "{mode:?}: {host}: {heard:?}");
        }
    }
}

#[test]
fn a_program_that_gives_up_requests_again_and_again_is_cut_off() {
    for mode in Mode::all() {
        let Inspected { second, hosts, .. } = Inspected::new(mode);
        let sandbox = hosts.open();
        let port = second.port;
        for pause in ["False", "True"] {
            let script = [FRAMES, "pause = ", pause, "\n", RESETS].concat();
            fs::write(hosts.world.workspace().join("resets.py"), script).unwrap();
            let told = sandbox.ok(&format!("/usr/bin/python3 resets.py api.test {port}"));
            assert_eq!(told, "cut off\n", "{mode:?}: {pause}");
        }
        // The room serves on.
        let told = curl(&sandbox, &format!("https://api.test:{port}/x"));
        assert!(told.ends_with(" 2 200"), "{mode:?}: {told}");
        drop(sandbox);
        until("the room ends with its last session", || hosts.rooms().is_empty());
    }
}
