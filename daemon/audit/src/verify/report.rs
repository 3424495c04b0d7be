//! The expectations that a log is checked against, and the result of the check. Pure: no I/O.

use crate::{
    archive::ArchiveDefect, chain::Chain, diagnose::BadRecord, files::Head, key::PublicKey,
};
use std::{fmt, path::PathBuf};

/// The expectations that a log is checked against, besides its own hashes.
#[derive(Debug, Clone, Default)]
pub struct VerifyOptions {
    /// Heads noted elsewhere. Only they, or signatures, reveal whether somebody with write access
    /// to the directory has cut off the end or rewritten the whole log.
    pub expect: Vec<Head>,
    /// A head at which the log may begin: the records up to it are elsewhere, or verified already.
    /// It must be in a chain, or be what a chain continues.
    pub from: Option<Head>,
    /// Further directories with archives; those beside the log are checked anyway.
    pub archives: Vec<PathBuf>,
    /// The key that must have signed every archive and every signed head.
    pub key: Option<PublicKey>,
}

/// A defect of an archive, or records that should be in one and are not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ArchiveFault {
    /// An archive can not be trusted.
    Defect {
        /// The name of the archive.
        file: String,
        /// The defect.
        defect: ArchiveDefect,
    },
    /// Records are neither in the log nor in an archive.
    Missing {
        /// The number of the first missing record.
        first: u64,
        /// The last missing record, as the record after it names it.
        last: Head,
    },
}

impl fmt::Display for ArchiveFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Defect { file, defect } => write!(f, "archive {file}: {defect}"),
            Self::Missing { first, last } => write!(
                f,
                "records {first} to {} are neither in the log nor in an archive; if they are \
                 archived elsewhere, add --archives DIR, or --from {last} if they were verified",
                last.seq
            ),
        }
    }
}

/// The result for one chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainReport {
    /// The chain.
    pub chain: Chain,
    /// The number of files of the chain in the log.
    pub files: usize,
    /// The number of archives of the chain.
    pub archives: usize,
    /// The record that the first checked one continues; number 0 if nothing is left out.
    pub begin: Head,
    /// The last record up to which the chain is good.
    pub head: Head,
    /// The last record that is covered by a valid signature.
    pub signed: Option<Head>,
    /// Bytes of a record that was being written when its daemon ended. No call took effect for it.
    /// The next start repairs it.
    pub torn: u64,
    /// Records that earlier daemons found missing or changed when they started, from their `repair`
    /// records.
    pub losses: Vec<BadRecord>,
    /// Defects of archives, and records that are missing because of an archive.
    pub faults: Vec<ArchiveFault>,
    /// The first bad record.
    pub bad: Option<BadRecord>,
    /// Calls that have no result. They are running, or ended with their daemon, and then it is
    /// unknown what they did.
    pub unfinished: Vec<String>,
}

/// The result for a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verification {
    /// The results of its chains.
    pub chains: Vec<ChainReport>,
    /// Heads noted elsewhere that are in no chain.
    pub missing: Vec<Head>,
    /// Chains that have no signature, although a key was given.
    pub unsigned: Vec<Chain>,
}

impl Verification {
    /// Returns `true` if the verification found nothing wrong.
    #[must_use]
    pub fn is_good(&self) -> bool {
        let good = |chain: &ChainReport| {
            chain.bad.is_none() && chain.losses.is_empty() && chain.faults.is_empty()
        };
        self.missing.is_empty() && self.unsigned.is_empty() && self.chains.iter().all(good)
    }
}
