//! Nothing of a session reaches anybody by a socket, nor is reached: not the network, not the host's
//! loopback, not another process's sockets and queues. Inside, its own processes talk freely.
#![allow(clippy::disallowed_methods)]

use palisade_client::Open;
use palisade_tests::{Mode, Sandbox, World, binary};
use std::{
    fs, io,
    net::{SocketAddr, TcpListener, TcpStream, UdpSocket},
    os::{
        linux::net::SocketAddrExt as _,
        unix::{
            fs::PermissionsExt as _,
            net::{SocketAddr as UnixAddress, UnixDatagram, UnixListener},
        },
    },
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

/// What the kernel answered to each attempt, made inside.
fn inside(sandbox: &Sandbox, attempts: &[String]) -> Vec<String> {
    sandbox.probe(&attempts.join(" ")).iter().map(|line| answer(line)).collect()
}

/// The same attempts from here, as the control.
fn outside(mode: Mode, attempts: &[String]) -> Vec<String> {
    let made = mode.act(|| Command::new(binary("probe")).args(attempts).output().unwrap());
    String::from_utf8(made.stdout).unwrap().lines().map(answer).collect()
}

fn answer(line: &str) -> String {
    line.rsplit('=').next().unwrap_or_default().to_owned()
}

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
        assert_eq!(inside(&sandbox, &attempts), expected, "{mode:?}: {attempts:?}");
        assert_nobody_else(listener.accept(), "the host's listener");
        let control = outside(mode, &attempts);
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
        assert_eq!(inside(&sandbox, &attempts), ["ECONNREFUSED", "ENETUNREACH"], "{mode:?}");
        assert_nobody_else(listener.accept(), "the host's listener");
        assert_eq!(outside(mode, &attempts[..1]), ["ok"]);
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
        let answers = inside(&sandbox, &attempts);
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
        assert_eq!(inside(&sandbox, &attempts), ["ok"]);
        assert_nobody_else(socket.recv(&mut bytes), "the host's socket");
        assert_eq!(outside(mode, &attempts), ["ok"]);
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
        assert_eq!(inside(&sandbox, &attempts), expected, "{mode:?}");
        assert_nobody_else(listener.accept(), "the host's listener");
        assert_eq!(outside(mode, &attempts[..1]), ["ok"]);
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
        for ((name, _), answer) in SOCKETS.iter().zip(inside(&sandbox, &attempts)) {
            assert_eq!(answer, "EPERM", "{mode:?}: {name}");
        }
        assert_eq!(inside(&sandbox, &usual), ["ok"; 7], "{mode:?}");
        // It is not the host that refuses: whoever may makes them, or the kernel has none.
        let control = outside(mode, &attempts);
        let found = |name: &str| SOCKETS.iter().position(|(other, _)| *other == name).unwrap();
        assert_ne!(control[found("vsock, to the hypervisor")], "EPERM");
        assert_ne!(control[found("MPTCP")], "EPERM");
        assert_eq!(control[found("netlink generic")], "ok");
        if mode == Mode::System {
            assert_eq!(control[found("raw ICMP")], "ok");
        }
    }
}

/// The lines of two processes, which may come in any order.
fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<_> = text.lines().collect();
    lines.sort_unstable();
    lines
}

/// Waits for a file that the other side makes.
fn wait_for(path: &Path) {
    let tries = (0..1200).find(|_| {
        let found = fs::read(path).is_ok_and(|bytes| !bytes.is_empty());
        if !found {
            std::thread::sleep(Duration::from_millis(50));
        }
        found
    });
    assert!(tries.is_some(), "{} did not come", path.display());
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
            wait_for(&port_file);
            let port: u16 = fs::read_to_string(&port_file).unwrap().parse().unwrap();
            let refused = TcpStream::connect(("127.0.0.1", port)).map_err(|error| error.kind());
            fs::write(world.workspace().join("tried"), "yes").unwrap();
            let result = sandbox.wait(running.result()).unwrap();
            // The control: its own processes reach it.
            let expected = ["fetch:port=ok".to_owned(), format!("{serve}:port=ok")];
            assert_eq!(sorted(&result.stdout), expected, "{mode:?}");
            assert_eq!(refused.map(drop), Err(io::ErrorKind::ConnectionRefused), "{mode:?}");
        }
    }
}

/// A listener that stands for a service's socket, open to everybody.
fn plant(path: &Path) -> UnixListener {
    let listener = UnixListener::bind(path).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o777)).unwrap();
    listener.set_nonblocking(true).unwrap();
    listener
}

/// A directory of the host's, as services have one in `/run`; gone at the end.
fn service_directories() -> Vec<tempfile::TempDir> {
    let in_run = rustix::process::geteuid().is_root().then_some("/run");
    let parents = ["/tmp", "/dev/shm", "/var/tmp"].into_iter().chain(in_run);
    parents
        .map(|parent| {
            let made = tempfile::Builder::new().prefix("service-").tempdir_in(parent).unwrap();
            fs::set_permissions(made.path(), fs::Permissions::from_mode(0o755)).unwrap();
            made
        })
        .collect()
}

