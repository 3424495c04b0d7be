//! The daemon's replies and events.

use crate::{
    Answered, Approval, ApprovalClosed, ApprovalGiven, ApprovalRequest, Bytes, CallEnded, CallId,
    CallRecords, CallResult, CallStarted, Denied, Forgotten, Grants, Invoke, InvokeCancelled,
    KeptOverview, Open, Overview, Pending, Provided, RawPath, Receipt, Registered, RequestId,
    ScopeHistory, SessionId, ToolSpec, UndoRecords, WireError, table::replies,
};
use bincode::{Decode, Encode};
use serde::{Deserialize, Serialize};

/// Every message the daemon may send.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub enum ServerMessage {
    /// The one reply to a request. A reply without an id is about the connection, which then
    /// closes.
    Reply {
        /// The id of the request.
        id: Option<RequestId>,
        /// The reply.
        reply: Reply,
    },
    /// An event, for example about a running call.
    Event(Event),
}

replies! {
    /// The replies, one per request.
    pub enum Reply {
        /// The reply to `Hello`.
        Welcome(Welcome) = "welcome";
        /// The reply to `Open`.
        Opened(Box<Opened>) = "opened";
        /// The reply to `Call`, whatever happened.
        Result(Box<CallResult>) = "result";
        /// The reply to `Cancel`, `Close` and other requests that return no data: it is done.
        Done = "done";
        /// The reply to `Ping`.
        Pong = "pong";
        /// The reply to `Output`.
        Output(OutputPage) = "output";
        /// The reply to `Tools`, sorted by name.
        Tools(ToolList) = "tools";
        /// The reply to `Status`.
        Status(Box<Status>) = "status";
        /// The reply to any request that could not be done. (A call that ran and failed is a `Result`.)
        Error(WireError) = "error";
        /// The reply to `Register`.
        Registered(Registered) = "registered";
        /// The reply to `Answer`.
        Answered(Answered) = "answered";
        /// The reply to `Pending`.
        Pending(Pending) = "pending";
        /// The reply to `Grants`.
        Grants(Grants) = "grants";
        /// The reply to `Provide`.
        Provided(Provided) = "provided";
        /// The reply to `Resume`.
        Resumed(Box<Resumed>) = "resumed";
        /// The reply to `Batch`.
        Batch(BatchResults) = "batch";
        /// The reply to `Jobs`.
        Jobs(Jobs) = "jobs";
        /// The reply to `Overview`.
        Overview(Box<Overview>) = "overview";
        /// The reply to `Forget`.
        Forgotten(Forgotten) = "forgotten";
        /// The reply to `UndoRecords`.
        UndoRecords(UndoRecords) = "undo_records";
        /// The reply to `Connections`.
        Connections(Connections) = "connections";
        /// The reply to `ScopeHistory`.
        ScopeHistory(ScopeHistory) = "scope_history";
        /// The reply to `Records`.
        Records(CallRecords) = "records";
    }
}

/// The reply to `Tools`: the tools, sorted by name.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolList {
    /// The tools.
    pub tools: Vec<ToolSpec>,
}

/// The daemon's side of the greeting.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Welcome {
    /// The protocol version used from here on.
    pub version: u16,
    /// The daemon's name and release.
    pub server: String,
    /// Optional features that the daemon supports.
    pub capabilities: Vec<String>,
}

/// The reply to `Open`: the session was created.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Opened {
    /// The session's id.
    pub session: SessionId,
    /// The session's workspace, with symbolic links resolved. Calls start there.
    pub workspace: RawPath,
    /// The confinement in force.
    pub receipt: Receipt,
    /// The digest of the receipt, by which results refer to it.
    #[serde(default)]
    pub receipt_digest: String,
    /// The secret token to resume the session with; `None` if the session ends with its connection.
    pub token: Option<String>,
    /// The time for which the session outlives its connection.
    pub grace_ms: u64,
    /// The limits of the session's calls.
    pub limits: SessionLimits,
}

