//! A fake operator socket of a daemon, which sends what a test tells it to.

use palisade_protocol::{
    Answer, Answered, ApprovalClosed, ApprovalOutcome, ApprovalRequest, DecidedBy, Envelope, Event,
    Register, Registered, Reply, Request, RequestId, ServerMessage, Welcome, codec,
    limits::VERSION,
};
use std::{
    io::{Read as _, Write as _},
    os::unix::net::{UnixListener, UnixStream},
};

/// The daemon's side of one operator's connection.
pub(crate) struct Daemon {
    stream: UnixStream,
}

impl Daemon {
    /// Accepts the next connection and greets it.
    pub(crate) fn accept(listener: &UnixListener) -> Self {
        let mut daemon = Self { stream: listener.accept().unwrap().0 };
        let Envelope { id, request } = daemon.next().unwrap();
        assert!(matches!(request, Request::Hello(_)), "{request:?}");
        let welcome = Welcome { version: VERSION, server: "fake".to_owned(), capabilities: vec![] };
        daemon.reply(id, Reply::Welcome(welcome));
        daemon
    }

    /// Returns the next request; pings are answered and skipped.
    pub(crate) fn next(&mut self) -> Option<Envelope> {
        loop {
            let mut prefix = [0; 4];
            self.stream.read_exact(&mut prefix).ok()?;
            let mut body = vec![0; codec::frame_length(prefix).unwrap()];
            self.stream.read_exact(&mut body).ok()?;
            let envelope: Envelope = codec::decode(&body).unwrap();
            if envelope.request != Request::Ping {
                return Some(envelope);
            }
            let pong = ServerMessage::Reply { id: Some(envelope.id), reply: Reply::Pong };
            // A client that is gone needs no answer, but may have sent more requests before.
            drop(self.stream.write_all(&codec::frame(&pong).unwrap()));
        }
    }

    pub(crate) fn send(&mut self, message: &ServerMessage) {
        self.stream.write_all(&codec::frame(message).unwrap()).unwrap();
    }

    pub(crate) fn reply(&mut self, id: RequestId, reply: Reply) {
        self.send(&ServerMessage::Reply { id: Some(id), reply });
    }

    /// Accepts a registration.
    pub(crate) fn registered(&mut self) -> Register {
        let Envelope { id, request } = self.next().unwrap();
        let Request::Register(register) = request else { panic!("{request:?}") };
        let handler = "h-1".parse().unwrap();
        self.reply(id, Reply::Registered(Registered { handler }));
        register
    }

    pub(crate) fn ask(&mut self, request: &ApprovalRequest) {
        self.send(&ServerMessage::Event(Event::ApprovalRequest(Box::new(request.clone()))));
    }

    pub(crate) fn over(&mut self, id: &str, outcome: ApprovalOutcome) {
        let over = ApprovalClosed { request: id.parse().unwrap(), outcome, by: DecidedBy::Default };
        self.send(&ServerMessage::Event(Event::ApprovalClosed(over)));
    }

    /// Accepts an answer. Reports that the approval request is over first, as a daemon does.
    pub(crate) fn answer(&mut self) -> Answer {
        let Envelope { id, request } = self.next().unwrap();
        let Request::Answer(answer) = request else { panic!("{request:?}") };
        self.over(answer.request.as_str(), ApprovalOutcome::Approved);
        self.reply(id, Reply::Answered(Answered { grant: None, missing: 0 }));
        *answer
    }
}

/// Returns an approval request with this id.
pub(crate) fn approval_request(id: &str) -> ApprovalRequest {
    let mut request: ApprovalRequest =
        serde_json::from_str(include_str!("approval_request.json")).unwrap();
    request.id = id.parse().unwrap();
    request.digest = format!("digest-{id}");
    request
}
