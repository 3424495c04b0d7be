//! The connections that a session was refused, for the results of the calls that ran meanwhile. Runs
//! in the broker.

use palisade_protocol::Denial;
use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// Most refusals that are kept for results; the oldest go first.
const MOST: usize = 64;

/// The latest refused connections of a session.
#[derive(Debug, Default)]
pub(crate) struct RefusedConnections(Mutex<Latest>);

#[derive(Debug, Default)]
struct Latest {
    /// The number of refusals so far.
    count: u64,
    /// Refusals, each with its number.
    kept: VecDeque<(u64, Denial)>,
}

impl RefusedConnections {
    fn latest(&self) -> MutexGuard<'_, Latest> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a refusal. One of the same target replaces the earlier one.
    pub(crate) fn note(&self, denial: Denial) {
        let mut latest = self.latest();
        latest.count += 1;
        let count = latest.count;
        latest.kept.retain(|(_, known)| known.target != denial.target);
        if latest.kept.len() == MOST {
            latest.kept.pop_front();
        }
        latest.kept.push_back((count, denial));
    }

    /// Returns the number of refusals so far, to ask later for those after it.
    pub(crate) fn so_far(&self) -> u64 {
        self.latest().count
    }

    /// Returns the refusals after the first `count`.
    pub(crate) fn since(&self, count: u64) -> Vec<Denial> {
        let latest = self.latest();
        let later = latest.kept.iter().filter(|(number, _)| *number > count);
        later.map(|(_, denial)| denial.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn denial(target: &str) -> Denial {
        let text = str::to_owned;
        Denial {
            layer: text("network"),
            rule: text("connect: not allowed"),
            target: text(target),
            remedy: String::new(),
            at: String::new(),
            opens: String::new(),
        }
    }

    #[test]
    fn a_call_sees_what_was_refused_while_it_ran_and_each_target_once() {
        let refused = RefusedConnections::default();
        refused.note(denial("a:443"));
        let began = refused.so_far();
        assert!(refused.since(began).is_empty());
        for target in ["b:443", "a:443", "b:443"] {
            refused.note(denial(target));
        }
        let targets: Vec<String> =
            refused.since(began).into_iter().map(|denial| denial.target).collect();
        assert_eq!(targets, ["a:443", "b:443"]);
        for number in 0..200 {
            refused.note(denial(&format!("{number}:1")));
        }
        assert_eq!(refused.since(0).len(), MOST);
    }
}
