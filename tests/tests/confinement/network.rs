//! Nothing of a session reaches anybody over a network, nor is reached: not another host, not this
//! host's loopback. Inside, its own processes talk freely. Unix sockets: `sockets.rs`.

use palisade_tests::{Mode, World};
use std::{
    collections::BTreeSet,
    fs, io,
    net::{SocketAddr, TcpListener, TcpStream, UdpSocket},
    process::Command,
    time::Duration,
};

fn assert_nobody_else(answer: io::Result<impl Sized>, whom: &str) {
    let kind = answer.err().map(|error| error.kind());
    assert_eq!(kind, Some(io::ErrorKind::WouldBlock), "somebody else reached {whom}");
}

/// An address of this host that is not the loopback's, if it has one.
fn own_address() -> Option<SocketAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    // Nothing is sent: the kernel only chooses a route.
    socket.connect("192.0.2.1:9").ok()?;
    socket.local_addr().ok()
}

fn listen(address: &str) -> Option<(TcpListener, u16)> {
    let listener = TcpListener::bind(address).ok()?;
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    Some((listener, port))
}

#[test]
fn tcp_reaches_no_listener_of_the_host() {
    let (listener, port) = listen("0.0.0.0:0").unwrap();
    let mut attempts =
        vec![format!("tcp:127.0.0.1:{port}"), format!("tcp:0.0.0.0:{port}"), "loopback".to_owned()];
    let mut expected = vec!["ECONNREFUSED", "ECONNREFUSED", "ok"];
    if let Some(own) = own_address() {
        attempts.push(format!("tcp:{}:{port}", own.ip()));
        expected.push("ENETUNREACH");
    }
    for mode in Mode::all() {
        let world = World::new(mode);
        let sandbox = world.open();
        assert_eq!(sandbox.told(&attempts), expected, "{mode:?}: {attempts:?}");
        assert_nobody_else(listener.accept(), "the host's listener");
        let control = world.told_outside(&attempts);
        assert!(control.iter().all(|answer| answer == "ok"), "{mode:?}: {control:?}");
        for _ in attempts.iter().filter(|attempt| attempt.starts_with("tcp:")) {
            listener.accept().expect("the control's connection");
        }
    }
}

#[test]
fn tcp_over_ipv6_reaches_no_listener_of_the_host() {
    let Some((listener, port)) = listen("[::1]:0") else {
        // A host without IPv6 has no ::1, and then nobody can listen there.
        assert!(!fs::read_to_string("/proc/net/if_inet6").unwrap_or_default().contains(" lo"));
        return;
    };
    let attempts = [format!("tcp:[__1]:{port}"), "tcp:[2001_db8__1]:80".to_owned()];
    for mode in Mode::all() {
        let world = World::new(mode);
        let sandbox = world.open();
        assert_eq!(sandbox.told(&attempts), ["ECONNREFUSED", "ENETUNREACH"], "{mode:?}");
        assert_nobody_else(listener.accept(), "the host's listener");
        assert_eq!(world.told_outside(&attempts[..1]), ["ok"]);
        listener.accept().expect("the control's connection");
    }
}

#[test]
fn there_is_no_way_to_the_network() {
    let attempts = [
        "tcp:192.0.2.1:80",
        "tcp:169.254.169.254:80",
        "tcp:[__ffff_169.254.169.254]:80",
        "udp:192.0.2.1:443",
        "udp:192.0.2.1:53",
        "udp:169.254.169.254:53",
        "udp:255.255.255.255:67",
        "loopback",
    ]
    .map(str::to_owned);
    for mode in Mode::all() {
        let world = World::new(mode);
        let sandbox = world.open();
        let answers = sandbox.told(&attempts);
        let (last, others) = answers.split_last().unwrap();
        assert!(others.iter().all(|answer| answer == "ENETUNREACH"), "{mode:?}: {answers:?}");
        assert_eq!(last, "ok");
        // Names are resolved by nobody.
        let resolved = sandbox.bash("getent hosts example.com");
        assert_eq!((resolved.exit_code, resolved.stdout.as_str()), (Some(2), ""), "{mode:?}");
        assert!(sandbox.ok("getent hosts localhost").contains("localhost"));
    }
}

