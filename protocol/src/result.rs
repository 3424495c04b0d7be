//! The result of a call: one shape for every tool, in every codec.

use crate::{CallId, JsonText, Receipt, ToolName, WireError};
use bincode::{Decode, Encode};
use serde::{Deserialize, Serialize};

/// What became of a call.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CallResult {
    /// Names the call for ever.
    pub call_id: CallId,
    /// The tool's own name, whatever alias was used.
    pub tool: ToolName,
    /// False for a non-zero exit, a denial or an error.
    pub success: bool,
    /// What a model should read: stdout and stderr merged in order of arrival, or a tool's text.
    pub output: String,
    /// Something was left out of `output`; `omitted_bytes` says how much.
    pub truncated: bool,
    /// Bytes that are not UTF-8 were replaced in `output`, `stdout` or `stderr`.
    pub lossy: bool,
    /// From the first stage to the last.
    pub execution_time_ms: u64,
    /// Why it did not succeed.
    pub error: Option<WireError>,
    /// Standard output, head and tail.
    pub stdout: String,
    /// Standard error, head and tail.
    pub stderr: String,
    /// The program's status; 127 not found, 128+n on signal n.
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// The deadline ended it (an exit code of 124 of the program's own does not set this).
    pub timed_out: bool,
    /// The caller ended it.
    pub cancelled: bool,
    /// The kernel killed something of the session for want of memory during the call.
    pub oom: bool,
    /// The program left something running that could have held its output; it was killed.
    pub pipe_held: bool,
    /// Bytes that `output` leaves out.
    pub omitted_bytes: u64,
    /// The call id to page through with `Output`, if there is more than `output` shows.
    pub spool: Option<CallId>,
    /// Structured result of the tool.
    pub data: Option<JsonText>,
    /// An id for `undo`.
    pub undo: Option<String>,
    /// What the analysis found.
    pub findings: Vec<Finding>,
    /// What was refused, by which layer, and what would allow it.
    pub denials: Vec<Denial>,
    /// What the checkpoint said, if it was asked.
    pub checkpoint: Option<Checkpoint>,
    /// Where its program ran; none if it ran none.
    #[serde(default)]
    pub route: Option<Route>,
    /// What was enforced.
    pub receipt: Receipt,
}

/// Where a program ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Route {
    /// With the workspace mounted read-only.
    Reading,
    /// On a layer over the workspace: its effects were judged before they were committed.
    Transaction,
    /// In the workspace itself: its effects took place at once.
    Direct,
}

/// Something that the analysis noticed in a call.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Finding {
    /// For programs: `destructive_tool`, `destructive`, `hidden`, `workspace_code`, …
    pub kind: String,
    /// One sentence.
    pub why: String,
    /// How much it matters.
    #[serde(default)]
    pub severity: Severity,
    /// The program it is about, as it would be started; empty if it is about none.
    #[serde(default)]
    pub program: String,
    /// Its arguments, as far as the text tells them.
    #[serde(default)]
    pub arguments: Vec<String>,
    /// Where in the command's text.
    #[serde(default)]
    pub span: Option<Span>,
    /// The paths that would be lost or changed, as far as the text tells them.
    #[serde(default)]
    pub targets: Vec<String>,
}

impl Finding {
    /// A finding about a call as a whole.
    pub fn new(kind: impl Into<String>, severity: Severity, why: impl Into<String>) -> Self {
        Self {
            kind: kind.into(),
            why: why.into(),
            severity,
            program: String::new(),
            arguments: Vec::new(),
            span: None,
            targets: Vec::new(),
        }
    }
}

/// How much a finding matters.
#[derive(
    Debug,
    Clone,
    Copy,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Encode,
    Decode,
    Serialize,
    Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Worth knowing.
    #[default]
    Notice,
    /// Something that existed may be lost, or can not be known.
    Warning,
    /// What would be lost is large, or lies beyond the workspace.
    Danger,
}

/// A range of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Span {
    /// The first.
    pub start: u32,
    /// The one behind the last.
    pub end: u32,
}

/// A refusal.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Denial {
    /// Which layer: `policy`, `landlock`, `mount`, …
    pub layer: String,
    /// The rule or right.
    pub rule: String,
    /// The path, address or tool.
    pub target: String,
    /// The smallest change that would allow it.
    pub remedy: String,
    /// The line of a profile that decides; empty if no line says otherwise, or it is not about one.
    #[serde(default)]
    pub at: String,
    /// What that change would open; empty if nothing more.
    #[serde(default)]
    pub opens: String,
}

/// What the checkpoint said.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Checkpoint {
    /// `denied` or `approved`.
    pub decision: String,
    /// Who decided: `default` when no handler is attached.
    pub by: String,
    /// Why.
    pub reason: String,
}
