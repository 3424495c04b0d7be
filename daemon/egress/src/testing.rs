//! Parts that the tests share: a room in this process, a broker that answers by a rule of the test, a
//! resolver that counts, and a server outside.

use crate::{Limits, Lookup, Resolver, serve};
use palisade_channel::Datagrams;
use palisade_egress_protocol::{
    Asked, EgressBudget, EgressReply, EgressRequest, EgressVerdict, HostCredential, NamedAddresses,
    OperatorProxy, Tunnel,
    host::{Host, HostName, Target},
};
use palisade_plan::{BUILD_ID, listeners::Listener};
use proptest::test_runner::{Config as ProptestConfig, RngSeed};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with, socketpair};
use std::{
    collections::HashMap,
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    os::fd::{AsFd as _, OwnedFd},
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::mpsc,
    task::JoinHandle,
};

/// Returns the settings of a test with random cases: always the same ones, or with `PALISADE_LONG=1` a
/// hundred times as many new ones.
pub(crate) fn random_cases(cases: u32) -> ProptestConfig {
    let is_long = std::env::var_os("PALISADE_LONG").is_some_and(|set| set == "1");
    let (cases, rng_seed) =
        if is_long { (cases * 100, RngSeed::Random) } else { (cases, RngSeed::Fixed(7)) };
    ProptestConfig { cases, rng_seed, failure_persistence: None, ..ProptestConfig::default() }
}

/// The session of a test.
pub(crate) const SESSION: u32 = 7;

/// The time that a test waits for what must come. A test that passes never waits for all of it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Waits for something that must happen.
pub(crate) async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, what).await.expect("it happens soon")
}

pub(crate) fn name(text: &str) -> HostName {
    HostName::new(text).unwrap()
}

pub(crate) fn allow(tunnel: Tunnel) -> Option<EgressVerdict> {
    Some(EgressVerdict::Allow { rule: "test".to_owned(), tunnel })
}

pub(crate) fn deny() -> Option<EgressVerdict> {
    Some(EgressVerdict::Deny { reason: "it is not on the list".to_owned() })
}

/// The broker's rule: `None` leaves the question open.
pub(crate) type Rule = Box<dyn Fn(&Target, Asked) -> Option<EgressVerdict> + Send>;

/// Allows the hosts whose text ends with `.allowed.test`, and that name itself.
pub(crate) fn allowed_only(tunnel: Tunnel) -> Rule {
    Box::new(move |target, _| {
        let host = target.host.to_string();
        if host == "allowed.test" || host.ends_with(".allowed.test") {
            allow(tunnel)
        } else {
            deny()
        }
    })
}

/// A resolver with answers of the test's own; the last answer of a name is given again and again.
#[derive(Debug, Default)]
pub(crate) struct FakeResolver {
    answers: Mutex<HashMap<String, Vec<Vec<IpAddr>>>>,
    asked: Mutex<Vec<String>>,
}

impl FakeResolver {
    pub(crate) fn set(&self, name: &str, answers: &[&[&str]]) {
        let parse = |answer: &&[&str]| answer.iter().map(|text| text.parse().unwrap()).collect();
        let answers = answers.iter().map(parse).collect();
        self.answers.lock().unwrap().insert(name.to_owned(), answers);
    }

