//! What goes on in the daemon now, for operators: sessions, the calls under way, and how it is.

use crate::{CallId, RawPath, SessionId, ToolName};
use bincode::{Decode, Encode};
use serde::{Deserialize, Serialize};

/// Everything that goes on.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Overview {
    /// The daemon's name and release.
    pub server: String,
    /// There is a launcher; without one nothing runs.
    pub launcher: bool,
    /// Resident memory of the broker.
    pub memory_bytes: u64,
    /// Questions that wait for an answer.
    pub questions: u64,
    /// Audit records of what had happened already that could not be written.
    pub lost_records: u64,
    /// The sessions, oldest first.
    pub sessions: Vec<SessionOverview>,
    /// The calls under way, oldest first.
    pub calls: Vec<CallOverview>,
}

/// One session.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionOverview {
    /// Its id.
    pub session: SessionId,
    /// Whose it is.
    pub uid: u32,
    /// The process that opened it, where it can be seen.
    pub pid: Option<u32>,
    /// Its profile.
    pub profile: String,
    /// Its workspace.
    pub workspace: RawPath,
    /// How long it is open.
    pub time_ms: u64,
    /// Calls made so far.
    pub calls: u64,
    /// Calls under way.
    pub in_flight: u32,
    /// Jobs that run.
    pub jobs: u32,
    /// What all of its processes have in memory, where a cgroup counts it.
    pub memory_bytes: Option<u64>,
}

/// One call under way.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CallOverview {
    /// Its id.
    pub call_id: CallId,
    /// Its session.
    pub session: SessionId,
    /// Which tool, by the name that the agent used.
    pub tool: ToolName,
    /// Where it is.
    pub stage: CallStage,
    /// How long ago it was asked for.
    pub time_ms: u64,
}

/// Where a call is between its request and its reply.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum CallStage {
    /// Its arguments are read, and it is judged.
    Judge,
    /// Somebody is asked.
    Checkpoint,
    /// It waits for the calls before it.
    Queue,
    /// It runs.
    Execute,
    /// What it did is reviewed.
    Effects,
    /// Its result is on its way.
    Reply,
}

impl CallStage {
    /// All of them, in order.
    pub const ALL: [Self; 6] =
        [Self::Judge, Self::Checkpoint, Self::Queue, Self::Execute, Self::Effects, Self::Reply];

    /// Its name, as JSON has it.
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
    /// Which.
    pub call_id: CallId,
}
