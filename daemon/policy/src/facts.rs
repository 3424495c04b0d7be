//! What is known of a call besides its tool: gathered by the broker, judged here.

use palisade_protocol::Finding;

/// What is known of a call besides its tool.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    /// The programs that it would start.
    pub commands: Commands,
    /// The paths that it is about: absolute, as they were given and where they really lead.
    pub paths: Vec<Vec<u8>>,
    /// Where the session's workspace is.
    pub workspace: Vec<u8>,
    /// Where the session's home is, if it has one.
    pub home: Option<Vec<u8>>,
    /// What was found.
    pub findings: Vec<Finding>,
    /// Which of it is asked about before the call runs.
    pub up_front: UpFront,
}

/// Which findings are asked about before a call runs. The others wait until its effects are known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum UpFront {
    /// All that are asked about.
    #[default]
    Everything,
    /// What is known to destroy; what is suspected or hidden waits.
    Known,
    /// None.
    Nothing,
}

impl UpFront {
    /// Whether a finding is asked about before its call runs.
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
    /// It starts none.
    #[default]
    None,
    /// These, each with its arguments as far as they are known.
    Known(Vec<Vec<String>>),
    /// It can not be told, so each of them has to be reckoned with.
    Unknown,
}

/// Kinds of findings that are asked about under `ask = "destructive"`.
pub const ASKED_KINDS: [&str; 3] = [DESTRUCTIVE, SUSPECTED, "hidden"];

/// What is known to destroy.
pub(crate) const DESTRUCTIVE: &str = "destructive";

/// What may destroy; a rule about what destroys is about it too.
pub(crate) const SUSPECTED: &str = "suspected";

/// Whether a finding is asked about under `ask = "destructive"`.
#[must_use]
pub fn is_asked(finding: &Finding) -> bool {
    ASKED_KINDS.contains(&finding.kind.as_str())
}