    /// Returns the names that were looked up, in order.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

impl Resolver for FakeResolver {
    fn look_up(&self, name: &HostName) -> Lookup {
        self.asked.lock().unwrap().push(name.to_string());
        let mut answers = self.answers.lock().unwrap();
        let found = match answers.get_mut(name.as_str()) {
            Some(answers) if answers.len() > 1 => Ok(answers.remove(0)),
            Some(answers) => Ok(answers[0].clone()),
            None => Err(io::Error::other("no such name")),
        };
        Box::pin(async { found })
    }
}

/// The room of a test, and what is around it.
pub(crate) struct World {
    pub(crate) resolver: Arc<FakeResolver>,
    pub(crate) proxy: SocketAddr,
    pub(crate) names_udp: SocketAddr,
    pub(crate) names_tcp: SocketAddr,
    pub(crate) direct: SocketAddr,
    pub(crate) published: SocketAddr,
    pub(crate) room: JoinHandle<Result<(), crate::RoomError>>,
    pub(crate) broker: Arc<Datagrams>,
    replies: mpsc::UnboundedReceiver<EgressReply>,
}

/// The conditions of a test.
pub(crate) struct Conditions {
    pub(crate) rule: Rule,
    pub(crate) budget: EgressBudget,
    pub(crate) named: Vec<NamedAddresses>,
    pub(crate) denied: Vec<NamedAddresses>,
    pub(crate) host_ports: Vec<u16>,
    pub(crate) credentials: Vec<HostCredential>,
    /// The port that is published, with two sockets for it.
    pub(crate) publish: Option<u16>,
    /// The operator's proxy.
    pub(crate) proxy: Option<OperatorProxy>,
    pub(crate) limits: Limits,
}

impl Default for Conditions {
    fn default() -> Self {
        Self {
            rule: allowed_only(Tunnel::Checked),
            budget: EgressBudget { connections: 64, upload_bytes: 1 << 30 },
            named: vec![range("127.0.0.0", 8)],
            denied: Vec::new(),
            host_ports: Vec::new(),
            credentials: Vec::new(),
            publish: None,
            proxy: None,
            limits: Limits::default(),
        }
    }
}

/// The credential `api` of another host than those that the tests allow.
pub(crate) fn credential() -> HostCredential {
    HostCredential {
        target: Target { host: Host::Name(name("api.test")), port: 443 },
        name: "api".to_owned(),
        placeholder: "palisade-placeholder-0a1b".to_owned(),
    }
}

pub(crate) fn range(first: &str, bits: u8) -> NamedAddresses {
    NamedAddresses { first: first.parse().unwrap(), bits, port: None }
}

impl World {
    /// Starts a room whose names under `allowed.test` lead to this host.
    pub(crate) async fn new(conditions: Conditions) -> Self {
        let (ours, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
                .unwrap();
        let resolver = Arc::new(FakeResolver::default());
        for name in ["allowed.test", "other.allowed.test", "denied.test"] {
            resolver.set(name, &[&["127.0.0.1"]]);
        }
        let room = tokio::spawn(serve(theirs, resolver.clone(), conditions.limits));
        let broker = Arc::new(Datagrams::new(ours));
        let hello = EgressRequest::Hello { build_id: BUILD_ID.to_owned(), proxy: conditions.proxy };
        broker.send(&hello, &[]).unwrap();
        let replies = answer_by(broker.clone(), conditions.rule);
        let tcp = || std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let (proxy, names_tcp, direct) = (tcp(), tcp(), tcp());
        let names_udp = std::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let places = [proxy.local_addr(), names_tcp.local_addr(), direct.local_addr()];
        let [proxy_at, names_tcp_at, direct_at] = places.map(Result::unwrap);
        let names_udp_at = names_udp.local_addr().unwrap();
        let published = tcp();
        let published_at = published.local_addr().unwrap();
        let mut fds: Vec<OwnedFd> =
            vec![proxy.into(), names_udp.into(), names_tcp.into(), direct.into()];
        let mut listeners =
            vec![Listener::Proxy, Listener::NamesUdp, Listener::NamesTcp, Listener::Direct(443)];
        if let Some(port) = conditions.publish {
            let inward = || {
                let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
                socket_with(AddressFamily::INET, SocketType::STREAM, flags, None).unwrap()
            };
            fds.extend([inward(), inward(), published.into()]);
            listeners.extend([Listener::Inward, Listener::Inward, Listener::Published(port)]);
        }
        let request = EgressRequest::Open {
            session: SESSION,
            listeners,
            budget: conditions.budget,
            named: conditions.named,
            denied: conditions.denied,
            host_ports: conditions.host_ports,
            authority: None,
            credentials: conditions.credentials,
        };
        let fds: Vec<_> = fds.iter().map(|fd| fd.as_fd()).collect();
        broker.send(&request, &fds).unwrap();
        Self {
            resolver,
            proxy: proxy_at,
            names_udp: names_udp_at,
            names_tcp: names_tcp_at,
            direct: direct_at,
            published: published_at,
            room,
            broker,
            replies,
        }
    }

    /// Opens another session with a proxy only, and returns where that is.
    pub(crate) fn open_another(&self, session: u32, budget: EgressBudget) -> SocketAddr {
        let proxy = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let at = proxy.local_addr().unwrap();
        let request = EgressRequest::Open {
            session,
            listeners: vec![Listener::Proxy],
            budget,
            named: vec![range("127.0.0.0", 8)],
            denied: Vec::new(),
            host_ports: Vec::new(),
            authority: None,
            credentials: Vec::new(),
        };
        self.broker.send(&request, &[proxy.as_fd()]).unwrap();
        at
    }

    /// Connects to the proxy's port.
    pub(crate) async fn to_proxy(&self) -> TcpStream {
        TcpStream::connect(self.proxy).await.unwrap()
    }

    /// Returns the next message of the room.
    pub(crate) async fn reply(&mut self) -> EgressReply {
        soon(self.replies.recv()).await.expect("the room runs")
    }

    /// Returns the room's messages up to the one that says how a connection ended.
    pub(crate) async fn until_ended(&mut self) -> Vec<EgressReply> {
        let mut replies = Vec::new();
        loop {
            replies.push(self.reply().await);
            if let Some(EgressReply::Ended { .. }) = replies.last() {
                return replies;
            }
        }
    }
}

/// Answers the room's questions in a thread, and returns all of its messages.
fn answer_by(broker: Arc<Datagrams>, rule: Rule) -> mpsc::UnboundedReceiver<EgressReply> {
    let (sender, replies) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        while let Ok(Some((reply, _))) = broker.receive::<EgressReply>() {
            if let EgressReply::Question { session, question, target, asked, .. } = &reply
                && let Some(verdict) = rule(target, *asked)
            {
                let (session, question) = (*session, *question);
                let answer = EgressRequest::Answer { session, question, verdict };
                if broker.send(&answer, &[]).is_err() {
                    return;
                }
            }
            if sender.send(reply).is_err() {
                return;
            }
        }
    });
    replies
}

