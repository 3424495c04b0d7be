//! A checkpoint's question, what an approver sees of it, and the news of calls and decisions.

use crate::{
    CallId, Finding, JsonText, QuestionId, RawPath, Review, SessionId, ToolName, WireError, object,
};
use bincode::{Decode, Encode};
use serde::{Deserialize, Serialize};

/// Asks a handler whether a call may run, or whether its output may be seen.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Question {
    /// To answer it by.
    pub question: QuestionId,
    /// SHA-256 in hex over everything that would run; the answer repeats it.
    pub digest: String,
    /// What is reviewed.
    pub review: Review,
    /// Who asks.
    pub asker: Asker,
    /// The call.
    pub call_id: CallId,
    /// The tool's own name.
    pub tool: ToolName,
    /// The tool's arguments as the agent gave them.
    pub arguments: JsonText,
    /// The session's current directory.
    pub cwd: RawPath,
    /// The agent's own words, which nobody has checked.
    pub reason: Option<String>,
    /// The agent's reverse thinking, if the tool asks for it.
    pub reverse_thinking: Option<ReverseThinking>,
    /// What the analysis found.
    pub findings: Vec<Finding>,
    /// Why it is asked: the mode or the rule.
    pub why: String,
    /// What would happen, rendered from what would run.
    pub view: View,
    /// What the agent would see, in an output review.
    pub output: Option<String>,
    /// What may be remembered: `exact_call`, `command_prefix`, `path`.
    pub scopes: Vec<String>,
    /// The first words of the command, as a `command_prefix` would have them.
    pub prefix: Vec<String>,
    /// When it is denied without an answer.
    pub expires_in_ms: u64,
}

/// Who asks.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Asker {
    /// The client's user.
    pub uid: u32,
    /// The client's process; 0 if it is not known.
    pub pid: u32,
    /// The systemd unit that the client runs in, if it is known.
    pub unit: Option<String>,
    /// Its session.
    pub session: SessionId,
    /// The session's profile.
    pub profile: String,
    /// The session's workspace.
    pub workspace: RawPath,
}

/// What would happen. Control and bidirectional characters in its texts are made visible.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct View {
    /// What would be done, one act per line.
    pub lines: Vec<ViewLine>,
    /// What would be touched.
    pub targets: Vec<Target>,
    /// A unified diff of a text file that would be written or deleted.
    pub diff: Option<String>,
    /// The diff is longer than is shown.
    pub diff_cut: bool,
    /// The change set: every path that would be another, in a review of effects or of a file tool.
    #[serde(default)]
    pub changes: Vec<FileChange>,
}

/// What becomes of one path.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileChange {
    /// Absolute: where it is afterwards, or was if it is gone.
    pub path: RawPath,
    /// `created`, `replaced`, `appended`, `edited`, `deleted`, `moved`, `mode` or `touched`.
    pub effect: String,
    /// Where it was, if it was moved.
    pub from: Option<RawPath>,
    /// How many entries it is, with what is below it.
    pub entries: u64,
    /// Bytes before, of a regular file.
    pub size_before: u64,
    /// Bytes afterwards, of a regular file.
    pub size: u64,
    /// Something that was there before is lost by it, and is asked about.
    pub lost: bool,
}

/// One act.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ViewLine {
    /// What would be done.
    pub text: String,
    /// Which of the question's findings are about it, counted from 0.
    pub findings: Vec<u32>,
}

/// Something that would be touched.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Target {
    /// Absolute.
    pub path: RawPath,
    /// What is there now: `file`, `directory`, `symlink`, `other`; none if nothing is.
    pub there: Option<String>,
    /// How large it is.
    pub size: u64,
    /// What is there now would be gone afterwards.
    pub lost: bool,
}

/// What a tool that asks for reverse thinking wants with a call.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ReverseThinking {
    /// What is taken for granted.
    #[serde(deserialize_with = "object::list")]
    pub assumptions: Vec<String>,
    /// How it could go wrong.
    #[serde(deserialize_with = "object::list")]
    pub failure_scenarios: Vec<String>,
    /// Whether to go on.
    pub verdict: String,
    /// Why.
    pub verdict_reason: String,
}

/// A question that needs no answer any more.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QuestionOver {
    /// Which.
    pub question: QuestionId,
    /// `approved`, `denied`, `passed`, `replaced`, `withheld`, `expired`, `cancelled`.
    pub outcome: String,
    /// Who or what ended it.
    pub by: String,
}

/// A decision of a checkpoint: the `tool_approval` event.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Approval {
    /// Whose call.
    pub session: SessionId,
    /// The call.
    pub call_id: CallId,
    /// The tool's own name.
    pub tool: ToolName,
    /// What was reviewed.
    pub review: Review,
    /// `approved`, `modified`, `denied`, `passed`, `replaced` or `withheld`.
    pub decision: String,
    /// `handler:NAME`, `remembered:ID`, or `default` when nobody could be asked.
    pub by: String,
    /// Why.
    pub reason: String,
    /// What was decided about; empty if no question was made.
    pub digest: String,
}

/// A call begins.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CallStarted {
    /// Whose.
    pub session: SessionId,
    /// The call.
    pub call_id: CallId,
    /// The tool, as the agent named it.
    pub tool: ToolName,
    /// Its arguments; what is longer than 16 KiB is left out.
    pub arguments: JsonText,
    /// The agent's own words.
    pub reason: Option<String>,
}

/// A call has ended.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CallEnded {
    /// Whose.
    pub session: SessionId,
    /// The call.
    pub call_id: CallId,
    /// The tool, as the agent named it.
    pub tool: ToolName,
    /// Whether it did what it should.
    pub success: bool,
    /// The program's status.
    pub exit_code: Option<i32>,
    /// Why it did not succeed.
    pub error: Option<WireError>,
    /// What the agent sees, at most 4 KiB of it.
    pub output: String,
    /// From the first stage to the last.
    pub execution_time_ms: u64,
}

/// A call was refused by policy or checkpoint; its `call_ended` follows.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Denied {
    /// Whose.
    pub session: SessionId,
    /// The call.
    pub call_id: CallId,
    /// The tool, as the agent named it.
    pub tool: ToolName,
    /// Why, and what to do.
    pub error: WireError,
}
