//! Hostile and ordinary clients without a launcher: the error that each gets, and that others go
//! on.

use super::*;
use crate::{
    base::{live::LiveSettings, own::DaemonPaths},
    cells::{
        analyst::{Analyst, ExpectedCalls},
        link::Link,
    },
    front::{
        prove::proofs::Proofs,
        server::{Clients, Operators, ServerParts},
    },
    network::source::{RoomOrigin, RoomSource},
    stores::{spool::Spools, undo::Undos},
    telemetry::{audit::Audit, journal::Journal, traces::Traces},
    tools::Registry,
};
use palisade_policy::ProfileSet;
use palisade_policy::builtin;
use palisade_protocol::{
    Call, Envelope, Hello, JsonText, Open, OpenOptions, OutputQuery, Request, ToolList, ToolsQuery,
    codec, json,
    limits::{MAX_FRAME, VERSION},
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

struct Client {
    stream: UnixStream,
    dialect: Dialect,
}

fn server() -> Arc<Server> {
    let live = LiveSettings::new(&ProfileSet::new([]).unwrap(), DaemonPaths::default());
    let link = Link::gone("it was never there");
    let parts = ServerParts {
        egress: RoomSource { origin: RoomOrigin::Missing("a test".to_owned()), proxy: None },
        live,
        link,
        spools: Spools::new(None),
        undos: Undos::new(None),
        audit: Audit::none("none was opened"),
        journal: Journal::default(),
        traces: Traces::default(),
        analyst: Analyst::new(None),
        operators: Operators::Own(rustix::process::geteuid().as_raw()),
        proofs: Proofs::default(),
        clients: Clients::Many,
        expected_calls: ExpectedCalls::Many,
        registry: Registry::new().unwrap(),
    };
    Arc::new(Server::new(parts))
}

fn connect_to(server: &Arc<Server>, dialect: Dialect) -> Client {
    let (stream, theirs) = UnixStream::pair().unwrap();
    let peer = Peer { uid: 4242, gid: 4242, pid: None };
    let shutdown = CancellationToken::new();
    tokio::spawn(serve(Arc::clone(server), theirs, peer, Role::Agent, shutdown));
    Client { stream, dialect }
}

fn connect(dialect: Dialect) -> Client {
    connect_to(&server(), dialect)
}

fn hello(version: u16) -> Request {
    Request::Hello(Hello { version, client: "test".into(), capabilities: Vec::new() })
}

fn call() -> Request {
    let (tool, arguments) = ("bash".parse().unwrap(), JsonText::default());
    Request::Call(Call { tool, arguments, reason: None, options: Default::default() })
}

fn open(profile: Option<&str>) -> Request {
    let (profile, options) = (profile.map(str::to_owned), OpenOptions::default());
    Request::Open(Open { workspace: "/work".into(), profile, options })
}

impl Client {
    async fn bytes(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
    }

    async fn send(&mut self, id: RequestId, request: Request) {
        let envelope = Envelope { id, request };
        let bytes = match self.dialect {
            Dialect::Frames => codec::frame(&envelope).unwrap(),
            Dialect::JsonLines => json::encode_request(&envelope).unwrap(),
        };
        self.bytes(&bytes).await;
    }

    async fn hear(&mut self) -> (Option<RequestId>, Reply) {
        let message = match self.dialect {
            Dialect::Frames => {
                let mut prefix = [0; 4];
                self.stream.read_exact(&mut prefix).await.unwrap();
                let mut body = vec![0; codec::frame_length(prefix).unwrap()];
                self.stream.read_exact(&mut body).await.unwrap();
                codec::decode(&body).unwrap()
            }
            Dialect::JsonLines => {
                let mut line = Vec::new();
                while line.last() != Some(&b'\n') {
                    line.push(self.stream.read_u8().await.unwrap());
                }
                json::decode_message(&line).unwrap()
            }
        };
        match message {
            ServerMessage::Reply { id, reply } => (id, reply),
            ServerMessage::Event(event) => panic!("{event:?}"),
        }
    }

    async fn ask(&mut self, id: RequestId, request: Request) -> Reply {
        self.send(id, request).await;
        let (replied, reply) = self.hear().await;
        assert_eq!(replied, Some(id));
        reply
    }

    async fn error(&mut self) -> (Option<RequestId>, ErrorCode) {
        match self.hear().await {
            (id, Reply::Error(error)) => (id, error.code),
            (_, other) => panic!("{other:?}"),
        }
    }

    /// Expects an error about the connection as a whole, which is then closed.
    async fn cut_off(&mut self, code: ErrorCode) {
        assert_eq!(self.error().await, (None, code));
        assert_eq!(self.stream.read(&mut [0; 1]).await.unwrap(), 0);
    }

    async fn greet(mut self) -> Self {
        assert!(matches!(self.ask(1, hello(VERSION)).await, Reply::Welcome(_)));
        self
    }

    async fn alive(&mut self) {
        assert_eq!(self.ask(99, Request::Ping).await, Reply::Pong);
    }
}

const BOTH: [Dialect; 2] = [Dialect::Frames, Dialect::JsonLines];

fn code(reply: Reply) -> ErrorCode {
    let Reply::Error(error) = reply else { panic!("{reply:?}") };
    error.code
}

#[tokio::test]
async fn a_greeted_client_can_ask_what_needs_no_session() {
    for dialect in BOTH {
        let mut client = connect(dialect).greet().await;
        client.alive().await;
        let reply = client.ask(3, Request::Tools(ToolsQuery::default())).await;
        let Reply::Tools(ToolList { tools }) = reply else { panic!("{reply:?}") };
        assert!(tools.iter().any(|tool| tool.name.as_str() == "bash"), "{tools:?}");
        let reply = client.ask(4, Request::Status).await;
        let Reply::Status(status) = reply else { panic!("{reply:?}") };
        assert!(status.launcher.starts_with("gone: it was never there"));
        let mut built_in: Vec<_> = builtin().into_iter().map(|(name, _)| name).collect();
        built_in.sort_unstable();
        assert_eq!(status.profiles, built_in);
        let query = OutputQuery { call_id: "nobodys".parse().unwrap(), offset: 0, limit: None };
        assert_eq!(code(client.ask(5, Request::Output(query)).await), ErrorCode::NotFound);
        let unknown = ToolsQuery { names: vec!["bsh".parse().unwrap()] };
        assert_eq!(code(client.ask(6, Request::Tools(unknown)).await), ErrorCode::ToolNotFound);
    }
}

#[tokio::test]
async fn out_of_order_requests_are_refused_one_by_one() {
    for dialect in BOTH {
        let mut client = connect(dialect);
        assert_eq!(code(client.ask(1, Request::Ping).await), ErrorCode::OutOfOrder);
        assert_eq!(code(client.ask(2, hello(VERSION + 1)).await), ErrorCode::UnsupportedVersion);
        let mut client = client.greet().await;
        assert_eq!(code(client.ask(4, hello(VERSION)).await), ErrorCode::OutOfOrder);
        assert_eq!(code(client.ask(5, call()).await), ErrorCode::OutOfOrder);
        assert_eq!(code(client.ask(6, Request::Close).await), ErrorCode::OutOfOrder);
        client.alive().await;
    }
}

#[tokio::test]
async fn without_a_launcher_no_session_is_opened_and_the_reason_is_given() {
    for dialect in BOTH {
        let mut client = connect(dialect).greet().await;
        let reply = client.ask(2, open(None)).await;
        let Reply::Error(error) = reply else { panic!("{reply:?}") };
        assert_eq!(error.code, ErrorCode::LauncherGone);
        assert!(error.message.contains("it was never there"), "{error}");
        assert!(!error.hint.is_empty());
        assert_eq!(code(client.ask(3, open(Some("nope"))).await), ErrorCode::ProfileNotFound);
        assert_eq!(code(client.ask(4, call()).await), ErrorCode::OutOfOrder);
        client.alive().await;
    }
}

#[tokio::test]
async fn hostile_frames_each_have_their_own_error() {
    for (bytes, error) in [
        (vec![1, 0, 0, 1], ErrorCode::FrameTooLarge),
        (vec![0, 0, 0, 0], ErrorCode::MalformedMessage),
        (vec![0, 0, 0, 2, 7, 200], ErrorCode::UnknownRequest),
        (vec![0, 0, 0, 3, 7, 6, 6], ErrorCode::MalformedMessage),
        (vec![0, 0, 0, 1, 7], ErrorCode::MalformedMessage),
    ] {
        let server = server();
        let mut other = connect_to(&server, Dialect::Frames).greet().await;
        let mut client = connect_to(&server, Dialect::Frames).greet().await;
        client.bytes(&bytes).await;
        client.cut_off(error).await;
        other.alive().await;
    }
}

#[tokio::test]
async fn hostile_lines_each_have_their_own_error() {
    let deep = format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"x\":{}\n", "[".repeat(100_000));
    for (bytes, error) in [
        (b"{\"a\":\"\xff\"}\n".to_vec(), ErrorCode::NotUtf8),
        (b"nonsense\n".to_vec(), ErrorCode::MalformedMessage),
        (deep.into_bytes(), ErrorCode::MalformedMessage),
        (vec![b' '; MAX_FRAME + 1], ErrorCode::FrameTooLarge),
    ] {
        let server = server();
        let mut other = connect_to(&server, Dialect::JsonLines).greet().await;
        let mut client = connect_to(&server, Dialect::JsonLines).greet().await;
        client.bytes(&bytes).await;
        client.cut_off(error).await;
        other.alive().await;
    }
}