/// The limits of a session's calls, which its profile sets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionLimits {
    /// The timeout of a call that names none, in milliseconds.
    pub timeout_ms: u64,
    /// The longest timeout, in milliseconds. A longer one is cut to it.
    pub max_timeout_ms: u64,
    /// The bytes of output that a result carries.
    pub output_bytes: u64,
    /// The largest file that a file tool reads or writes, in bytes.
    pub file_bytes: u64,
    /// The bytes of a call's output that are stored.
    pub spool_bytes: u64,
    /// The number of jobs at once.
    pub jobs: u64,
    /// The number of read-only calls at once, and of `bash` calls that leave the session's directory
    /// as it is.
    pub parallel: u64,
}

/// The reply to `Resume`: the session now belongs to this connection.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Resumed {
    /// The session's id.
    pub session: SessionId,
    /// The session's workspace.
    pub workspace: RawPath,
    /// The confinement in force.
    pub receipt: Receipt,
    /// The digest of the receipt, by which results refer to it.
    #[serde(default)]
    pub receipt_digest: String,
    /// The time for which the session outlives its connection.
    pub grace_ms: u64,
    /// The request that opened the session. A session that replaces it asks for exactly this.
    pub terms: Open,
    /// Calls that are still running; their replies use these ids.
    pub running: Vec<RequestId>,
    /// Calls that have ended; their replies follow at once, under these ids.
    pub finished: Vec<RequestId>,
    /// The limits of the session's calls.
    pub limits: SessionLimits,
}

/// The results of a batch.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BatchResults {
    /// One result for each call, in the order of the calls.
    pub results: Vec<CallResult>,
}

/// A list of background jobs.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Jobs {
    /// The jobs, sorted by session, then by number.
    pub jobs: Vec<JobInfo>,
}

/// One background job.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobInfo {
    /// The job's session.
    pub session: SessionId,
    /// The job's number in its session.
    pub job: u64,
    /// The call that started the job; the job's output is stored under this id.
    pub call_id: CallId,
    /// The job's command, shortened.
    pub command: String,
    /// True if the job is still running.
    pub running: bool,
    /// The job's exit status, once it has ended.
    pub exit_code: Option<i32>,
    /// The signal that ended the job.
    pub signal: Option<i32>,
    /// The number of bytes the job has printed.
    pub output_bytes: u64,
    /// The job's run time.
    pub time_ms: u64,
}

/// A list of open network connections.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Connections {
    /// The connections, sorted by session, then oldest first.
    pub connections: Vec<ConnectionInfo>,
}

/// One open network connection of a session.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConnectionInfo {
    /// The connection's session.
    pub session: SessionId,
    /// The calls that ran in the session when the connection was asked for.
    pub call_ids: Vec<CallId>,
    /// The host as the program named it: a name or an address.
    pub host: String,
    /// The TCP port.
    pub port: u16,
    /// The way in which the program asked: `connect`, `http`, `socks` or `direct`; `published` for a
    /// connection of a program of the host into the session; `publish` for a port that is published,
    /// which is listed although nothing may be connected.
    pub asked: String,
    /// The entry of the profile, or the approval, that allows the connection.
    pub rule: String,
    /// The address that was dialled; `None` until the connection is made.
    pub address: Option<String>,
    /// The time since the connection was allowed.
    pub time_ms: u64,
}

/// The streams of a call.
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

/// The message of [`Event::Progress`] while a call waits for an approver's answer. Its total is the
/// time in milliseconds after which the call is denied as things are. The units done are the approvals
/// that were given already, where the profile requires several.
pub const WAITING_FOR_APPROVAL: &str = "waiting for approval";

