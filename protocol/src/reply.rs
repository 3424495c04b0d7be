//! What the daemon answers and tells.

use crate::{
    Answered, Approval, Bytes, CallEnded, CallId, CallResult, CallStarted, Denied, Forgotten,
    Grants, Invoke, InvokeCancelled, KeptOverview, Open, Overview, Pending, Provided, Question,
    QuestionOver, RawPath, Receipt, Registered, RequestId, SessionId, ToolSpec, WireError,
};
use bincode::{Decode, Encode};
use serde::{Deserialize, Serialize};

/// Everything the daemon may send.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub enum ServerMessage {
    /// The one answer to a request. Without an id it is about the connection, which then closes.
    Reply {
        /// The request's.
        id: Option<RequestId>,
        /// The answer.
        reply: Reply,
    },
    /// News of a call under way.
    Event(Event),
}

/// Answers, one per request.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub enum Reply {
    /// To `Hello`.
    Welcome(Welcome),
    /// To `Open`.
    Opened(Box<Opened>),
    /// To `Call`, whatever happened.
    Result(Box<CallResult>),
    /// To `Cancel` and `Close`: it is done.
    Done,
    /// To `Ping`.
    Pong,
    /// To `Output`.
    Output(OutputPage),
    /// To `Tools`, sorted by name.
    Tools(Vec<ToolSpec>),
    /// To `Status`.
    Status(Box<Status>),
    /// To anything that could not be done. (A call that ran and failed is a `Result`.)
    Error(WireError),
    /// To `Register`.
    Registered(Registered),
    /// To `Answer`.
    Answered(Answered),
    /// To `Pending`.
    Pending(Pending),
    /// To `Grants`.
    Grants(Grants),
    /// To `Provide`.
    Provided(Provided),
    /// To `Resume`.
    Resumed(Box<Resumed>),
    /// To `Batch`.
    Batch(BatchResults),
    /// To `Jobs`.
    Jobs(Jobs),
    /// To `Overview`.
    Overview(Box<Overview>),
    /// To `Forget`.
    Forgotten(Forgotten),
}

/// The daemon's side of the greeting.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Welcome {
    /// The version spoken from here on.
    pub version: u16,
    /// The daemon's name and release.
    pub server: String,
    /// Optional behaviours that the daemon knows.
    pub capabilities: Vec<String>,
}

/// A session was made.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Opened {
    /// Its id.
    pub session: SessionId,
    /// Its workspace, with symbolic links resolved: where calls start.
    pub workspace: RawPath,
    /// What is enforced.
    pub receipt: Receipt,
    /// To resume it with; none if it ends with its connection. A secret.
    pub token: Option<String>,
    /// How long it outlives its connection.
    pub grace_ms: u64,
}

/// A session was taken over.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Resumed {
    /// Its id.
    pub session: SessionId,
    /// Its workspace.
    pub workspace: RawPath,
    /// What is enforced.
    pub receipt: Receipt,
    /// How long it outlives its connection.
    pub grace_ms: u64,
    /// What it was opened with: a session that replaces it asks for exactly this.
    pub terms: Open,
    /// Calls that are still under way; their replies come under these ids.
    pub running: Vec<RequestId>,
    /// Calls that have ended; their replies follow at once, under these ids.
    pub finished: Vec<RequestId>,
}

/// What became of a batch.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BatchResults {
    /// One for each call, in the order of the calls.
    pub results: Vec<CallResult>,
}

/// Jobs.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Jobs {
    /// By session, then by number.
    pub jobs: Vec<JobInfo>,
}

/// One job.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobInfo {
    /// Its session.
    pub session: SessionId,
    /// Its number there.
    pub job: u64,
    /// The call that started it; its output can be paged through by this.
    pub call_id: CallId,
    /// What it runs, in short.
    pub command: String,
    /// It still runs.
    pub running: bool,
    /// Its status, once it has ended.
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// How much it has printed.
    pub output_bytes: u64,
    /// How long it has run.
    pub time_ms: u64,
}

