//! The operator's own proxy: every connection to another host goes through it, to an address that was
//! checked, and it learns neither credentials nor what programs tell their proxy.

use palisade_tests::{CredentialsFrom, Mode, NamedHosts, TestAuthority, WebServer, named_profile};
use std::{
    io::{Read as _, Write as _},
    net::{Shutdown, TcpListener, TcpStream},
    path::Path,
    sync::{Arc, Mutex},
};

/// An address that no host has; the proxy of the test connects to this host instead.
const FAR: &str = "203.0.113.7";

const SECRET: &str = "correct-horse-battery";

/// An HTTP proxy that knows only `CONNECT`. It keeps every byte that it hears.
struct TestProxy {
    port: u16,
    heads: Arc<Mutex<Vec<String>>>,
    bytes: Arc<Mutex<Vec<u8>>>,
}

impl TestProxy {
    /// Starts it. It refuses every address but [`FAR`].
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (heads, bytes) = (Arc::<Mutex<Vec<String>>>::default(), Arc::default());
        let proxy = Self { port, heads: Arc::clone(&heads), bytes: Arc::clone(&bytes) };
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (Ok(stream), heads, bytes) = (stream, Arc::clone(&heads), Arc::clone(&bytes))
                else {
                    return;
                };
                // A client that disconnects early is the client's affair.
                std::thread::spawn(move || carry(stream, &heads, &bytes).unwrap_or_default());
            }
        });
        proxy
    }

    fn take_heads(&self) -> Vec<String> {
        std::mem::take(&mut *self.heads.lock().unwrap())
    }

    fn heard(&self, text: &str) -> bool {
        let bytes = self.bytes.lock().unwrap();
        bytes.windows(text.len()).any(|window| window == text.as_bytes())
    }
}

fn carry(
    mut client: TcpStream,
    heads: &Mutex<Vec<String>>,
    bytes: &Arc<Mutex<Vec<u8>>>,
) -> std::io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        client.read_exact(&mut byte)?;
        head.extend(byte);
    }
    bytes.lock().unwrap().extend_from_slice(&head);
    let head = String::from_utf8_lossy(&head).into_owned();
    heads.lock().unwrap().push(head.clone());
    let port = head.strip_prefix(&format!("CONNECT {FAR}:"));
    let port = port.and_then(|rest| rest.split(' ').next()).and_then(|port| port.parse().ok());
    let Some(port) = port else {
        return client.write_all(b"HTTP/1.1 403 Forbidden\r\n\r\n");
    };
    let mut server = TcpStream::connect(("127.0.0.1", port))?;
    client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n")?;
    let (mut from_server, mut to_client) = (server.try_clone()?, client.try_clone()?);
    std::thread::spawn(move || {
        std::io::copy(&mut from_server, &mut to_client).unwrap_or_default();
        to_client.shutdown(Shutdown::Write).unwrap_or_default();
    });
    let mut chunk = [0; 4096];
    loop {
        match client.read(&mut chunk)? {
            0 => return server.shutdown(Shutdown::Write),
            count => {
                bytes.lock().unwrap().extend_from_slice(&chunk[..count]);
                server.write_all(&chunk[..count])?;
            }
        }
    }
}

/// The credential of the proxy, and its base64 text.
const PASSWORD: &str = "me:pass-word-123";
const PASSWORD_TEXT: &str = "bWU6cGFzcy13b3JkLTEyMw==";

/// Starts an HTTP proxy that speaks TLS, wants a password, and connects to this host's loopback.
fn start_secured(settings: Arc<rustls::ServerConfig>) -> (u16, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let heads = Arc::<Mutex<Vec<String>>>::default();
    let kept = Arc::clone(&heads);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let tls = rustls::ServerConnection::new(Arc::clone(&settings)).unwrap();
            let mut client = rustls::StreamOwned::new(tls, stream.unwrap());
            let kept = Arc::clone(&kept);
            // A client that disconnects early is the client's affair.
            std::thread::spawn(move || carry_one(&mut client, &kept).unwrap_or_default());
        }
    });
    (port, heads)
}

fn read_head(from: &mut impl std::io::Read) -> std::io::Result<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        from.read_exact(&mut byte)?;
        head.extend(byte);
    }
    Ok(String::from_utf8_lossy(&head).into_owned())
}