/// Events about running calls, and about approval requests.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize)]
#[serde(rename_all = "snake_case", tag = "event")]
pub enum Event {
    /// A piece of output, in order of arrival.
    Output {
        /// The `id` of the `Call`.
        call: RequestId,
        /// The stream it belongs to.
        stream: Stream,
        /// The bytes.
        data: Bytes,
    },
    /// The progress of a long call. The message is [`WAITING_FOR_APPROVAL`] while it is that.
    Progress {
        /// The `id` of the `Call`.
        call: RequestId,
        /// The current activity.
        message: String,
        /// Units done.
        done: u64,
        /// Units in total, if known.
        total: Option<u64>,
    },
    /// To an approver: an approval request to answer.
    ApprovalRequest(Box<ApprovalRequest>),
    /// To the approvers that were asked: no answer is needed any more.
    ApprovalClosed(ApprovalClosed),
    /// To subscribers: the decision on an approval request.
    ToolApproval(Approval),
    /// To subscribers: a call begins.
    CallStarted(CallStarted),
    /// To subscribers: a call has ended.
    CallEnded(CallEnded),
    /// To subscribers: a call was denied.
    Denied(Denied),
    /// To a provider: run one of its tools.
    Invoke(Box<Invoke>),
    /// To a provider: nobody waits for the result any more.
    InvokeCancelled(InvokeCancelled),
    /// To subscribers: a piece of a call's output, in order of arrival.
    CallOutput {
        /// The session of the call.
        session: SessionId,
        /// The call's id.
        call_id: CallId,
        /// The stream it belongs to.
        stream: Stream,
        /// The bytes.
        data: Bytes,
    },
    /// To a subscriber that did not keep up: the number of events missing before the next one.
    Lost {
        /// The number of missing events.
        events: u64,
        /// The number of output bytes in the missing events.
        bytes: u64,
    },
    /// To the approvers that were asked: one has approved, and others still must.
    ApprovalGiven(ApprovalGiven),
}

/// A page of a call's stored output.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OutputPage {
    /// The call's id.
    pub call_id: CallId,
    /// The offset of this page in the stored output.
    pub offset: u64,
    /// The bytes of the page; empty at the end of the output.
    pub data: Bytes,
    /// The size of the stored output.
    pub spooled: u64,
    /// The total number of bytes the call printed. It is more than `spooled` if the output store's
    /// own limit was reached.
    pub total: u64,
}

/// The daemon's identity, and what it can enforce.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Status {
    /// The daemon's name and release.
    pub server: String,
    /// The build id that the broker, launcher and cell share.
    pub build_id: String,
    /// The kernel's release.
    pub kernel: String,
    /// `system`, or `user` if the daemon runs without privilege on user namespaces.
    pub mode: String,
    /// The broker's process, its uid, and its capabilities (it should have none).
    pub broker: String,
    /// The launcher, or the reason there is none.
    pub launcher: String,
    /// The egress rooms, which carry the connections of sessions with `net.mode = "domains"`.
    pub egress: String,
    /// Each layer of confinement, and whether this host has it.
    pub layers: Vec<LayerStatus>,
    /// The profiles that this peer may use.
    pub profiles: Vec<String>,
    /// The sessions of this peer.
    pub sessions: Vec<SessionStatus>,
    /// The data stored for this peer's calls: output and undo records.
    pub kept: KeptOverview,
    /// The availability of the kernel's records of what it refused to programs.
    pub records: RecordsStatus,
}

/// The availability of the kernel's records of what it refused to programs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordsStatus {
    /// True if the records are available.
    pub available: bool,
    /// The denials that the records cover, or the reason the records are unavailable.
    pub detail: String,
    /// The advice on what to do if the records are unavailable.
    pub advice: String,
}

/// One layer of confinement on this host.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LayerStatus {
    /// The layer's name, as profiles write it.
    pub layer: String,
    /// True if the layer can be enforced on this host.
    pub available: bool,
    /// The layer's version or kind, or why it is unavailable.
    pub detail: String,
    /// The consequences for the profiles, and the advice on what to do if the layer is missing.
    pub advice: String,
}

/// One session.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionStatus {
    /// The session's id.
    pub session: SessionId,
    /// The session's workspace.
    pub workspace: RawPath,
    /// The session's profile.
    pub profile: String,
    /// The number of calls made so far.
    pub calls: u64,
    /// The number of calls that are running now.
    pub in_flight: u32,
}
