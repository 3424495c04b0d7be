//! The requests that a connection may make, by its role and in which order. Runs in the broker.
//! Pure: no I/O.

use crate::base::roles::Role;
use palisade_protocol::{ErrorCode, Phase, Request, Senders, WireError, limits::VERSION};

/// The progress of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// No request was made yet.
    New,
    /// `Hello` was answered.
    Greeted,
    /// The session is open, or being opened.
    Open,
    /// The session was closed.
    Closed,
}

impl Role {
    /// Refuses a request that this role may not make.
    pub(crate) fn permits(self, request: &Request) -> Result<(), WireError> {
        let (who, socket) = match (self, request.senders()) {
            (_, Senders::Everybody)
            | (Self::Agent | Self::Operator, Senders::Observers | Senders::Approvers)
            | (Self::Agent, Senders::Agents)
            | (Self::Operator, Senders::Operators(_))
            | (Self::Provider, Senders::Providers) => return Ok(()),
            (_, Senders::Agents | Senders::Observers) => ("an agent", "agent"),
            (_, Senders::Operators(_) | Senders::Approvers) => ("an operator", "operator"),
            (_, Senders::Providers) => ("a provider", "provider"),
        };
        let here = match self {
            Self::Agent => "agents'",
            Self::Operator => "operators'",
            Self::Provider => "providers'",
        };
        Err(WireError::new(
            ErrorCode::Forbidden,
            format!("only {who} may send this request, and this is the {here} socket"),
            format!("connect to the {socket} socket"),
        ))
    }
}

impl Stage {
    /// Returns the stage after a request, or an error if the request is out of order.
    pub(crate) fn admit(self, request: &Request) -> Result<Self, WireError> {
        let new_session = "connect again for another session";
        match (self, request.phase()) {
            (Self::New, Phase::Greeting) => greeted(request),
            (Self::New, _) => {
                Err(out_of_order("the first request must be hello", "send hello first"))
            }
            (_, Phase::Greeting) => {
                Err(out_of_order("hello was already sent", "send it only once"))
            }
            (Self::Greeted, Phase::Opening) => Ok(Self::Open),
            (Self::Open | Self::Closed, Phase::Opening) => {
                Err(out_of_order("this connection already has or had a session", new_session))
            }
            (Self::Open, Phase::Closing) => Ok(Self::Closed),
            (Self::Open, Phase::Calling | Phase::DuringCall) => Ok(self),
            (Self::Greeted | Self::Closed, Phase::Calling | Phase::DuringCall | Phase::Closing) => {
                Err(out_of_order("there is no session", "open one first"))
            }
            (Self::Greeted | Self::Open | Self::Closed, Phase::Any) => Ok(self),
        }
    }
}

/// Returns the stage after a greeting, or an error if its version is not this daemon's.
fn greeted(request: &Request) -> Result<Stage, WireError> {
    let Request::Hello(hello) = request else {
        return Err(out_of_order("the first request must be hello", "send hello first"));
    };
    if hello.version != VERSION {
        return Err(WireError::new(
            ErrorCode::UnsupportedVersion,
            format!("protocol version {} is not supported", hello.version),
            format!("this daemon supports version {VERSION}; install a client of the same release"),
        ));
    }
    Ok(Stage::Greeted)
}

fn out_of_order(message: &str, hint: &str) -> WireError {
    WireError::new(ErrorCode::OutOfOrder, message, hint)
}

#[cfg(test)]
mod tests {
    use super::*;
    use palisade_protocol::{
        Call, CallOptions, Cancel, Hello, Input, JsonText, Open, OpenOptions, ToolsQuery,
    };

    fn hello(version: u16) -> Request {
        Request::Hello(Hello { version, client: String::new(), capabilities: Vec::new() })
    }

    fn open() -> Request {
        let options = OpenOptions::default();
        Request::Open(Open { workspace: "/w".into(), profile: None, options })
    }

    fn in_session() -> [Request; 3] {
        let (tool, arguments) = ("bash".parse().unwrap(), JsonText::default());
        [
            Request::Call(Call { tool, arguments, reason: None, options: CallOptions::default() }),
            Request::Input(Input { call: 1, data: Default::default(), end: true }),
            Request::Cancel(Cancel { call: 1 }),
        ]
    }

    #[test]
    fn the_good_order() {
        let greeted = Stage::New.admit(&hello(VERSION)).unwrap();
        let opened = greeted.admit(&open()).unwrap();
        for request in in_session() {
            assert_eq!(opened.admit(&request), Ok(Stage::Open));
        }
        assert_eq!(opened.admit(&Request::Close), Ok(Stage::Closed));
        for stage in [greeted, opened, Stage::Closed] {
            for request in [Request::Ping, Request::Status, Request::Tools(ToolsQuery::default())] {
                assert_eq!(stage.admit(&request), Ok(stage));
            }
        }
    }

    #[test]
    fn every_other_order_is_refused() {
        let refused = |stage: Stage, request: &Request, code| {
            assert_eq!(stage.admit(request).unwrap_err().code, code, "{stage:?} {request:?}");
        };
        refused(Stage::New, &hello(VERSION + 1), ErrorCode::UnsupportedVersion);
        refused(Stage::New, &hello(0), ErrorCode::UnsupportedVersion);
        let late = [Request::Ping, Request::Close, Request::Status, open()];
        for request in in_session().iter().chain(&late) {
            refused(Stage::New, request, ErrorCode::OutOfOrder);
        }
        for stage in [Stage::Greeted, Stage::Closed] {
            for request in in_session().iter().chain([&Request::Close, &hello(VERSION)]) {
                refused(stage, request, ErrorCode::OutOfOrder);
            }
        }
        refused(Stage::Open, &hello(VERSION), ErrorCode::OutOfOrder);
        refused(Stage::Open, &open(), ErrorCode::OutOfOrder);
        refused(Stage::Closed, &open(), ErrorCode::OutOfOrder);
    }
}
