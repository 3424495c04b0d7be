//! A profile's `[transactions]` settings: which effects of a command need approval before they are
//! committed, and which never do. Pure: no I/O.

use crate::{
    keys::{Choosing, LaterWord, Neutral, Single, Smaller, noun, section, words},
    limits::count,
    rules::glob,
    size::Size,
};
use serde::{Deserialize, Serialize};
use std::num::NonZeroU64;

words! {
    /// The need for approval of a kind of change.
    pub(crate) enum ApprovalNeed {
        Allow = "allow",
        Ask = "ask",
    }
}

section! {
    /// The profile section `[transactions]`.
    "transactions." pub(crate) struct Transactions, written as TransactionsText {
        /// deletion of what existed before
        deletions: ApprovalNeed = ApprovalNeed::Ask, LaterWord(ASKS_LESS);
        /// new contents for what existed before, except where something was only added
        replacements: ApprovalNeed = ApprovalNeed::Ask, LaterWord(ASKS_LESS);
        /// more entries than this need approval, whatever happens to them
        most_files: NonZeroU64 = count(10_000), Smaller;
        /// more bytes than this need approval
        most_bytes: Size = Size::gib(1), Smaller;
        /// where nobody is asked (`ask = "never"`): `undoable` denies a loss that undo can not keep,
        /// and every [plant](losses.md#plants). The profile `autonomous` has it
        unreviewed: Unreviewed = Unreviewed::Allow, LaterWord(ASKS_LESS);
        /// how many files in directories that git ignores a session may delete or replace without
        /// approval, as long as undo keeps them
        unasked_files: u64 = 1000, Smaller;
        /// how many bytes of such files
        unasked_bytes: Size = Size::mib(16), Smaller;
        /// what may be created and deleted without approval, unless git tracks it: names or paths
        /// at any depth of the workspace, with `*` and `?`. With a slash at the end, directories of
        /// that name and everything below. The built-in profiles list caches and build directories
        /// here
        noise: Vec<Noise> = Vec::new(), Choosing("needs approval in");
        /// where the writes of a command are stored until they are committed, up to
        /// `limits.transaction`: in memory, or on the workspace's own file system, for files of
        /// gigabytes. See [transactions](transactions.md#where-it-is-kept)
        upper: Upper = Upper::Memory, Neutral::GreaterApplies;
        /// what must be on disk before a commit is done, so that a power cut leaves the old or the
        /// new: nothing; what replaces something; new files as well
        durable: Durable = Durable::Replaced, Neutral::GreaterApplies;
    }
}

/// The effect of a word of these keys that is laxer than the extended profile's.
const ASKS_LESS: &str = "asks for approval less often";

words! {
    /// The decision about a loss that nobody reviews.
    pub(crate) enum Unreviewed {
        /// The loss is committed.
        Allow = "allow",
        /// The loss is committed if undo can restore it, and denied otherwise. Plants are denied.
        Undoable = "undoable",
    }
}

words! {
    /// The storage for what a command writes, until it is committed.
    pub(crate) enum Upper {
        Memory = "memory",
        Disk = "disk",
    }
}

words! {
    /// The data that is flushed to disk before a commit: none, replaced files only, or new files
    /// too.
    pub(crate) enum Durable {
        No = "no",
        Replaced = "replaced",
        All = "all",
    }
}

/// A path pattern below the workspace, at any depth. With a trailing slash it matches a directory
/// and everything below it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct Noise {
    text: String,
    /// The glob that it means, from the workspace on.
    parts: Vec<String>,
}

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
        let below = text.ends_with('/').then_some("**");
        let parts = std::iter::once("**").chain(body.split('/')).chain(below);
        Ok(Self { parts: parts.map(str::to_owned).collect(), text })
    }
}

impl From<Noise> for String {
    fn from(noise: Noise) -> Self {
        noise.text
    }
}

noun! { Noise: "path", "paths"; }

impl Single for Noise {
    fn shown(&self) -> String {
        self.text.clone()
    }
}

/// The names of a path, which is relative to the workspace.
struct PathNames<'a> {
    names: Vec<&'a [u8]>,
    is_directory: bool,
}

impl<'a> PathNames<'a> {
    fn new(path: &'a [u8], is_directory: bool) -> Self {
        Self { names: path.split(|byte| *byte == b'/').collect(), is_directory }
    }

    fn directories(&self) -> &[&'a [u8]] {
        match self.names.split_last() {
            Some((_, above)) if !self.is_directory => above,
            Some(_) | None => &self.names,
        }
    }
}

impl Noise {
    fn is_of_directories(&self) -> bool {
        self.text.ends_with('/')
    }

    /// Returns `true` if the pattern matches a path. A pattern for a directory matches directories
    /// and their contents, but never a file of that name.
    fn is(&self, path: &PathNames<'_>) -> bool {
        let names = if self.is_of_directories() { path.directories() } else { &path.names };
        glob::names(&self.parts, names)
    }
}

impl Transactions {
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

    /// Returns the patterns of noise that match directories at any depth, as patterns of names.
    pub(crate) fn noise_directories(&self) -> Vec<String> {
        let directories = self.noise.iter().filter(|noise| noise.is_of_directories());
        directories.map(|noise| format!("**/{}", noise.text)).collect()
    }

    /// Returns `true` if a path, relative to the workspace, is noise: changes to it never need
    /// approval.
    pub(crate) fn is_noise(&self, path: &[u8], is_directory: bool) -> bool {
        let path = PathNames::new(path, is_directory);
        self.noise.iter().any(|noise| noise.is(&path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::Section as _;

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
            let names = PathNames::new(path.as_bytes(), is_directory);
            assert_eq!(noise(pattern).is(&names), expected, "{pattern} {path}");
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
        let both = lax.both(&strict);
        assert_eq!((both.deletions, both.noise), (ApprovalNeed::Ask, vec![noise("b/")]));
    }
}