#[test]
fn no_socket_of_a_service_is_there() {
    let known = [
        "/run/docker.sock",
        "/var/run/docker.sock",
        "/run/containerd/containerd.sock",
        "/run/podman/podman.sock",
        "/run/dbus/system_bus_socket",
        "/run/systemd/notify",
        "/run/systemd/private",
        "/run/user/0/bus",
        "/run/user/4242/bus",
        "/run/snapd.socket",
        "/run/nscd/socket",
        "/tmp/.X11-unix/X0",
        "/run/palisade/agent.sock",
    ];
    let known = known.map(|path| format!("unix:{path}"));
    let directories = service_directories();
    for mode in Mode::all() {
        let world = World::new(mode);
        let sandbox = world.open();
        let in_outside = world.outside().join("docker.sock");
        let planted: Vec<(PathBuf, UnixListener)> = directories
            .iter()
            .map(|directory| directory.path().join("docker.sock"))
            .chain([in_outside.clone()])
            .map(|path| (path.clone(), plant(&path)))
            .collect();
        let attempts: Vec<String> =
            planted.iter().map(|(path, _)| format!("unix:{}", path.display())).collect();
        assert!(inside(&sandbox, &attempts).iter().all(|answer| answer == "ENOENT"), "{mode:?}");
        assert!(inside(&sandbox, &known).iter().all(|answer| answer == "ENOENT"), "{mode:?}");
        for (path, listener) in &planted {
            assert_nobody_else(listener.accept(), &path.display().to_string());
        }
        assert!(outside(mode, &attempts).iter().all(|answer| answer == "ok"), "{mode:?}");
        for (path, listener) in &planted {
            listener.accept().expect("the control's connection");
            fs::remove_file(path).unwrap();
        }
        world.assert_canary_untouched();
    }
}

#[test]
fn datagrams_reach_no_socket_of_a_service() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let sandbox = world.open();
        let path = world.outside().join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        socket.set_nonblocking(true).unwrap();
        world.give(&path);
        let attempts = ["unixgram", "unixgram_many"].map(|a| format!("{a}:{}", path.display()));
        let mut bytes = [0; 16];
        assert_eq!(inside(&sandbox, &attempts), ["ENOENT", "ENOENT"], "{mode:?}");
        assert_nobody_else(socket.recv(&mut bytes), "the service");
        assert_eq!(outside(mode, &attempts), ["ok", "ok"]);
        for _ in 0..2 {
            assert_eq!(socket.recv(&mut bytes).expect("the control's datagram"), 5);
        }
    }
}

#[test]
fn the_daemons_own_socket_is_not_there() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let daemon = world.daemon();
        let open = Open::new(world.workspace());
        let sandbox = Sandbox::over(daemon.connect(mode), None, open).unwrap();
        let up = format!("unix:{}/../run/agent.sock", world.workspace().display());
        let by_proc = format!("unix:/proc/self/root{}", daemon.socket.display());
        let attempts = [format!("unix:{}", daemon.socket.display()), up, by_proc];
        assert_eq!(inside(&sandbox, &attempts), ["ENOENT"; 3], "{mode:?}");
        assert_eq!(outside(mode, &attempts[..1]), ["ok"]);
        let status = sandbox.wait(sandbox.client.status()).unwrap();
        assert_eq!(status.sessions.len(), 1, "nobody inside has a session of its own");
    }
}

#[test]
fn abstract_names_are_the_sessions_own() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let sandbox = world.open();
        let name = format!("palisade-network-{}-{mode:?}", std::process::id());
        let address = UnixAddress::from_abstract_name(&name).unwrap();
        let listener = UnixListener::bind_addr(&address).unwrap();
        listener.set_nonblocking(true).unwrap();
        let gram = format!("{name}-datagram");
        let socket = UnixDatagram::bind_addr(&UnixAddress::from_abstract_name(&gram).unwrap());
        let socket = socket.unwrap();
        socket.set_nonblocking(true).unwrap();
        let attempts = [format!("abstract:{name}"), format!("abstract_datagram:{gram}")];
        assert_eq!(inside(&sandbox, &attempts), ["ECONNREFUSED", "ECONNREFUSED"], "{mode:?}");
        assert_nobody_else(listener.accept(), "the host's name");
        let mut bytes = [0; 16];
        assert_nobody_else(socket.recv(&mut bytes), "the host's name for datagrams");
        assert_eq!(outside(mode, &attempts), ["ok", "ok"]);
        listener.accept().expect("the control's connection");
        socket.recv(&mut bytes).expect("the control's datagram");
        // The same name inside is another one.
        assert_eq!(inside(&sandbox, &[format!("abstract_own:{name}")]), ["ok"], "{mode:?}");
        assert_nobody_else(listener.accept(), "the host's name");
    }
}

