//! Requests of the operator socket: register as an approver, answer approval requests, manage
//! remembered approvals and sessions. The agent socket refuses all of them but `subscribe`.

use crate::{
    ApprovalId, ApprovalRequest, GrantId, HandlerId, JsonText, RawPath, SessionId, ToolName, object,
};
use bincode::{Decode, Encode};
use serde::{Deserialize, Serialize};

/// Registers this connection as an approver.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Register {
    /// The approver's name, for events and the audit log: `person:ann`, `program:/usr/bin/judge`.
    pub name: String,
    /// The kinds of review that the approver wants to do.
    #[serde(deserialize_with = "object::list")]
    pub reviews: Vec<Review>,
    /// The tools to review, by their own names; an empty list means all.
    #[serde(default, deserialize_with = "object::list")]
    pub tools: Vec<ToolName>,
    /// The priority: approvers with a higher number are asked first.
    #[serde(default)]
    pub priority: i32,
    /// The time that the approver may take to answer; the profile may allow less.
    #[serde(default)]
    pub deadline_ms: Option<u64>,
    /// The heartbeat interval. If given, the approver must send something (a `ping` is enough) at
    /// least this often. Otherwise it counts as hung and is asked nothing more.
    #[serde(default)]
    pub heartbeat_ms: Option<u64>,
    /// The session whose calls the approver reviews; those of all sessions if left out.
    #[serde(default)]
    pub session: Option<SessionId>,
}

/// The kinds of review.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Encode, Decode, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Review {
    /// A review of a call, before it runs.
    Input,
    /// A review of a call's output, before the agent sees it.
    Output,
    /// A review of a command's effects in its transaction, before they are committed.
    Effects,
}

/// Answers an approval request. The first answer of an approver counts; a second is
/// `stale_approval`.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Answer {
    /// The id of the approval request.
    pub request: ApprovalId,
    /// The digest from the approval request. The answer applies to exactly that content.
    pub digest: String,
    /// The decision.
    pub decision: Decision,
    /// The request to remember the approval for later calls of the same kind, if any.
    #[serde(default)]
    pub remember: Option<Remember>,
}

/// An approver's decision. The first three are for input reviews, the next three for output
/// reviews. A review of effects takes `Approve`, `ApprovePart` or `Deny`.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// The call may run as shown.
    Approve,
    /// The call may run with other arguments, which are validated and judged again.
    ApproveModified(Modified),
    /// The call may not run.
    Deny(Deny),
    /// The agent gets the output unchanged.
    Pass,
    /// The agent gets this output instead.
    Replace(Replace),
    /// The agent gets no output.
    Withhold(Withhold),
    /// The effects are committed, except those that are left out.
    ApprovePart(Part),
}

/// The part of a change set that is left out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Part {
    /// True if every deletion is left out. A moved file then exists under both names.
    pub without_deletions: bool,
    /// The paths to leave out, as the change set names them.
    #[serde(deserialize_with = "object::list")]
    pub without: Vec<RawPath>,
}

/// The arguments that replace the call's own.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Modified {
    /// The complete arguments, valid for the tool's schema.
    pub arguments: JsonText,
}

/// A denial.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Deny {
    /// The reason, which the agent is told.
    pub reason: String,
    /// The advice to the agent on what to do instead; empty if there is none.
    #[serde(default)]
    pub guidance: String,
}

/// The output that replaces the call's own.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Replace {
    /// The complete output.
    pub output: String,
    /// The structured result that replaces the tool's own, a JSON object; none if absent.
    #[serde(default)]
    pub data: Option<JsonText>,
}

/// Withholds a call's output from the agent.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Withhold {
    /// The reason, which the agent is told.
    pub reason: String,
}

/// Asks to remember an approval. Never wider than the profile's `remember` setting.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Remember {
    /// The calls that the approval covers.
    pub scope: Scope,
    /// The time for which the approval is remembered.
    pub until: Until,
}

