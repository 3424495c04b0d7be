//! A fake daemon on one end of a socket pair, which sends what a test tells it to.

use crate::{Client, Error, Open, Session, link::Patience};
use palisade_protocol::{
    Bytes, CallResult, Envelope, Event, Opened, RawPath, Receipt, Reply, Request, RequestId,
    ServerMessage, Stream, Welcome, WireError, codec, limits::VERSION,
};
use std::time::Duration;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::UnixStream,
};

/// The daemon's end.
pub(crate) struct Fake {
    stream: UnixStream,
}

/// Returns a client that has been greeted, and its fake daemon.
pub(crate) async fn connected() -> (Client, Fake) {
    patient(Patience::default()).await
}

/// Returns a client with this much patience for slow readers, and its fake daemon.
pub(crate) async fn patient(patience: Patience) -> (Client, Fake) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let mut fake = Fake { stream: theirs };
    let (client, ()) = tokio::join!(Client::patient(ours, patience), fake.greet(VERSION));
    (client.unwrap(), fake)
}

/// Returns an open session, and its fake daemon.
pub(crate) async fn opened(patience: Patience) -> (Session, Fake) {
    let (client, mut fake) = self::patient(patience).await;
    let open = client.open(Open::new("/workspace").profile("workspace"));
    let (session, _) = tokio::join!(open, fake.open());
    (session.unwrap(), fake)
}

/// Returns what [`Client::from_stream`] makes of these first bytes from a daemon.
pub(crate) async fn greeted(reply: impl Into<Vec<u8>>) -> Result<Client, Error> {
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    theirs.write_all(&reply.into()).await.unwrap();
    theirs.shutdown().await.unwrap();
    Client::from_stream(ours).await
}

impl Fake {
    pub(crate) fn on(stream: UnixStream) -> Self {
        Self { stream }
    }

    pub(crate) async fn greet(&mut self, version: u16) {
        let hello = self.next().await;
        assert!(matches!(&hello.request, Request::Hello(hello) if hello.version == VERSION));
        let welcome = Welcome { version, server: "fake 1".to_owned(), capabilities: vec![] };
        self.reply(hello.id, Reply::Welcome(welcome)).await;
    }

    pub(crate) async fn open(&mut self) -> palisade_protocol::Open {
        let envelope = self.next().await;
        let Request::Open(open) = envelope.request else { panic!("{envelope:?}") };
        let opened = Opened {
            session: "s1".parse().unwrap(),
            workspace: RawPath::from("/workspace"),
            receipt: Receipt::default(),
            receipt_digest: String::new(),
            token: None,
            grace_ms: 0,
            limits: Default::default(),
        };
        self.reply(envelope.id, Reply::Opened(Box::new(opened))).await;
        open
    }

    /// Returns the client's next request.
    pub(crate) async fn next(&mut self) -> Envelope {
        self.try_next().await.expect("the client closed the connection")
    }

    /// Returns the client's next request; `None` if the client has closed its side.
    pub(crate) async fn try_next(&mut self) -> Option<Envelope> {
        let mut prefix = [0; 4];
        self.stream.read_exact(&mut prefix).await.ok()?;
        let mut body = vec![0; codec::frame_length(prefix).unwrap()];
        self.stream.read_exact(&mut body).await.unwrap();
        Some(codec::decode(&body).unwrap())
    }

    /// Returns the next request, which must be a call.
    pub(crate) async fn call(&mut self) -> (RequestId, palisade_protocol::Call) {
        let envelope = self.next().await;
        let Request::Call(call) = envelope.request else { panic!("{envelope:?}") };
        (envelope.id, call)
    }

    /// Returns `true` if the client has sent nothing more within 50 ms.
    pub(crate) async fn is_silent(&mut self) -> bool {
        tokio::time::timeout(Duration::from_millis(50), self.try_next()).await.is_err()
    }

    pub(crate) async fn send(&mut self, message: &ServerMessage) {
        self.stream.write_all(&codec::frame(message).unwrap()).await.unwrap();
    }

    pub(crate) async fn reply(&mut self, id: RequestId, reply: Reply) {
        self.send(&ServerMessage::Reply { id: Some(id), reply }).await;
    }

    pub(crate) async fn refuse_all(&mut self, error: WireError) {
        self.send(&ServerMessage::Reply { id: None, reply: Reply::Error(error) }).await;
    }

    pub(crate) async fn result(&mut self, id: RequestId, output: &str) {
        self.reply(id, Reply::Result(Box::new(result(output)))).await;
    }

    pub(crate) async fn output(&mut self, call: RequestId, stream: Stream, data: &[u8]) {
        let data = Bytes(data.to_vec());
        self.send(&ServerMessage::Event(Event::Output { call, stream, data })).await;
    }

    pub(crate) async fn raw(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
    }
}

/// Returns a successful result.
pub(crate) fn result(output: &str) -> CallResult {
    CallResult {
        call_id: "c1".parse().unwrap(),
        tool: "bash".parse().unwrap(),
        success: true,
        output: output.to_owned(),
        truncated: false,
        lossy: false,
        execution_time_ms: 1,
        error: None,
        stdout: output.to_owned(),
        stderr: String::new(),
        exit_code: Some(0),
        signal: None,
        timed_out: false,
        cancelled: false,
        oom: false,
        pipe_held: false,
        omitted_bytes: 0,
        spool: None,
        data: None,
        undo: None,
        findings: Vec::new(),
        denials: Vec::new(),
        checkpoint: None,
        route: None,
        receipt_digest: String::new(),
        receipt: Some(Box::default()),
    }
}
