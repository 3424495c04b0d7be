//! Messages between the broker and an egress room, one datagram each. The broker decides about each
//! connection; the egress room carries the bytes.
//!
//! A session's listeners are made in its own network namespace, so a connection belongs to the
//! session by the listener that accepted it.

#![forbid(unsafe_code)]

pub mod fetch;
pub mod host;

use crate::{
    fetch::{FetchedPage, PageFailure, PageRequest},
    host::{HostName, Target},
};
use bincode::{Decode, Encode};
use palisade_plan::{launcher::SessionNumber, listeners::Listener};
use std::{
    fmt,
    net::{IpAddr, SocketAddr},
};

/// Most bytes of a message.
pub const MAX_EGRESS_MESSAGE: usize = 16 * 1024;

/// Most names of a session that get a synthetic address; no address is used twice.
pub const MAX_SYNTHETIC: usize = 4096;

/// The name of this host in sessions. It is looked up nowhere: the egress room connects to a port of
/// 127.0.0.1 that the profile lists. `internal` is reserved for such names.
pub const THIS_HOST: &str = "host.palisade.internal";

/// The port in a question about a lookup, which is for no port.
pub const LOOKUP_PORT: u16 = 0;

/// The limits of a session's network use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct EgressBudget {
    /// Most connections at once.
    pub connections: u32,
    /// Most bytes that the session may send over its life.
    pub upload_bytes: u64,
}

/// A range of addresses that a profile names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct NamedAddresses {
    /// The first address.
    pub first: IpAddr,
    /// The number of leading bits that all of them have in common.
    pub bits: u8,
    /// The port; `None`: every port.
    pub port: Option<u16>,
}

/// The operator's HTTP proxy between the rooms and other hosts.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct OperatorProxy {
    /// Its host and port.
    pub target: Target,
    /// The way in which rooms speak with it.
    pub transport: ProxyTransport,
    /// The name of the credential that it wants.
    pub credential: Option<String>,
}

/// The way in which rooms speak with the operator's proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum ProxyTransport {
    /// Without encryption.
    Plain,
    /// Over TLS, with a certificate that this host trusts.
    Tls,
}

/// The proxy as it is configured. The name of the credential is no secret.
impl fmt::Display for OperatorProxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.transport {
            ProxyTransport::Plain => {}
            ProxyTransport::Tls => f.write_str("https://")?,
        }
        if let Some(credential) = &self.credential {
            write!(f, "credential:{credential}@")?;
        }
        self.target.fmt(f)
    }
}

/// A request of the broker.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum EgressRequest {
    /// Starts the conversation. Sent once, first.
    Hello {
        /// The broker's [`palisade_plan::BUILD_ID`].
        build_id: String,
        /// The operator's HTTP proxy, through which every connection to another host is made; `None`:
        /// the room connects by itself. Descriptor: the file of its credential, if it wants one and the
        /// room has none from the service manager.
        proxy: Option<OperatorProxy>,
    },
    /// Use this file for a credential of a session that is opened next. Descriptor: the file. A room
    /// that the service manager has given credentials gets none from the broker.
    Credential {
        /// The session.
        session: SessionNumber,
        /// The name of the credential.
        name: String,
    },
    /// Serve a session. Descriptors: its listeners, in this order.
    Open {
        /// The session.
        session: SessionNumber,
        /// The listeners.
        listeners: Vec<Listener>,
        /// The session's limits.
        budget: EgressBudget,
        /// Addresses that names may lead to although they are not on the public internet.
        named: Vec<NamedAddresses>,
        /// Addresses that names may not lead to, even if `named` has them.
        denied: Vec<NamedAddresses>,
        /// The ports of this host's loopback that [`THIS_HOST`] has.
        host_ports: Vec<u16>,
        /// The private key of the session's authority, as PKCS #8; `None` if the profile has no
        /// inspected hosts.
        authority: Option<AuthorityKey>,
        /// The credentials of inspected hosts.
        credentials: Vec<HostCredential>,
    },
    /// The answer to [`EgressReply::Question`].
    Answer {
        /// The session.
        session: SessionNumber,
        /// The number of the question.
        question: u64,
        /// The answer.
        verdict: EgressVerdict,
    },
    /// End a connection: the approval that allowed it has expired or was revoked. `Ended` follows, unless it
    /// has ended already.
    Cut {
        /// The session.
        session: SessionNumber,
        /// The number of the question that allowed it.
        question: u64,
    },
    /// Get a page for a call of a session. The answer is [`EgressReply::Fetched`].
    Fetch {
        /// The session.
        session: SessionNumber,
        /// The number of the fetch, never used twice in a session.
        fetch: u64,
        /// The page.
        request: PageRequest,
    },
    /// Nobody waits for a page any more.
    EndFetch {
        /// The session.
        session: SessionNumber,
        /// The number of the fetch.
        fetch: u64,
    },
    /// End a session's connections and close its listeners.
    Close {
        /// The session.
        session: SessionNumber,
    },
}

/// The credential of an inspected host, which the egress room has and the session has not.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct HostCredential {
    /// The host.
    pub target: Target,
    /// The name of the credential.
    pub name: String,
    /// The text that stands for it inside the session.
    pub placeholder: String,
}

