//! A profile's `[transactions]` settings: which effects of a command need approval before they are
//! committed, and which never do. Pure: no I/O.

use crate::{access::Widening, rules::glob, size::Size};
use serde::{Deserialize, Serialize};
use std::num::NonZeroU64;

/// The need for approval of a kind of change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ApprovalNeed {
    Allow,
    Ask,
}

/// The profile section `[transactions]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Transactions {
    /// The need for approval of deletions of files that existed before.
    pub(crate) deletions: ApprovalNeed,
    /// The need for approval of changes to the contents of files that existed before.
    pub(crate) replacements: ApprovalNeed,
    /// The number of changed entries above which a change set needs approval.
    pub(crate) most_files: NonZeroU64,
    /// The number of changed bytes above which a change set needs approval.
    pub(crate) most_bytes: Size,
    /// The decision about a loss that nobody reviews.
    pub(crate) unreviewed: Unreviewed,
    /// The number of files in ignored directories that a session may delete or replace without
    /// approval.
    pub(crate) unasked_files: u64,
    /// The number of bytes in such files.
    pub(crate) unasked_bytes: Size,
    /// Paths that may be created, changed and deleted without approval.
    pub(crate) noise: Vec<Noise>,
    /// The storage for what a command writes, until it is committed.
    pub(crate) upper: Upper,
    /// The data that is flushed to disk before a commit.
    pub(crate) durable: Durable,
}

/// The decision about a loss that nobody reviews.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Unreviewed {
    /// The loss is committed.
    Allow,
    /// The loss is committed if undo can restore it, and denied otherwise. Plants are denied.
    Undoable,
}

/// The storage for what a command writes, until it is committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Upper {
    Memory,
    Disk,
}

/// The data that is flushed to disk before a commit: none, replaced files only, or new files too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Durable {
    No,
    Replaced,
    All,
}

/// A path pattern below the workspace, at any depth. With a trailing slash it matches a directory
/// and everything below it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct Noise(String);

impl TryFrom<String> for Noise {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let wrong = |why: &str| Err(format!("{text:?} {why}"));
        let body = text.strip_suffix('/').unwrap_or(&text);
        if body.is_empty() || body.starts_with('/') || body.starts_with('$') {
            return wrong("is not a path below the workspace");
        }
        if body.split('/').any(|part| part.is_empty() || part == "." || part == "..") {
            return wrong("has an empty name, `.` or `..` in it");
        }
        if body.chars().all(|letter| matches!(letter, '*' | '/')) {
            return wrong("matches everything, so nothing would need approval");
        }
        Ok(Self(text))
    }
}

impl From<Noise> for String {
    fn from(noise: Noise) -> Self {
        noise.0
    }
}

impl Noise {
    /// Returns the pattern as it is written.
    pub(crate) fn shown(&self) -> String {
        self.0.clone()
    }

    /// Returns `true` if the pattern matches a path, which is relative to the workspace. A pattern
    /// for a directory matches directories and their contents, but never a file of that name.
    fn is(&self, path: &[u8], is_directory: bool) -> bool {
        let Some(directory) = self.0.strip_suffix('/') else {
            return glob::matches(format!("**/{}", self.0).as_bytes(), path);
        };
        let above = || path.iter().rposition(|byte| *byte == b'/').and_then(|end| path.get(..end));
        let directories = if is_directory { Some(path) } else { above() };
        let pattern = format!("**/{directory}/**");
        directories.is_some_and(|path| glob::matches(pattern.as_bytes(), path))
    }
}

impl Default for Transactions {
    fn default() -> Self {
        Self {
            deletions: ApprovalNeed::Ask,
            replacements: ApprovalNeed::Ask,
            most_files: NonZeroU64::MIN.saturating_add(9_999),
            most_bytes: Size::gib(1),
            unreviewed: Unreviewed::Allow,
            unasked_files: 1000,
            unasked_bytes: Size::mib(16),
            noise: Vec::new(),
            upper: Upper::Memory,
            durable: Durable::Replaced,
        }
    }
}

/// The section `[transactions]` as it is written in a profile.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct TransactionsText {
    deletions: Option<ApprovalNeed>,
    replacements: Option<ApprovalNeed>,
    most_files: Option<NonZeroU64>,
    most_bytes: Option<Size>,
    unreviewed: Option<Unreviewed>,
    unasked_files: Option<u64>,
    unasked_bytes: Option<Size>,
    noise: Option<Vec<Noise>>,
    upper: Option<Upper>,
    durable: Option<Durable>,
}

impl Transactions {
    /// Combines two profiles: only what both allow without approval.
    pub(crate) fn stricter(&self, other: &Self) -> Self {
        let common = |a: &[Noise], b: &[Noise]| -> Vec<Noise> {
            a.iter().filter(|noise| b.contains(noise)).cloned().collect()
        };
        Self {
            deletions: self.deletions.max(other.deletions),
            replacements: self.replacements.max(other.replacements),
            most_files: self.most_files.min(other.most_files),
            most_bytes: self.most_bytes.min(other.most_bytes),
            unreviewed: self.unreviewed.max(other.unreviewed),
            unasked_files: self.unasked_files.min(other.unasked_files),
            unasked_bytes: self.unasked_bytes.min(other.unasked_bytes),
            noise: common(&self.noise, &other.noise),
            upper: self.upper.max(other.upper),
            durable: self.durable.max(other.durable),
        }
    }

