//! Services of the host that a profile names in `[net.host]`: a port of its loopback and a Unix
//! socket are reached, their neighbours are not, and the operator decides whether any is.

use palisade_client::{Error, Open};
use palisade_protocol::ErrorCode;
use palisade_tests::{Mode, NamedHosts, Sandbox, WebServer, World, named_profile, profile_with};
use std::{
    fs, io,
    os::unix::{fs::PermissionsExt as _, net::UnixListener},
    path::{Path, PathBuf},
};

const NAMES: [&str; 1] = ["packages.test"];

fn server() -> WebServer {
    WebServer::start(Path::new("/nonexistent"))
}

/// A daemon whose profile has a port of the host, and whose operator allows these services.
fn with_port(mode: Mode, port: u16, more: &str, allowed: &str) -> NamedHosts {
    let net = format!("mode = \"domains\"\n{more}\n[net.host]\nports = [{port}]");
    NamedHosts::with_arguments(mode, &NAMES, &named_profile(&net), &["--allow-host", allowed])
}

#[test]
fn a_port_of_the_host_is_reached_by_its_name_and_no_neighbour() {
    for mode in Mode::all() {
        let (service, neighbour) = (server(), server());
        let (port, other) = (service.port, neighbour.port);
        // A name that leads to the same address is allowed, and the address itself is not.
        let allow = format!("allow = [\"packages.test:{port}\"]");
        let hosts = with_port(mode, port, &allow, &port.to_string());
        let sandbox = hosts.open();
        let curl = |arguments: &str| sandbox.bash(&format!("curl -sS {arguments}"));
        for how in ["", "--noproxy '*'", "--proxytunnel", "--socks5-hostname 127.0.0.1:61080"] {
            let url = format!("{how} http://host.palisade.internal:{port}/x");
            let reached = curl(&url);
            assert_eq!(reached.stdout, "hello from /x\n", "{mode:?}: {url}: {}", reached.stderr);
            assert_eq!(service.requests().len(), 1, "{mode:?}: {url}");
        }
        let before = service.received();
        for around in [
            format!("http://host.palisade.internal:{other}/"),
            format!("--noproxy '*' http://host.palisade.internal:{other}/"),
            format!("--proxytunnel http://host.palisade.internal:{other}/"),
            format!(
                "-H 'Host: host.palisade.internal:{port}' http://host.palisade.internal:{other}/"
            ),
            format!("http://packages.test:{port}/"),
            format!("http://sub.host.palisade.internal:{port}/"),
            format!("--proxytunnel --noproxy '' http://127.0.0.1:{port}/"),
            format!("--noproxy '*' http://127.0.0.1:{port}/"),
            format!("--noproxy '*' --connect-to ::198.18.0.1:{other} http://packages.test:{port}/"),
        ] {
            let tried = curl(&around);
            assert!(!tried.stdout.contains("hello"), "{mode:?}: {around}: {}", tried.stdout);
        }
        assert_eq!((service.requests().len(), service.received()), (0, before), "{mode:?}");
        assert_eq!((neighbour.requests().len(), neighbour.received()), (0, 0), "{mode:?}");
        let refused = curl(&format!("http://host.palisade.internal:{other}/"));
        let told = format!("does not include {other}; add it there");
        assert!(refused.stdout.contains(&told), "{mode:?}: {}", refused.stdout);
        let denial = refused.denials.iter().find(|denial| denial.layer == "network").unwrap();
        assert!(denial.remedy.contains("net.host.ports"), "{denial:?}");
        // The control: outside, both answer.
        for port in [port, other] {
            let outside = std::process::Command::new("curl")
                .args(["-s", "--noproxy", "*", &format!("http://127.0.0.1:{port}/y")])
                .output()
                .unwrap();
            assert_eq!(palisade_tests::text(&outside.stdout), "hello from /y\n");
        }
        drop(sandbox);
        palisade_tests::rooms::until("the room ends", || hosts.rooms().is_empty());
        let records = hosts.connections();
        let rule = format!("net.host.ports {port}");
        let address = format!("127.0.0.1:{port}");
        let carried: Vec<_> = records.iter().filter(|one| one.rule.as_str() == rule).collect();
        assert_eq!(carried.len(), 4, "{mode:?}: {records:?}");
        for one in carried {
            assert_eq!(one.host.as_str(), "host.palisade.internal");
            assert_eq!(one.address.as_deref(), Some(address.as_str()));
        }
    }
}