#[test]
fn other_spellings_of_an_address_lead_nowhere_else() {
    let (listener, port) = listen("127.0.0.1:0").unwrap();
    for mode in Mode::all() {
        let world = World::new(mode);
        let sandbox = world.open();
        for (host, port, why) in [
            ("2130706433", port, "Connection refused"),
            ("0x7f000001", port, "Connection refused"),
            ("0177.1", port, "Connection refused"),
            ("localhost", port, "Connection refused"),
            ("2852039166", 80, "Network is unreachable"),
            ("0xA9FEA9FE", 80, "Network is unreachable"),
            ("0251.0376.0251.0376", 80, "Network is unreachable"),
        ] {
            let result = sandbox.bash(&format!("exec 3<>/dev/tcp/{host}/{port}"));
            assert_eq!(result.exit_code, Some(1), "{mode:?}: {host}");
            assert!(result.stderr.contains(why), "{mode:?}: {host}: {}", result.stderr);
        }
        assert_nobody_else(listener.accept(), "the host's listener");
        let control = format!("exec 3<>/dev/tcp/2130706433/{port}");
        assert!(Command::new("bash").args(["-c", &control]).status().unwrap().success());
        listener.accept().expect("the control's connection");
    }
}

#[test]
fn udp_reaches_no_socket_of_the_host() {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_nonblocking(true).unwrap();
    let attempts = [format!("udp:127.0.0.1:{}", socket.local_addr().unwrap().port())];
    let mut bytes = [0; 16];
    for mode in Mode::all() {
        let world = World::new(mode);
        let sandbox = world.open();
        // It goes to the session's own loopback, where nobody is.
        assert_eq!(sandbox.told(&attempts), ["ok"]);
        assert_nobody_else(socket.recv(&mut bytes), "the host's socket");
        assert_eq!(world.told_outside(&attempts), ["ok"]);
        assert_eq!(socket.recv(&mut bytes).expect("the control's datagram"), 5);
    }
}

#[test]
fn fast_open_does_not_connect() {
    let (listener, port) = listen("127.0.0.1:0").unwrap();
    // MSG_FASTOPEN with each call that sends, and TCP_FASTOPEN_CONNECT; then the same without.
    let attempts = [
        format!("fastopen:{port}"),
        "sys:sendto:-1:buf:1:0x20000000:buf:16".to_owned(),
        "sys:sendmsg:-1:buf:0x20000000".to_owned(),
        "sys:sendmmsg:-1:buf:1:0x20000000".to_owned(),
        "sys:setsockopt:-1:6:30:buf:4".to_owned(),
        "sys:sendto:-1:buf:1:0:buf:16".to_owned(),
        "sys:sendmsg:-1:buf:0".to_owned(),
        "sys:sendmmsg:-1:buf:1:0".to_owned(),
        "sys:setsockopt:-1:6:1:buf:4".to_owned(),
    ];
    for mode in Mode::all() {
        let world = World::new(mode);
        let sandbox = world.open();
        let expected =
            ["EPERM", "EPERM", "EPERM", "EPERM", "EPERM", "EBADF", "EBADF", "EBADF", "EBADF"];
        assert_eq!(sandbox.told(&attempts), expected, "{mode:?}");
        assert_nobody_else(listener.accept(), "the host's listener");
        assert_eq!(world.told_outside(&attempts[..1]), ["ok"]);
        listener.accept().expect("the control's connection");
    }
}

