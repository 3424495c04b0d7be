//! The listeners of a session whose profile allows hosts by name: they are in its own network, hear
//! nobody else, and are no program's to take. Nothing but them is reachable. The egress room, which
//! accepts on them, is not needed for this.

use palisade_plan::{
    Access, Bind, HeldNetwork, LaunchPlan, MissingPath, Namespace, Network, RESOLV_CONF, Role, Step,
};
use palisade_tests::{Cell, Mode, Pids, World, plan};
use std::{
    fs, io,
    net::{TcpListener, TcpStream, UdpSocket},
    os::fd::OwnedFd,
    time::Duration,
};

/// The direct ports of the tests.
const PORTS: [u16; 3] = [80, 443, 8080];

/// The longest time that a test waits for what has been sent already.
const SOON: Duration = Duration::from_secs(30);

fn network_steps() -> Vec<Step> {
    let network = Step::Namespaces(vec![Namespace::Network]);
    vec![network, Step::Loopback, Step::Listeners(PORTS.to_vec())]
}

/// A plan of a whole session with these ports.
fn domains(world: &World) -> LaunchPlan {
    LaunchPlan { network: Network::Domains(PORTS.to_vec()), ..plan(&world.workspace()) }
}

fn session(plan: &LaunchPlan) -> Cell {
    Cell::session(plan, Pids::Own, |_, steps| steps).expect("a session")
}

/// The listeners as the broker gets them.
struct Heard {
    proxy: TcpListener,
    names_udp: UdpSocket,
    names_tcp: TcpListener,
    direct: Vec<TcpListener>,
}

impl Heard {
    fn of(cell: &mut Cell) -> Self {
        let mut listeners = std::mem::take(&mut cell.listeners).into_iter();
        let mut tcp = || TcpListener::from(next(&mut listeners));
        let proxy = tcp();
        let names_udp = UdpSocket::from(next(&mut listeners));
        let names_tcp = TcpListener::from(next(&mut listeners));
        let direct = listeners.map(TcpListener::from).collect();
        Self { proxy, names_udp, names_tcp, direct }
    }
}

fn next(listeners: &mut impl Iterator<Item = OwnedFd>) -> OwnedFd {
    listeners.next().expect("one more listener")
}

/// Accepts a connection that was made before.
fn accept(listener: &TcpListener) -> TcpStream {
    listener.accept().expect("a connection that was made").0
}

fn assert_nobody(answer: io::Result<impl Sized>, whom: &str) {
    let kind = answer.err().map(|error| error.kind());
    assert_eq!(kind, Some(io::ErrorKind::WouldBlock), "somebody reached {whom}");
}

/// Returns the answers of `probe` alone.
fn answers(cell: &Cell, world: &World, attempts: &[&str]) -> Vec<String> {
    let lines = cell.probe(&world.workspace(), attempts);
    lines.into_iter().map(|line| line.rsplit('=').next().unwrap().to_owned()).collect()
}

#[test]
fn the_step_alone_makes_listeners_that_hear_the_session_and_nobody_else() {
    let world = World::new(Mode::User);
    let mut cell = Cell::with_steps(network_steps(), Pids::Shared).unwrap();
    assert_eq!(cell.network, HeldNetwork::Domains(PORTS.to_vec()));
    assert_eq!(cell.listeners.len(), 6);
    let heard = Heard::of(&mut cell);
    let attempts = [
        "tcp:127.0.0.1:61080",
        "tcp:127.0.0.1:53",
        "udp:127.0.0.1:53",
        "tcp:198.18.0.0:80",
        "tcp:198.18.7.9:443",
        "tcp:198.19.255.255:8080",
    ];
    assert_eq!(answers(&cell, &world, &attempts), ["ok"; 6]);
    // Each arrives at its own listener, and shows the address that stands for a name.
    for (listener, local) in [
        (&heard.proxy, "127.0.0.1:61080"),
        (&heard.names_tcp, "127.0.0.1:53"),
        (&heard.direct[0], "198.18.0.0:80"),
        (&heard.direct[1], "198.18.7.9:443"),
        (&heard.direct[2], "198.19.255.255:8080"),
    ] {
        assert_eq!(accept(listener).local_addr().unwrap().to_string(), local);
        assert_nobody(listener.accept(), local);
    }
    let mut buffer = [0; 16];
    let (length, from) = heard.names_udp.recv_from(&mut buffer).unwrap();
    assert_eq!((&buffer[..length], from.ip().to_string().as_str()), (&b"probe"[..], "127.0.0.1"));
    // The host is in another network: what it sends to the same places does not arrive.
    for place in ["127.0.0.1:61080", "127.0.0.1:8080"] {
        if let Ok(stream) = TcpStream::connect_timeout(&place.parse().unwrap(), SOON) {
            // Somebody of the host listens there.
            drop(stream);
        }
    }
    UdpSocket::bind("127.0.0.1:0").unwrap().send_to(b"host", "127.0.0.1:53").ok();
    assert_nobody(heard.proxy.accept(), "the proxy's listener");
    assert_nobody(heard.direct[2].accept(), "a direct listener");
    assert_nobody(heard.names_udp.recv(&mut buffer), "the name server's socket");
}