#[tokio::test]
async fn what_names_its_request_costs_only_that_request() {
    let mut client = connect(Dialect::JsonLines).greet().await;
    client.bytes(b"{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"exec\"}\n").await;
    assert_eq!(client.error().await, (Some(7), ErrorCode::UnknownRequest));
    client.bytes(b"{\"jsonrpc\":\"2.0\",\"id\":8,\"method\":\"open\",\"params\":{}}\n").await;
    assert_eq!(client.error().await, (Some(8), ErrorCode::InvalidRequest));
    client.bytes(b"\n \r\n").await;
    client.alive().await;
}

#[tokio::test]
async fn a_stream_that_ends_inside_a_message_is_told_so() {
    for (dialect, bytes) in [
        (Dialect::Frames, &b"\0\0\0\x09abc"[..]),
        (Dialect::Frames, b"\0\0"),
        (Dialect::JsonLines, b"{\"a\""),
    ] {
        let mut client = connect(dialect).greet().await;
        client.bytes(bytes).await;
        client.stream.shutdown().await.unwrap();
        client.cut_off(ErrorCode::TruncatedFrame).await;
    }
}

#[tokio::test]
async fn an_unknown_first_byte_is_answered_in_json() {
    for first in [b"GET / HTTP/1.1\r\n".as_slice(), &[0xff; 4], b"[]\n"] {
        let mut client = connect(Dialect::JsonLines);
        client.bytes(first).await;
        assert_eq!(client.error().await, (None, ErrorCode::MalformedMessage));
    }
}

