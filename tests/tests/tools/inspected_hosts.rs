//! Hosts with a `[[net.rule]]`: TLS ends in the egress room, each request is judged, and the host
//! hears only of those that are allowed.

use palisade_audit::ConnectionVerdict;
use palisade_protocol::CallResult;
use palisade_tests::{
    BareRepository, Mode, NamedHosts, Sandbox, TestAuthority, WebServer, named_profile,
    rooms::until,
};
use rustix::process::{Pid, Signal, kill_process};
use std::{fs, path::Path};

const NAMES: [&str; 3] = ["api.test", "bad.test", "other.test"];

/// A host with inspected requests, and a server behind it.
struct Inspected {
    server: WebServer,
    /// A server for another name whose certificate the host does not trust.
    bad: WebServer,
    hosts: NamedHosts,
}

impl Inspected {
    fn new(mode: Mode, files: &Path, methods: &str) -> Self {
        let (authority, stranger) = (TestAuthority::default(), TestAuthority::default());
        let server = WebServer::start_tls(files, authority.server(&["api.test", "other.test"]));
        let bad = WebServer::start_tls(files, stranger.server(&["bad.test"]));
        let (port, other) = (server.port, bad.port);
        let net = format!(
            "mode = \"domains\"\nallow = [\"127.0.0.1:{port}\", \"127.0.0.1:{other}\"]\n\
             [[net.rule]]\nhost = \"api.test:{port}\"\nmethods = {methods}\n\
             [[net.rule]]\nhost = \"bad.test:{other}\"\n"
        );
        let profile = named_profile(&net);
        let hosts = NamedHosts::trusting(mode, &NAMES, &profile, Some(&authority));
        Self { server, bad, hosts }
    }
}

/// Fetches with curl, which shows the body and then the status.
fn curl(sandbox: &Sandbox, arguments: &str) -> CallResult {
    sandbox.bash(&format!("curl -sS -w ' %{{http_code}}' {arguments}"))
}

#[test]
fn requests_are_judged_by_method_and_path_before_the_host_hears_of_them() {
    for mode in Mode::all() {
        let methods = "[\"GET\", \"POST /repos/acme/*\"]";
        let Inspected { server, bad, hosts } = Inspected::new(mode, Path::new("/none"), methods);
        let (port, sandbox) = (server.port, hosts.open());
        let url = format!("https://api.test:{port}");
        for (allowed, path) in [
            (format!("{url}/x"), "/x"),
            (format!("--noproxy '*' {url}/x"), "/x"),
            (format!("--socks5-hostname 127.0.0.1:61080 {url}/x"), "/x"),
            (format!("-d a=b {url}/repos/acme/one?q=/../"), "/repos/acme/one"),
            (format!("-d a=b {url}/repos/acme/one/two"), "/repos/acme/one/two"),
        ] {
            let done = curl(&sandbox, &allowed);
            let expected = format!("hello from {path}\n 200");
            assert_eq!(done.stdout, expected, "{mode:?}: {allowed}: {}", done.stderr);
            assert_eq!(server.requests().len(), 1, "{mode:?}: {allowed}");
        }
        let before = server.received();
        for (refused, why) in [
            (format!("-X DELETE {url}/x"), "but not DELETE"),
            (format!("-I {url}/x"), ""),
            (format!("-d a=b {url}/repos/other"), "but not POST /repos/other"),
            (format!("-d a=b {url}/repos/acme"), "but not POST /repos/acme"),
            (format!("--path-as-is -d a=b {url}/repos/acme/../other"), "can not be compared"),
            (format!("-d a=b {url}/repos/acme/%2e%2e/other"), "has \"%2e\""),
            (format!("-d a=b {url}/repos/acme//other"), "has \"//\""),
            (format!("-H 'Host: other.test' {url}/x"), "the request is for other.test:443"),
            (format!("--http1.1 -H 'Upgrade: websocket' {url}/x"), "no other protocol"),
            (
                format!("-H 'X-HTTP-Method-Override: DELETE' {url}/x"),
                "take the request for another",
            ),
            (format!("-H 'X_Original_URL: /y' {url}/x"), "take the request for another"),
            (format!("http://api.test:{port}/x"), "must come over TLS"),
            (format!("--noproxy '*' http://api.test:{port}/x"), "must come over TLS"),
        ] {
            let tried = curl(&sandbox, &refused);
            assert!(tried.stdout.ends_with(" 403"), "{mode:?}: {refused}: {tried:?}");
            assert!(tried.stdout.contains(why), "{mode:?}: {refused}: {}", tried.stdout);
        }
        let front = format!("--connect-to other.test:{port}:api.test:{port}");
        let fronted = curl(&sandbox, &format!("{front} https://other.test:{port}/x"));
        assert_eq!(fronted.exit_code, Some(35), "{mode:?}: {}", fronted.stderr);
        // By an address that the profile allows, with the name in the greeting.
        let address = format!("--connect-to api.test:{port}:127.0.0.1:{port}");
        let direct = curl(&sandbox, &format!("{address} {url}/x"));
        assert_eq!(direct.exit_code, Some(35), "{mode:?}: {}", direct.stderr);
        // A program that trusts only certificates of its own: no connection, and no tunnel.
        let bundle = fs::read("/etc/ssl/certs/ca-certificates.crt").unwrap();
        fs::write(hosts.world.workspace().join("own.pem"), bundle).unwrap();
        let own = "--cacert own.pem --capath /none";
        let pinned = curl(&sandbox, &format!("{own} {url}/x"));
        assert_eq!(pinned.exit_code, Some(60), "{mode:?}: {}", pinned.stderr);
        assert_eq!((server.requests().len(), server.received()), (0, before), "{mode:?}");
        let untrusted = curl(&sandbox, &format!("https://bad.test:{}/x", bad.port));
        assert!(untrusted.stdout.ends_with(" 502"), "{mode:?}: {}", untrusted.stdout);
        assert!(untrusted.stdout.contains("TLS with bad.test"), "{}", untrusted.stdout);
        assert!(bad.requests().is_empty(), "{mode:?}");
        drop(sandbox);
        until("the room ends with its last session", || hosts.rooms().is_empty());
        let records = hosts.connections();
        let rule = format!("net.rule \"api.test:{port}\" with \"POST /repos/acme/*\"");
        let posted = records.iter().filter(|r| r.asked == "request" && r.rule.as_str() == rule);
        let posted: Vec<_> = posted.collect();
        assert_eq!(posted.len(), 2, "{mode:?}: {records:?}");
        assert!(posted.iter().all(|r| r.sent_bytes > 0 && r.received_bytes > 0), "{posted:?}");
        let denied = |r: &&palisade_audit::Connection| {
            r.verdict == ConnectionVerdict::Deny && r.rule.as_str().contains("but not DELETE")
        };
        assert_eq!(records.iter().filter(denied).count(), 1, "{mode:?}: {records:?}");
    }
}

