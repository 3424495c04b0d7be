//! Queries for undo records: which calls can be undone.

use crate::{CallId, RawPath, SessionId, ToolName};
use bincode::{Decode, Encode};
use serde::{Deserialize, Serialize};

/// Selects undo records of this peer's calls. Each field that is given narrows the selection.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct UndoQuery {
    /// Only calls in this workspace, an absolute path without symbolic links.
    pub workspace: Option<RawPath>,
    /// Only calls of this session.
    pub session: Option<SessionId>,
    /// Only calls whose id starts with this prefix.
    pub prefix: Option<CallId>,
}

/// A list of undo records.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UndoRecords {
    /// The records, newest first; at most [`crate::limits::MAX_UNDO_RECORDS`].
    pub records: Vec<UndoRecord>,
    /// The number of further records, all older than these.
    pub more: u64,
}

/// The undo record of one call, which makes undoing it possible.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UndoRecord {
    /// The call's id.
    pub call_id: CallId,
    /// The call's session.
    pub session: SessionId,
    /// The call's tool.
    pub tool: ToolName,
    /// The workspace in which the call can be undone.
    pub workspace: RawPath,
    /// The time since the call.
    pub age_ms: u64,
    /// The size of the record on disk.
    pub bytes: u64,
    /// True if the record contains a loss. Such a record is retained for `undo.keep` of the
    /// daemon's configuration.
    pub loss: bool,
    /// True if the call is undone now, and false again if the undo itself was undone.
    pub undone: bool,
}
