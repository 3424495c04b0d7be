//! Names of a chain and its files. Pure: no I/O.

use std::fmt;

/// The number of a chain in a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Chain(pub u16);

impl fmt::Display for Chain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "c{:04}", self.0)
    }
}

impl Chain {
    pub(crate) fn segment(self, first: u64) -> String {
        format!("{self}-{first:012}.jsonl")
    }

    pub(crate) fn head(self) -> String {
        format!("{self}.head.json")
    }

    pub(crate) fn lock(self) -> String {
        format!("{self}.lock")
    }

    /// Returns the chain that a file belongs to, and the number of the file's first record.
    pub(crate) fn of_segment(name: &str) -> Option<(Self, u64)> {
        let (chain, first) = name.strip_prefix('c')?.strip_suffix(".jsonl")?.split_once('-')?;
        let (chain, first) = (Self(chain.parse().ok()?), first.parse().ok()?);
        (chain.segment(first) == name).then_some((chain, first))
    }
}