#[test]
fn programs_that_know_none_of_the_variables_trust_the_session_too() {
    for mode in Mode::all() {
        let methods = "[\"GET\"]";
        let Inspected { server, hosts, .. } = Inspected::new(mode, Path::new("/none"), methods);
        let (sandbox, url) = (hosts.open(), format!("https://api.test:{}/x", server.port));
        for line in [
            format!("wget -q -O- {url}"),
            format!("wget -q -O- --no-proxy {url}"),
            format!("env -i curl -sS {url}"),
            format!("env -i curl -sS --proxy http://127.0.0.1:61080 {url}"),
        ] {
            let done = sandbox.bash(&line);
            assert_eq!(done.stdout, "hello from /x\n", "{mode:?}: {line}: {}", done.stderr);
            assert_eq!(server.requests().len(), 1, "{mode:?}: {line}");
        }
        let before = server.received();
        let refused = sandbox.bash(&format!("wget -nv -O- --post-data a=b {url}"));
        assert!(!refused.success && refused.stderr.contains("403"), "{mode:?}: {refused:?}");
        assert_eq!((server.requests().len(), server.received()), (0, before), "{mode:?}");
        let bundle = "/etc/ssl/certs/ca-certificates.crt";
        let same = format!("cmp {bundle} /etc/palisade-certificates.pem && ! rm -f {bundle}");
        drop(sandbox.ok(&format!("{same} && ! sh -c 'echo x >> {bundle}'")));
        // Without a rule, the session has the host's own.
        let plain = NamedHosts::new(mode, &NAMES, "mode = \"domains\"\nallow = [\"other.test\"]");
        let length = plain.open().ok(&format!("wc -c < {bundle}"));
        assert_eq!(length.trim(), fs::read(bundle).unwrap().len().to_string(), "{mode:?}");
    }
}

/// Sends bytes inside TLS, and shows what comes back.
const RAW: &str = "import socket, ssl, sys\n\
    s = socket.create_connection(('api.test', PORT))\n\
    s = ssl.create_default_context().wrap_socket(s, server_hostname='api.test')\n\
    s.sendall(open('request', 'rb').read())\n\
    while True:\n    b = s.recv(4096)\n    if not b: break\n    sys.stdout.write(b.decode())\n";

