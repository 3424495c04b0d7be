//! The approval request, what an approver sees of it, and events about calls and decisions.

use crate::{
    ApprovalId, ApprovalOutcome, CallId, DecidedBy, Finding, JsonText, RawPath, Review, SessionId,
    ToolName, WireError, object,
};
use bincode::{Decode, Encode};
use serde::{Deserialize, Serialize};

/// An approval request: asks an approver whether a call may run, whether its effects are committed,
/// or whether its output may be seen.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApprovalRequest {
    /// The id to answer the request with.
    pub id: ApprovalId,
    /// SHA-256 in hex over everything that would run; the answer must repeat it.
    pub digest: String,
    /// The part of the call under review: input, effects or output.
    pub review: Review,
    /// The client that made the call.
    pub asker: Asker,
    /// The call's id.
    pub call_id: CallId,
    /// The tool's own name.
    pub tool: ToolName,
    /// The tool's arguments as the agent gave them.
    pub arguments: JsonText,
    /// The session's current directory.
    pub cwd: RawPath,
    /// The agent's reason in its own words, which nobody has checked.
    pub reason: Option<String>,
    /// The agent's reverse thinking, if the tool requires it.
    pub reverse_thinking: Option<ReverseThinking>,
    /// The findings of the command analysis.
    pub findings: Vec<Finding>,
    /// The reason that approval is required: the mode or the rule.
    pub why: String,
    /// A preview of what would happen, rendered from what would run.
    pub view: View,
    /// In an output review, the output that the agent would see.
    pub output: Option<String>,
    /// The scopes for which an approval may be remembered: `exact_call`, `command_prefix`, `path`;
    /// in a review of effects `losses`.
    pub scopes: Vec<String>,
    /// The first words of the command, in the form of a `command_prefix`; in a review of effects
    /// the programs that it started, if they are known.
    pub prefix: Vec<String>,
    /// The longest time for which an approval may be remembered beyond the session.
    #[serde(default)]
    pub remember_ms: u64,
    /// The number of approvers who must approve.
    #[serde(default)]
    pub quorum: u64,
    /// The approvers who have approved already, where others still must.
    #[serde(default)]
    pub approved_by: Vec<String>,
    /// The time left; without an answer the request is then denied.
    pub expires_in_ms: u64,
}

/// The client that made the call which needs approval.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Asker {
    /// The client's user id.
    pub uid: u32,
    /// The client's process id; 0 if unknown.
    pub pid: u32,
    /// The systemd unit that the client runs in, if known.
    pub unit: Option<String>,
    /// The client's session.
    pub session: SessionId,
    /// The session's profile.
    pub profile: String,
    /// The session's workspace.
    pub workspace: RawPath,
}

/// The preview shown to an approver. Control and bidirectional characters in its texts are made
/// visible.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct View {
    /// The actions, one per line.
    pub lines: Vec<ViewLine>,
    /// The paths that would be changed.
    pub targets: Vec<Target>,
    /// A unified diff of a text file that would be written or deleted.
    pub diff: Option<String>,
    /// True if the diff was cut because it is too long.
    pub diff_cut: bool,
    /// The change set: every path that would change, in a review of effects or of a file tool.
    #[serde(default)]
    pub changes: Vec<FileChange>,
}

/// The change to one path.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileChange {
    /// The absolute path after the change, or before it if the path is deleted.
    pub path: RawPath,
    /// `created`, `replaced`, `appended`, `edited`, `deleted`, `moved`, `mode` or `touched`.
    pub effect: String,
    /// The old path, if it was moved.
    pub from: Option<RawPath>,
    /// The number of entries at and below the path.
    pub entries: u64,
    /// The size of a regular file before, in bytes.
    pub size_before: u64,
    /// The size of a regular file afterwards, in bytes.
    pub size: u64,
    /// True if the change is a loss: something that existed before would be lost, which needs
    /// approval.
    pub lost: bool,
}

/// One action of the preview.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ViewLine {
    /// The text of the action.
    pub text: String,
    /// The indices, from 0, of the approval request's findings about this action.
    pub findings: Vec<u32>,
}

/// A path that would be changed.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Target {
    /// The absolute path.
    pub path: RawPath,
    /// The kind of file at the path now: `file`, `directory`, `symlink`, `other`; `None` if it is
    /// missing.
    pub there: Option<String>,
    /// The size of what exists now.
    pub size: u64,
    /// True if what exists now would be lost.
    pub lost: bool,
}

/// The reverse thinking that some tools require with a call.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ReverseThinking {
    /// The agent's assumptions.
    #[serde(deserialize_with = "object::list")]
    pub assumptions: Vec<String>,
    /// Ways in which the call could go wrong.
    #[serde(deserialize_with = "object::list")]
    pub failure_scenarios: Vec<String>,
    /// The agent's verdict: whether to go on.
    pub verdict: String,
    /// The reason for the verdict.
    pub verdict_reason: String,
}

/// The event that an approval request needs no answer any more.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApprovalClosed {
    /// The id of the approval request.
    pub request: ApprovalId,
    /// The decision. A request that expired or was withdrawn is denied.
    pub outcome: ApprovalOutcome,
    /// The one who decided.
    pub by: DecidedBy,
}

/// The event that an approver has approved an approval request, and that others still must.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApprovalGiven {
    /// The id of the approval request.
    pub request: ApprovalId,
    /// The approver.
    pub by: DecidedBy,
    /// The number of approvals that are still needed.
    pub missing: u64,
}

/// The decision on an approval request: the `tool_approval` event.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Approval {
    /// The session of the call.
    pub session: SessionId,
    /// The call's id.
    pub call_id: CallId,
    /// The tool's own name.
    pub tool: ToolName,
    /// The arguments that were decided on; left out if longer than 16 KiB.
    pub arguments: JsonText,
    /// The kind of review.
    pub review: Review,
    /// The decision.
    pub decision: ApprovalOutcome,
    /// The one who decided.
    pub by: DecidedBy,
    /// The reason for the decision.
    pub reason: String,
    /// The digest of what was decided on; empty if no approval request was made.
    pub digest: String,
}

/// The event that a call begins.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CallStarted {
    /// The call's session.
    pub session: SessionId,
    /// The call's id.
    pub call_id: CallId,
    /// The tool, as the agent named it.
    pub tool: ToolName,
    /// The call's arguments; left out if longer than 16 KiB.
    pub arguments: JsonText,
    /// The agent's reason in its own words.
    pub reason: Option<String>,
}

/// The event that a call has ended.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CallEnded {
    /// The call's session.
    pub session: SessionId,
    /// The call's id.
    pub call_id: CallId,
    /// The tool, as the agent named it.
    pub tool: ToolName,
    /// True if the call succeeded.
    pub success: bool,
    /// The program's exit status.
    pub exit_code: Option<i32>,
    /// The reason the call did not succeed.
    pub error: Option<WireError>,
    /// The output that the agent sees, cut to 4 KiB.
    pub output: String,
    /// The time from the first stage of the call to the last.
    pub execution_time_ms: u64,
}

/// The event that policy or an approver denied a call; its `call_ended` follows.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Denied {
    /// The call's session.
    pub session: SessionId,
    /// The call's id.
    pub call_id: CallId,
    /// The tool, as the agent named it.
    pub tool: ToolName,
    /// The reason for the denial, and what to do.
    pub error: WireError,
}
