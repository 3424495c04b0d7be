//! Compares two rules, to find a rule that has no effect beside another. Pure: no I/O.

use super::{OneOf, Rule};

impl Rule {
    /// Returns `true` if both rules match the same calls and have the same verdict.
    pub(crate) fn same(&self, other: &Self) -> bool {
        self.verdict == other.verdict && self.same_about(other)
    }

    /// Returns `true` if both rules match the same calls.
    pub(crate) fn same_about(&self, other: &Self) -> bool {
        self.about_all_of(other) && other.about_all_of(self)
    }

    /// Returns `true` if the other rule can never decide, because this one is at least as strict
    /// and matches every call that the other matches.
    pub(crate) fn shadows(&self, other: &Self) -> bool {
        self.verdict >= other.verdict && self.about_all_of(other)
    }

    fn about_all_of(&self, other: &Self) -> bool {
        covers(&self.tools, &other.tools)
            && covers(&self.paths, &other.paths)
            && covers(&self.findings, &other.findings)
            && self.command.len() <= other.command.len()
            && self.command.iter().zip(&other.command).all(|(one, word)| one.has_all_of(word))
    }
}

/// Returns `true` if `list` contains everything in `other`. An empty list contains everything.
fn covers<T: PartialEq>(list: &[T], other: &[T]) -> bool {
    list.is_empty() || !other.is_empty() && other.iter().all(|item| list.contains(item))
}

impl OneOf {
    fn has_all_of(&self, other: &Self) -> bool {
        match other {
            Self::Word(word) => self.has(word),
            Self::Choice(words) => words.iter().all(|word| self.has(word)),
        }
    }
}
