//! The broker's side of an egress room, against rooms that the test plays itself.

mod fetch;

use super::{
    error::NetworkError,
    listeners::{SessionListeners, tests::listener},
    rooms::EgressRooms,
    session::NetworkSession,
    source::{RoomOrigin, RoomSource},
};
use crate::{
    approval::{desk::Approvals, poll::Answerer, service::ApprovalService},
    base::{
        identity::{SessionIdentity, WorkingDirectory},
        live::{LiveSettings, SettingsInForce},
        outbox::QueuedMessage,
        peer::Peer,
    },
    cells::{
        channel::{receive_with, send_with},
        refused::RefusedConnections,
    },
    telemetry::{
        Telemetry,
        audit::{Audit, LogKeeping},
        exposition_text::ExpositionText,
        journal::Journal,
        traces::Traces,
    },
};
use palisade_audit::{ConnectionVerdict, ReadError, Reader, Record, RetentionPolicy, Sync};
use palisade_egress_protocol::{
    Asked, ConnectionResult, EgressReply, EgressRequest, EgressVerdict, MAX_EGRESS_MESSAGE, Tunnel,
    host::{Host, HostName, Target},
};
use palisade_plan::{
    BUILD_ID,
    codec::{self, MAX_DESCRIPTORS},
    listeners::Listener,
    record::Recording,
};
use palisade_policy::{Profile, Scene};
use palisade_protocol::{
    Answer, ApprovalRequest, Ask, Decision, Deny, Event, Guard, Register, Remember, Review, Scope,
    ServerMessage, Until,
};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use std::{
    io,
    net::{SocketAddrV4, TcpStream},
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    sync::{Arc, Weak},
    time::Instant,
};
use tokio::{
    net::UnixStream,
    sync::mpsc::{self, UnboundedReceiver, UnboundedSender},
};

/// Rooms that a test plays: it gets the other end of each socket.
#[derive(Debug)]
pub(crate) struct FakeRooms(UnboundedSender<OwnedFd>);

impl FakeRooms {
    pub(super) fn start(&self) -> Result<OwnedFd, NetworkError> {
        let kind = (AddressFamily::UNIX, SocketType::SEQPACKET);
        let (ours, theirs) =
            socketpair(kind.0, kind.1, SocketFlags::CLOEXEC, None).map_err(io::Error::from)?;
        self.0.send(theirs).map_err(|_| NetworkError::Gone("the test is over".to_owned()))?;
        Ok(ours)
    }
}

/// The room's end of a socket.
struct PlayedRoom(UnixStream);

impl PlayedRoom {
    /// Takes the next room that is started. It has not answered the greeting.
    async fn next(started: &mut UnboundedReceiver<OwnedFd>) -> Self {
        let socket = std::os::unix::net::UnixStream::from(started.recv().await.unwrap());
        socket.set_nonblocking(true).unwrap();
        let room = Self(UnixStream::from_std(socket).unwrap());
        let hello = EgressRequest::Hello { build_id: BUILD_ID.to_owned(), proxy: None };
        assert_eq!(room.hear().await, (hello, 0));
        room
    }

    async fn welcome(&self) {
        self.say(&EgressReply::Welcome { build_id: BUILD_ID.to_owned() }).await;
    }

    async fn hear(&self) -> (EgressRequest, usize) {
        let (mut buffer, mut came) = (vec![0; MAX_EGRESS_MESSAGE], Vec::new());
        let length = receive_with(&self.0, &mut buffer, &mut came, MAX_DESCRIPTORS).await.unwrap();
        assert!(length > 0, "the broker closed the connection");
        (codec::decode(&buffer[..length]).unwrap(), came.len())
    }

    async fn say(&self, reply: &EgressReply) {
        send_with(&self.0, &codec::encode(reply).unwrap(), &[]).await.unwrap();
    }

    async fn ask(&self, question: u64, host: &str, asked: Asked) {
        self.ask_on(question, question, host, asked).await;
    }

    /// Asks about a request on a connection of a program.
    async fn ask_on(&self, connection: u64, question: u64, host: &str, asked: Asked) {
        let port = if asked == Asked::Lookup { 0 } else { 443 };
        let (target, request) = (Target { port, ..target(host) }, None);
        let session = 7;
        let asking =
            EgressReply::Question { session, question, connection, target, asked, request };
        self.say(&asking).await;
    }

