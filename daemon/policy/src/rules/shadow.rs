//! Whether a rule is of any use beside another.

use super::{OneOf, Rule};

impl Rule {
    /// Whether the two answer the same to the same.
    pub(crate) fn same(&self, other: &Self) -> bool {
        self.verdict == other.verdict && self.same_about(other)
    }

    /// Whether the two are about the same.
    pub(crate) fn same_about(&self, other: &Self) -> bool {
        self.about_all_of(other) && other.about_all_of(self)
    }

    /// Whether the other can never decide anything, because this one is as strict and matches
    /// whatever it matches.
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

/// An empty list is about everything.
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
