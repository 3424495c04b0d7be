//! A client on the level of bytes: sends whatever a test wants to a daemon, in either codec, and
//! receives whatever comes back.

use palisade_protocol::{
    Call, CallOptions, CallResult, Envelope, ErrorCode, Hello, Open, OpenOptions, RawPath, Reply,
    Request, RequestId, ServerMessage, WireError, codec, json, limits::VERSION, wire::Dialect,
};
use std::{
    io::{Read as _, Write as _},
    net::Shutdown,
    os::unix::net::UnixStream,
    path::Path,
    time::Duration,
};

/// The time that a test waits for an answer that must come.
const PATIENCE: Duration = Duration::from_secs(120);

/// Both codecs.
pub const DIALECTS: [Dialect; 2] = [Dialect::Frames, Dialect::JsonLines];

/// A connection.
#[derive(Debug)]
pub struct Raw {
    stream: UnixStream,
    dialect: Dialect,
    heard: Vec<u8>,
    next: RequestId,
}

/// Encodes a request.
#[must_use]
pub fn encode(dialect: Dialect, id: RequestId, request: Request) -> Vec<u8> {
    let envelope = Envelope { id, request };
    match dialect {
        Dialect::Frames => codec::frame(&envelope).expect("a frame"),
        Dialect::JsonLines => json::encode_request(&envelope).expect("a line"),
    }
}

/// Returns a greeting with this version.
#[must_use]
pub fn hello(version: u16) -> Request {
    Request::Hello(Hello { version, client: "raw".into(), capabilities: Vec::new() })
}

/// Returns a request for a session in a workspace.
#[must_use]
pub fn open(workspace: &Path, profile: &str) -> Request {
    Request::Open(Open {
        workspace: RawPath::from(workspace.to_owned()),
        profile: Some(profile.to_owned()),
        options: OpenOptions::default(),
    })
}

/// Returns a call of a tool.
#[must_use]
pub fn call(tool: &str, arguments: &serde_json::Value, options: CallOptions) -> Request {
    let arguments = serde_json::from_value(arguments.clone()).expect("an object");
    Request::Call(Call { tool: tool.parse().expect("a name"), arguments, reason: None, options })
}

impl Raw {
    /// Creates a connection on which nothing was sent yet.
    #[must_use]
    pub fn new(stream: UnixStream, dialect: Dialect) -> Self {
        stream.set_read_timeout(Some(PATIENCE)).expect("a time-out");
        Self { stream, dialect, heard: Vec::new(), next: 1 }
    }

    /// Creates a connection on which `hello` was answered.
    #[must_use]
    pub fn greeted(stream: UnixStream, dialect: Dialect) -> Self {
        let mut raw = Self::new(stream, dialect);
        let reply = raw.ask(hello(VERSION));
        assert!(matches!(reply, Reply::Welcome(_)), "{reply:?}");
        raw
    }

    /// Creates a connection with a session.
    #[must_use]
    pub fn opened(stream: UnixStream, dialect: Dialect, workspace: &Path) -> Self {
        let mut raw = Self::greeted(stream, dialect);
        let reply = raw.ask(open(workspace, "workspace"));
        assert!(matches!(reply, Reply::Opened(_)), "{reply:?}");
        raw
    }

    /// Sends raw bytes. An error is ignored: if the daemon has closed already, its last message
    /// says why.
    pub fn say(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap_or_default();
    }

    /// Sends a request; returns its id.
    pub fn send(&mut self, request: Request) -> RequestId {
        let id = self.next;
        self.next += 1;
        let bytes = encode(self.dialect, id, request);
        self.say(&bytes);
        id
    }

    /// Sends a request under an id that the test chooses.
    pub fn send_as(&mut self, id: RequestId, request: Request) -> RequestId {
        let bytes = encode(self.dialect, id, request);
        self.say(&bytes);
        id
    }

    /// Closes the sending side.
    pub fn hush(&self) {
        self.stream.shutdown(Shutdown::Write).expect("shutdown");
    }

    /// Returns the next message; `None` at the end of the connection.
    ///
    /// # Panics
    /// If nothing comes, or something that is not a message.
    pub fn hear(&mut self) -> Option<ServerMessage> {
        loop {
            if let Some(message) = self.message() {
                return Some(message);
            }
            let mut piece = [0; 65536];
            match self.stream.read(&mut piece) {
                Ok(0) => return None,
                Ok(read) => self.heard.extend_from_slice(&piece[..read]),
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return None,
                Err(error) => panic!("no answer: {error}"),
            }
        }
    }

    fn message(&mut self) -> Option<ServerMessage> {
        let (start, end, rest) = match self.dialect {
            Dialect::Frames => {
                let length = codec::frame_length(*self.heard.first_chunk()?).expect("a length");
                (4, 4 + length, 4 + length)
            }
            Dialect::JsonLines => {
                let end = self.heard.iter().position(|byte| *byte == b'\n')?;
                (0, end, end + 1)
            }
        };
        let body = self.heard.get(start..end)?;
        let message = match self.dialect {
            Dialect::Frames => codec::decode(body).expect("a message"),
            Dialect::JsonLines => json::decode_message(body).expect("a message"),
        };
        self.heard.drain(..rest);
        Some(message)
    }

    /// Returns the next reply, with its id. Events are skipped.
    ///
    /// # Panics
    /// If the connection ends instead.
    pub fn reply(&mut self) -> (Option<RequestId>, Reply) {
        loop {
            match self.hear().expect("a reply before the end") {
                ServerMessage::Reply { id, reply } => return (id, reply),
                ServerMessage::Event(_) => {}
            }
        }
    }

    /// Sends a request and waits for its reply, which must be the next.
    pub fn ask(&mut self, request: Request) -> Reply {
        let id = self.send(request);
        let (answered, reply) = self.reply();
        assert_eq!(answered, Some(id), "{reply:?}");
        reply
    }

    /// Calls a tool and waits for its result.
    pub fn result(&mut self, tool: &str, arguments: &serde_json::Value) -> CallResult {
        let reply = self.ask(call(tool, arguments, CallOptions::default()));
        let Reply::Result(result) = reply else { panic!("{tool}: {reply:?}") };
        *result
    }

    /// Returns the error that ends this connection: one without an id, with nothing after it.
    ///
    /// # Panics
    /// If something else comes.
    pub fn last_words(&mut self) -> WireError {
        let (id, reply) = self.reply();
        assert_eq!(id, None, "{reply:?}");
        let Reply::Error(error) = reply else { panic!("not an error: {reply:?}") };
        assert_eq!(self.hear(), None, "the connection goes on after {error}");
        error
    }

    /// Returns the code of the error that a request gets; the connection stays open.
    pub fn refusal(&mut self, request: Request) -> ErrorCode {
        self.refused(request).code
    }

    /// Returns the error that a request gets; the connection stays open.
    pub fn refused(&mut self, request: Request) -> WireError {
        let reply = self.ask(request);
        let Reply::Error(error) = reply else { panic!("not refused: {reply:?}") };
        error
    }

    /// Reads whatever comes until the end; returns the number of bytes.
    pub fn drain(&mut self) -> usize {
        let mut all = Vec::new();
        match self.stream.read_to_end(&mut all) {
            Ok(read) => read,
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => all.len(),
            Err(error) => panic!("the connection hangs: {error}"),
        }
    }
}