    /// Waits for the answer to a question.
    async fn answer(&self, wanted: u64) -> EgressVerdict {
        let (request, _) = self.hear().await;
        let EgressRequest::Answer { session: 7, question, verdict } = request else {
            panic!("{request:?} is no answer")
        };
        assert_eq!(question, wanted);
        verdict
    }

    /// Waits until the broker has closed the connection.
    async fn closed(&self) {
        let (mut buffer, mut came) = (vec![0; MAX_EGRESS_MESSAGE], Vec::new());
        while receive_with(&self.0, &mut buffer, &mut came, 1).await.is_ok_and(|read| read > 0) {}
    }
}

fn target(host: &str) -> Target {
    Target { host: Host::Name(HostName::new(host).unwrap()), port: 443 }
}

/// A session with its audit log, and the rooms that serve it.
struct Stage {
    rooms: EgressRooms,
    started: UnboundedReceiver<OwnedFd>,
    approvals: Arc<ApprovalService>,
    session: Arc<NetworkSession>,
    refused: Arc<RefusedConnections>,
    /// The address of the session's only listener.
    address: SocketAddrV4,
    directory: tempfile::TempDir,
}

const UID: u32 = 4242;

fn stage(net: &str) -> Stage {
    let text = format!(
        "version = 1\ndescription = \"test\"\n[fs]\nworkspace = \"write\"\nexecute = [\"/usr\"]\n\
         [net]\nmode = \"domains\"\n{net}\n"
    );
    let profile = Arc::new(Profile::parse("test", &text).unwrap());
    let policy = profile.egress().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let keeping = LogKeeping { policy: RetentionPolicy::default(), key: None };
    let log = directory.path().join("audit");
    let audit = Audit::open(&log, Sync::default(), keeping, None).unwrap();
    let telemetry = Arc::new(Telemetry::new(audit, Journal::default(), Traces::default()));
    let mut live = LiveSettings::default();
    live.profiles.insert("test".to_owned(), Arc::clone(&profile));
    let approvals = Arc::new(ApprovalService {
        desk: Approvals::default(),
        telemetry,
        live: Arc::new(SettingsInForce::new(live)),
    });
    let (socket, address) = listener();
    let listeners = SessionListeners::of(vec![(Listener::Proxy, socket)]);
    let scene = Scene {
        workspace: PathBuf::from("/srv/w"),
        home: None,
        user: "test".to_owned(),
        uid: UID,
        gid: UID,
    };
    let identity = Arc::new(SessionIdentity {
        id: "s-1".parse().unwrap(),
        peer: Peer { uid: UID, gid: UID, pid: None },
        workspace: "/srv/w".into(),
        profile,
        ask: Ask::Never,
        guard: Guard::Off,
        recording: Recording::No,
        scene,
        opened: Instant::now(),
    });
    let refused = Arc::<RefusedConnections>::default();
    let cwd = Arc::new(WorkingDirectory::new(b"/srv/w".to_vec()));
    let parts = (Weak::new(), policy, listeners, None);
    let session = Arc::new(NetworkSession::of(7, identity, cwd, Arc::clone(&refused), parts));
    let (sender, started) = mpsc::unbounded_channel();
    let source = RoomSource { origin: RoomOrigin::Test(FakeRooms(sender)), proxy: None };
    let rooms = EgressRooms::new(source, Arc::clone(&approvals));
    Stage { rooms, started, approvals, session, refused, address, directory }
}

impl Stage {
    /// Opens the session with a room that behaves.
    async fn open(&mut self) -> PlayedRoom {
        let play = async {
            let room = PlayedRoom::next(&mut self.started).await;
            room.welcome().await;
            let (request, descriptors) = room.hear().await;
            assert!(matches!(request, EgressRequest::Open { session: 7, .. }), "{request:?}");
            assert_eq!(descriptors, 1);
            room
        };
        let (served, room) = tokio::join!(self.rooms.serve(UID, Arc::clone(&self.session)), play);
        served.unwrap();
        room
    }

    /// Connects an approver, and returns the approval requests that it gets.
    fn approver(&self) -> mpsc::Receiver<QueuedMessage> {
        let (outbox, requests) = mpsc::channel(16);
        let register = Register {
            name: "person:alice".to_owned(),
            reviews: vec![Review::Input],
            tools: Vec::new(),
            priority: 0,
            deadline_ms: None,
            heartbeat_ms: None,
            session: None,
        };
        self.approvals.desk.attach(ALICE, register, outbox).unwrap();
        requests
    }

