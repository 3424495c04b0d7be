//! The head of an undo record: its owner and its call. Runs in the broker. Pure: no I/O.

use palisade_protocol::{CallId, RawPath, SessionId, ToolName};
use serde::{Deserialize, Serialize};

/// The owner of an undo record: only this user can undo the call, and only in this workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) uid: u32,
    pub(crate) workspace: RawPath,
}

/// The head of an undo record: its owner and its call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Head {
    pub(crate) uid: u32,
    pub(crate) workspace: RawPath,
    pub(crate) session: SessionId,
    pub(crate) call_id: CallId,
    pub(crate) tool: ToolName,
    /// The position among all records; older ones have smaller numbers.
    pub(crate) order: u64,
    /// The time of the call, in seconds since 1970.
    pub(crate) time: u64,
    /// The calls that this call undid.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) undoes: Vec<CallId>,
}
