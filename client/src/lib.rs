//! The library that an agent links to connect to Palisade, open a session, call tools, stream their
//! output and cancel them. Runs in the agent's own process, on its tokio runtime.
//!
//! ```
//! use palisade_client::{Client, Open};
//! use std::time::Duration;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let directory = tempfile::tempdir()?;
//! # let workspace = directory.path();
//! let client = Client::embedded().await?;
//! let session = client.open(Open::new(workspace)).await?;
//!
//! session.write_file("greeting.txt", "hello\n").await?;
//! let result = session.bash("cat greeting.txt").timeout(Duration::from_secs(60)).await?;
//! assert_eq!(result.stdout, "hello\n");
//! assert_eq!(result.exit_code, Some(0));
//!
//! session.close().await?;
//! client.shutdown().await?;
//! # Ok(())
//! # }
//! ```
//!
//! **What is an error.** A command that ran and failed is a [`CallResult`] with `success: false`,
//! and so is a call that was denied. Its `error` has a code, a message and a hint that a model can
//! act on. [`Error`] is for requests that never got a result. The file methods of [`Session`],
//! which return contents instead of a result, turn a failed result into [`Error::Failed`].
//!
//! **A session lives as long as its connection.** When the daemon ends, every running call ends
//! with [`Error::Disconnected`]. [`Session::reconnect`] makes a new connection and a new session
//! with the same options. The state of the old session (current directory, private `/tmp`) is gone.
//!
//! **Operators** answer approval requests, on a socket of their own: see [`Operator::handle`].
//!
//! **Providers** add tools of their own. The daemon judges calls of them, and asks for approval, as
//! for its own tools: see [`Provider`].
//!
//! **Several calls at once.** Clone the [`Client`], share the [`Session`], and start up to
//! [`limits::MAX_CALLS_IN_FLIGHT`] calls; answers are matched by id. The events of a streaming call
//! should be read: see [`Running`] for what happens otherwise.

mod answer;
mod batch;
mod call;
mod client;
mod embedded;
mod error;
pub mod fenced;
mod files;
mod handle;
mod jobs;
mod link;
mod model_result;
pub mod model_text;
mod model_tool;
mod news;
mod open;
mod operator;
mod own_requests;
mod plain_schema;
mod provided;
mod provider;
mod resume;
mod running;
mod search;
mod session;
mod strict_schema;
mod table;
mod transaction;
mod wire;

#[cfg(test)]
mod fake;
#[cfg(test)]
mod operator_tests;
#[cfg(test)]
mod tests;

pub use answer::{Answer, Registration};
pub use batch::Batch;
pub use call::Call;
pub use client::Client;
pub use embedded::{Embedded, companion};
pub use error::Error;
pub use files::{EntryKind, FileEntry, Listing};
pub use jobs::JobStatus;
pub use model_result::ModelResult;
pub use model_tool::{ModelTool, ToolHints};
pub use news::OperatorEvent;
pub use open::Open;
pub use operator::Operator;
pub use palisade_programs::NotFound as ProgramNotFound;
pub use palisade_protocol::{
    Answered, Approval, ApprovalClosed, ApprovalGiven, ApprovalId, ApprovalOutcome,
    ApprovalRequest, Ask, Asker, AuditOperation, Bytes, CallEnded, CallId, CallOverview,
    CallRecords, CallResult, CallStage, CallStarted, Checkpoint, Claim, CommandPrefix,
    ConnectionInfo, Connections, DecidedBy, Decision, Degraded, Denial, Denied, Deny, ErrorClass,
    ErrorCode, FileChange, Finding, Forget, Forgotten, Grant, GrantId, Guard, HandlerId, JobInfo,
    Jobs, JsonText, KeptOverview, LandlockReceipt, LayerStatus, LimitReceipt, LossScope, Modified,
    NameError, NetworkReceipt, Observed, Opened, OutputPage, Overview, Part, PathScope,
    PermissionClass, RawPath, Receipt, RecordsStatus, Remember, Replace, RequestId,
    ReverseThinking, Review, Route, Scope, ScopeHistory, ScopeUse, SeccompReceipt, SessionId,
    SessionLimits, SessionOverview, SessionStatus, Severity, Span, Status, Stream, Target,
    ToolMetadata, ToolName, ToolSpec, UndoQuery, UndoRecord, UndoRecords, Until, View, ViewLine,
    WAITING_FOR_APPROVAL, Welcome, WireError, Withhold, arguments, limits,
};
pub use plain_schema::plain_schema;
pub use provided::{Invoked, Output, ProvidedTool};
pub use provider::Provider;
pub use resume::{Resumed, Token};
pub use running::{Event, Running};
pub use search::{Files, FoundFile, FoundLine, Matches, Skipped};
pub use session::Session;
pub use transaction::{Change, ChangeSet, Effect, LeftOut};