    fn answer(&self, request: &ApprovalRequest, decision: Decision, remember: Option<Remember>) {
        let (id, digest) = (request.id.clone(), request.digest.clone());
        let answer = Answer { request: id, digest, decision, remember };
        self.approvals.desk.answer(ALICE, answer).unwrap();
    }

    /// The records of the log so far.
    fn records(&self) -> Vec<Record> {
        if let Some(write) = self.approvals.telemetry.audit.when_idle() {
            write();
        }
        records(&self.directory.path().join("audit"))
    }

    fn connections(&self) -> Vec<palisade_audit::Connection> {
        let connection = |record| {
            if let Record::Connection(connection) = record { Some(connection) } else { None }
        };
        self.records().into_iter().filter_map(connection).collect()
    }
}

fn records(directory: &Path) -> Vec<Record> {
    let mut records = Vec::new();
    let read = Reader::new(directory).read(|found| {
        records.push(found?.entry.record);
        Ok::<(), ReadError>(())
    });
    read.unwrap();
    records
}

const ALICE: Answerer = Answerer { connection: 1, uid: 1000, pid: Some(99) };

async fn approval_request(from: &mut mpsc::Receiver<QueuedMessage>) -> ApprovalRequest {
    loop {
        match from.recv().await.unwrap().message {
            ServerMessage::Event(Event::ApprovalRequest(request)) => return *request,
            ServerMessage::Event(_) | ServerMessage::Reply { .. } => {}
        }
    }
}

#[tokio::test]
async fn the_profile_decides_and_each_connection_has_a_record() {
    let mut stage = stage("allow = [\"packages.example\"]");
    let room = stage.open().await;
    room.ask(1, "packages.example", Asked::Connect).await;
    let rule = "net.allow \"packages.example\"".to_owned();
    let allowed = EgressVerdict::Allow { rule: rule.clone(), tunnel: Tunnel::Checked };
    assert_eq!(room.answer(1).await, allowed);
    let address = "203.0.113.7:443".parse().unwrap();
    room.say(&EgressReply::Connected { session: 7, question: 1, address }).await;
    room.ask(2, "other.example", Asked::Socks).await;
    let EgressVerdict::Deny { reason } = room.answer(2).await else { panic!("it was allowed") };
    assert!(reason.contains("does not include other.example:443"), "{reason}");
    let listed = stage.rooms.connections(Some(UID));
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0].address.as_deref(), Some("203.0.113.7:443"));
    assert!(stage.rooms.connections(Some(UID + 1)).is_empty());
    let result = ConnectionResult {
        sent: 10,
        received: 20,
        server_name: Some(HostName::new("packages.example").unwrap()),
        failure: None,
    };
    room.say(&EgressReply::Ended { session: 7, question: 1, result }).await;
    for number in 3..8 {
        room.ask(number, "other.example", Asked::Socks).await;
        assert!(matches!(room.answer(number).await, EgressVerdict::Deny { .. }));
    }
    assert!(stage.rooms.connections(None).is_empty());
    let denials = stage.refused.since(0);
    assert_eq!(denials.len(), 1);
    assert_eq!(
        (denials[0].layer.as_str(), denials[0].target.as_str()),
        ("network", "other.example:443")
    );
    assert!(denials[0].remedy.contains("net.allow"), "{denials:?}");
    stage.rooms.end(UID, 7).await;
    room.closed().await;
    let records = stage.connections();
    let verdicts: Vec<_> = records.iter().map(|record| (record.verdict, record.count.0)).collect();
    let (allow, deny) = (ConnectionVerdict::Allow, ConnectionVerdict::Deny);
    assert_eq!(verdicts, [(deny, 1), (allow, 1), (deny, 5)], "{records:?}");
    assert_eq!((records[1].sent_bytes, records[1].received_bytes), (10, 20));
    assert_eq!(records[1].rule.as_str(), rule);
    let mut scraped = ExpositionText::default();
    stage.approvals.telemetry.metrics.write(&mut scraped).unwrap();
    let scraped = scraped.into_string();
    for count in ["{verdict=\"allowed\"} 1\n", "{verdict=\"refused\"} 6\n"] {
        assert!(scraped.contains(&format!("palisade_connections_total{count}")), "{scraped}");
    }
}

