//! Compares two rules, to find a rule that has no effect beside another. Pure: no I/O.

use super::{OneOf, Rule};

impl Rule {
    /// Returns `true` if both rules match the same calls and have the same verdict.
    pub(crate) fn is_equivalent(&self, other: &Self) -> bool {
        self.verdict == other.verdict && self.matches_same_calls(other)
    }

    /// Returns `true` if both rules match the same calls.
    pub(crate) fn matches_same_calls(&self, other: &Self) -> bool {
        self.matches_all_calls_of(other) && other.matches_all_calls_of(self)
    }

    /// Returns `true` if the other rule can never decide, because this one is at least as strict
    /// and matches every call that the other matches.
    pub(crate) fn shadows(&self, other: &Self) -> bool {
        self.verdict >= other.verdict && self.matches_all_calls_of(other)
    }

    fn matches_all_calls_of(&self, other: &Self) -> bool {
        covers(&self.tools, &other.tools)
            && covers(&self.paths, &other.paths)
            && covers(&self.findings, &other.findings)
            && (!self.changes || other.changes)
            && self.command.len() <= other.command.len()
            && self.command.iter().zip(&other.command).all(|(one, word)| one.covers_all_of(word))
    }
}

/// Returns `true` if `list` contains everything in `other`. An empty list contains everything.
fn covers<T: PartialEq>(list: &[T], other: &[T]) -> bool {
    list.is_empty() || !other.is_empty() && other.iter().all(|item| list.contains(item))
}

impl OneOf {
    fn covers_all_of(&self, other: &Self) -> bool {
        match other {
            Self::Word(word) => self.has(word),
            Self::Choice(words) => words.iter().all(|word| self.has(word)),
        }
    }
}