#[test]
fn nothing_but_the_listeners_is_reachable() {
    let world = World::new(Mode::User);
    let tcp = TcpListener::bind("0.0.0.0:0").unwrap();
    tcp.set_nonblocking(true).unwrap();
    let udp = UdpSocket::bind("0.0.0.0:0").unwrap();
    udp.set_nonblocking(true).unwrap();
    let ports = [tcp.local_addr().unwrap().port(), udp.local_addr().unwrap().port()];
    let connect = format!("tcp:127.0.0.1:{}", ports[0]);
    let synthetic = format!("tcp:198.18.0.1:{}", ports[0]);
    let send = format!("udp:127.0.0.1:{}", ports[1]);
    let attempts = [
        (connect.as_str(), "ECONNREFUSED"),
        (&synthetic, "ECONNREFUSED"),
        // It goes to the session's own loopback.
        (&send, "ok"),
        ("tcp:192.0.2.1:443", "ENETUNREACH"),
        ("tcp:169.254.169.254:80", "ENETUNREACH"),
        ("tcp:10.0.0.1:443", "ENETUNREACH"),
        ("tcp:198.17.255.255:443", "ENETUNREACH"),
        ("tcp:198.20.0.0:443", "ENETUNREACH"),
        ("tcp:[2001_db8__1]:443", "ENETUNREACH"),
        ("udp:192.0.2.1:53", "ENETUNREACH"),
        ("udp:192.0.2.1:443", "ENETUNREACH"),
        // SOCK_RAW with ICMP, SOCK_DGRAM with ICMP, packet sockets, vsock.
        ("socket:2:3:1", "EPERM"),
        ("socket:2:2:1", "EPERM"),
        ("socket:17:3:768", "EPERM"),
        ("socket:40:1:0", "EPERM"),
        ("loopback", "ok"),
    ];
    let cell = session(&domains(&world));
    let words: Vec<_> = attempts.iter().map(|(attempt, _)| *attempt).collect();
    let expected: Vec<_> = attempts.iter().map(|(_, answer)| *answer).collect();
    assert_eq!(answers(&cell, &world, &words), expected);
    assert_nobody(tcp.accept(), "the host's listener");
    let mut buffer = [0; 16];
    assert_nobody(udp.recv(&mut buffer), "the host's socket");
    // The same attempts reach both from a cell without a network of its own.
    let free = Cell::with_steps(vec![], Pids::Shared).unwrap();
    assert_eq!(answers(&free, &world, &[&connect, &send]), ["ok", "ok"]);
    accept(&tcp);
    udp.set_read_timeout(Some(SOON)).unwrap();
    udp.set_nonblocking(false).unwrap();
    assert_eq!(udp.recv(&mut buffer).unwrap(), 5);
}

#[test]
fn no_program_of_the_session_can_take_the_place_of_a_listener() {
    let world = World::new(Mode::User);
    let mut cell = session(&domains(&world));
    let heard = Heard::of(&mut cell);
    let attempts = [
        ("bind_tcp:127.0.0.1:61080", "EADDRINUSE"),
        ("bind_tcp:0.0.0.0:61080", "EADDRINUSE"),
        ("bind_tcp:0.0.0.0:8080", "EADDRINUSE"),
        ("bind_tcp:127.0.0.1:8080", "EADDRINUSE"),
        ("bind_tcp:198.18.0.1:8080", "EADDRINUSE"),
        // Ports below 1024 need a capability in the first place.
        ("bind_tcp:198.18.0.1:443", "EACCES"),
        ("bind_udp:127.0.0.1:53", "EACCES"),
        ("bind_udp:0.0.0.0:53", "EACCES"),
        ("bind_tcp:127.0.0.1:8081", "ok"),
        ("bind_udp:127.0.0.1:8081", "ok"),
    ];
    let words: Vec<_> = attempts.iter().map(|(attempt, _)| *attempt).collect();
    let expected: Vec<_> = attempts.iter().map(|(_, answer)| *answer).collect();
    assert_eq!(answers(&cell, &world, &words), expected);
    assert_eq!(answers(&cell, &world, &["tcp:127.0.0.1:8080"]), ["ok"]);
    accept(&heard.direct[2]);
    // Privilege would not help either: the address is taken.
    let privileged = Cell::with_steps(network_steps(), Pids::Shared).unwrap();
    let taken = ["bind_udp:127.0.0.1:53", "bind_tcp:198.18.0.1:443", "bind_tcp:127.0.0.1:53"];
    assert_eq!(answers(&privileged, &world, &taken), ["EADDRINUSE"; 3]);
}