#[tokio::test]
async fn a_name_that_may_not_be_looked_up_is_explained_by_its_name() {
    let mut stage = stage("allow = [\"packages.example\"]");
    let room = stage.open().await;
    room.ask(1, "other.example", Asked::Lookup).await;
    assert!(matches!(room.answer(1).await, EgressVerdict::Deny { .. }));
    room.ask(2, "packages.example", Asked::Lookup).await;
    assert!(matches!(room.answer(2).await, EgressVerdict::Allow { .. }));
    let denials = stage.refused.since(0);
    assert_eq!(denials.len(), 1, "{denials:?}");
    assert_eq!(denials[0].target, "other.example");
    assert!(denials[0].remedy.contains("\"other.example\""), "{denials:?}");
    assert!(stage.rooms.connections(None).is_empty());
    stage.rooms.end(UID, 7).await;
    assert_eq!(stage.connections().len(), 1, "nothing follows a lookup");
}

#[tokio::test]
async fn a_room_of_another_build_or_without_a_greeting_is_refused() {
    let mut stage = stage("allow = [\"packages.example\"]");
    let other = async {
        let room = PlayedRoom::next(&mut stage.started).await;
        room.say(&EgressReply::Welcome { build_id: "another".to_owned() }).await;
        room.closed().await;
    };
    let (served, ()) = tokio::join!(stage.rooms.serve(UID, Arc::clone(&stage.session)), other);
    let error = served.unwrap_err();
    assert!(matches!(&error, NetworkError::Build { theirs } if theirs == "another"), "{error}");
    let leaves = async { drop(PlayedRoom::next(&mut stage.started).await) };
    let (served, ()) = tokio::join!(stage.rooms.serve(UID, Arc::clone(&stage.session)), leaves);
    assert!(matches!(served.unwrap_err(), NetworkError::Gone(_)));
    assert_eq!(stage.rooms.totals().running, 0);
    stage.open().await;
    assert_eq!(stage.rooms.totals().running, 1);
}

#[tokio::test]
async fn connections_are_refused_between_a_rooms_death_and_the_next_one() {
    let mut stage = stage("allow = [\"packages.example\"]");
    let room = stage.open().await;
    TcpStream::connect(stage.address).unwrap();
    room.ask(1, "packages.example", Asked::Connect).await;
    room.answer(1).await;
    drop(room);
    // The second room is started after the first one's end was noticed.
    let room = PlayedRoom::next(&mut stage.started).await;
    let refused = TcpStream::connect(stage.address).unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
    let records = stage.connections();
    let failure = records[0].failure.as_ref().map(|why| why.as_str());
    assert_eq!(failure, Some("the egress room ended"));
    room.welcome().await;
    let (request, descriptors) = room.hear().await;
    assert!(matches!(request, EgressRequest::Open { session: 7, .. }), "{request:?}");
    assert_eq!(descriptors, 1);
    TcpStream::connect(stage.address).unwrap();
    room.ask(1, "packages.example", Asked::Connect).await;
    assert!(matches!(room.answer(1).await, EgressVerdict::Allow { .. }));
    assert_eq!(stage.rooms.totals().died, 1);
}

#[tokio::test]
async fn a_room_that_breaks_the_protocol_is_replaced() {
    let mut stage = stage("allow = [\"packages.example\"]");
    let room = stage.open().await;
    let address = "203.0.113.7:443".parse().unwrap();
    room.say(&EgressReply::Connected { session: 7, question: 5, address }).await;
    room.closed().await;
    let room = PlayedRoom::next(&mut stage.started).await;
    room.welcome().await;
    room.hear().await;
    room.ask(1, "packages.example", Asked::Connect).await;
    room.answer(1).await;
    room.ask(1, "packages.example", Asked::Connect).await;
    room.closed().await;
    PlayedRoom::next(&mut stage.started).await;
}

