//! Determines how a chain was tampered with, from the lines around the first one that does not fit.
//! Pure: no I/O.

use crate::{files::Head, hash::Hash, key::SignatureFault, read::LogPosition};
use std::fmt;

/// The kind of tampering.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TamperKind {
    /// The record was edited.
    Edited,
    /// The records up to this number are missing, and later ones exist.
    Deleted(u64),
    /// The record is before one that it should follow.
    Reordered,
    /// The record was inserted by somebody else.
    Inserted,
    /// The records up to this number were cut off at the end.
    Cut(u64),
    /// The head file is missing, so that it is unknown whether something was cut off.
    HeadMissing,
    /// The record is a signature that does not prove anything.
    Signature(SignatureFault),
}

impl fmt::Display for TamperKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Edited => f.write_str("edited"),
            Self::Deleted(_) => f.write_str("deleted"),
            Self::Reordered => f.write_str("reordered"),
            Self::Inserted => f.write_str("inserted"),
            Self::Cut(_) => f.write_str("cut"),
            Self::HeadMissing => f.write_str("head_missing"),
            Self::Signature(_) => f.write_str("signature"),
        }
    }
}

/// The first bad record of a chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadRecord {
    /// The place of the record; for a missing record, where it should be.
    pub place: LogPosition,
    /// The number of the record, or the first number that is missing.
    pub seq: u64,
    /// The kind of tampering.
    pub what: TamperKind,
}

impl fmt::Display for BadRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { place: LogPosition { file, line }, seq, what } = self;
        write!(f, "{file}:{line}: ")?;
        match what {
            TamperKind::Edited => write!(f, "record {seq} was edited"),
            TamperKind::Deleted(last) if last == seq => write!(f, "record {seq} was deleted"),
            TamperKind::Deleted(last) => write!(f, "records {seq} to {last} were deleted"),
            TamperKind::Reordered => write!(f, "record {seq} was moved here: reordered"),
            TamperKind::Inserted => write!(f, "record {seq} was inserted"),
            TamperKind::Cut(last) if last == seq => {
                write!(f, "record {seq} was cut off at the end")
            }
            TamperKind::Cut(last) => write!(f, "records {seq} to {last} were cut off at the end"),
            TamperKind::HeadMissing => {
                write!(f, "the head file is missing: records after {seq} may have been cut off")
            }
            TamperKind::Signature(fault) => write!(f, "the head in record {seq} {fault}"),
        }
    }
}

/// A line, and what it says about its place in the chain.
#[derive(Debug, Clone)]
pub(crate) struct Mark {
    pub(crate) place: LogPosition,
    /// The record's number and the hash of the line before; `None` if the line is not a record.
    pub(crate) link: Option<(u64, Hash)>,
    pub(crate) hash: Hash,
}

/// The lines and heads that a diagnosis is based on.
#[derive(Debug)]
pub(crate) struct Evidence<'a> {
    /// The last line that fits.
    pub(crate) before: Option<&'a Mark>,
    /// The first line that does not fit.
    pub(crate) first: &'a Mark,
    /// The lines after `first`.
    pub(crate) rest: &'a [Mark],
    /// The number and hash of `before`.
    pub(crate) good: Head,
    /// The contents of the head file.
    pub(crate) stored: Option<Head>,
}

/// Identifies the first bad record.
pub(crate) fn diagnose(evidence: &Evidence<'_>) -> BadRecord {
    let Evidence { first, rest, good, .. } = evidence;
    let missing = good.seq + 1;
    let at = |mark: &Mark, seq, what| BadRecord { place: mark.place.clone(), seq, what };
    let Some((seq, _)) = first.link else {
        return at(first, missing, TamperKind::Edited);
    };
    if rest.iter().any(|mark| mark.link == Some((missing, good.hash))) {
        // The expected record comes later, so `first` was inserted or moved here from further down.
        let what = if seq > missing && evidence.is_followed() {
            TamperKind::Reordered
        } else {
            TamperKind::Inserted
        };
        return at(first, seq, what);
    }
    let number_changed = match rest.first() {
        Some(next) => next.link.is_some_and(|(next, _)| next == missing + 1),
        None => evidence.stored.is_some_and(|stored| stored.seq == missing),
    };
    match (seq.cmp(&missing), evidence.before) {
        // This line is unchanged, but was written after another version of the line before.
        (std::cmp::Ordering::Equal, Some(before)) if evidence.is_followed() => {
            at(before, good.seq, TamperKind::Edited)
        }
        (std::cmp::Ordering::Equal, _) => at(first, missing, TamperKind::Edited),
        (_, _) if number_changed => at(first, missing, TamperKind::Edited),
        (std::cmp::Ordering::Greater, _) => at(first, missing, TamperKind::Deleted(seq - 1)),
        (std::cmp::Ordering::Less, _) => at(first, seq, TamperKind::Inserted),
    }
}

impl Evidence<'_> {
    /// Returns `true` if another line, or the head, was written after `first` in its present form.
    fn is_followed(&self) -> bool {
        let hash = self.first.hash;
        self.rest.iter().any(|mark| mark.link.is_some_and(|(_, prev)| prev == hash))
            || self.stored.is_some_and(|stored| stored.hash == hash)
    }
}