#[test]
fn a_request_can_not_be_hidden_in_another() {
    for mode in Mode::all() {
        let methods = "[\"GET\", \"POST /ok\"]";
        let Inspected { server, hosts, .. } = Inspected::new(mode, Path::new("/none"), methods);
        let (port, sandbox) = (server.port, hosts.open());
        fs::write(hosts.world.workspace().join("raw.py"), RAW.replace("PORT", &port.to_string()))
            .unwrap();
        let hidden = format!("DELETE /hidden HTTP/1.1\r\nHost: api.test:{port}\r\n\r\n");
        let (host, length) = (format!("Host: api.test:{port}\r\n"), hidden.len());
        for head in [
            format!("Content-Length: {length}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
            "Transfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n0\r\n\r\n".to_owned(),
            "Content-Length: 0\r\n\r\n".to_owned(),
            format!("Content-Length: 0\r\nContent-Length: {length}\r\n\r\n"),
            "Transfer-Encoding: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n".to_owned(),
        ] {
            let bytes = format!("POST /ok HTTP/1.1\r\n{host}{head}{hidden}");
            fs::write(hosts.world.workspace().join("request"), bytes).unwrap();
            let done = sandbox.bash("/usr/bin/python3 raw.py");
            assert!(done.success, "{mode:?}: {head:?}: {}", done.stderr);
            let heard = server.requests();
            assert!(heard.iter().all(|head| !head.contains("hidden")), "{mode:?}: {heard:?}");
            assert!(heard.len() <= 1, "{mode:?}: {heard:?}");
        }
        // The control: by itself, such a request is heard.
        let bytes =
            format!("POST /ok HTTP/1.1\r\n{host}Content-Length: 0\r\nConnection: close\r\n\r\n");
        fs::write(hosts.world.workspace().join("request"), bytes).unwrap();
        assert!(sandbox.ok("/usr/bin/python3 raw.py").contains("hello from /ok"), "{mode:?}");
        assert_eq!(server.requests().len(), 1, "{mode:?}");
    }
}

/// Offers protocols in the TLS greeting, and shows which one was chosen: `offer.py PROTOCOL,…`. Without
/// protocols it sends a beginning of HTTP/2 and shows what comes back.
const OFFER: &str = r#"
import socket, ssl, sys
context = ssl.create_default_context()
if len(sys.argv) > 1: context.set_alpn_protocols(sys.argv[1].split(","))
s = socket.create_connection(("api.test", PORT))
try: s = context.wrap_socket(s, server_hostname="api.test")
except ssl.SSLError as error: sys.exit(f"no TLS: {error}")
print(s.selected_alpn_protocol())
if len(sys.argv) > 1: sys.exit()
s.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes.fromhex("000000040000000000"))
try: print(s.recv(4096))
except OSError as error: print(type(error).__name__)
"#;

#[test]
fn a_program_that_speaks_only_other_protocols_is_refused_and_told_so() {
    for mode in Mode::all() {
        let Inspected { server, hosts, .. } = Inspected::new(mode, Path::new("/none"), "[\"GET\"]");
        let (port, sandbox) = (server.port, hosts.open());
        let offer = OFFER.replace("PORT", &port.to_string());
        fs::write(hosts.world.workspace().join("offer.py"), offer).unwrap();
        let is_told = |denial: &palisade_protocol::Denial| {
            denial.layer == "network"
                && format!("{denial:?}").contains("must be HTTP/1.1 or HTTP/2")
        };
        // The room refuses by itself, so that a short call may end before the broker hears of it.
        until("the result tells it", || {
            let refused = sandbox.bash("/usr/bin/python3 offer.py spdy/3");
            assert_eq!((refused.exit_code, refused.stdout.as_str()), (Some(1), ""), "{mode:?}");
            assert!(refused.stderr.starts_with("no TLS"), "{mode:?}: {}", refused.stderr);
            refused.denials.iter().any(is_told)
        });
        // HTTP/2 that was not agreed on is not understood.
        let begun = sandbox.ok("/usr/bin/python3 offer.py");
        assert!(begun.starts_with("None\n") && !begun.contains("200"), "{mode:?}: {begun}");
        assert_eq!((server.requests().len(), server.connections()), (0, 0), "{mode:?}");
        // The controls: a program knows which one it gets, and works.
        for (offered, chosen) in [("h2,http/1.1", "h2\n"), ("http/1.1", "http/1.1\n")] {
            let told = sandbox.ok(&format!("/usr/bin/python3 offer.py {offered}"));
            assert_eq!(told, chosen, "{mode:?}");
        }
        let url = format!("https://api.test:{port}/x");
        let both = sandbox.bash(&format!("curl -sS --http2 -w ' %{{http_version}}' {url}"));
        assert_eq!(both.stdout, "hello from /x\n 2", "{mode:?}: {}", both.stderr);
        assert_eq!(server.requests().len(), 1, "{mode:?}");
    }
}

