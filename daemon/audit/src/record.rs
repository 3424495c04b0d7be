//! The kinds of records. Text from outside is a [`CleanText`] or [`CleanJson`], which by their
//! types are bounded and without secrets. Pure: no I/O.

use crate::{
    clean::{CleanJson, CleanText},
    connection::Connection,
    decision::{Answer, Grant, RequestRecord},
    denial::LayerDenial,
    effects::Effects,
    files::Head,
    hash::{Digest, Hash},
    key::SignatureText,
};
use serde::{Deserialize, Serialize};
use std::fmt;

/// One event in the log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Record {
    /// A daemon began to write.
    Start(Start),
    /// A session was opened.
    SessionOpen(SessionOpen),
    /// A session ended.
    SessionClose(SessionClose),
    /// An approval request was sent.
    #[serde(alias = "question")]
    ApprovalRequest(RequestRecord),
    /// A decision was made.
    Answer(Answer),
    /// A call, before it takes effect.
    Call(Call),
    /// The change set of a call, before it is committed.
    Effects(Effects),
    /// The result of a call.
    Result(CallResult),
    /// A repair of the end of the log, made when a daemon started.
    Repair(Repair),
    /// The log continues in a new file.
    Rotate(Rotate),
    /// A job ended.
    JobEnd(JobEnd),
    /// A remembered approval was created or revoked.
    Grant(Grant),
    /// Interrupted commits are rolled back; written before that is done.
    TakenBack(Rollback),
    /// Stored data of calls is deleted; written before that is done.
    Forgotten(StoredDataDeletion),
    /// A file of the log was archived, or an archive is deleted; written before anything is deleted.
    Archive(ArchiveEvent),
    /// The signature of the record before this one, and so of all records up to it.
    Signature(SignatureText),
    /// A network connection ended, or was refused.
    Connection(Connection),
}

/// The kind of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "as in Record")]
pub enum Kind {
    Start,
    SessionOpen,
    SessionClose,
    #[serde(alias = "question")]
    ApprovalRequest,
    Answer,
    Call,
    Effects,
    Result,
    Repair,
    Rotate,
    JobEnd,
    Grant,
    TakenBack,
    Forgotten,
    Archive,
    Signature,
    Connection,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Start => "start",
            Self::SessionOpen => "session_open",
            Self::SessionClose => "session_close",
            Self::ApprovalRequest => "approval_request",
            Self::Answer => "answer",
            Self::Call => "call",
            Self::Effects => "effects",
            Self::Result => "result",
            Self::Repair => "repair",
            Self::Rotate => "rotate",
            Self::JobEnd => "job_end",
            Self::Grant => "grant",
            Self::TakenBack => "taken_back",
            Self::Forgotten => "forgotten",
            Self::Archive => "archive",
            Self::Signature => "signature",
            Self::Connection => "connection",
        })
    }
}

impl Record {
    /// Returns the kind of the record.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Start(_) => Kind::Start,
            Self::SessionOpen(_) => Kind::SessionOpen,
            Self::SessionClose(_) => Kind::SessionClose,
            Self::ApprovalRequest(_) => Kind::ApprovalRequest,
            Self::Answer(_) => Kind::Answer,
            Self::Call(_) => Kind::Call,
            Self::Effects(_) => Kind::Effects,
            Self::Result(_) => Kind::Result,
            Self::Repair(_) => Kind::Repair,
            Self::Rotate(_) => Kind::Rotate,
            Self::JobEnd(_) => Kind::JobEnd,
            Self::Grant(_) => Kind::Grant,
            Self::TakenBack(_) => Kind::TakenBack,
            Self::Forgotten(_) => Kind::Forgotten,
            Self::Archive(_) => Kind::Archive,
            Self::Signature(_) => Kind::Signature,
            Self::Connection(_) => Kind::Connection,
        }
    }

    /// Returns the session that the record belongs to.
    #[must_use]
    pub fn session(&self) -> Option<&str> {
        match self {
            Self::SessionOpen(record) => Some(&record.session),
            Self::SessionClose(record) => Some(&record.session),
            Self::ApprovalRequest(record) => Some(&record.session),
            Self::Answer(record) => Some(&record.session),
            Self::Call(record) => Some(&record.session),
            Self::Effects(record) => Some(&record.session),
            Self::Result(record) => Some(&record.session),
            Self::JobEnd(record) => Some(&record.session),
            Self::Grant(record) => record.session.as_deref(),
            Self::TakenBack(record) => Some(&record.session),
            Self::Connection(record) => Some(&record.session),
            Self::Start(_)
            | Self::Repair(_)
            | Self::Rotate(_)
            | Self::Forgotten(_)
            | Self::Archive(_)
            | Self::Signature(_) => None,
        }
    }

    /// Returns the call that the record belongs to; of a connection, the first one that ran.
    #[must_use]
    pub fn call_id(&self) -> Option<&str> {
        match self {
            Self::ApprovalRequest(record) => Some(&record.call_id),
            Self::Answer(record) => Some(&record.call_id),
            Self::Call(record) => Some(&record.call_id),
            Self::Effects(record) => Some(&record.call_id),
            Self::Result(record) => Some(&record.call_id),
            Self::JobEnd(record) => Some(&record.call_id),
            Self::Grant(record) => record.call_id.as_deref(),
            Self::Connection(record) => record.calls.first().map(String::as_str),
            Self::Start(_)
            | Self::SessionOpen(_)
            | Self::SessionClose(_)
            | Self::Repair(_)
            | Self::TakenBack(_)
            | Self::Forgotten(_)
            | Self::Archive(_)
            | Self::Signature(_)
            | Self::Rotate(_) => None,
        }
    }
}

