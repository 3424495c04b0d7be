//! The network by name, end to end: the broker decides about each connection, an egress room carries
//! it, and without a room there is none. What real clients do with it: `egress_clients.rs`.

use palisade_audit::ConnectionVerdict;
use palisade_client::{Answer, ApprovalRequest, Event, Registration};
use palisade_protocol::{CallResult, ErrorCode, Scope, Until};
use palisade_tests::{Mode, NamedHosts, Sandbox, WebServer, during, rooms::until, text};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::path::Path;

const NAMES: [&str; 2] = ["packages.test", "other.test"];

/// A profile that allows one name, and the address behind it.
fn net(port: u16, more: &str) -> String {
    format!("mode = \"domains\"\nallow = [\"packages.test:{port}\", \"127.0.0.1:{port}\"]\n{more}")
}

fn server() -> WebServer {
    WebServer::start(Path::new("/nonexistent"))
}

/// Fetches a URL with curl, which shows the body and then the status.
fn curl(sandbox: &Sandbox, arguments: &str) -> CallResult {
    sandbox.bash(&format!("curl -sS -w ' %{{http_code}}' {arguments}"))
}

#[test]
fn an_allowed_name_is_reached_and_no_byte_gets_to_another() {
    for mode in Mode::all() {
        let server = server();
        let port = server.port;
        let hosts = NamedHosts::new(mode, &NAMES, &net(port, ""));
        assert!(hosts.rooms().is_empty(), "{mode:?}: no session needs one yet");
        let sandbox = hosts.open();
        assert_eq!(hosts.rooms().len(), 1, "{mode:?}");
        assert_eq!(sandbox.session.receipt().network.mode, "domains");
        let url = |name: &str| format!("http://{name}:{port}/x");
        assert_eq!(curl(&sandbox, &url("packages.test")).stdout, "hello from /x\n 200");
        let direct = curl(&sandbox, &format!("--noproxy '*' {}", url("packages.test")));
        assert_eq!(direct.stdout, "hello from /x\n 200", "{mode:?}: {}", direct.stderr);
        assert_eq!(server.requests().len(), 2);
        let before = server.received();
        let refused = curl(&sandbox, &url("other.test"));
        assert!(refused.stdout.ends_with(" 403"), "{mode:?}: {}", refused.stdout);
        let reason =
            format!("does not include other.test:{port}; add \"other.test:{port}\" to net.allow");
        assert!(refused.stdout.contains(&reason), "{mode:?}: {}", refused.stdout);
        let denial = refused.denials.iter().find(|denial| denial.layer == "network").unwrap();
        assert_eq!(denial.target, format!("other.test:{port}"));
        assert!(denial.remedy.contains("net.allow"), "{denial:?}");
        // Without the proxy, the name does not exist.
        let unknown = curl(&sandbox, &format!("--noproxy '*' {}", url("other.test")));
        assert_eq!(unknown.exit_code, Some(6), "{mode:?}: {}", unknown.stderr);
        for around in [
            format!("http://127.0.0.1:{port}/ --noproxy '*'"),
            format!("-H 'Host: packages.test:{port}' {}", url("other.test")),
            format!("--resolve other.test:{port}:127.0.0.1 --noproxy '*' {}", url("other.test")),
            format!("--socks5-hostname 127.0.0.1:61080 {}", url("other.test")),
            format!("--proxytunnel {}", url("other.test")),
        ] {
            let tried = curl(&sandbox, &around);
            assert!(!tried.stdout.contains("hello"), "{mode:?}: {around}: {}", tried.stdout);
        }
        assert_eq!((server.requests().len(), server.received()), (0, before), "{mode:?}");
        // The control: outside, the same server answers for the same name.
        let outside = std::process::Command::new("curl")
            .args(["-s", "--noproxy", "*", "--resolve", &format!("other.test:{port}:127.0.0.1")])
            .arg(url("other.test"))
            .output()
            .unwrap();
        assert_eq!(text(&outside.stdout), "hello from /x\n");
        drop(sandbox);
        until("the room ends with its last session", || hosts.rooms().is_empty());
        let records = hosts.connections();
        let allowed: Vec<_> =
            records.iter().filter(|r| r.verdict == ConnectionVerdict::Allow).collect();
        assert_eq!(allowed.len(), 2, "{records:?}");
        for record in &allowed {
            assert_eq!((record.host.as_str(), record.port), ("packages.test", port));
            let address = format!("127.0.0.1:{port}");
            assert_eq!(record.address.as_deref(), Some(address.as_str()));
            assert!(record.sent_bytes > 0 && record.received_bytes > 0, "{record:?}");
            assert_eq!(record.calls.len(), 1, "{record:?}");
            assert_eq!(record.rule.as_str(), format!("net.allow \"packages.test:{port}\""));
        }
        assert_eq!((allowed[0].asked.as_str(), allowed[1].asked.as_str()), ("http", "direct"));
        let is_refused = |record: &&palisade_audit::Connection| {
            record.verdict == ConnectionVerdict::Deny && record.host.as_str() == "other.test"
        };
        assert!(records.iter().filter(is_refused).count() > 1, "{records:?}");
        let (call, log) = (refused.call_id.to_string(), hosts.world.state().join("audit"));
        let why = hosts.palisade(&["why", &call, "--dir", log.to_str().unwrap()]).output().unwrap();
        assert!(text(&why.stdout).contains(&format!("other.test:{port}")), "{why:?}");
    }
}

