//! What is recorded, kind by kind. Text of others is a [`CleanText`] or [`CleanJson`]: bounded and
//! without secrets by its type. Pure.

use crate::{
    clean::{CleanJson, CleanText},
    decision::{Answer, Grant, Question},
    effects::Effects,
    files::Head,
    hash::{Digest, Hash},
};
use serde::{Deserialize, Serialize};
use std::fmt;

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Record {
    /// A daemon began to write.
    Start(Start),
    /// A session was opened.
    SessionOpen(SessionOpen),
    /// A session ended.
    SessionClose(SessionClose),
    /// A checkpoint was asked.
    Question(Question),
    /// Somebody or something decided.
    Answer(Answer),
    /// A call, before it takes effect.
    Call(Call),
    /// What it changes, before that is committed.
    Effects(Effects),
    /// What became of it.
    Result(CallResult),
    /// What a start found amiss at the end of the log.
    Repair(Repair),
    /// The log goes on in a new file.
    Rotate(Rotate),
    /// A job ended.
    JobEnd(JobEnd),
    /// An approval is remembered from now on, or not any more.
    Grant(Grant),
    /// What a commit that was cut off had done is taken back, before it is.
    TakenBack(TakenBack),
    /// What is kept of calls is let go of, before it is.
    Forgotten(Forgotten),
}

/// The kind of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "as in Record")]
pub enum Kind {
    Start,
    SessionOpen,
    SessionClose,
    Question,
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
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Start => "start",
            Self::SessionOpen => "session_open",
            Self::SessionClose => "session_close",
            Self::Question => "question",
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
        })
    }
}

impl Record {
    /// Its kind.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Start(_) => Kind::Start,
            Self::SessionOpen(_) => Kind::SessionOpen,
            Self::SessionClose(_) => Kind::SessionClose,
            Self::Question(_) => Kind::Question,
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
        }
    }

    /// The session it belongs to.
    #[must_use]
    pub fn session(&self) -> Option<&str> {
        match self {
            Self::SessionOpen(record) => Some(&record.session),
            Self::SessionClose(record) => Some(&record.session),
            Self::Question(record) => Some(&record.session),
            Self::Answer(record) => Some(&record.session),
            Self::Call(record) => Some(&record.session),
            Self::Effects(record) => Some(&record.session),
            Self::Result(record) => Some(&record.session),
            Self::JobEnd(record) => Some(&record.session),
            Self::Grant(record) => record.session.as_deref(),
            Self::TakenBack(record) => Some(&record.session),
            Self::Start(_) | Self::Repair(_) | Self::Rotate(_) | Self::Forgotten(_) => None,
        }
    }

    /// The call it belongs to.
    #[must_use]
    pub fn call_id(&self) -> Option<&str> {
        match self {
            Self::Question(record) => Some(&record.call_id),
            Self::Answer(record) => Some(&record.call_id),
            Self::Call(record) => Some(&record.call_id),
            Self::Effects(record) => Some(&record.call_id),
            Self::Result(record) => Some(&record.call_id),
            Self::JobEnd(record) => Some(&record.call_id),
            Self::Grant(record) => record.call_id.as_deref(),
            Self::Start(_)
            | Self::SessionOpen(_)
            | Self::SessionClose(_)
            | Self::Repair(_)
            | Self::TakenBack(_)
            | Self::Forgotten(_)
            | Self::Rotate(_) => None,
        }
    }
}

/// A daemon began to write.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Start {
    /// Which build of it.
    pub build: String,
    /// Its process.
    pub pid: u32,
    /// Its user.
    pub uid: u32,
    /// When records are forced to the disk: `always` or a time.
    pub sync: String,
}

/// A session was opened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionOpen {
    /// Its id.
    pub session: String,
    /// Whose it is, as the kernel said.
    pub uid: u32,
    /// The process that connected, as the kernel said; none if it could not be seen.
    pub pid: Option<u32>,
    /// Its profile.
    pub profile: String,
    /// When it asks.
    pub ask: String,
    /// Where it works.
    pub workspace: CleanText,
    /// The uid of its processes, where that is one that nothing else has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runs_as: Option<u32>,
}

/// A session ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionClose {
    /// Its id.
    pub session: String,
    /// How many calls it made.
    pub calls: u64,
}

/// What the judge said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Judgement {
    /// It may run.
    Allow,
    /// A checkpoint decides.
    Ask,
    /// It may not run.
    Deny,
    /// It was refused before it could be judged: no such tool, arguments that make no sense.
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

/// Something that the analysis noticed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// For programs.
    pub kind: String,
    /// One sentence.
    pub why: CleanText,
}

