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
pub const ASKED_KINDS: [&str; 2] = ["destructive", "hidden"];

/// Whether a finding is asked about under `ask = "destructive"`.
#[must_use]
pub fn is_asked(finding: &Finding) -> bool {
    ASKED_KINDS.contains(&finding.kind.as_str())
}