/// A server outside of the session.
pub(crate) struct Outside {
    listener: TcpListener,
    pub(crate) port: u16,
}

impl Outside {
    pub(crate) async fn new() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        Self { listener, port }
    }

    /// Accepts the next connection, whenever it comes.
    pub(crate) async fn accept_any(&self) -> TcpStream {
        self.listener.accept().await.unwrap().0
    }

    pub(crate) async fn accept(&self) -> TcpStream {
        soon(self.listener.accept()).await.unwrap().0
    }

    /// Checks that nobody has connected so far: the first connection is one that is made now.
    pub(crate) async fn assert_untouched(&self) {
        let at = self.listener.local_addr().unwrap();
        let own = TcpStream::connect(at).await.unwrap().local_addr().unwrap();
        let (_, first) = soon(self.listener.accept()).await.unwrap();
        assert_eq!(first, own, "the server outside was connected to");
    }

    /// Checks that of the next connection not one byte is heard.
    pub(crate) async fn assert_silent(&self) {
        let mut stream = self.accept().await;
        let mut heard = Vec::new();
        // A reset is silence, too.
        drop(soon(stream.read_to_end(&mut heard)).await);
        assert_eq!(heard, b"", "the server outside heard something");
    }
}

/// Reads until some bytes have been read that end with `end`.
pub(crate) async fn read_until(stream: &mut TcpStream, end: &[u8]) -> Vec<u8> {
    let mut read = Vec::new();
    while !read.ends_with(end) {
        read.push(
            soon(stream.read_u8()).await.unwrap_or_else(|error| {
                panic!("{error} after {:?}", String::from_utf8_lossy(&read))
            }),
        );
    }
    read
}

/// Reads all that comes.
pub(crate) async fn read_all(stream: &mut TcpStream) -> Vec<u8> {
    let mut read = Vec::new();
    soon(stream.read_to_end(&mut read)).await.unwrap();
    read
}

/// Sends bytes and returns all that comes back as text.
pub(crate) async fn exchange(stream: &mut TcpStream, bytes: &[u8]) -> String {
    stream.write_all(bytes).await.unwrap();
    String::from_utf8_lossy(&read_all(stream).await).into_owned()
}

/// A whole ClientHello in one record, with a server name if there is one.
pub(crate) fn client_hello(server_name: Option<&str>) -> Vec<u8> {
    let vector =
        |bytes: &[u8]| [&u16::try_from(bytes.len()).unwrap().to_be_bytes(), bytes].concat();
    let mut extensions = vec![0, 43, 0, 3, 2, 3, 4];
    if let Some(name) = server_name {
        let entry = [&[0], vector(name.as_bytes()).as_slice()].concat();
        extensions.extend([&[0, 0], vector(&vector(&entry)).as_slice()].concat());
    }
    let fixed = [&[3, 3], [9; 32].as_slice(), &[0], &[0, 2, 0x13, 1], &[1, 0]].concat();
    let hello = [fixed, vector(&extensions)].concat();
    let [_, a, b, c] = u32::try_from(hello.len()).unwrap().to_be_bytes();
    let message = [&[1, a, b, c], hello.as_slice()].concat();
    [&[22, 3, 1], vector(&message).as_slice()].concat()
}