#[test]
fn two_sessions_share_no_place_for_a_socket() {
    for mode in Mode::all() {
        let (first, second) = (World::new(mode), World::new(mode));
        let (one, two) = (first.open(), second.open());
        for place in ["/tmp", "/var/tmp", "/dev/shm"] {
            let path = format!("{place}/meet");
            let line = format!(
                "./probe unix_serve:{path} & until [ -S {path} ]; do sleep 0.05; done; \
                 echo yes > up; until [ -e tried ]; do sleep 0.05; done; ./probe unix:{path}; wait"
            );
            let call = one.session.bash(line).timeout(Duration::from_secs(60));
            let running = one.wait(call.start()).unwrap();
            wait_for(&first.workspace().join("up"));
            let in_workspace = format!("unix:{}/meet", first.workspace().display());
            let attempts = [format!("unix:{path}"), in_workspace];
            assert_eq!(inside(&two, &attempts), ["ENOENT", "ENOENT"], "{mode:?}: {place}");
            assert!(!Path::new(&path).exists(), "it is not the host's either");
            fs::write(first.workspace().join("tried"), "yes").unwrap();
            let control = one.wait(running.result()).unwrap();
            let expected = [format!("unix:{path}=ok"), format!("unix_serve:{path}=ok")];
            assert_eq!(sorted(&control.stdout), expected);
            fs::remove_file(first.workspace().join("tried")).unwrap();
            fs::remove_file(first.workspace().join("up")).unwrap();
        }
    }
}

#[test]
fn a_socket_in_the_workspace_can_be_called_by_the_host_only_by_its_path() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let sandbox = world.open();
        let path = world.workspace().join("served");
        let call = sandbox.session.bash("./probe unix_serve:served");
        let running = sandbox.wait(call.timeout(Duration::from_secs(60)).start()).unwrap();
        let called = (0..1200).any(|_| {
            std::thread::sleep(Duration::from_millis(50));
            std::os::unix::net::UnixStream::connect(&path).is_ok()
        });
        assert!(called, "the workspace is the host's own directory");
        let result = sandbox.wait(running.result()).unwrap();
        assert_eq!(result.stdout, "unix_serve:served=ok\n", "{mode:?}");
        // Nowhere outside the workspace can it put one.
        let attempts = [format!("unix_serve:{}/served", world.outside().display())];
        assert_eq!(inside(&sandbox, &attempts), ["ENOENT"], "{mode:?}");
        world.assert_canary_untouched();
    }
}

/// Removes System V objects of the tests' own.
struct SystemV(u32);

impl Drop for SystemV {
    fn drop(&mut self) {
        let key = self.0.to_string();
        Command::new("ipcrm").args(["-M", &key, "-S", &key, "-Q", &key]).status().map(drop).ok();
    }
}

#[test]
fn shared_memory_semaphores_and_queues_are_the_sessions_own() {
    for (number, mode) in (0u32..).zip(Mode::all()) {
        let world = World::new(mode);
        let sandbox = world.open();
        let key = 0x5042_0000 | ((std::process::id() + number) & 0xffff);
        let find = [
            format!("sys:shmget:{key}:1:0"),
            format!("sys:semget:{key}:1:0"),
            format!("sys:msgget:{key}:0"),
        ];
        // IPC_CREAT, readable and writable for all.
        let make = [
            format!("sys:shmget:{key}:4096:0x3b6"),
            format!("sys:semget:{key}:1:0x3b6"),
            format!("sys:msgget:{key}:0x3b6"),
        ];
        {
            let _made = SystemV(key);
            assert_eq!(outside(mode, &make), ["ok"; 3]);
            assert_eq!(inside(&sandbox, &find), ["ENOENT"; 3], "{mode:?}");
            assert_eq!(outside(mode, &find), ["ok"; 3], "the control");
        }
        assert_eq!(outside(mode, &find), ["ENOENT"; 3], "cleared away");
        assert_eq!(inside(&sandbox, &make), ["ok"; 3], "{mode:?}");
        assert_eq!(inside(&sandbox, &find), ["ok"; 3], "{mode:?}: from call to call");
        assert_eq!(outside(mode, &find), ["ENOENT"; 3], "{mode:?}: and not the host's");
    }
}

#[test]
fn posix_queues_and_shared_files_of_the_host_are_not_there() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let sandbox = world.open();
        let name = format!("palisade-network-{}-{mode:?}", std::process::id());
        let [make, find] = [format!("queue:{name}:1"), format!("queue:{name}:0")];
        assert_eq!(outside(mode, std::slice::from_ref(&make)), ["ok"]);
        let answers = inside(&sandbox, std::slice::from_ref(&find));
        let control = outside(mode, &[find, format!("sys:mq_unlink:@{name}")]);
        assert_eq!(control, ["ok", "ok"]);
        assert_eq!(answers, ["ENOENT"], "{mode:?}");
        let shared = format!("/dev/shm/{name}");
        fs::write(&shared, "the host's").unwrap();
        let answers = inside(&sandbox, &[format!("read:{shared}"), format!("write:{shared}")]);
        let kept = fs::read_to_string(&shared).unwrap();
        fs::remove_file(&shared).unwrap();
        assert_eq!(answers, ["ENOENT", "ok"], "{mode:?}");
        assert_eq!(kept, "the host's");
        assert_eq!(sandbox.ok(&format!("cat {shared}")), "written by probe\n");
    }
}