#[test]
fn approvers_are_asked_once_and_without_one_the_reason_is_shown() {
    for mode in Mode::all() {
        let server = server();
        let port = server.port;
        let allow = format!("mode = \"domains\"\nallow = [\"127.0.0.1:{port}\"]\nask = true");
        let hosts = NamedHosts::new(mode, &NAMES, &allow);
        let sandbox = hosts.open();
        let url = format!("http://packages.test:{port}/asked");
        let alone = curl(&sandbox, &url);
        let told = format!(
            "palisade: the connection to packages.test:{port} needs approval, and no approver is \
             connected; connect an approver with `palisade approve`\n 403"
        );
        assert_eq!(alone.stdout, told, "{mode:?}");
        assert!(server.requests().is_empty());
        let operator = hosts.operator(&sandbox);
        sandbox.wait(operator.register(Registration::new("person:ann"))).unwrap();
        let line = format!("for n in 1 2 3; do curl -s {url} & done; wait; curl -s {url}");
        let remember = async |request: &ApprovalRequest| {
            let answer = Answer::approve().remember(Scope::ExactCall, Until::Session);
            operator.answer(request, answer).await.unwrap();
        };
        let call = sandbox.session.bash(line).into_future();
        let (result, requests) = sandbox.wait(during(&operator, call, remember));
        let result = result.unwrap();
        assert_eq!(result.stdout, "hello from /asked\n".repeat(4), "{mode:?}: {:?}", result.error);
        assert_eq!(requests.len(), 1, "{mode:?}: {requests:?}");
        assert_eq!(requests[0].tool.as_str(), "net.connect");
        let arguments: Value = serde_json::from_str(requests[0].arguments.as_str()).unwrap();
        assert_eq!(arguments, serde_json::json!({"host": "packages.test", "port": port}));
        assert!(requests[0].view.lines[1].text.contains("curl"), "{:?}", requests[0].view);
        let grants = sandbox.wait(operator.grants()).unwrap();
        assert_eq!(grants[0].summary, format!("net.connect: packages.test:{port}"));
    }
}

/// The rooms of a daemon, once one of them runs that is not `old`.
fn other_room(hosts: &NamedHosts, old: i32) -> i32 {
    palisade_tests::rooms::awaited("another room", || {
        hosts.rooms().into_iter().find(|room| *room != old)
    })
}