/// A call, before it takes effect.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Call {
    /// Names it for ever.
    pub call_id: String,
    /// Its session.
    pub session: String,
    /// Whose it is, as the kernel said.
    pub uid: u32,
    /// The process that connected, as the kernel said; none if it could not be seen.
    pub pid: Option<u32>,
    /// The tool's own name, or what was asked for if there is no such tool.
    pub tool: String,
    /// Of the arguments as they were sent.
    pub digest: Hash,
    /// The arguments, bounded and without secrets.
    pub arguments: CleanJson,
    /// Where the session was.
    pub cwd: CleanText,
    /// Why, in the agent's own words.
    pub reason: Option<CleanText>,
    /// It was only to be reported what would be done.
    pub dry_run: bool,
    /// What the judge said.
    pub judgement: Judgement,
    /// What was noticed.
    pub findings: Vec<Finding>,
    /// What was thought through before, where the tool asks for that.
    pub thinking: Option<Thinking>,
}

/// What an agent thought through before it made a call, in its own words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Thinking {
    /// What it takes for granted.
    pub assumptions: Vec<CleanText>,
    /// How it could go wrong.
    pub failure_scenarios: Vec<CleanText>,
    /// Whether to go on.
    pub verdict: CleanText,
    /// And why.
    pub verdict_reason: CleanText,
}

/// What became of a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallResult {
    /// Which call.
    pub call_id: String,
    /// Its session.
    pub session: String,
    /// It did what it was to do.
    pub success: bool,
    /// The code of the error.
    pub error: Option<String>,
    /// What the error says.
    pub message: Option<CleanText>,
    /// The program's status.
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// The output as the agent was shown it, bounded and without secrets; none of a call that
    /// only read: what it read is where it was.
    pub output: Option<CleanText>,
    /// How long the output is that the agent was shown.
    pub output_bytes: u64,
    /// Of that output.
    pub output_digest: Hash,
    /// Of the structured result, if there is one.
    pub data_digest: Option<Hash>,
    /// Of what was sent along with the call and was taken, if anything was.
    pub attachment: Option<Digest>,
    /// What the agent was not shown of what the program printed.
    pub omitted_bytes: u64,
    /// From the request to here.
    pub duration_us: u64,
    /// What was refused, by which layer, and what would allow it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub denials: Vec<Denied>,
    /// What a profile that is only observed would have refused, and did not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub observed: Vec<Denied>,
}

/// What a layer refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Denied {
    /// Which layer.
    pub layer: CleanText,
    /// The rule or right.
    pub rule: CleanText,
    /// The path, address or tool.
    pub target: CleanText,
    /// The smallest change that would allow it.
    pub remedy: CleanText,
    /// The line of a profile that decides; empty if there is none.
    pub at: CleanText,
    /// What that change would open.
    pub opens: CleanText,
}

/// A job ended, and every process of it is gone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobEnd {
    /// The call that started it.
    pub call_id: String,
    /// Its session.
    pub session: String,
    /// Its number there.
    pub job: u64,
    /// The program's status.
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// The code of the error.
    pub error: Option<String>,
    /// How much it printed.
    pub output_bytes: u64,
    /// From its start to here.
    pub duration_us: u64,
    /// What was refused to it, by which layer, and what would allow it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub denials: Vec<Denied>,
    /// What a profile that is only observed would have refused it, and did not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub observed: Vec<Denied>,
}

/// Commits of earlier calls were cut off, and what they had done is taken back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TakenBack {
    /// The session in whose cell that is done.
    pub session: String,
    /// The calls in this workspace of which it is not known whether they were done.
    pub calls: Vec<String>,
    /// How many paths are made again what they were.
    pub paths: u64,
}

/// An operator lets go of what is kept of calls.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Forgotten {
    /// Who.
    pub by: String,
    /// Whose calls; none means everybody's.
    pub uid: Option<u32>,
    /// Output that could be paged through.
    pub spools: bool,
    /// What calls replaced: they can not be undone any more.
    pub undo: bool,
    /// Only what is at least this old.
    pub older_than_ms: u64,
}

/// What a start found amiss at the end of the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repair {
    /// What was cut off.
    pub torn: Option<Torn>,
    /// What the head file said, if the log does not bear it out.
    pub head: Option<HeadFault>,
    /// The last record that was whole.
    pub found: Head,
    /// Calls that had started and have no result: nobody knows how far they came. As far as the end
    /// of the file tells.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unfinished: Vec<String>,
}

/// The end of a file that was not a whole record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Torn {
    /// The file it was cut off from.
    pub file: String,
    /// The file where it is kept.
    pub kept_in: String,
    /// How long it is.
    pub bytes: u64,
}

/// How head file and log disagree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HeadFault {
    /// It was not there, or not to be read.
    Missing,
    /// It named a record that is not at the end of the log.
    Named(Head),
}

/// The log goes on in a new file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rotate {
    /// The file before.
    pub from: String,
    /// How long that is.
    pub bytes: u64,
}
