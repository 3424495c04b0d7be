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
    /// What is kept of calls, of each user of whom something is, by uid.
    pub kept: Vec<KeptOverview>,
}

/// What is kept on disk of one user's calls, whatever session they were made in.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeptOverview {
    /// Whose.
    pub uid: u32,
    /// Bytes of output that can be paged through.
    pub spool_bytes: u64,
    /// The most that there may be: `quotas.spool_bytes` of the configuration.
    pub spool_most: u64,
    /// Bytes of what calls replaced, so that they can be undone.
    pub undo_bytes: u64,
    /// The most that there may be: `quotas.undo_bytes` of the configuration.
    pub undo_most: u64,
}

/// Lets go of what is kept of calls.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Forget {
    /// Whose; none means everybody's.
    #[serde(default)]
    pub uid: Option<u32>,
    /// Output that could be paged through.
    #[serde(default)]
    pub spools: bool,
    /// What calls replaced: they can not be undone any more.
    #[serde(default)]
    pub undo: bool,
    /// Only what is at least this old.
    #[serde(default)]
    pub older_than_ms: u64,
}

/// To `Forget`: what went.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Forgotten {
    /// How many calls' output.
    pub spools: u64,
    /// How many calls can not be undone any more.
    pub calls: u64,
    /// How much that was.
    pub bytes: u64,
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
    /// The uid of its processes: the same as `uid`, or one that nothing else has.
    pub runs_as: u32,
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
