//! A profile's `net.mode`: with `ports` a session is in the host's network, of which it connects to
//! the profile's ports and to nothing else; with `none` not even to itself. The ceiling is the
//! launcher's. What `loopback` keeps away: `network.rs`.

use palisade_client::{Error, Open};
use palisade_plan::{
    Access, Grant, MissingPath, Namespace, Network, SetIdBits, Sockets, Step, Tcp,
};
use palisade_policy::SyscallList;
use palisade_protocol::{ErrorCode, NetworkReceipt};
use palisade_tests::{Booted, Cell, Mode, Pids, Sandbox, UNITS, World};
use std::{
    io,
    net::{TcpListener, UdpSocket},
    os::{
        linux::net::SocketAddrExt as _,
        unix::net::{SocketAddr, UnixListener},
    },
};

/// A listener on this host's loopback.
fn listen() -> (TcpListener, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

fn assert_nobody(answer: io::Result<impl Sized>, whom: &str) {
    let kind = answer.err().map(|error| error.kind());
    assert_eq!(kind, Some(io::ErrorKind::WouldBlock), "somebody reached {whom}");
}

fn profile(net: &str) -> String {
    format!(
        "version = 1\ndescription = \"for a test\"\n[fs]\nworkspace = \"write\"\n\
         execute = [\"!/usr\", \"/bin\", \"/lib\", \"/lib64\"]\n\
         etc = [\"hosts\", \"nsswitch.conf\"]\n[net]\n{net}\n\
         [layers]\noptional = [\"limits\"]\n"
    )
}

/// A session with a network, below a launcher with these arguments of its daemon.
fn open(world: &World, net: &str, arguments: &[&str]) -> Result<Sandbox, Error> {
    world.add_unasked("mine", &profile(net));
    let (stream, daemon) = world.embedded(arguments);
    Sandbox::over(stream, Some(daemon), Open::new(world.workspace()).profile("mine"))
}

fn on_port(world: &World, port: u16) -> Sandbox {
    let net = format!("mode = \"ports\"\nports = [{port}]");
    open(world, &net, &["--allow-ports", &port.to_string()]).expect("a session")
}

#[test]
fn a_port_of_the_profile_is_reached_and_no_other() {
    let (open, port) = listen();
    let (shut, other) = listen();
    let attempts = [
        format!("tcp:127.0.0.1:{port}"),
        format!("tcp:127.0.0.1:{other}"),
        format!("tcp:0.0.0.0:{other}"),
        format!("tcp:[__ffff_127.0.0.1]:{other}"),
        format!("fastopen:{other}"),
        format!("fastopen:{port}"),
        "tcp:192.0.2.1:1".to_owned(),
        "serve:x".to_owned(),
        "serve_unbound:x".to_owned(),
        "loopback".to_owned(),
    ];
    let expected = [
        "ok", "EACCES", "EACCES", "EACCES", "EPERM", "EPERM", "EACCES", "EACCES", "EPERM", "EACCES",
    ];
    for mode in Mode::all() {
        let world = World::new(mode);
        let sandbox = on_port(&world, port);
        assert_eq!(sandbox.told(&attempts), expected, "{mode:?}: {attempts:?}");
        open.accept().expect("the session's connection");
        assert_nobody(open.accept(), "the open port past the rules");
        assert_nobody(shut.accept(), "another port");
        let receipt = sandbox.session.receipt();
        let network = NetworkReceipt { mode: "ports".to_owned(), ports: vec![port] };
        assert_eq!(receipt.network, network, "{mode:?}");
        assert!(!receipt.namespaces.contains(&"network".to_owned()), "{mode:?}");
        let rights = &receipt.landlock.as_ref().unwrap().rights;
        assert!(["BindTcp", "ConnectTcp"].iter().all(|right| rights.iter().any(|r| r == right)));
        // The control: outside, each of these listeners is reached.
        let control = world.told_outside(&attempts[..5]);
        assert_eq!(control, ["ok"; 5], "{mode:?}");
        open.accept().expect("the control's connection");
        (0..4).for_each(|_| drop(shut.accept().expect("the control's connections")));
    }
}

#[test]
fn in_the_hosts_network_there_is_nothing_but_tcp() {
    let (_listener, port) = listen();
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    udp.set_nonblocking(true).unwrap();
    let name = format!("palisade-ports-{}", std::process::id());
    let hidden = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
    hidden.set_nonblocking(true).unwrap();
    let reaching =
        [format!("udp:127.0.0.1:{}", udp.local_addr().unwrap().port()), format!("abstract:{name}")];
    let refused = [
        ("UDP", "socket:2:2:0"),
        ("UDP by its number", "socket:2:2:17"),
        ("UDP over IPv6", "socket:10:2:0"),
        ("UDP, non-blocking", "socket:2:0x80802:0"),
        ("MPTCP", "socket:2:1:262"),
        ("SCTP", "socket:2:1:132"),
        ("ping", "socket:2:2:1"),
        ("raw ICMP", "socket:2:3:1"),
        ("packet", "socket:17:3:768"),
        ("vsock, to the hypervisor", "socket:40:1:0"),
        ("SMC", "socket:43:1:0"),
        ("netlink route", "socket:16:3:0"),
        ("netlink route, datagrams", "socket:16:2:0"),
        ("netlink socket diagnosis", "socket:16:3:4"),
        ("listen", "sys:50:-1:1"),
        ("fast open", "sys:sendto:-1:buf:1:0x20000000:buf:16"),
        ("fast open with sendmsg", "sys:sendmsg:-1:buf:0x20000000"),
        ("fast open with sendmmsg", "sys:sendmmsg:-1:buf:1:0x20000000"),
        ("fast open by option", "sys:setsockopt:-1:6:30:buf:4"),
        ("another protocol by option", "sys:setsockopt:-1:6:31:buf:4"),
    ];
    let usual = [
        "socket:1:1:0",
        "socket:1:2:0",
        "socket:2:1:0",
        "socket:10:0x80801:6",
        "sys:socketpair:1:1:0:buf",
    ];
    for mode in Mode::all() {
        let world = World::new(mode);
        let sandbox = on_port(&world, port);
        assert_eq!(sandbox.told(&reaching), ["EPERM", "EPERM"], "{mode:?}");
        assert_nobody(udp.recv(&mut [0; 16]), "the host's datagrams");
        assert_nobody(hidden.accept(), "the host's abstract socket");
        let attempts = refused.map(|(_, attempt)| attempt.to_owned());
        for ((name, _), answer) in refused.iter().zip(sandbox.told(&attempts)) {
            assert_eq!(answer, "EPERM", "{mode:?}: {name}");
        }
        assert_eq!(sandbox.told(&usual.map(str::to_owned)), ["ok"; 5], "{mode:?}");
        assert_eq!(world.told_outside(&reaching), ["ok", "ok"], "{mode:?}");
        assert_eq!(udp.recv(&mut [0; 16]).expect("the control's datagram"), 5);
        hidden.accept().expect("the control's connection");
        // Names are resolved without any of it.
        assert!(sandbox.ok("getent hosts localhost").contains("localhost"), "{mode:?}");
    }
}

#[test]
fn with_none_nothing_is_reached_not_even_itself() {
    let (listener, port) = listen();
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    udp.set_nonblocking(true).unwrap();
    let attempts = [
        format!("tcp:127.0.0.1:{port}"),
        format!("udp:127.0.0.1:{}", udp.local_addr().unwrap().port()),
        "tcp:[__1]:80".to_owned(),
        "tcp:192.0.2.1:80".to_owned(),
        "loopback".to_owned(),
        "socket:2:1:0".to_owned(),
        "sys:socketpair:1:1:0:buf".to_owned(),
    ];
    let expected =
        ["ENETUNREACH", "ENETUNREACH", "EADDRNOTAVAIL", "ENETUNREACH", "ENETUNREACH", "ok", "ok"];
    for mode in Mode::all() {
        let world = World::new(mode);
        let sandbox = open(&world, "mode = \"none\"", &[]).expect("a session");
        assert_eq!(sandbox.told(&attempts), expected, "{mode:?}: {attempts:?}");
        assert_nobody(listener.accept(), "the host's listener");
        assert_nobody(udp.recv(&mut [0; 16]), "the host's datagrams");
        let receipt = sandbox.session.receipt();
        assert_eq!(receipt.network.mode, "none");
        assert!(receipt.namespaces.contains(&"network".to_owned()), "{mode:?}");
        assert_eq!(world.told_outside(&attempts[..2]), ["ok", "ok"], "{mode:?}");
        listener.accept().expect("the control's connection");
        udp.recv(&mut [0; 16]).expect("the control's datagram");
        let own = World::new(mode);
        assert_eq!(own.open().session.receipt().network.mode, "loopback");
    }
}

#[test]
fn the_launcher_refuses_what_its_ceiling_does_not_have() {
    let net = "mode = \"ports\"\nports = [53, 443]";
    for mode in Mode::all() {
        let mut narrow = vec![
            (&["--allow-ports", "none"][..], "has 53,443,", "no port"),
            (&["--allow-ports", "80,443"], "has 53,", "80,443"),
        ];
        if mode == Mode::System {
            narrow.push((&[], "has 53,443,", "no port"));
        }
        for (arguments, asked, most) in narrow {
            let world = World::new(mode);
            let refused = open(&world, net, arguments).expect_err("no session");
            let error = refused.wire().expect("an answer");
            assert_eq!(error.code, ErrorCode::OverCeiling, "{mode:?}: {error}");
            for word in
                [&format!("net.ports {asked}"), &format!("connect to {most}:"), "--allow-ports"]
            {
                assert!(error.message.contains(word), "{mode:?}: {word}: {error}");
            }
        }
        for arguments in [&["--allow-ports", "443,80,53"][..], &["--allow-ports", "any"]] {
            let world = World::new(mode);
            let sandbox = open(&world, net, arguments).expect("a session");
            assert_eq!(sandbox.session.receipt().network.ports, [53, 443], "{mode:?}");
            // Port 53 is there, so names are asked for by TCP.
            assert_eq!(sandbox.ok("echo $RES_OPTIONS"), "use-vc\n", "{mode:?}");
        }
    }
    // A user's own launcher allows it by default.
    let world = World::new(Mode::User);
    let sandbox = open(&world, net, &[]).expect("a session");
    assert_eq!(sandbox.session.receipt().network.mode, "ports");
}

#[test]
fn a_profiles_own_tests_of_the_network_hold_in_the_kernel() {
    let (_listener, port) = listen();
    let (_other, other) = listen();
    let world = World::new(Mode::User);
    for (name, net, here, there) in [
        ("none", "mode = \"none\"".to_owned(), "deny", "deny"),
        ("loopback", "mode = \"loopback\"".to_owned(), "allow", "allow"),
        ("ports", format!("mode = \"ports\"\nports = [{port}]"), "allow", "deny"),
    ] {
        let tests = format!(
            "tests = [\"connect 127.0.0.1:{port}: {here}\", \"connect 127.0.0.1:{other}: {there}\", \
             \"connect 192.0.2.1:9: deny\"]\n[fs]"
        );
        world.add_profile(name, &profile(&net).replacen("[fs]", &tests, 1));
        let output = world.mode.act(|| {
            let mut command = world.command("palisade");
            command.args(["profile", "test", "--kernel", name, "--profiles"]);
            command.arg(world.profiles()).env("TMPDIR", world.outside()).output().unwrap()
        });
        let told = String::from_utf8_lossy(&output.stdout);
        assert_eq!(told.matches("holds  ").count(), 3, "{name}: {told}{output:?}");
    }
}

/// Each layer alone, beside a cell without any.
#[test]
fn each_layer_stops_what_the_other_does_not_see() {
    let (open, port) = listen();
    let (shut, other) = listen();
    let world = World::new(Mode::User);
    let attempts = [
        format!("tcp:127.0.0.1:{port}"),
        format!("tcp:127.0.0.1:{other}"),
        "socket:2:2:0".to_owned(),
        "serve_unbound:/dev/null/x".to_owned(),
        "loopback".to_owned(),
    ];
    let words: Vec<&str> = attempts.iter().map(String::as_str).collect();
    let told = |steps: Vec<Step>| -> Vec<String> {
        let cell = Cell::with_steps(steps, Pids::Shared).expect("a cell");
        let lines = cell.probe(&world.workspace(), &words);
        lines.iter().map(|line| line.rsplit('=').next().unwrap().to_owned()).collect()
    };
    let all = Grant { path: "/".into(), access: Access::Write, missing: MissingPath::Refuse };
    let landlock = Step::Landlock { grants: vec![all], tcp: Tcp::Connect(vec![port]) };
    let rules = SyscallList::builtin().unwrap().on_ports().rules();
    let filter = Step::Seccomp {
        rules,
        sockets: Sockets::of(&Network::Ports(vec![port])),
        bits: SetIdBits::None,
    };
    let network = Step::Namespaces(vec![Namespace::Network]);
    // Without a bind, what is listened on has a port all the same: it gets as far as the file.
    assert_eq!(told(vec![]), ["ok", "ok", "ok", "ENOTDIR", "ok"]);
    let held = told(vec![Step::NoNewPrivileges, landlock]);
    assert_eq!(held, ["ok", "EACCES", "ok", "ENOTDIR", "EACCES"]);
    let held = told(vec![Step::NoNewPrivileges, filter]);
    assert_eq!(held, ["ok", "ok", "EPERM", "EPERM", "EPERM"]);
    let held = told(vec![network]);
    assert_eq!(held, ["ENETUNREACH", "ENETUNREACH", "ok", "ENOTDIR", "ENETUNREACH"]);
    let count = |listener: &TcpListener| std::iter::from_fn(|| listener.accept().ok()).count();
    assert_eq!((count(&open), count(&shut)), (3, 2));
}

/// The drop-in of docs/operations.md, as it stands there.
#[test]
fn the_service_lets_sessions_into_its_network_by_the_drop_in_of_the_page() {
    let page = include_str!("../../../docs/operations.md");
    let (_, rest) = page.split_once("### The network of sessions").expect("the section");
    let drop_in = rest.split("```ini\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    if Mode::all() == [Mode::User] {
        // Only root can boot a systemd. The page's command is the unit's, with one option more.
        let unit = UNITS.iter().find(|(name, _)| *name == "palisade-launcher.service").unwrap().1;
        let start = unit.lines().find(|line| line.starts_with("ExecStart=")).unwrap();
        assert!(drop_in.contains(&format!("\n{start} --allow-ports 53,80,443\n")), "{drop_in}");
        return;
    }
    let booted = Booted::with_service();
    let run = |line: &str| {
        let output = booted.line_of("alice", line).output().expect("palisade runs");
        let told = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
        (output.status.code(), told.concat())
    };
    let (status, told) = run("palisade run --profile trusted-net -- echo served");
    assert_eq!(status, Some(125), "{told}");
    assert!(told.contains("connect to no port: start it with --allow-ports 53,80,443"), "{told}");
    let (_, told) = run("palisade doctor");
    assert!(told.contains("outbound TCP: unavailable, "), "{told}");
    let write = format!(
        "mkdir /etc/systemd/system/palisade-launcher.service.d\n\
         cat > /etc/systemd/system/palisade-launcher.service.d/ports.conf <<'E'\n{drop_in}E\n\
         systemctl daemon-reload; systemctl restart palisade-launcher palisaded\n"
    );
    booted.ok(&["bash", "-euc", &write]);
    let (status, told) = run("palisade run --profile trusted-net -- 'readlink /proc/self/ns/net'");
    assert_eq!(status, Some(0), "{told}");
    // It is where the services are, and not in a network that one of them has for itself.
    let host = booted.ok(&["readlink", "/proc/1/ns/net"]);
    assert!(told.contains(host.trim()), "{told}: {host}");
    let (_, told) = run("palisade doctor");
    assert!(told.contains("outbound TCP: available, 53,80,443"), "{told}");
}
