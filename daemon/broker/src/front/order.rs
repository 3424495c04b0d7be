//! The requests that a connection may make, by its role and in which order. Runs in the broker.
//! Pure: no I/O.

use crate::base::roles::Role;
use palisade_protocol::{ErrorCode, Request, WireError, limits::VERSION};

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

/// The roles that may make a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AllowedRole {
    Agent,
    Operator,
    Provider,
    /// Agents and operators.
    Observer,
    /// Operators, and agents whose profile lets them answer.
    Approver,
    Anybody,
}

impl AllowedRole {
    const fn of(request: &Request) -> Self {
        match request {
            Request::Open(_)
            | Request::Resume(_)
            | Request::Call(_)
            | Request::Batch(_)
            | Request::Input(_)
            | Request::Cancel(_)
            | Request::Close
            | Request::Output(_)
            | Request::UndoRecords(_) => Self::Agent,
            Request::Register(_) | Request::Answer(_) | Request::Withdraw => Self::Approver,
            Request::Pending
            | Request::Grants
            | Request::Revoke(_)
            | Request::Abort(_)
            | Request::Overview
            | Request::Kill(_)
            | Request::Forget(_) => Self::Operator,
            Request::Provide(_)
            | Request::Unprovide(_)
            | Request::InvokeProgress(_)
            | Request::InvokeOutput(_)
            | Request::InvokeResult(_) => Self::Provider,
            Request::Subscribe(_) | Request::Jobs | Request::Connections => Self::Observer,
            Request::Hello(_) | Request::Ping | Request::Tools(_) | Request::Status => {
                Self::Anybody
            }
        }
    }
}

impl Role {
    /// Refuses a request that this role may not make.
    pub(crate) fn permits(self, request: &Request) -> Result<(), WireError> {
        let whose = AllowedRole::of(request);
        let (who, socket) = match (self, whose) {
            (_, AllowedRole::Anybody)
            | (Self::Agent | Self::Operator, AllowedRole::Observer | AllowedRole::Approver)
            | (Self::Agent, AllowedRole::Agent)
            | (Self::Operator, AllowedRole::Operator)
            | (Self::Provider, AllowedRole::Provider) => return Ok(()),
            (_, AllowedRole::Agent | AllowedRole::Observer) => ("an agent", "agent"),
            (_, AllowedRole::Operator | AllowedRole::Approver) => ("an operator", "operator"),
            (_, AllowedRole::Provider) => ("a provider", "provider"),
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
        match (self, request) {
            (Self::New, Request::Hello(hello)) if hello.version != VERSION => Err(WireError::new(
                ErrorCode::UnsupportedVersion,
                format!("protocol version {} is not supported", hello.version),
                format!(
                    "this daemon supports version {VERSION}; install a client of the same release"
                ),
            )),
            (Self::New, Request::Hello(_)) => Ok(Self::Greeted),
            (Self::New, _) => {
                Err(out_of_order("the first request must be hello", "send hello first"))
            }
            (Self::Greeted | Self::Open | Self::Closed, Request::Hello(_)) => {
                Err(out_of_order("hello was already sent", "send it only once"))
            }
            (Self::Greeted, Request::Open(_) | Request::Resume(_)) => Ok(Self::Open),
            (Self::Open | Self::Closed, Request::Open(_) | Request::Resume(_)) => {
                Err(out_of_order(
                    "this connection already has or had a session",
                    "connect again for another session",
                ))
            }
            (Self::Open, Request::Close) => Ok(Self::Closed),
            (
                Self::Open,
                Request::Call(_) | Request::Batch(_) | Request::Input(_) | Request::Cancel(_),
            ) => Ok(self),
            (
                Self::Greeted | Self::Closed,
                Request::Call(_)
                | Request::Batch(_)
                | Request::Input(_)
                | Request::Cancel(_)
                | Request::Close,
            ) => Err(out_of_order("there is no session", "open one first")),
            (
                Self::Greeted | Self::Open | Self::Closed,
                Request::Ping
                | Request::Output(_)
                | Request::UndoRecords(_)
                | Request::Tools(_)
                | Request::Status
                | Request::Jobs
                | Request::Connections
                | Request::Register(_)
                | Request::Answer(_)
                | Request::Withdraw
                | Request::Pending
                | Request::Grants
                | Request::Revoke(_)
                | Request::Subscribe(_)
                | Request::Abort(_)
                | Request::Overview
                | Request::Kill(_)
                | Request::Forget(_)
                | Request::Provide(_)
                | Request::Unprovide(_)
                | Request::InvokeProgress(_)
                | Request::InvokeOutput(_)
                | Request::InvokeResult(_),
            ) => Ok(self),
        }
    }
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