/// When the broker and the egress room have closed them, the session has no listener at all.
#[test]
fn the_session_itself_keeps_no_listener() {
    let world = World::new(Mode::User);
    let mut cell = session(&domains(&world));
    let attempts = ["tcp:127.0.0.1:61080", "tcp:198.18.0.1:443"];
    let heard = Heard::of(&mut cell);
    assert_eq!(answers(&cell, &world, &attempts), ["ok", "ok"]);
    drop(heard);
    assert_eq!(answers(&cell, &world, &attempts), ["ECONNREFUSED", "ECONNREFUSED"]);
}

#[test]
fn programs_find_the_sessions_own_name_server_whatever_the_host_has() {
    let world = World::new(Mode::User);
    let read = |plan: &LaunchPlan| {
        let cell = session(plan);
        cell.run(&["cat", RESOLV_CONF], &world.workspace()).1
    };
    let of_host = |plan: &mut LaunchPlan, missing: Option<MissingPath>| {
        plan.binds.retain(|bind| bind.path != RESOLV_CONF.into());
        plan.binds.extend(missing.map(|missing| Bind {
            path: RESOLV_CONF.into(),
            access: Access::Read,
            missing,
        }));
    };
    for missing in [None, Some(MissingPath::Skip), Some(MissingPath::Refuse)] {
        let mut plan = domains(&world);
        of_host(&mut plan, missing);
        assert_eq!(read(&plan), "nameserver 127.0.0.1\n", "{missing:?}");
    }
    // Without hosts by name it is the host's, if the session has it.
    let mut plan = plan(&world.workspace());
    of_host(&mut plan, Some(MissingPath::Skip));
    let host = fs::read_to_string(RESOLV_CONF).unwrap_or_default();
    assert_eq!(read(&plan), host);
}

#[test]
fn without_a_step_the_session_has_no_listeners_or_does_not_start() {
    let world = World::new(Mode::User);
    let without = |name: &'static str| {
        let change = move |_: Role, steps: Vec<Step>| -> Vec<Step> {
            steps.into_iter().filter(|step| step.name() != name).collect()
        };
        Cell::session(&domains(&world), Pids::Own, change)
    };
    let cell = without("listeners").unwrap();
    assert_eq!((&cell.network, cell.listeners.len()), (&HeldNetwork::Loopback, 0));
    let attempts = ["tcp:127.0.0.1:61080", "tcp:198.18.0.1:443"];
    assert_eq!(answers(&cell, &world, &attempts), ["ECONNREFUSED", "ENETUNREACH"]);
    // On the host's loopback they would serve everybody.
    let why = "the session has no loopback of its own for its listeners";
    let network = Step::Namespaces(vec![Namespace::Network]);
    for before in [vec![], vec![network]] {
        let steps = [before, vec![Step::Listeners(PORTS.to_vec())]].concat();
        let (step, said) = Cell::with_steps(steps, Pids::Shared).expect_err("refused");
        assert!(step == "listeners" && said.contains(why), "{step}: {said}");
    }
}

#[test]
fn a_session_with_only_a_loopback_has_neither_listeners_nor_synthetic_addresses() {
    let world = World::new(Mode::User);
    let cell = session(&plan(&world.workspace()));
    assert_eq!((&cell.network, cell.listeners.len()), (&HeldNetwork::Loopback, 0));
    let attempts = ["tcp:127.0.0.1:61080", "tcp:198.18.0.1:443", "udp:198.18.0.1:53"];
    let expected = ["ECONNREFUSED", "ENETUNREACH", "ENETUNREACH"];
    assert_eq!(answers(&cell, &world, &attempts), expected);
}

#[test]
fn sockets_into_a_session_are_made_beside_its_listeners_and_nowhere_else() {
    let steps = [network_steps(), vec![Step::Inward(2)]].concat();
    let cell = Cell::with_steps(steps, Pids::Shared).unwrap();
    assert_eq!(cell.listeners.len(), 8);
    let network = Step::Namespaces(vec![Namespace::Network]);
    for steps in [vec![Step::Inward(1)], vec![network, Step::Loopback, Step::Inward(1)]] {
        let (step, why) = Cell::with_steps(steps, Pids::Shared).expect_err("refused");
        assert_eq!(step, "inward");
        assert!(why.contains("no listeners in a network of its own"), "{why}");
    }
}