/// An approval that is not remembered holds for further requests on the program's connection to the
/// same host, and for nothing else.
#[tokio::test]
async fn requests_on_one_connection_are_one_approval_request() {
    let mut stage = stage("ask = true");
    let mut requests = stage.approver();
    let room = stage.open().await;
    room.ask_on(1, 2, "new.example", Asked::Http).await;
    let asked = approval_request(&mut requests).await;
    stage.answer(&asked, Decision::Approve, None);
    assert!(matches!(room.answer(2).await, EgressVerdict::Allow { .. }));
    for number in [3, 4] {
        room.ask_on(1, number, "new.example", Asked::Http).await;
        let EgressVerdict::Allow { rule, .. } = room.answer(number).await else { panic!("denied") };
        assert_eq!(rule, "approved by handler:person:alice, for this connection");
    }
    // Another connection, and another host on the same one, are asked about.
    for (number, (connection, host)) in (5..).zip([(9, "new.example"), (1, "other.example")]) {
        room.ask_on(connection, number, host, Asked::Http).await;
        let asked = approval_request(&mut requests).await;
        assert_eq!(asked.view.lines[0].text, format!("connect to {host}, port 443"));
        let deny = Deny { reason: "no".to_owned(), guidance: String::new() };
        stage.answer(&asked, Decision::Deny(deny), None);
        assert!(matches!(room.answer(number).await, EgressVerdict::Deny { .. }));
    }
    // What was approved before goes on.
    room.ask_on(1, 7, "new.example", Asked::Http).await;
    assert!(matches!(room.answer(7).await, EgressVerdict::Allow { .. }));
    // A new room gives its connections the same numbers: they are asked about.
    drop(room);
    let room = PlayedRoom::next(&mut stage.started).await;
    room.welcome().await;
    room.hear().await;
    room.ask_on(1, 2, "third.example", Asked::Http).await;
    let asked = approval_request(&mut requests).await;
    stage.answer(&asked, Decision::Approve, None);
    assert!(matches!(room.answer(2).await, EgressVerdict::Allow { .. }));
    room.ask_on(1, 3, "new.example", Asked::Http).await;
    let EgressVerdict::Deny { reason } = room.answer(3).await else { panic!("it was allowed") };
    assert!(reason.contains("not asked again"), "{reason}");
}

#[tokio::test]
async fn sockets_that_wait_for_one_host_are_one_approval_request() {
    let mut stage = stage("allow = [\"packages.example\"]\nask = true");
    let mut requests = stage.approver();
    let room = stage.open().await;
    room.ask(1, "new.example", Asked::Lookup).await;
    assert!(matches!(room.answer(1).await, EgressVerdict::Allow { .. }), "not asked about");
    for number in [2, 3, 4] {
        room.ask(number, "new.example", Asked::Connect).await;
    }
    let asked = approval_request(&mut requests).await;
    assert_eq!(
        (asked.tool.as_str(), asked.scopes.as_slice()),
        ("net.connect", &["exact_call".to_owned()][..])
    );
    assert_eq!(asked.view.lines[0].text, "connect to new.example, port 443");
    assert!(asked.findings[0].why.contains("may be sent to new.example"), "{asked:?}");
    // All three wait before one of them gets an answer.
    room.say(&EgressReply::Withdrawn { session: 7, question: 4 }).await;
    room.ask(5, "packages.example", Asked::Connect).await;
    room.answer(5).await;
    let remember = Remember { scope: Scope::ExactCall, until: Until::Session };
    stage.answer(&asked, Decision::Approve, Some(remember));
    let mut answered = Vec::new();
    for _ in 0..2 {
        let (request, _) = room.hear().await;
        let EgressRequest::Answer { question, verdict, .. } = request else { panic!("no answer") };
        let EgressVerdict::Allow { rule, .. } = verdict else { panic!("it was denied") };
        assert_eq!(rule, "approved by handler:person:alice");
        answered.push(question);
    }
    answered.sort_unstable();
    assert_eq!(answered, [2, 3]);
    room.ask(6, "new.example", Asked::Connect).await;
    let EgressVerdict::Allow { rule, .. } = room.answer(6).await else { panic!("it was denied") };
    assert!(rule.starts_with("approved by remembered:g-1"), "{rule}");
    // Approvers are not asked, so their limit of requests does not count.
    for number in 7..60 {
        room.ask(number, "new.example", Asked::Connect).await;
        let verdict = room.answer(number).await;
        assert!(matches!(verdict, EgressVerdict::Allow { .. }), "{number}: {verdict:?}");
    }
    assert!(requests.try_recv().is_ok_and(|queued| !is_request(&queued.message)));
    let grants = stage.approvals.desk.grants();
    assert_eq!(grants[0].summary, "net.connect: new.example:443");
    let requests = stage
        .records()
        .iter()
        .filter(|record| matches!(record, Record::ApprovalRequest(_)))
        .count();
    assert_eq!(requests, 1);
}

