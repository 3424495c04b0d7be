//! The profiles that are proved, and the errors of those that can not be. Runs in the broker.

use palisade_programs::Program;
use std::{collections::BTreeMap, io, sync::Arc};
use tokio::sync::Mutex;

/// The moments at which profiles are proved.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum ProofSchedule {
    #[default]
    Never,
    AtStart,
}

/// An error for which a profile is not proved.
#[derive(Debug, Clone, thiserror::Error)]
pub(super) enum ProofError {
    #[error(
        "no directory can be used for the attempts: {0}; set TMPDIR to a directory that every user \
         may enter"
    )]
    Place(Arc<io::Error>),
    #[error("the attempts could not be run: {0}")]
    Untested(String),
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

/// The results of the proofs so far, by the profile's digest.
#[derive(Debug, Default)]
pub(crate) struct Proofs {
    pub(super) proving: ProofSchedule,
    /// This daemon's own executable, which makes the attempts.
    pub(super) program: Option<Program>,
    pub(super) done: Mutex<BTreeMap<String, Result<(), ProofError>>>,
}

impl Proofs {
    pub(crate) fn new(proving: ProofSchedule, program: Option<Program>) -> Self {
        Self { proving, program, done: Mutex::default() }
    }
}
