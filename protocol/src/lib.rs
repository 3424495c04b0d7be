//! Palisade's wire protocol: one set of types, two codecs. Pure: no I/O (no sockets, files or
//! clock).
//!
//! A client sends [`Request`]s in [`Envelope`]s and receives [`ServerMessage`]s. [`codec`] carries
//! them as length-delimited bincode frames, [`json`] as JSON-RPC 2.0 lines; [`wire::sniff`] tells
//! the two apart by the first byte. `PROTOCOL.md` beside this crate is the full description.

pub mod arguments;
pub mod codec;
pub mod json;
pub mod limits;
pub mod wire;

mod approval;
mod bytes;
mod check;
mod checkpoint;
mod error;
mod names;
mod object;
mod operator;
mod overview;
mod provider;
mod receipt;
mod records;
mod reply;
mod request;
mod result;
mod strict;
mod table;
mod tool;
mod undo;

pub use approval::{
    Approval, ApprovalClosed, ApprovalGiven, ApprovalRequest, Asker, CallEnded, CallStarted,
    Denied, FileChange, ReverseThinking, Target, View, ViewLine,
};
pub use bytes::{Bytes, JsonText, RawPath};
pub use checkpoint::{ApprovalOutcome, Checkpoint, DecidedBy, DecidedByError};
pub use error::{ErrorClass, ErrorCode, WireError};
pub use names::{ApprovalId, CallId, GrantId, HandlerId, NameError, SessionId, ToolName};
pub use operator::{
    Abort, Answer, Answered, CommandPrefix, Decision, Deny, Grant, Grants, LossScope, Modified,
    Part, PathScope, Pending, Register, Registered, Remember, Replace, Review, Revoke, Scope,
    ScopeHistory, ScopeQuery, ScopeUse, Subscribe, Until, Withhold,
};
pub use overview::{
    CallOverview, CallStage, Forget, Forgotten, KeptOverview, Kill, Overview, SessionOverview,
};
pub use provider::{
    Invocation, Invoke, InvokeCancelled, InvokeOutput, InvokeProgress, InvokeResult, Provide,
    Provided, ProvidedTool, Unprovide,
};
pub use receipt::{
    Degraded, LandlockReceipt, LimitReceipt, NetworkReceipt, Observed, Receipt, SeccompReceipt,
};
pub use records::{CallRecords, RecordQuery};
pub use reply::{
    BatchResults, ConnectionInfo, Connections, Event, JobInfo, Jobs, LayerStatus, Opened,
    OutputPage, RecordsStatus, Reply, Resumed, ServerMessage, SessionLimits, SessionStatus, Status,
    Stream, ToolList, WAITING_FOR_APPROVAL, Welcome,
};
pub use request::{
    Ask, Batch, Call, CallOptions, Cancel, Claim, Envelope, Guard, Hello, Input, Open, OpenOptions,
    OutputQuery, Phase, Request, RequestId, Resume, Right, Senders, ToolsQuery,
};
pub use result::{CallResult, Denial, Finding, Route, Severity, Span};
pub use tool::{AuditOperation, PermissionClass, ToolMetadata, ToolSpec};
pub use undo::{UndoQuery, UndoRecord, UndoRecords};