fn is_request(message: &ServerMessage) -> bool {
    matches!(message, ServerMessage::Event(Event::ApprovalRequest(_)))
}

#[tokio::test]
async fn connections_end_with_the_remembered_approval_that_allows_them() {
    let mut stage = stage("allow = [\"packages.example\"]\nask = true\n[remember]\nms = 600_000");
    let mut requests = stage.approver();
    let room = stage.open().await;
    let ask = async |number, host, remember: Option<Until>, requests: &mut _| {
        room.ask(number, host, Asked::Connect).await;
        let asked = approval_request(requests).await;
        let remember = remember.map(|until| Remember { scope: Scope::ExactCall, until });
        stage.answer(&asked, Decision::Approve, remember);
        assert!(matches!(room.answer(number).await, EgressVerdict::Allow { .. }), "{host}");
    };
    let cut = async || {
        let heard = room.hear().await.0;
        let EgressRequest::Cut { session: 7, question } = heard else { panic!("{heard:?}") };
        question
    };
    ask(1, "once.example", None, &mut requests).await;
    ask(2, "new.example", Some(Until::Session), &mut requests).await;
    room.ask(3, "new.example", Asked::Connect).await;
    assert!(matches!(room.answer(3).await, EgressVerdict::Allow { .. }));
    let failure = None;
    let result = ConnectionResult { sent: 1, received: 1, server_name: None, failure };
    room.ask(4, "new.example", Asked::Connect).await;
    assert!(matches!(room.answer(4).await, EgressVerdict::Allow { .. }));
    room.say(&EgressReply::Ended { session: 7, question: 4, result }).await;
    // The answer shows that the broker has heard of the end.
    room.ask(9, "packages.example", Asked::Connect).await;
    room.answer(9).await;
    stage.approvals.desk.revoke(&"g-1".parse().unwrap()).unwrap();
    let mut ended = [cut().await, cut().await];
    ended.sort_unstable();
    assert_eq!(ended, [2, 3], "not the one that had ended, nor the one that was approved once");
    // One that expires.
    ask(5, "brief.example", Some(Until::Ms(1)), &mut requests).await;
    assert_eq!(cut().await, 5);
}

#[tokio::test]
async fn without_an_approver_a_miss_is_denied_and_a_denial_is_not_asked_again() {
    let mut stage = stage("allow = [\"packages.example\"]\nask = true");
    let room = stage.open().await;
    room.ask(1, "new.example", Asked::Connect).await;
    let EgressVerdict::Deny { reason } = room.answer(1).await else { panic!("it was allowed") };
    assert_eq!(
        reason,
        "the connection to new.example:443 needs approval, and no approver is connected; connect \
         an approver with `palisade approve`"
    );
    let mut requests = stage.approver();
    room.ask(2, "new.example", Asked::Connect).await;
    let asked = approval_request(&mut requests).await;
    let deny = Deny { reason: "not that one".to_owned(), guidance: String::new() };
    stage.answer(&asked, Decision::Deny(deny), None);
    let EgressVerdict::Deny { reason } = room.answer(2).await else { panic!("it was allowed") };
    let told = "person:alice denied the connection to new.example:443: not that one";
    assert_eq!(reason, told);
    room.ask(3, "new.example", Asked::Connect).await;
    let EgressVerdict::Deny { reason } = room.answer(3).await else { panic!("it was allowed") };
    assert_eq!(reason, format!("{told}; the approver is not asked again within a minute"));
}

#[tokio::test]
async fn a_request_that_nobody_waits_for_is_withdrawn() {
    let mut stage = stage("allow = [\"packages.example\"]\nask = true");
    let mut requests = stage.approver();
    let room = stage.open().await;
    room.ask(1, "new.example", Asked::Connect).await;
    let asked = approval_request(&mut requests).await;
    room.say(&EgressReply::Withdrawn { session: 7, question: 1 }).await;
    let over = loop {
        match requests.recv().await.unwrap().message {
            ServerMessage::Event(Event::ApprovalClosed(over)) => break over,
            ServerMessage::Event(_) | ServerMessage::Reply { .. } => {}
        }
    };
    assert_eq!((over.request, over.outcome.as_str()), (asked.id, "denied"));
    assert!(stage.approvals.desk.pending().is_empty());
}
