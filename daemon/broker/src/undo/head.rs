//! Whose a record is, and of which call. Broker, pure.

use palisade_protocol::{CallId, RawPath, SessionId, ToolName};
use serde::{Deserialize, Serialize};

/// Who may undo a call: its user, in its workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) uid: u32,
    pub(crate) workspace: RawPath,
}

/// Whose a record is, and of which call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Head {
    pub(crate) uid: u32,
    pub(crate) workspace: RawPath,
    pub(crate) session: SessionId,
    pub(crate) call_id: CallId,
    pub(crate) tool: ToolName,
    /// Which came first.
    pub(crate) order: u64,
    /// When, in seconds since 1970.
    pub(crate) time: u64,
}