/// A daemon began to write.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Start {
    /// The daemon's build.
    pub build: String,
    /// The daemon's process id.
    pub pid: u32,
    /// The daemon's user id.
    pub uid: u32,
    /// The longest delay before records are flushed to disk: a time, or `always` for none.
    pub sync: String,
}

/// A session was opened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionOpen {
    /// The id of the session.
    pub session: String,
    /// The user id of the client, from the kernel.
    pub uid: u32,
    /// The process id of the client, from the kernel; `None` if it was not visible.
    pub pid: Option<u32>,
    /// The name of the session's profile.
    pub profile: String,
    /// The profile's mode of asking for approval.
    pub ask: String,
    /// The workspace of the session.
    pub workspace: CleanText,
    /// The uid of the session's processes, if the session has its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runs_as: Option<u32>,
}

/// A session ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionClose {
    /// The id of the session.
    pub session: String,
    /// The number of calls that the session made.
    pub calls: u64,
}

/// The policy's decision about a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Judgement {
    /// The call may run.
    Allow,
    /// The call needs approval.
    Ask,
    /// The call is denied.
    Deny,
    /// The call was refused before policy was applied: the tool does not exist, or the arguments
    /// are invalid.
    Unjudged,
}

impl fmt::Display for Judgement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Deny => "deny",
            Self::Unjudged => "unjudged",
        })
    }
}

/// A finding of the command analysis.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// The kind of finding, for programs.
    pub kind: String,
    /// The explanation, in one sentence.
    pub why: CleanText,
}

/// A call, before it takes effect.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Call {
    /// The unique id of the call.
    pub call_id: String,
    /// The id of the call's session.
    pub session: String,
    /// The user id of the client, from the kernel.
    pub uid: u32,
    /// The process id of the client, from the kernel; `None` if it was not visible.
    pub pid: Option<u32>,
    /// The tool's canonical name, or the requested name if there is no such tool.
    pub tool: String,
    /// Digest of the arguments as they were sent.
    pub digest: Hash,
    /// The arguments, bounded and without secrets.
    pub arguments: CleanJson,
    /// The names of the arguments that were shortened, or from which secrets were removed. `None` in
    /// records of daemons that did not write it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub altered: Option<Vec<String>>,
    /// The working directory of the session.
    pub cwd: CleanText,
    /// The agent's reason, in its own words.
    pub reason: Option<CleanText>,
    /// True if the call was a dry run, which only reports what would be done.
    pub dry_run: bool,
    /// The policy's decision.
    pub judgement: Judgement,
    /// The findings of the command analysis.
    pub findings: Vec<Finding>,
    /// The agent's deliberation, if the tool requires it.
    pub thinking: Option<Thinking>,
    /// The claims of the client about itself and its conversation. Nothing proves them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub claims: Vec<Claim>,
}

/// A fact that only a client's word stands for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    /// The name of the fact.
    pub name: CleanText,
    /// The client's word for it.
    pub value: CleanText,
}

/// An agent's deliberation before a call, in its own words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Thinking {
    /// The assumptions that it makes.
    pub assumptions: Vec<CleanText>,
    /// The ways in which the call could fail.
    pub failure_scenarios: Vec<CleanText>,
    /// The verdict: whether to make the call.
    pub verdict: CleanText,
    /// The reason for the verdict.
    pub verdict_reason: CleanText,
}

