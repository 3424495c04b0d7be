//! What an operator may ask on the operator socket: attach a handler, answer questions, look after
//! grants and sessions. The agent socket refuses all of it but `subscribe`.

use crate::{
    GrantId, HandlerId, JsonText, Question, QuestionId, RawPath, SessionId, ToolName, object,
};
use bincode::{Decode, Encode};
use serde::{Deserialize, Serialize};

/// Attaches this connection as a checkpoint handler.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Register {
    /// Who answers, for events and the audit: `person:ann`, `program:/usr/bin/judge`.
    pub name: String,
    /// What it wants to review.
    #[serde(deserialize_with = "object::list")]
    pub reviews: Vec<Review>,
    /// Which tools, by their own names; none means all.
    #[serde(default, deserialize_with = "object::list")]
    pub tools: Vec<ToolName>,
    /// Higher is asked first.
    #[serde(default)]
    pub priority: i32,
    /// How long it may take for an answer; the profile may allow less.
    #[serde(default)]
    pub deadline_ms: Option<u64>,
    /// If given, the handler says something (a `ping` will do) at least this often, or it counts as
    /// hung and is asked nothing more.
    #[serde(default)]
    pub heartbeat_ms: Option<u64>,
}

/// What is reviewed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Encode, Decode, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Review {
    /// A call, before it runs.
    Input,
    /// What a call gave, before the agent sees it.
    Output,
    /// What a command did in its transaction, before it counts.
    Effects,
}

/// Answers a question. The first answer of a handler counts; a second is `stale_approval`.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Answer {
    /// Which question.
    pub question: QuestionId,
    /// The digest that the question showed: the answer is to that and to nothing else.
    pub digest: String,
    /// Yes, no, or something else instead.
    pub decision: Decision,
    /// Whether to answer the like of it from memory from now on.
    #[serde(default)]
    pub remember: Option<Remember>,
}

/// A handler's decision: the first three for input reviews, the next three for output reviews. Of a
/// review of effects, all is approved, a part, or nothing.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// It may run as it was shown.
    Approve,
    /// It may run with other arguments, which are validated and judged again.
    ApproveModified(Modified),
    /// It may not run.
    Deny(Deny),
    /// The agent gets the output as it is.
    Pass,
    /// The agent gets this instead.
    Replace(Replace),
    /// The agent gets no output.
    Withhold(Withhold),
    /// Of the effects, those that are not left out.
    ApprovePart(Part),
}

/// What of a change set is left out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Part {
    /// Everything that would delete. What was moved then has both names.
    pub without_deletions: bool,
    /// These, as the change set names them.
    #[serde(deserialize_with = "object::list")]
    pub without: Vec<RawPath>,
}

/// The arguments that the call is to have instead.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Modified {
    /// All of them, as the tool's schema says.
    pub arguments: JsonText,
}

/// Why not.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Deny {
    /// What the agent is told.
    pub reason: String,
    /// What the agent should do instead; empty if there is nothing to say.
    #[serde(default)]
    pub guidance: String,
}

/// The output that the agent gets instead.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Replace {
    /// The whole of it.
    pub output: String,
}

/// Why the agent gets no output.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Withhold {
    /// What the agent is told.
    pub reason: String,
}

/// What to answer from memory, and until when. Never wider than the profile's `remember`.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Remember {
    /// The like of what.
    pub scope: Scope,
    /// Until when.
    pub until: Until,
}

/// What an approval is remembered for.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// The same tool, arguments and directory.
    ExactCall,
    /// Every command of a `bash` call that needs an approval begins with these words.
    CommandPrefix(CommandPrefix),
    /// A file tool on this path, or on one below it.
    Path(PathScope),
}

/// The first words of a command.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CommandPrefix {
    /// Program and first arguments.
    #[serde(deserialize_with = "object::list")]
    pub words: Vec<String>,
}

/// A path and what is below it.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PathScope {
    /// Absolute.
    pub path: RawPath,
}

/// How long something is remembered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Until {
    /// Until the session ends.
    Session,
    /// This many milliseconds, for every session of the same user and profile.
    Ms(u64),
}

/// Takes back what was to be remembered.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Revoke {
    /// The grant's.
    pub id: GrantId,
}

/// Wants to hear of calls and decisions as they happen.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Subscribe {
    /// Of one session; none means the connection's own on the agent socket, all for an operator.
    pub session: Option<SessionId>,
}

/// Ends a session: its calls are killed, its questions denied.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Abort {
    /// Which.
    pub session: SessionId,
}

/// To `Register`.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Registered {
    /// What the daemon calls this handler.
    pub handler: HandlerId,
}

/// To `Answer`: it was taken.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Answered {
    /// What is remembered from now on, if it was asked for.
    pub grant: Option<GrantId>,
}

/// To `Pending`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pending {
    /// Oldest first.
    pub questions: Vec<Question>,
}

/// To `Grants`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Grants {
    /// Oldest first.
    pub grants: Vec<Grant>,
}

/// Something that is answered from memory.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Grant {
    /// To revoke it by.
    pub id: GrantId,
    /// For which session; none means every session of the user under the profile.
    pub session: Option<SessionId>,
    /// For which user.
    pub uid: u32,
    /// Under which profile.
    pub profile: String,
    /// For which tool.
    pub tool: ToolName,
    /// The like of what.
    pub scope: Scope,
    /// In words.
    pub summary: String,
    /// Who approved it.
    pub by: String,
    /// How much longer; none means until the session ends.
    pub expires_in_ms: Option<u64>,
    /// How often it has answered.
    pub used: u64,
}
