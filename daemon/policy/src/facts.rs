//! The facts about a call, beyond its tool, that the judge needs. The broker collects them. Pure:
//! no I/O.

use palisade_protocol::Finding;

/// The facts about a call, beyond its tool, that the judge needs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    /// The programs that the call would start.
    pub commands: Commands,
    /// The paths that the call concerns: absolute, both as given and with symbolic links resolved.
    pub paths: Vec<Vec<u8>>,
    /// The path of the session's workspace.
    pub workspace: Vec<u8>,
    /// The path of the session's home, if it has one.
    pub home: Option<Vec<u8>>,
    /// The findings about the call.
    pub findings: Vec<Finding>,
    /// The findings that need approval before the call runs.
    pub up_front: UpFront,
    /// True if undo could not restore what the call replaces.
    pub is_permanent: bool,
    /// True if the findings list every loss of the call. If so, the tool's own `destructive` flag
    /// is ignored.
    pub is_assessed: bool,
}

/// The findings that need approval before a call runs. The others wait until its effects are known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum UpFront {
    /// Every finding of one of the [`ASKED_KINDS`].
    #[default]
    Everything,
    /// Only findings that are known to be destructive. Suspected and hidden ones wait.
    Known,
    /// No finding.
    Nothing,
}

impl UpFront {
    /// Returns `true` if a finding needs approval before its call runs.
    #[must_use]
    pub fn asks(self, finding: &Finding) -> bool {
        match self {
            Self::Everything => is_asked(finding),
            Self::Known => finding.kind == DESTRUCTIVE,
            Self::Nothing => false,
        }
    }
}

/// The programs that a call would start.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Commands {
    /// The call starts no program.
    #[default]
    None,
    /// These programs, each with the arguments that are known.
    Known(Vec<Vec<String>>),
    /// The programs are unknown, so the call may start any program.
    Unknown,
}

/// The kinds of findings that need approval under `ask = "destructive"`.
pub const ASKED_KINDS: [&str; 4] = [DESTRUCTIVE, SUSPECTED, PLANT, "hidden"];

/// The kind of a finding about a part of a call that was changed so that the call may run.
pub const ADJUSTED: &str = "adjusted";

/// The kind of a finding about a tool that is not read-only.
pub const MUTATING_TOOL: &str = "mutating_tool";

/// The kind of a finding about a known loss.
pub const DESTRUCTIVE: &str = "destructive";

/// The kind of a finding about a plant: a file that a program outside the sandbox would run or
/// obey.
pub(crate) const PLANT: &str = "plant";

/// The kind of a finding about a possible loss. Rules about destructive commands apply to it too.
pub(crate) const SUSPECTED: &str = "suspected";

/// The reason of the finding about a text that is not proven to only read.
pub(crate) const UNPROVEN: &str =
    "it is not proven to only read, and nothing would hold back what it changes";

/// Returns `true` for the finding about a text that is not proven to only read. It names no loss.
pub(crate) fn is_unproven(finding: &Finding) -> bool {
    finding.kind == SUSPECTED && finding.why == UNPROVEN
}

/// Returns `true` if a finding needs approval under `ask = "destructive"`.
#[must_use]
pub fn is_asked(finding: &Finding) -> bool {
    ASKED_KINDS.contains(&finding.kind.as_str())
}