#[test]
fn a_killed_room_cuts_transfers_and_the_next_one_serves_the_session() {
    for mode in Mode::all() {
        let server = server();
        let port = server.port;
        let hosts = NamedHosts::new(mode, &NAMES, &net(port, ""));
        let sandbox = hosts.open();
        let url = format!("http://packages.test:{port}");
        let old = hosts.rooms()[0];
        let line = format!("echo ready; exec curl -sS -o /dev/null {url}/endless");
        let result = sandbox.wait(async {
            let mut running = sandbox.session.bash(line).stream().start().await.unwrap();
            while let Some(event) = running.next().await {
                if matches!(event, Event::Output { .. }) {
                    break;
                }
            }
            // The list shows the connection while it lasts.
            let listed = loop {
                let listed = sandbox.client.connections().await.unwrap().connections;
                if listed.iter().any(|connection| connection.address.is_some()) {
                    break listed;
                }
                tokio::task::yield_now().await;
            };
            assert_eq!((listed[0].host.as_str(), listed[0].port), ("packages.test", port));
            let shown =
                hosts.world.mode.act(|| hosts.palisade(&["net", "--json"]).output().unwrap());
            let shown: Value = serde_json::from_slice(&shown.stdout).unwrap();
            assert_eq!(shown["connections"][0]["host"], "packages.test");
            kill_process(Pid::from_raw(old).unwrap(), Signal::KILL).unwrap();
            running.result().await.unwrap()
        });
        // The transfer was cut off: before its first byte (52), or later (18, 56).
        assert!(matches!(result.exit_code, Some(18 | 52 | 56)), "{mode:?}: {result:?}");
        other_room(&hosts, old);
        until("the session is served again", || {
            curl(&sandbox, &format!("{url}/again")).stdout == "hello from /again\n 200"
        });
        let direct = curl(&sandbox, &format!("--noproxy '*' {url}/direct"));
        assert_eq!(direct.stdout, "hello from /direct\n 200", "{mode:?}: {}", direct.stderr);
        let cut = hosts.connections().into_iter().find(|record| {
            record.failure.as_ref().is_some_and(|why| why.as_str() == "the egress room ended")
        });
        assert!(cut.is_some(), "{mode:?}: {:?}", hosts.connections());
    }
}

#[test]
fn a_session_uploads_no_more_than_its_profile_allows() {
    for mode in Mode::all() {
        let server = server();
        let port = server.port;
        let profile = palisade_tests::named_profile(&net(port, ""));
        let small = profile.replacen("[limits]\n", "[limits]\nupload = \"64 KiB\"\n", 1);
        assert!(small != profile);
        let hosts = NamedHosts::with_profile(mode, &NAMES, &small);
        let sandbox = hosts.open();
        let url = format!("http://packages.test:{port}/up");
        let fits = curl(&sandbox, &format!("--data-binary @<(head -c 10000 /dev/zero) {url}"));
        assert!(fits.stdout.ends_with(" 200"), "{mode:?}: {}", fits.stdout);
        let over = curl(&sandbox, &format!("--data-binary @<(head -c 200000 /dev/zero) {url}"));
        assert!(!over.stdout.contains("hello"), "{mode:?}: {}", over.stdout);
        assert!(server.received() < 64 * 1024 + 8192, "{mode:?}: {}", server.received());
    }
}

#[test]
fn a_shared_daemon_adds_no_host_for_its_client() {
    for mode in Mode::all() {
        let server = server();
        let port = server.port;
        let hosts = NamedHosts::new(mode, &NAMES, &net(port, ""));
        let open = |name: &str| {
            let open = palisade_client::Open::new(hosts.world.workspace());
            hosts.try_open(open.allow_domain(format!("{name}:{port}")))
        };
        let refused = open("other.test").map(drop).unwrap_err();
        let palisade_client::Error::Remote(error) = refused else { panic!("{refused:?}") };
        assert_eq!(error.code, ErrorCode::Denied, "{mode:?}: {error}");
        let told = format!("profile \"named\" does not allow other.test:{port}");
        assert_eq!(error.message, told, "{mode:?}");
        let sandbox = open("packages.test").expect("the profile allows it already");
        let url = format!("http://packages.test:{port}/x");
        assert_eq!(curl(&sandbox, &url).stdout, "hello from /x\n 200");
    }
}
