//! Which profiles are proved, and why others are not. Broker.

use palisade_programs::Program;
use std::{collections::BTreeMap, io, sync::Arc};
use tokio::sync::Mutex;

/// Whether profiles are proved.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Proving {
    #[default]
    Never,
    AtStart,
}

/// Why a profile is not proved.
#[derive(Debug, Clone, thiserror::Error)]
pub(super) enum Unproved {
    #[error(
        "there is no place to try it in: {0}; set TMPDIR to a directory that everybody may enter"
    )]
    Place(Arc<io::Error>),
    #[error("it could not be tried: {0}")]
    Untried(String),
    #[error(
        "{probe} ({tries}) was not stopped by {layer}: {verdict}, the kernel's answer is {answer}"
    )]
    Row {
        probe: &'static str,
        tries: &'static str,
        layer: &'static str,
        verdict: String,
        answer: String,
    },
}

/// What was proved so far, by the digests of the profiles.
#[derive(Debug, Default)]
pub(crate) struct Proofs {
    pub(super) proving: Proving,
    /// This daemon's own program.
    pub(super) program: Option<Program>,
    pub(super) done: Mutex<BTreeMap<String, Result<(), Unproved>>>,
}

impl Proofs {
    pub(crate) fn new(proving: Proving, program: Option<Program>) -> Self {
        Self { proving, program, done: Mutex::default() }
    }
}