/// Sockets by family, type and protocol that a session can not make.
const SOCKETS: &[(&str, &str)] = &[
    ("MPTCP", "socket:2:1:262"),
    ("MPTCP over IPv6", "socket:10:1:262"),
    ("SMC over TCP's family", "socket:2:1:256"),
    ("SMC", "socket:43:1:0"),
    ("SCTP", "socket:2:1:132"),
    ("SCTP, one to many", "socket:2:5:132"),
    ("DCCP", "socket:2:6:33"),
    ("UDP-Lite", "socket:2:2:136"),
    ("raw ICMP", "socket:2:3:1"),
    ("raw IP", "socket:2:3:255"),
    ("raw ICMPv6", "socket:10:3:58"),
    ("ping", "socket:2:2:1"),
    ("ping over IPv6", "socket:10:2:58"),
    ("packet", "socket:17:3:768"),
    ("packet, cooked", "socket:17:2:768"),
    ("vsock, to the hypervisor", "socket:40:1:0"),
    ("netlink audit", "socket:16:3:9"),
    ("netlink netfilter", "socket:16:3:12"),
    ("netlink uevents", "socket:16:3:15"),
    ("netlink generic", "socket:16:3:16"),
    ("netlink socket diagnosis", "socket:16:3:4"),
    ("kernel crypto", "socket:38:5:0"),
    ("Bluetooth", "socket:31:3:1"),
    ("CAN", "socket:29:3:1"),
    ("XDP", "socket:44:3:0"),
    ("key management", "socket:15:3:2"),
    ("TIPC", "socket:30:2:0"),
    ("RDS", "socket:21:5:0"),
    ("KCM", "socket:41:5:0"),
    ("AppleTalk", "socket:5:2:0"),
    ("LLC", "socket:26:1:0"),
    ("a family with a high bit set", "socket:0x100000028:1:0"),
    ("vsock, non-blocking", "socket:40:0x801:0"),
    ("vsock in a pair", "sys:socketpair:40:1:0:buf"),
];

/// And those that ordinary programs make.
const USUAL: [&str; 7] = [
    "socket:1:1:0",
    "socket:1:2:0",
    "socket:2:1:0",
    "socket:2:2:17",
    "socket:10:0x80801:6",
    "socket:16:3:0",
    "sys:socketpair:1:1:0:buf",
];

#[test]
fn sockets_of_other_kinds_can_not_be_made() {
    let attempts: Vec<String> = SOCKETS.iter().map(|(_, attempt)| (*attempt).to_owned()).collect();
    let usual = USUAL.map(str::to_owned);
    for mode in Mode::all() {
        let world = World::new(mode);
        let sandbox = world.open();
        for ((name, _), answer) in SOCKETS.iter().zip(sandbox.told(&attempts)) {
            assert_eq!(answer, "EPERM", "{mode:?}: {name}");
        }
        assert_eq!(sandbox.told(&usual), ["ok"; 7], "{mode:?}");
        // It is not the host that refuses: whoever may makes them, or the kernel has none.
        let control = world.told_outside(&attempts);
        let found = |name: &str| SOCKETS.iter().position(|(other, _)| *other == name).unwrap();
        assert_ne!(control[found("vsock, to the hypervisor")], "EPERM");
        assert_ne!(control[found("MPTCP")], "EPERM");
        assert_eq!(control[found("netlink generic")], "ok");
        if mode == Mode::System {
            assert_eq!(control[found("raw ICMP")], "ok");
        }
    }
}

#[test]
fn a_listener_inside_is_not_reached_from_outside() {
    for mode in Mode::all() {
        for serve in ["serve", "serve_unbound"] {
            let world = World::new(mode);
            let sandbox = world.open();
            let port_file = world.workspace().join("port");
            let line = format!(
                "./probe {serve}:port & until [ -e tried ]; do sleep 0.05; done; ./probe fetch:port; wait"
            );
            let call = sandbox.session.bash(line).timeout(Duration::from_secs(60));
            let running = sandbox.wait(call.start()).unwrap();
            world.wait_for("port");
            let port: u16 = fs::read_to_string(&port_file).unwrap().parse().unwrap();
            let refused = TcpStream::connect(("127.0.0.1", port)).map_err(|error| error.kind());
            fs::write(world.workspace().join("tried"), "yes").unwrap();
            let result = sandbox.wait(running.result()).unwrap();
            // The control: its own processes reach it.
            let served = format!("{serve}:port=ok");
            let expected = BTreeSet::from(["fetch:port=ok", served.as_str()]);
            let found: BTreeSet<_> = result.stdout.lines().collect();
            assert_eq!(found, expected, "{mode:?}");
            assert_eq!(refused.map(drop), Err(io::ErrorKind::ConnectionRefused), "{mode:?}");
        }
    }
}