/// The result of a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallResult {
    /// The id of the call.
    pub call_id: String,
    /// The id of the call's session.
    pub session: String,
    /// True if the call succeeded.
    pub success: bool,
    /// The error code.
    pub error: Option<String>,
    /// The error message.
    pub message: Option<CleanText>,
    /// The program's exit status.
    pub exit_code: Option<i32>,
    /// The signal that ended the program.
    pub signal: Option<i32>,
    /// The output that the agent was shown, bounded and without secrets. `None` for a call that
    /// only read, since the data is still where it was read.
    pub output: Option<CleanText>,
    /// The length of the output that the agent was shown.
    pub output_bytes: u64,
    /// Digest of that output.
    pub output_digest: Hash,
    /// Digest of the structured result, if there is one.
    pub data_digest: Option<Hash>,
    /// Digest of the attachment that was sent with the call, if one was accepted.
    pub attachment: Option<Digest>,
    /// The number of bytes of the program's output that the agent was not shown.
    pub omitted_bytes: u64,
    /// The time from the request to the result, in microseconds.
    pub duration_us: u64,
    /// Denials: what was refused, by which layer, and what would allow it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub denials: Vec<LayerDenial>,
    /// Accesses that a profile in observation mode would have denied, but did not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub observed: Vec<LayerDenial>,
}

/// A job ended, and every process of it is gone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobEnd {
    /// The call that started it.
    pub call_id: String,
    /// The id of the call's session.
    pub session: String,
    /// The job's number in the session.
    pub job: u64,
    /// The program's exit status.
    pub exit_code: Option<i32>,
    /// The signal that ended the program.
    pub signal: Option<i32>,
    /// The error code.
    pub error: Option<String>,
    /// The number of bytes that the job printed.
    pub output_bytes: u64,
    /// The time from the start of the job to its end, in microseconds.
    pub duration_us: u64,
    /// Denials: what was refused, by which layer, and what would allow it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub denials: Vec<LayerDenial>,
    /// Accesses that a profile in observation mode would have denied, but did not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub observed: Vec<LayerDenial>,
}

/// Commits of earlier calls were interrupted, and are rolled back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rollback {
    /// The session in whose cell they are rolled back.
    pub session: String,
    /// The calls in this workspace whose commit may be incomplete.
    pub calls: Vec<String>,
    /// The number of paths that are restored to their earlier state.
    pub paths: u64,
}

/// An operator deletes stored data of calls.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredDataDeletion {
    /// The operator.
    pub by: String,
    /// The user whose calls are affected; `None` for all users.
    pub uid: Option<u32>,
    /// True if stored output is deleted.
    pub spools: bool,
    /// True if undo records are deleted, so that the calls can not be undone any more.
    pub undo: bool,
    /// Only data at least this old is deleted, in milliseconds.
    pub older_than_ms: u64,
}

/// A repair of the end of the log, made when a daemon started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repair {
    /// The incomplete record that was cut off.
    pub torn: Option<TornEnd>,
    /// The fault of the head file, if it disagrees with the log.
    pub head: Option<HeadFault>,
    /// The last whole record.
    pub found: Head,
    /// Calls that had started and have no result, as far as the end of the file shows. It is
    /// unknown how far they got.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unfinished: Vec<String>,
}

/// The end of a file that was not a whole record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TornEnd {
    /// The file it was cut off from.
    pub file: String,
    /// The file in which it is kept.
    pub kept_in: String,
    /// The length of the cut-off part, in bytes.
    pub bytes: u64,
}

/// A disagreement between head file and log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HeadFault {
    /// The head file was missing or unreadable.
    Missing,
    /// The head file named a record that is not at the end of the log.
    Named(Head),
}

/// The log continues in a new file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rotate {
    /// The previous file.
    pub from: String,
    /// The length of the previous file, in bytes.
    pub bytes: u64,
}

/// An action of the daemon on an archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ArchiveAct {
    /// The archive was made; the file in the log is deleted next.
    Made,
    /// The archive is deleted next: its records, and all before them, will exist no more.
    Deleted,
}

/// A file of the log was archived, or an archive is deleted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArchiveEvent {
    /// The action.
    pub act: ArchiveAct,
    /// The name of the archive.
    pub file: String,
    /// The last record in it.
    pub last: Head,
    /// The SHA-256 of the archive.
    pub sha256: Hash,
}
