//! The daemon's current activity, for operators: sessions, running calls, and the daemon's health.

use crate::{CallId, RawPath, SessionId, ToolName};
use bincode::{Decode, Encode};
use serde::{Deserialize, Serialize};

/// An overview of the daemon's current activity.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Overview {
    /// The daemon's name and release.
    pub server: String,
    /// True if there is a launcher; without one nothing runs.
    pub launcher: bool,
    /// The broker's resident memory.
    pub memory_bytes: u64,
    /// The number of approval requests that wait for an answer.
    pub approval_requests: u64,
    /// The number of audit records that could not be written although their event had already
    /// happened.
    pub lost_records: u64,
    /// The sessions, oldest first.
    pub sessions: Vec<SessionOverview>,
    /// The running calls, oldest first.
    pub calls: Vec<CallOverview>,
    /// The data stored for calls, one entry per user with stored data, sorted by uid.
    pub kept: Vec<KeptOverview>,
}

/// The data stored on disk for one user's calls, over all sessions.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeptOverview {
    /// The user's id.
    pub uid: u32,
    /// The size of the stored output, in bytes.
    pub spool_bytes: u64,
    /// The quota for stored output: `quotas.spool_bytes` of the configuration.
    pub spool_most: u64,
    /// The size of the undo records, in bytes.
    pub undo_bytes: u64,
    /// The quota for undo records: `quotas.undo_bytes` of the configuration.
    pub undo_most: u64,
}

/// Deletes what is stored for calls.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Forget {
    /// The user whose data is deleted; `None` means all users.
    #[serde(default)]
    pub uid: Option<u32>,
    /// True to delete stored output.
    #[serde(default)]
    pub spools: bool,
    /// True to delete undo records. The calls can not be undone any more.
    #[serde(default)]
    pub undo: bool,
    /// Only delete data that is at least this old.
    #[serde(default)]
    pub older_than_ms: u64,
}

/// The reply to `Forget`: what was deleted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Forgotten {
    /// The number of calls whose stored output was deleted.
    pub spools: u64,
    /// The number of calls whose undo record was deleted.
    pub calls: u64,
    /// The number of bytes that were deleted.
    pub bytes: u64,
}

/// One session.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionOverview {
    /// The session's id.
    pub session: SessionId,
    /// The user id of the client that opened the session.
    pub uid: u32,
    /// The process that opened the session, if it is visible.
    pub pid: Option<u32>,
    /// The session's profile.
    pub profile: String,
    /// The session's workspace.
    pub workspace: RawPath,
    /// The time for which the session has been open.
    pub time_ms: u64,
    /// The number of calls made so far.
    pub calls: u64,
    /// The number of running calls.
    pub in_flight: u32,
    /// The number of running jobs.
    pub jobs: u32,
    /// The memory of all processes of the session, if a cgroup counts it.
    pub memory_bytes: Option<u64>,
    /// The uid of the session's processes: `uid`, or one that no other session or user has.
    pub runs_as: u32,
}

/// One running call.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CallOverview {
    /// The call's id.
    pub call_id: CallId,
    /// The call's session.
    pub session: SessionId,
    /// The tool, by the name that the agent used.
    pub tool: ToolName,
    /// The call's current stage.
    pub stage: CallStage,
    /// The time since the call was requested.
    pub time_ms: u64,
    /// The call's command, path or pattern, shortened; empty if its arguments have none or are long.
    pub summary: String,
}

/// The stages of a call between its request and its reply.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum CallStage {
    /// The arguments are parsed and the call is judged.
    Judge,
    /// The call waits for an approver.
    Checkpoint,
    /// The call waits for the calls before it.
    Queue,
    /// The call runs.
    Execute,
    /// The call's effects are reviewed.
    Effects,
    /// The result is being sent.
    Reply,
}

impl CallStage {
    /// All stages, in order.
    pub const ALL: [Self; 6] =
        [Self::Judge, Self::Checkpoint, Self::Queue, Self::Execute, Self::Effects, Self::Reply];

    /// Returns the stage's name in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Judge => "judge",
            Self::Checkpoint => "checkpoint",
            Self::Queue => "queue",
            Self::Execute => "execute",
            Self::Effects => "effects",
            Self::Reply => "reply",
        }
    }
}

/// Ends a call.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kill {
    /// The id of the call to end.
    pub call_id: CallId,
}