#[test]
fn the_operator_decides_whether_a_service_of_the_host_is_used() {
    for mode in Mode::all() {
        let service = server();
        let port = service.port;
        for allowed in ["none", "1,/run/other.sock"] {
            let hosts = with_port(mode, port, "", allowed);
            let refused = hosts.try_open(Open::new(hosts.world.workspace())).unwrap_err();
            let refused = refused.wire().expect("an answer");
            assert_eq!(refused.code, ErrorCode::OverCeiling, "{mode:?}: {refused:?}");
            let told = format!("net.host of profile \"named\" has {port}, which this daemon");
            assert!(refused.message.contains(&told), "{mode:?}: {refused:?}");
            assert!(refused.hint.contains("allow_host"), "{mode:?}: {refused:?}");
        }
        // Root's daemon allows none unless it is told to, and a user's own allows any.
        let net = format!("mode = \"domains\"\n[net.host]\nports = [{port}]");
        let hosts = NamedHosts::new(mode, &NAMES, &net);
        let opened = hosts.try_open(Open::new(hosts.world.workspace()));
        assert_eq!(opened.is_ok(), mode == Mode::User, "{mode:?}");
        assert_eq!(service.received(), 0);
    }
}

/// A service's socket, with a mode.
fn socket(path: &Path, mode: u32) -> UnixListener {
    let listener = UnixListener::bind(path).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    listener.set_nonblocking(true).unwrap();
    listener
}

fn assert_nobody(listener: &UnixListener, whom: &str) {
    let kind = listener.accept().err().map(|error| error.kind());
    assert_eq!(kind, Some(io::ErrorKind::WouldBlock), "somebody reached {whom}");
}

fn open(world: &World, sockets: &[&Path]) -> Result<Sandbox, Error> {
    let old = "mode = \"loopback\"\n";
    let new = format!("{old}[net.host]\nsockets = {sockets:?}\n");
    world.add_unasked("mine", &profile_with(&[(old, &new)]));
    let (stream, daemon) = world.embedded(&["--allow-host", "any"]);
    Sandbox::over(stream, Some(daemon), Open::new(world.workspace()).profile("mine"))
}

/// A directory as services have one, gone at the end.
fn service_directory(parent: &str) -> tempfile::TempDir {
    let made = tempfile::Builder::new().prefix("service-").tempdir_in(parent).unwrap();
    fs::set_permissions(made.path(), fs::Permissions::from_mode(0o755)).unwrap();
    made
}

#[test]
fn a_socket_of_the_host_is_reached_and_nothing_beside_it() {
    let in_run = rustix::process::geteuid().is_root().then_some("/run");
    for mode in Mode::all() {
        for parent in ["/tmp", "/var/tmp"].into_iter().chain(in_run) {
            let directory = service_directory(parent);
            let at = |name: &str| directory.path().join(name);
            let [named, beside, shut, missing] =
                ["named.sock", "beside.sock", "shut.sock", "missing.sock"].map(at);
            let (service, neighbour) = (socket(&named, 0o777), socket(&beside, 0o777));
            let closed = socket(&shut, 0);
            fs::write(at("file"), "secret").unwrap();
            let world = World::new(mode);
            let sandbox = open(&world, &[&named, &shut, &missing]).expect("a session");
            let attempts = [&named, &beside, &shut, &missing];
            let attempts = attempts.map(|path: &PathBuf| format!("unix:{}", path.display()));
            let expected = ["ok", "ENOENT", "EACCES", "ENOENT"];
            assert_eq!(sandbox.told(&attempts), expected, "{mode:?}: {parent}");
            service.accept().expect("the session's connection");
            for (listener, whom) in
                [(&service, "it twice"), (&neighbour, "beside"), (&closed, "shut")]
            {
                assert_nobody(listener, whom);
            }
            let line = format!("ls -A {}", directory.path().display());
            assert_eq!(sandbox.ok(&line), "named.sock\nshut.sock\n", "{mode:?}: {parent}");
            // It can be neither deleted nor replaced, and is the same in every kind of call.
            let line =
                format!("rm -f {0}; mv {0} {0}.old; ln -sf /etc/passwd {0}", named.display());
            assert!(!sandbox.bash(&line).success, "{mode:?}: {parent}");
            assert_eq!(sandbox.told(&attempts[..1]), ["ok"], "{mode:?}: {parent}");
            service.accept().expect("the session's second connection");
            assert!(named.exists() && !at("named.sock.old").exists(), "{mode:?}: {parent}");
            // The control: outside, the neighbour answers.
            assert_eq!(world.told_outside(&attempts[1..2]), ["ok"]);
            neighbour.accept().expect("the control's connection");
        }
    }
}

#[test]
fn what_is_no_socket_is_refused_and_so_is_the_daemons_own() {
    for mode in Mode::all() {
        let directory = service_directory("/var/tmp");
        let (file, link) = (directory.path().join("file"), directory.path().join("link"));
        fs::write(&file, "secret").unwrap();
        let _service = socket(&directory.path().join("sock"), 0o777);
        std::os::unix::fs::symlink("sock", &link).unwrap();
        for path in [directory.path(), &file, &link] {
            let world = World::new(mode);
            let refused = open(&world, &[path]).unwrap_err().to_string();
            assert!(refused.contains("is not a socket; name the socket"), "{mode:?}: {refused}");
        }
        let world = World::new(mode);
        let own = world.state().join("sock");
        let refused = open(&world, &[&own]).unwrap_err().to_string();
        assert!(refused.contains("which belongs to the daemon"), "{mode:?}: {refused}");
    }
}
