//! Queries for the audit records of a call, by the user whose call it was or by an operator.

use crate::CallId;
use bincode::{Decode, Encode};
use serde::{Deserialize, Serialize};

/// Selects the call whose audit records are wanted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RecordQuery {
    /// The start of the call's id; `None` means the newest call.
    pub prefix: Option<CallId>,
}

/// The reply to `Records`: the audit records of one call.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CallRecords {
    /// The call's id.
    pub call_id: CallId,
    /// The records as lines of JSON, as they are in the log: first the one of its session's
    /// beginning, then those of the call in order.
    pub lines: Vec<String>,
    /// True if there are more records than fit into a reply.
    pub is_cut: bool,
}
