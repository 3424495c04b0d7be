//! What is to be asked, and for how long. Broker, pure.

use super::grants::Claim;
use palisade_policy::Handlers;
use palisade_protocol::Question;
use std::time::Duration;

/// What is to be asked.
#[derive(Debug)]
pub(crate) struct Inquiry {
    /// Its id and time are filled in when it is put.
    pub(crate) question: Question,
    pub(crate) claim: Claim,
    pub(crate) limits: Handlers,
    /// How long the caller waits, if it said so.
    pub(crate) patience: Option<Duration>,
}

impl Inquiry {
    /// How long there is for an answer: what the profile gives, or less if the caller says so.
    pub(crate) fn time(&self) -> Duration {
        let most = Duration::from_millis(self.limits.deadline_ms());
        self.patience.map_or(most, |patience| patience.min(most))
    }
}