/// The private key of a session's authority. It is never shown.
#[derive(Clone, PartialEq, Eq, Encode, Decode)]
pub struct AuthorityKey(pub Vec<u8>);

impl fmt::Debug for AuthorityKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AuthorityKey")
    }
}

/// The broker's decision about one connection or lookup.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum EgressVerdict {
    /// It may go there.
    Allow {
        /// The entry of the profile, or the approval, that allows it. For the record.
        rule: String,
        /// The check of what is sent.
        tunnel: Tunnel,
    },
    /// It may not.
    Deny {
        /// The reason, in words for the program's user.
        reason: String,
    },
}

/// The check of the first bytes that a program sends through a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum Tunnel {
    /// They must be a TLS ClientHello for the name that was asked for, or HTTP requests to it.
    Checked,
    /// They may be any protocol: the profile names this port of this host. A ClientHello must still
    /// be for the name that was asked for.
    Any,
    /// They must be a TLS ClientHello for the name that was asked for. TLS ends in the egress room,
    /// which asks about each request. Nothing is dialled before that.
    Inspected,
}

/// The way in which a program asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum Asked {
    /// A query for the addresses of a name, whose port is [`LOOKUP_PORT`]. If the answer is to
    /// allow, it is a synthetic address; nothing is looked up, and no `Ended` follows.
    Lookup,
    /// HTTP's `CONNECT`.
    Connect,
    /// A request for a whole URL to the proxy.
    Http,
    /// SOCKS5.
    Socks,
    /// A connection to a synthetic address.
    Direct,
    /// A connection of a program of the host to a published port. The target is that port of the
    /// session's loopback.
    Published,
    /// A request on a connection to an inspected host.
    Request,
    /// A page for the tool `web_fetch`, which the room gets itself.
    Fetch,
}

/// A request to an inspected host, as it is judged.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct WebRequest {
    /// The method.
    pub method: String,
    /// The path as the program wrote it, without the query.
    pub path: String,
}

/// Most bytes of the path of a request to an inspected host.
pub const MAX_REQUEST_PATH: usize = 8 * 1024;

/// A message of the egress room.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum EgressReply {
    /// The answer to `Hello`.
    Welcome {
        /// The egress room's [`palisade_plan::BUILD_ID`].
        build_id: String,
    },
    /// Asks whether a program may connect to a place. The connection waits for the answer.
    Question {
        /// The session.
        session: SessionNumber,
        /// The number of the question, never used twice in a session.
        question: u64,
        /// The number that all questions about one connection of a program, or about one page, have in
        /// common: that of one of the session's questions, or of none.
        connection: u64,
        /// The place.
        target: Target,
        /// The way in which the program asked.
        asked: Asked,
        /// The request to an inspected host, or for a page; `None` unless `asked` is
        /// [`Asked::Request`] or [`Asked::Fetch`].
        request: Option<WebRequest>,
    },
    /// Nobody waits for the answer to a question any more.
    Withdrawn {
        /// The session.
        session: SessionNumber,
        /// The number of the question.
        question: u64,
    },
    /// A connection is open: its destination was dialled.
    Connected {
        /// The session.
        session: SessionNumber,
        /// The number of the question that allowed it, which also names the connection.
        question: u64,
        /// The address that was dialled.
        address: SocketAddr,
    },
    /// A connection has ended, or failed after it was allowed.
    Ended {
        /// The session.
        session: SessionNumber,
        /// The number of the question that allowed it.
        question: u64,
        /// The result.
        result: ConnectionResult,
    },
    /// The next bytes of a page, at most [`PAGE_PIECE`](crate::fetch::PAGE_PIECE).
    Page {
        /// The session.
        session: SessionNumber,
        /// The number of the fetch.
        fetch: u64,
        /// The bytes.
        piece: Vec<u8>,
    },
    /// A fetch has ended. Nothing else follows about it.
    Fetched {
        /// The session.
        session: SessionNumber,
        /// The number of the fetch.
        fetch: u64,
        /// The page, of which all pieces were sent, or the reason why there is none.
        result: Result<FetchedPage, PageFailure>,
    },
    /// A session tried something that is refused without a question.
    Refused {
        /// The session.
        session: SessionNumber,
        /// The place, if there was one that could be read.
        target: Option<Target>,
        /// The reason.
        reason: String,
        /// The kind of what was tried.
        kind: RefusalKind,
    },
}

/// The kind of an attempt that is refused without a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
pub enum RefusalKind {
    /// An attempt that programs make by mistake, too.
    Ordinary,
    /// A request with the placeholder of a credential, to a place that the credential is not for. Only
    /// a program that wants to send the credential there makes it.
    Placeholder,
}

/// The result of a connection that was allowed.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct ConnectionResult {
    /// The bytes that the session sent.
    pub sent: u64,
    /// The bytes that the session received.
    pub received: u64,
    /// The name in the TLS ClientHello, if there was one.
    pub server_name: Option<HostName>,
    /// The reason why the connection failed or was cut off; `None` if it ended by itself.
    pub failure: Option<String>,
}