const PYTHON: &str = "/usr/bin/python3 -c 'import urllib.request as u; \
    print(u.urlopen(\"URL/x\").read().decode(), end=\"\")'";

const NODE: &str =
    "node -e 'fetch(\"URL/x\").then(r => r.text()).then(t => process.stdout.write(t))'";

#[test]
fn clients_trust_the_sessions_authority_also_after_the_room_was_replaced() {
    for mode in Mode::all() {
        let repository = BareRepository::new();
        let Inspected { server, hosts, .. } =
            Inspected::new(mode, repository.directory(), "[\"GET\"]");
        let sandbox = hosts.open();
        let url = format!("https://api.test:{}", server.port);
        for (program, line) in [("curl", "curl -sS URL/x"), ("python3", PYTHON), ("node", NODE)] {
            if !Path::new("/usr/bin").join(program).exists() {
                eprintln!("{program} is not installed");
                continue;
            }
            let done = sandbox.bash(&line.replace("URL", &url));
            assert_eq!(done.stdout, "hello from /x\n", "{mode:?}: {program}: {}", done.stderr);
        }
        let cloned = sandbox.bash(&format!("git clone -q {url}/files/project.git cloned"));
        assert!(cloned.success, "{mode:?}: {}", cloned.stderr);
        let old = hosts.rooms();
        kill_process(Pid::from_raw(old[0]).unwrap(), Signal::KILL).unwrap();
        until("there is another room", || {
            let now = hosts.rooms();
            !now.is_empty() && now != old
        });
        until("it serves the session", || {
            sandbox.bash(&format!("curl -sS {url}/x")).stdout == "hello from /x\n"
        });
    }
}

#[test]
fn git_pushes_only_where_a_rule_allows_it() {
    for mode in Mode::all() {
        for (service, subjects) in [("git-upload-pack", "first\n"), ("*", "pushed\nfirst\n")] {
            let repository = BareRepository::new();
            let methods = format!("[\"GET\", \"POST /git/project.git/{service}\"]");
            let Inspected { server, hosts, .. } =
                Inspected::new(mode, repository.directory(), &methods);
            let sandbox = hosts.open();
            // A password of the program's own, which no rule knows of.
            let url = format!("https://user:own-password@api.test:{}/git", server.port);
            let commit = format!(
                "git clone -q {url}/project.git work && cd work && \
                 git -c user.name=a -c user.email=a@test commit -q --allow-empty -m pushed"
            );
            assert_eq!(sandbox.ok(&commit), "", "{mode:?}");
            let pushed = sandbox.bash("git push -q origin main");
            assert_eq!(pushed.success, service == "*", "{mode:?}: {}", pushed.stderr);
            assert_eq!(
                pushed.stderr.contains("403"),
                service != "*",
                "{mode:?}: {}",
                pushed.stderr
            );
            assert_eq!(repository.subjects(), subjects, "{mode:?}");
            let heard = server.requests();
            let own = "authorization: Basic dXNlcjpvd24tcGFzc3dvcmQ=";
            assert!(heard.iter().any(|head| head.contains(own)), "{mode:?}: {heard:?}");
        }
    }
}

#[test]
fn only_a_session_with_rules_has_certificates_of_its_own() {
    let show = "cat /etc/palisade-certificates.pem; env | grep -c palisade-certificates";
    for mode in Mode::all() {
        let Inspected { hosts, .. } = Inspected::new(mode, Path::new("/none"), "[\"GET\"]");
        let sandbox = hosts.open();
        let (shown, other) = (sandbox.bash(show).stdout, hosts.open().bash(show).stdout);
        assert!(shown.ends_with("-----END CERTIFICATE-----\n7\n"), "{mode:?}");
        assert_ne!(shown, other, "{mode:?}: each session has an authority of its own");
        let plain = NamedHosts::new(mode, &NAMES, "mode = \"domains\"\nallow = [\"other.test\"]");
        let shown = plain.open().bash(show);
        assert_eq!(shown.stdout, "0\n", "{mode:?}");
        assert!(shown.stderr.contains("No such file"), "{mode:?}: {}", shown.stderr);
    }
}