/// The calls that a remembered approval covers.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Calls with the same tool, arguments and directory.
    ExactCall,
    /// `bash` calls in which every command that needs approval begins with these words.
    CommandPrefix(CommandPrefix),
    /// Calls of a file tool on this path, or on a path below it.
    Path(PathScope),
    /// Changes of commands whose losses are all like these, and which undo keeps.
    Losses(LossScope),
}

/// The first words of a command.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CommandPrefix {
    /// The program and its first arguments.
    #[serde(deserialize_with = "object::list")]
    pub words: Vec<String>,
}

/// A path and what is below it.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PathScope {
    /// The absolute path.
    pub path: RawPath,
}

/// Losses of commands: below a path, of some kinds, by some programs. Whatever else needs approval
/// is not covered: a plant, a conflict, a loss that undo does not keep, one inside a git repository.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LossScope {
    /// The absolute path of a directory in the workspace. Every loss must be there or below.
    pub path: RawPath,
    /// The kinds of change that may lose something, as `effect` of a change set names them; an
    /// empty list means all.
    #[serde(default, deserialize_with = "object::list")]
    pub kinds: Vec<String>,
    /// The programs that the command may start; an empty list means all.
    #[serde(default, deserialize_with = "object::list")]
    pub programs: Vec<String>,
}

/// Asks how many earlier approval requests some scopes would have covered.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScopeQuery {
    /// The id of a waiting approval request. Earlier ones of the same user, profile and tool are
    /// counted.
    pub request: ApprovalId,
    /// The scopes.
    #[serde(deserialize_with = "object::list")]
    pub scopes: Vec<Scope>,
}

/// The reply to `ScopeHistory`: earlier approval requests that scopes would have covered.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScopeHistory {
    /// The time that the counts cover, back from now.
    pub period_ms: u64,
    /// The number of comparable approval requests in that time.
    pub requests: u64,
    /// The counts of each scope, in the order of the query.
    pub scopes: Vec<ScopeUse>,
}

/// The number of earlier approval requests that a scope would have covered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScopeUse {
    /// The number of requests that would not have been sent.
    pub covered: u64,
    /// The number of those that an approver denied.
    pub denied: u64,
}

/// The time for which an approval is remembered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Until {
    /// Until the session ends.
    Session,
    /// For this many milliseconds, for every session of the same user and profile.
    Ms(u64),
}

/// Deletes a remembered approval.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Revoke {
    /// The id of the remembered approval.
    pub id: GrantId,
}

/// Subscribes to events about calls and decisions.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Subscribe {
    /// The session to hear about. `None` means the connection's own session on the agent socket,
    /// and all sessions for an operator.
    pub session: Option<SessionId>,
}

/// Ends a session: its calls are killed and its approval requests denied.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Abort {
    /// The session to end.
    pub session: SessionId,
}

/// The reply to `Register`.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Registered {
    /// The daemon's id for this approver.
    pub handler: HandlerId,
}

/// The reply to `Answer`: the answer was accepted.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Answered {
    /// The id of the remembered approval, if the answer asked for one.
    pub grant: Option<GrantId>,
    /// The number of approvals that the request still needs; 0 if it is decided.
    #[serde(default)]
    pub missing: u64,
}

/// The reply to `Pending`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pending {
    /// The waiting approval requests, oldest first.
    pub requests: Vec<ApprovalRequest>,
}

/// The reply to `Grants`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Grants {
    /// The remembered approvals, oldest first.
    pub grants: Vec<Grant>,
}

/// A remembered approval.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Grant {
    /// The id to revoke it with.
    pub id: GrantId,
    /// The session that it applies to. `None` means every session of the user under the profile.
    pub session: Option<SessionId>,
    /// The user that it applies to.
    pub uid: u32,
    /// The profile that it applies to.
    pub profile: String,
    /// The tool that it applies to.
    pub tool: ToolName,
    /// The calls that it covers.
    pub scope: Scope,
    /// A description in words.
    pub summary: String,
    /// The approver who gave the approval.
    pub by: String,
    /// The remaining time; `None` means until the session ends.
    pub expires_in_ms: Option<u64>,
    /// The number of times it has been used.
    pub used: u64,
}