#[tokio::test(start_paused = true)]
async fn silence_before_hello_and_inside_a_message_has_an_end() {
    let mut silent = connect(Dialect::JsonLines);
    silent.cut_off(ErrorCode::OutOfOrder).await;
    let mut slow = connect(Dialect::Frames);
    slow.bytes(&[0, 0, 0, 9]).await;
    slow.cut_off(ErrorCode::OutOfOrder).await;
    for dialect in BOTH {
        let mut stalled = connect(dialect).greet().await;
        let begun: &[u8] = match dialect {
            Dialect::Frames => &[0, 0, 0, 9, 1],
            Dialect::JsonLines => b"{",
        };
        stalled.bytes(begun).await;
        stalled.cut_off(ErrorCode::TruncatedFrame).await;
    }
}

#[tokio::test]
async fn one_connection_too_many_is_turned_away_and_the_next_user_is_not() {
    let server = server();
    let mut clients = Vec::new();
    for _ in 0..CONNECTIONS_OF_USER {
        clients.push(connect_to(&server, Dialect::Frames).greet().await);
    }
    let mut refused = connect_to(&server, Dialect::JsonLines);
    refused.send(1, hello(VERSION)).await;
    refused.cut_off(ErrorCode::LimitReached).await;
    drop(clients.pop());
    while server.host.census.enroll(CountedKind::Connection, 4242, CONNECTIONS_OF_USER).is_err() {
        tokio::task::yield_now().await;
    }
    connect_to(&server, Dialect::JsonLines).greet().await.alive().await;
}

#[tokio::test]
async fn a_client_that_does_not_read_holds_up_only_itself() {
    let server = server();
    let mut slow = connect_to(&server, Dialect::Frames).greet().await;
    let mut other = connect_to(&server, Dialect::JsonLines).greet().await;
    let request = codec::frame(&Envelope { id: 5, request: Request::Status }).unwrap();
    let flood = async {
        loop {
            slow.bytes(&request).await;
        }
    };
    let witness = async {
        for _ in 0..2000 {
            other.alive().await;
        }
    };
    tokio::select! {
        () = flood => {}
        () = witness => {}
    }
}

#[tokio::test]
async fn stopping_is_told_to_every_client() {
    let (server, shutdown) = (server(), CancellationToken::new());
    let (stream, theirs) = UnixStream::pair().unwrap();
    let peer = Peer { uid: 4242, gid: 4242, pid: None };
    tokio::spawn(serve(server, theirs, peer, Role::Agent, shutdown.clone()));
    let mut client = Client { stream, dialect: Dialect::Frames }.greet().await;
    shutdown.cancel();
    client.cut_off(ErrorCode::ShuttingDown).await;
}
