//! The result of a call: one shape for every tool, in every codec.

use crate::{CallId, Checkpoint, JsonText, Receipt, ToolName, WireError};
use bincode::{Decode, Encode};
use serde::{Deserialize, Serialize};

/// The outcome of a call.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CallResult {
    /// The call's permanent id.
    pub call_id: CallId,
    /// The tool's own name, even if the call used an alias.
    pub tool: ToolName,
    /// False for a non-zero exit, a denial or an error.
    pub success: bool,
    /// The text for the model: stdout and stderr merged in order of arrival, or a tool's text.
    pub output: String,
    /// True if something was left out of `output`; `omitted_bytes` says how much.
    pub truncated: bool,
    /// True if bytes that are not UTF-8 were replaced in `output`, `stdout` or `stderr`.
    pub lossy: bool,
    /// The time from the first stage of the call to the last.
    pub execution_time_ms: u64,
    /// The reason the call did not succeed.
    pub error: Option<WireError>,
    /// Standard output; if it is too long, its head and tail.
    pub stdout: String,
    /// Standard error; if it is too long, its head and tail.
    pub stderr: String,
    /// The program's exit status: 127 if it was not found, 128+n if signal n ended it.
    pub exit_code: Option<i32>,
    /// The signal that ended the program.
    pub signal: Option<i32>,
    /// True if the deadline ended the call. A program's own exit code of 124 does not set this.
    pub timed_out: bool,
    /// True if the caller ended the call.
    pub cancelled: bool,
    /// True if the kernel killed a process of the session during the call because memory ran out.
    pub oom: bool,
    /// True if the program left a process running that could have held its output open. That
    /// process was killed.
    pub pipe_held: bool,
    /// The number of bytes that `output` leaves out.
    pub omitted_bytes: u64,
    /// The call id to read the full output with (`Output`), if there is more than `output` shows.
    pub spool: Option<CallId>,
    /// The tool's structured result.
    pub data: Option<JsonText>,
    /// The id to give to `undo`.
    pub undo: Option<String>,
    /// The findings of the command analysis.
    pub findings: Vec<Finding>,
    /// The denials, each with the layer that denied and the change that would allow the access.
    pub denials: Vec<Denial>,
    /// The approver's decision, if approval was requested.
    pub checkpoint: Option<Checkpoint>,
    /// The route that the call's program took; `None` if the call ran no program.
    #[serde(default)]
    pub route: Option<Route>,
    /// The digest of the receipt. Equal digests mean equal receipts.
    #[serde(default)]
    pub receipt_digest: String,
    /// The confinement that was in force; `None` if it is the receipt that `Opened` has, unless the
    /// call asked for it (`options.receipt`).
    #[serde(default)]
    pub receipt: Option<Box<Receipt>>,
}

/// The route of a command: where it ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Route {
    /// The workspace was mounted read-only.
    Reading,
    /// The program ran on an overlay of the workspace: its effects were judged before they were
    /// committed.
    Transaction,
    /// The program ran in the workspace itself: its effects were immediate.
    Direct,
}

/// Something that the analysis noticed in a call.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Finding {
    /// The kind of finding, for programs: `destructive_tool`, `destructive`, `hidden`, `adjusted`,
    /// `workspace_code`, …
    pub kind: String,
    /// One sentence that explains the finding.
    pub why: String,
    /// The importance of the finding.
    #[serde(default)]
    pub severity: Severity,
    /// The program that the finding is about, as it would be started; empty if it is about none.
    #[serde(default)]
    pub program: String,
    /// The program's arguments, as far as the text shows them.
    #[serde(default)]
    pub arguments: Vec<String>,
    /// The finding's position in the command's text.
    #[serde(default)]
    pub span: Option<Span>,
    /// The paths that would be lost or changed, as far as the text shows them.
    #[serde(default)]
    pub targets: Vec<String>,
}

impl Finding {
    /// Creates a finding about a call as a whole.
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

/// The importance of a finding.
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
    /// Something that existed may be lost, or whether it would be is unknown.
    Warning,
    /// The loss would be large, or outside the workspace.
    Danger,
}

/// A range of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Span {
    /// The index of the first byte.
    pub start: u32,
    /// The index after the last byte.
    pub end: u32,
}

/// One denial: something that was refused to a call.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Denial {
    /// The layer that refused: `policy`, `landlock`, `mount`, …
    pub layer: String,
    /// The rule that refused: a key of the profile, or `RIGHT: REASON` for an access right.
    pub rule: String,
    /// The path, address or tool that was refused.
    pub target: String,
    /// The smallest change that would allow the access.
    pub remedy: String,
    /// The line of a profile that decided; empty if no line says otherwise or the denial is not
    /// about a profile.
    #[serde(default)]
    pub at: String,
    /// The other accesses that this change would allow; empty if there are none.
    #[serde(default)]
    pub opens: String,
}

impl Denial {
    /// Returns the rule without the access right in front of it.
    #[must_use]
    pub fn reason(&self) -> &str {
        self.rule.split_once(": ").map_or(&self.rule, |(_, reason)| reason)
    }
}
