//! Tells from the lines around the first one that does not fit what was done to a chain. Pure.

use crate::{files::Head, hash::Hash, read::Place};
use std::fmt;

/// What is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// The record is not what it was.
    Edited,
    /// It and those after it, up to this number, are not there, and later ones are.
    Deleted(u64),
    /// The record stands before one that it should follow.
    Reordered,
    /// The record was not written here.
    Inserted,
    /// It and those after it, up to this number, are not there any more.
    Cut(u64),
    /// The head file is not there: whether something was cut off can not be told.
    HeadMissing,
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Edited => f.write_str("edited"),
            Self::Deleted(_) => f.write_str("deleted"),
            Self::Reordered => f.write_str("reordered"),
            Self::Inserted => f.write_str("inserted"),
            Self::Cut(_) => f.write_str("cut"),
            Self::HeadMissing => f.write_str("head_missing"),
        }
    }
}

/// The first bad record of a chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bad {
    /// Where it stands; for what is missing, where it should.
    pub place: Place,
    /// Its number, or the first number that is missing.
    pub seq: u64,
    /// What is wrong.
    pub what: What,
}

impl fmt::Display for Bad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { place: Place { file, line }, seq, what } = self;
        write!(f, "{file}:{line}: ")?;
        match what {
            What::Edited => write!(f, "record {seq} was edited"),
            What::Deleted(last) if last == seq => write!(f, "record {seq} was deleted"),
            What::Deleted(last) => write!(f, "records {seq} to {last} were deleted"),
            What::Reordered => write!(f, "record {seq} was moved here: reordered"),
            What::Inserted => write!(f, "record {seq} was inserted"),
            What::Cut(last) if last == seq => write!(f, "record {seq} was cut off at the end"),
            What::Cut(last) => write!(f, "records {seq} to {last} were cut off at the end"),
            What::HeadMissing => {
                write!(f, "the head file is missing: records after {seq} may have been cut off")
            }
        }
    }
}

/// A line and what it says of its place in the chain.
#[derive(Debug, Clone)]
pub(crate) struct Mark {
    pub(crate) place: Place,
    /// Its number and the hash of the line before; none if it is not a record.
    pub(crate) link: Option<(u64, Hash)>,
    pub(crate) hash: Hash,
}

/// What there is to go by.
#[derive(Debug)]
pub(crate) struct Evidence<'a> {
    /// The last line that fits.
    pub(crate) before: Option<&'a Mark>,
    /// The first one that does not.
    pub(crate) first: &'a Mark,
    /// Those after it.
    pub(crate) rest: &'a [Mark],
    /// The number and hash of `before`.
    pub(crate) good: Head,
    /// What the head file says.
    pub(crate) stored: Option<Head>,
}

/// Names the first bad record.
pub(crate) fn diagnose(evidence: &Evidence<'_>) -> Bad {
    let Evidence { first, rest, good, .. } = evidence;
    let missing = good.seq + 1;
    let at = |mark: &Mark, seq, what| Bad { place: mark.place.clone(), seq, what };
    let Some((seq, _)) = first.link else {
        return at(first, missing, What::Edited);
    };
    if rest.iter().any(|mark| mark.link == Some((missing, good.hash))) {
        // What should be here comes later: `first` is a stranger, or came too early.
        let what =
            if seq > missing && evidence.is_followed() { What::Reordered } else { What::Inserted };
        return at(first, seq, what);
    }
    let number_changed = match rest.first() {
        Some(next) => next.link.is_some_and(|(next, _)| next == missing + 1),
        None => evidence.stored.is_some_and(|stored| stored.seq == missing),
    };
    match (seq.cmp(&missing), evidence.before) {
        // The one before is not what this one was written after, and this one is as it was.
        (std::cmp::Ordering::Equal, Some(before)) if evidence.is_followed() => {
            at(before, good.seq, What::Edited)
        }
        (std::cmp::Ordering::Equal, _) => at(first, missing, What::Edited),
        (_, _) if number_changed => at(first, missing, What::Edited),
        (std::cmp::Ordering::Greater, _) => at(first, missing, What::Deleted(seq - 1)),
        (std::cmp::Ordering::Less, _) => at(first, seq, What::Inserted),
    }
}

impl Evidence<'_> {
    /// Whether another line, or the head, was written after `first` as it is.
    fn is_followed(&self) -> bool {
        let hash = self.first.hash;
        self.rest.iter().any(|mark| mark.link.is_some_and(|(_, prev)| prev == hash))
            || self.stored.is_some_and(|stored| stored.hash == hash)
    }
}