/// Which of a call's streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
    /// The bytes of a file (`read_file` with `encoding: "raw"`).
    Content,
}

/// News of a call under way, and of checkpoints.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize)]
#[serde(rename_all = "snake_case", tag = "event")]
pub enum Event {
    /// A piece of output, in order of arrival.
    Output {
        /// The `id` of the `Call`.
        call: RequestId,
        /// Which stream.
        stream: Stream,
        /// The bytes.
        data: Bytes,
    },
    /// How far a long call is.
    Progress {
        /// The `id` of the `Call`.
        call: RequestId,
        /// What is being done.
        message: String,
        /// Units done.
        done: u64,
        /// Units in all, if known.
        total: Option<u64>,
    },
    /// To a handler: answer this.
    Question(Box<Question>),
    /// To the handlers that were asked: no answer is needed any more.
    QuestionOver(QuestionOver),
    /// To subscribers: what a checkpoint decided.
    ToolApproval(Approval),
    /// To subscribers: a call begins.
    CallStarted(CallStarted),
    /// To subscribers: a call has ended.
    CallEnded(CallEnded),
    /// To subscribers: a call was refused.
    Denied(Denied),
    /// To a provider: do this.
    Invoke(Box<Invoke>),
    /// To a provider: nobody waits for the result any more.
    InvokeCancelled(InvokeCancelled),
    /// To subscribers: a piece of a call's output, in order of arrival.
    CallOutput {
        /// Whose.
        session: SessionId,
        /// The call.
        call_id: CallId,
        /// Which stream.
        stream: Stream,
        /// The bytes.
        data: Bytes,
    },
    /// To a subscriber that did not keep up: what is missing before the next event.
    Lost {
        /// How many events.
        events: u64,
        /// How much output was in them.
        bytes: u64,
    },
}

/// A page of a spool.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OutputPage {
    /// The call.
    pub call_id: CallId,
    /// Where this page starts.
    pub offset: u64,
    /// Its bytes; empty at the end.
    pub data: Bytes,
    /// How much the spool holds in all.
    pub spooled: u64,
    /// How much the call printed in all; more than `spooled` if the spool's own limit was met.
    pub total: u64,
}

/// What the daemon is and can enforce.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Status {
    /// Name and release.
    pub server: String,
    /// The build id that all rooms share.
    pub build_id: String,
    /// The kernel's release.
    pub kernel: String,
    /// `system`, or `user` for rooms on user namespaces.
    pub mode: String,
    /// The broker's process, its uid, and its capabilities (none is the only good answer).
    pub broker: String,
    /// The launcher, or why there is none.
    pub launcher: String,
    /// Each layer and whether this host has it.
    pub layers: Vec<LayerStatus>,
    /// The profiles this peer may use.
    pub profiles: Vec<String>,
    /// The sessions of this peer.
    pub sessions: Vec<SessionStatus>,
    /// What is kept of this peer's calls.
    pub kept: KeptOverview,
    /// Whether the kernel's records of what programs were refused can be had.
    pub records: RecordsStatus,
}

/// Whether the kernel's records of what programs were refused can be had.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordsStatus {
    /// Whether they come.
    pub available: bool,
    /// Of what, or why not.
    pub detail: String,
    /// What to do if they do not.
    pub advice: String,
}

/// One layer of confinement on this host.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LayerStatus {
    /// Its name, as profiles write it.
    pub layer: String,
    /// Whether it can be enforced here.
    pub available: bool,
    /// Version, kind, or why not.
    pub detail: String,
    /// What it means for the profiles, and what to do if it is missing.
    pub advice: String,
}

/// One session.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionStatus {
    /// Its id.
    pub session: SessionId,
    /// Its workspace.
    pub workspace: RawPath,
    /// Its profile.
    pub profile: String,
    /// Calls made so far.
    pub calls: u64,
    /// Calls under way.
    pub in_flight: u32,
}