    /// Returns the transaction settings of a launch plan.
    pub(crate) const fn kept(&self) -> palisade_plan::Transactions {
        palisade_plan::Transactions {
            upper: match self.upper {
                Upper::Memory => palisade_plan::Upper::Memory,
                Upper::Disk => palisade_plan::Upper::Disk,
            },
            durable: match self.durable {
                Durable::No => palisade_plan::Durable::No,
                Durable::Replaced => palisade_plan::Durable::Replaced,
                Durable::All => palisade_plan::Durable::All,
            },
        }
    }

    /// Applies a profile's own `[transactions]` section on top of this one. Returns the first key
    /// that is laxer, if the profile may not widen.
    pub(crate) fn with(
        &self,
        text: TransactionsText,
        widening: Widening,
    ) -> Result<Self, (&'static str, String)> {
        let new = Self {
            deletions: text.deletions.unwrap_or(self.deletions),
            replacements: text.replacements.unwrap_or(self.replacements),
            most_files: text.most_files.unwrap_or(self.most_files),
            most_bytes: text.most_bytes.unwrap_or(self.most_bytes),
            unreviewed: text.unreviewed.unwrap_or(self.unreviewed),
            unasked_files: text.unasked_files.unwrap_or(self.unasked_files),
            unasked_bytes: text.unasked_bytes.unwrap_or(self.unasked_bytes),
            noise: text.noise.unwrap_or_else(|| self.noise.clone()),
            upper: text.upper.unwrap_or(self.upper),
            durable: text.durable.unwrap_or(self.durable),
        };
        if widening == Widening::Yes {
            return Ok(new);
        }
        let asks = "asks for approval less often than the extended profile";
        let more = |own: &[Noise], base: &[Noise]| {
            own.iter().find(|noise| !base.contains(noise)).map(Noise::shown)
        };
        if new.deletions < self.deletions {
            return Err(("transactions.deletions", asks.to_owned()));
        }
        if new.replacements < self.replacements {
            return Err(("transactions.replacements", asks.to_owned()));
        }
        if new.most_files > self.most_files {
            return Err(("transactions.most_files", asks.to_owned()));
        }
        if new.most_bytes > self.most_bytes {
            return Err(("transactions.most_bytes", asks.to_owned()));
        }
        if new.unreviewed < self.unreviewed {
            return Err(("transactions.unreviewed", asks.to_owned()));
        }
        if new.unasked_files > self.unasked_files {
            return Err(("transactions.unasked_files", asks.to_owned()));
        }
        if new.unasked_bytes > self.unasked_bytes {
            return Err(("transactions.unasked_bytes", asks.to_owned()));
        }
        if let Some(noise) = more(&new.noise, &self.noise) {
            return Err((
                "transactions.noise",
                format!("has {noise:?}, which needs approval in the extended profile"),
            ));
        }
        Ok(new)
    }

    /// Returns the patterns of noise that match directories at any depth, as patterns of names.
    pub(crate) fn noise_directories(&self) -> Vec<String> {
        let directories = self.noise.iter().filter(|noise| noise.0.ends_with('/'));
        directories.map(|noise| format!("**/{}", noise.0)).collect()
    }

    /// Returns `true` if a path, relative to the workspace, is noise: changes to it never need
    /// approval.
    pub(crate) fn is_noise(&self, path: &[u8], is_directory: bool) -> bool {
        self.noise.iter().any(|noise| noise.is(path, is_directory))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noise(text: &str) -> Noise {
        Noise::try_from(text.to_owned()).unwrap()
    }

    #[test]
    fn noise_is_at_any_depth() {
        for (pattern, path, is_directory, expected) in [
            ("target/", "target", true, true),
            ("target/", "target", false, false),
            ("target/", "src/target", false, false),
            ("target/", "target/debug/x", false, true),
            ("target/", "a/b/target/x", false, true),
            ("target/", "targets/x", false, false),
            ("*.pyc", "a/b.pyc", false, true),
            ("*.pyc", "a/b.pyc/c", false, false),
            ("a/b", "a/b", false, true),
            ("a/b", "sub/a/b", false, true),
            ("a/b/", "sub/a/b", true, true),
            ("a/b/", "sub/a", true, false),
        ] {
            let noise = noise(pattern);
            assert_eq!(noise.is(path.as_bytes(), is_directory), expected, "{pattern} {path}");
        }
    }

    #[test]
    fn what_would_be_everything_is_refused() {
        for bad in ["", "/", "/etc", "**", "*/", "**/*", "../x", "a//b", "$HOME/x", "./a"] {
            assert!(Noise::try_from(bad.to_owned()).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_stack_lets_pass_what_both_do() {
        let lax = Transactions {
            deletions: ApprovalNeed::Allow,
            noise: vec![noise("a/"), noise("b/")],
            ..Transactions::default()
        };
        let strict = Transactions { noise: vec![noise("b/")], ..Transactions::default() };
        let both = lax.stricter(&strict);
        assert_eq!((both.deletions, both.noise), (ApprovalNeed::Ask, vec![noise("b/")]));
    }
}