/// Carries one request without a body, and its answer.
fn carry_one(
    client: &mut rustls::StreamOwned<rustls::ServerConnection, TcpStream>,
    heads: &Mutex<Vec<String>>,
) -> std::io::Result<()> {
    let head = read_head(client)?;
    heads.lock().unwrap().push(head.clone());
    if !head.contains(&format!("Proxy-Authorization: Basic {PASSWORD_TEXT}\r\n")) {
        client.write_all(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n")?;
    } else {
        let port = head.split([':', ' ']).nth(2).and_then(|port| port.parse().ok()).unwrap();
        let mut server = TcpStream::connect(("127.0.0.1", port))?;
        client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n")?;
        server.write_all(read_head(client)?.as_bytes())?;
        std::io::copy(&mut server, client)?;
    }
    client.conn.send_close_notify();
    client.flush()
}

#[test]
fn a_proxy_may_speak_tls_and_want_a_password_which_nobody_is_told() {
    for mode in Mode::all() {
        let (authority, stranger) = (TestAuthority::default(), TestAuthority::default());
        let (good, heads) = start_secured(authority.server(&["proxy.test"]));
        let (bad, unheard) = start_secured(stranger.server(&["proxy.test"]));
        let server = WebServer::start(Path::new("/nonexistent"));
        let http = server.port;
        let net = format!("mode = \"domains\"\nallow = [\"far.test:{http}\", \"{FAR}:{http}\"]\n");
        let names = [format!("far.test={FAR}"), "proxy.test".to_owned()];
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let run = |port: u16, line: &str| {
            let at = format!("https://credential:corporate@proxy.test:{port}");
            let credentials = [("corporate", line, 0o600)];
            let hosts = NamedHosts::start(
                mode,
                &names,
                &named_profile(&net),
                Some(&authority),
                (&["--egress-proxy", &at], Some((CredentialsFrom::Directory, &credentials))),
            );
            let line = format!("curl -sS -w ' %{{http_code}}' http://far.test:{http}/x; env");
            let done = hosts.open().bash(&line);
            let told = format!("{}{}{:?}", done.stdout, done.stderr, done.denials);
            let doctor = hosts.palisade(&["doctor"]).output().unwrap();
            let all = format!("{told}{}", String::from_utf8_lossy(&doctor.stdout));
            palisade_tests::rooms::until("the room ends", || hosts.rooms().is_empty());
            let recorded = format!("{:?}", hosts.connections());
            assert!(recorded.contains("far.test"), "{mode:?}: {recorded}");
            for secret in ["pass-word", PASSWORD_TEXT, "other-pass"] {
                assert!(!all.contains(secret) && !recorded.contains(secret), "{mode:?}: {all}");
            }
            told
        };
        let told = run(good, &format!("basic {PASSWORD}\n"));
        assert!(told.starts_with("hello from /x\n 200"), "{mode:?}: {told}");
        let heard = std::mem::take(&mut *heads.lock().unwrap());
        let expected = format!(
            "CONNECT {FAR}:{http} HTTP/1.1\r\nHost: {FAR}:{http}\r\n\
             Proxy-Authorization: Basic {PASSWORD_TEXT}\r\n\r\n"
        );
        assert_eq!(heard, [expected], "{mode:?}");
        assert_eq!(server.requests().len(), 1, "{mode:?}");
        let told = run(good, "basic me:other-pass-word\n");
        assert!(told.contains("it refused the password"), "{mode:?}: {told}");
        let told = run(good, "header X-Key: other-pass-word\n");
        assert!(told.contains("a proxy takes `basic USER:PASSWORD`"), "{mode:?}: {told}");
        // The password is not sent to somebody who only claims to be the proxy.
        let told = run(bad, &format!("basic {PASSWORD}\n"));
        assert!(told.contains("TLS with proxy.test"), "{mode:?}: {told}");
        assert!(unheard.lock().unwrap().is_empty(), "{mode:?}");
        assert!(server.requests().is_empty(), "{mode:?}");
    }
}

#[test]
fn other_hosts_are_reached_through_the_operators_proxy_only() {
    for mode in Mode::all() {
        let (authority, proxy) = (TestAuthority::default(), TestProxy::start());
        let plain = WebServer::start(Path::new("/nonexistent"));
        let secured =
            WebServer::start_tls(Path::new("/nonexistent"), authority.server(&["api.test"]));
        let own = WebServer::start(Path::new("/nonexistent"));
        let (http, https, near) = (plain.port, secured.port, own.port);
        let net = format!(
            "mode = \"domains\"\nfetch = [\"far.test:{http}\"]\n\
             allow = [\"far.test:{http}\", \"{FAR}:{http}\", \"{FAR}:{https}\", \
             \"near.test:{near}\", \"127.0.0.1:{near}\", \"refused.test:{http}\", \
             \"203.0.113.8:{http}\"]\n\
             [[net.rule]]\nhost = \"api.test:{https}\"\ncredential = \"api\"\n"
        );
        let far = |name: &str| format!("{name}={FAR}");
        let names = [far("far.test"), far("api.test"), "refused.test=203.0.113.8".to_owned()];
        let mut names: Vec<&str> = names.iter().map(String::as_str).collect();
        names.push("near.test");
        names.push("inward.test");
        let at = format!("http://127.0.0.1:{}/", proxy.port);
        let secret = format!("bearer {SECRET}");
        let credentials = [("api", secret.as_str(), 0o600)];
        let hosts = NamedHosts::start(
            mode,
            &names,
            &named_profile(&net),
            Some(&authority),
            (&["--egress-proxy", &at], Some((CredentialsFrom::Directory, &credentials))),
        );
        let sandbox = hosts.open();
        let shown = "-sS -w ' %{http_code}'";
        for how in ["", "--noproxy '*'", "--socks5-hostname 127.0.0.1:61080"] {
            // What a program tells its own proxy is not for the operator's.
            let own = match how {
                "" => "-H 'Proxy-Authorization: Basic b3du' -U me:own-password",
                _ => "",
            };
            let line = format!("curl {shown} {how} {own} http://far.test:{http}/x");
            let done = sandbox.bash(&line);
            assert_eq!(done.stdout, "hello from /x\n 200", "{mode:?}: {how}: {}", done.stderr);
            let expected = format!("CONNECT {FAR}:{http} HTTP/1.1\r\nHost: {FAR}:{http}\r\n\r\n");
            assert_eq!(proxy.take_heads(), [expected], "{mode:?}: {how}");
        }
        assert!(!proxy.heard("b3du") && !proxy.heard("own-password"), "{mode:?}");
        // TLS with an inspected host goes through the tunnel, with the credential inside.
        let done = sandbox.bash(&format!("curl {shown} https://api.test:{https}/x"));
        assert_eq!(done.stdout, "hello from /x\n 200", "{mode:?}: {}", done.stderr);
        let heard = secured.requests().join("\n").to_ascii_lowercase();
        assert!(heard.contains(&format!("authorization: bearer {SECRET}")), "{mode:?}: {heard}");
        assert!(!proxy.heard(SECRET) && !proxy.heard("palisade-placeholder"), "{mode:?}");
        assert_eq!(proxy.take_heads().len(), 1, "{mode:?}");
        // A page for a model takes the same way.
        let url = format!("http://far.test:{http}/page");
        let page = sandbox.call("web_fetch", serde_json::json!({"url": url}));
        assert!(page.output.contains("hello from /page"), "{mode:?}: {page:?}");
        assert_eq!(proxy.take_heads().len(), 1, "{mode:?}");
        // An address of this host that the profile names is this host's, not the proxy's.
        let done = sandbox.bash(&format!("curl {shown} http://near.test:{near}/x"));
        assert_eq!(done.stdout, "hello from /x\n 200", "{mode:?}: {}", done.stderr);
        // Names that are not allowed, and addresses that may not be dialled, are not asked of it.
        for host in ["other.test", "inward.test", "169.254.169.254"] {
            let refused = sandbox.bash(&format!("curl {shown} http://{host}:{http}/x"));
            assert!(refused.stdout.ends_with(" 403"), "{mode:?}: {host}: {refused:?}");
        }
        assert!(proxy.take_heads().is_empty(), "{mode:?}");
        // The proxy may refuse, too.
        let refused = sandbox.bash(&format!("curl {shown} http://refused.test:{http}/x"));
        let why = format!("through the proxy 127.0.0.1:{}: it refused 203.0.113.8", proxy.port);
        assert!(refused.stdout.contains(&why) && refused.stdout.ends_with(" 502"), "{refused:?}");
        // The room reports a connection when it has ended.
        let record = palisade_tests::rooms::awaited("the record of the connection", || {
            hosts.connections().into_iter().find(|record| record.host.as_str() == "far.test")
        });
        assert_eq!(record.address.as_deref(), Some(format!("{FAR}:{http}").as_str()), "{mode:?}");
    }
}
