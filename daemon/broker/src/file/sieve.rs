//! What the profile's path rules keep from a call that shows many paths. Broker.

use crate::session::Session;
use palisade_plan::Path;
use palisade_policy::Facts;
use palisade_protocol::ToolSpec;

/// Lets through what the rules do not withhold, and counts the rest.
#[derive(Debug)]
pub(super) struct Sieve<'a> {
    session: &'a Session,
    spec: &'a ToolSpec,
    /// Where the paths begin, links resolved.
    real: Vec<u8>,
    /// Where workspace and home are.
    facts: Facts,
    pub(super) withheld: u64,
}

impl<'a> Sieve<'a> {
    pub(super) fn new(session: &'a Session, spec: &'a ToolSpec, real: Path) -> Self {
        Self { session, spec, real: real.0, facts: session.places(), withheld: 0 }
    }

    /// What may be shown of what was found.
    pub(super) fn keep<T>(&mut self, found: Vec<T>, path: impl Fn(&T) -> &Path) -> Vec<T> {
        if !self.session.profile.has_path_rules() {
            return found;
        }
        let before = found.len() as u64;
        let kept: Vec<T> = found.into_iter().filter(|one| self.shows(path(one))).collect();
        self.withheld += before - kept.len() as u64;
        kept
    }

    fn shows(&self, below: &Path) -> bool {
        let mut whole = self.real.clone();
        if !below.0.is_empty() {
            if whole != b"/" {
                whole.push(b'/');
            }
            whole.extend(&below.0);
        }
        !self.session.profile.withholds(self.spec, &self.real, &whole, &self.facts)
    }
}
