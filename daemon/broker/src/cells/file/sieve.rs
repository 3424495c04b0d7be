//! Applies the profile's path rules to the results of a call that lists many paths. Runs in the
//! broker.

use crate::cells::session::Session;
use palisade_plan::Path;
use palisade_policy::Facts;
use palisade_protocol::ToolSpec;

/// Filters out the paths that the rules withhold, and counts them.
#[derive(Debug)]
pub(super) struct Sieve<'a> {
    session: &'a Session,
    spec: &'a ToolSpec,
    /// The directory that the paths are relative to, links resolved.
    real: Vec<u8>,
    /// The paths of the workspace and the home directory.
    facts: Facts,
    pub(super) withheld: u64,
}

impl<'a> Sieve<'a> {
    pub(super) fn new(session: &'a Session, spec: &'a ToolSpec, real: Path) -> Self {
        Self { session, spec, real: real.0, facts: session.places(), withheld: 0 }
    }

    /// Returns the entries that may be shown.
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
