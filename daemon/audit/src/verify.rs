//! Checks every chain of a directory for consistency, against its head file and against heads noted
//! elsewhere.

use crate::{
    chain::Chain,
    diagnose::{BadRecord, Evidence, Mark, TamperKind, diagnose},
    error::ReadError,
    files::{Directory, Head, WriterPresence, unread},
    hash::Hash,
    line::Entry,
    read::{LogPosition, next_line},
    record::{HeadFault, Record},
};
use serde::Deserialize;
use std::{collections::BTreeSet, fs::File, io::BufReader, path::Path};

/// The number of lines after the first bad one that are examined to determine what was done.
const LOOK_AHEAD: usize = 1_000_000;

/// The result for one chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainReport {
    /// The chain.
    pub chain: Chain,
    /// The number of files of the chain.
    pub files: usize,
    /// The last record up to which the chain is good.
    pub head: Head,
    /// Bytes of a record that was being written when its daemon ended. No call took effect for it.
    /// The next start repairs it.
    pub torn: u64,
    /// Records that earlier daemons found missing or changed when they started, from their `repair`
    /// records.
    pub losses: Vec<BadRecord>,
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
}

impl Verification {
    /// Whether nothing is wrong.
    #[must_use]
    pub fn is_good(&self) -> bool {
        let good = |chain: &ChainReport| chain.bad.is_none() && chain.losses.is_empty();
        self.missing.is_empty() && self.chains.iter().all(good)
    }
}

/// Verifies all chains of a directory. `anchors` are heads that were noted elsewhere. Only they
/// reveal whether somebody with write access to the directory has cut off the end or rewritten the
/// whole log.
///
/// # Errors
/// If a file can not be read.
pub fn verify(directory: &Path, anchors: &[Head]) -> Result<Verification, ReadError> {
    let directory = Directory(directory.to_owned());
    let mut missing = anchors.to_vec();
    let mut chains = Vec::new();
    for chain in directory.chains()?.into_keys() {
        chains.push(verify_chain(&directory, chain, &mut missing)?);
    }
    Ok(Verification { chains, missing })
}

fn verify_chain(
    directory: &Directory,
    chain: Chain,
    missing: &mut Vec<Head>,
) -> Result<ChainReport, ReadError> {
    // A writer may be active meanwhile, so the head is read first: what it names must then be in
    // the files.
    let writer = directory.writer(chain);
    let stored = directory.head(chain)?;
    let files = directory.segments(chain)?;
    let mut check = Check::new(stored);
    for (number, name) in files.iter().enumerate() {
        let path = directory.path(name);
        let failed = unread("read", &path);
        let mut file = BufReader::new(File::open(&path).map_err(&failed)?);
        let mut line = 0;
        while let Some(bytes) = next_line(&mut file).map_err(&failed)? {
            line += 1;
            let place = LogPosition { file: name.clone(), line };
            if number + 1 == files.len() && bytes.last() != Some(&b'\n') {
                check.torn = bytes.len() as u64;
                continue;
            }
            let mark = check.feed(place, &bytes);
            if let Some(head) = mark {
                missing.retain(|anchor| *anchor != head);
            }
        }
    }
    let end = || LogPosition {
        file: files.last().cloned().unwrap_or_else(|| chain.segment(1)),
        line: check.previous.as_ref().map_or(1, |mark| mark.place.line + 1),
    };
    let bad = check.conclude(end(), writer);
    let (head, torn, losses) = (check.good, check.torn, check.losses);
    let unfinished = check.calls.into_iter().collect();
    Ok(ChainReport { chain, files: files.len(), head, torn, losses, bad, unfinished })
}

#[derive(Deserialize)]
struct Link {
    seq: u64,
    prev: Hash,
    kind: String,
    call_id: Option<String>,
}

/// The state while reading one chain.
struct Check {
    stored: Option<Head>,
    good: Head,
    previous: Option<Mark>,
    /// The lines from the first one that does not fit.
    rest: Vec<Mark>,
    /// The record at the head's number, if its hash differs.
    conflict: Option<BadRecord>,
    /// The first record after the one that the head names.
    beyond: Option<BadRecord>,
    losses: Vec<BadRecord>,
    torn: u64,
    /// Calls without a result.
    calls: BTreeSet<String>,
}

impl Check {
    const fn new(stored: Option<Head>) -> Self {
        Self {
            stored,
            good: Head::NONE,
            previous: None,
            rest: Vec::new(),
            conflict: None,
            beyond: None,
            losses: Vec::new(),
            torn: 0,
            calls: BTreeSet::new(),
        }
    }

    /// Processes the next line, and returns its head if it fits.
    fn feed(&mut self, place: LogPosition, bytes: &[u8]) -> Option<Head> {
        let hash = Hash::of(bytes);
        let link: Option<Link> = serde_json::from_slice(bytes).ok();
        let mark = Mark { place, link: link.as_ref().map(|link| (link.seq, link.prev)), hash };
        let expected = (self.good.seq + 1, self.good.hash);
        if !self.rest.is_empty() || mark.link != Some(expected) {
            if self.rest.len() < LOOK_AHEAD {
                self.rest.push(mark);
            }
            return None;
        }
        let head = Head { seq: expected.0, hash };
        let at = |what| Some(BadRecord { place: mark.place.clone(), seq: head.seq, what });
        match self.stored {
            Some(stored) if stored.seq == head.seq && stored.hash != hash => {
                self.conflict = at(TamperKind::Edited);
            }
            Some(stored) if stored.seq + 1 == head.seq => self.beyond = at(TamperKind::Inserted),
            Some(_) | None => {}
        }
        match link.as_ref().map(|link| (link.kind.as_str(), &link.call_id)) {
            Some(("repair", _)) => self.losses.extend(loss(&mark.place, bytes)),
            Some(("call", Some(id))) => drop(self.calls.insert(id.clone())),
            Some(("result", Some(id))) => drop(self.calls.remove(id)),
            Some(_) | None => {}
        }
        self.good = head;
        self.previous = Some(mark);
        Some(head)
    }

    fn conclude(&self, end: LogPosition, writer: WriterPresence) -> Option<BadRecord> {
        if let Some((first, rest)) = self.rest.split_first() {
            let (before, stored, good) = (self.previous.as_ref(), self.stored, self.good);
            return Some(diagnose(&Evidence { before, first, rest, good, stored }));
        }
        let Some(stored) = self.stored else {
            return Some(BadRecord {
                place: end,
                seq: self.good.seq,
                what: TamperKind::HeadMissing,
            });
        };
        if stored.seq > self.good.seq {
            return Some(BadRecord {
                place: end,
                seq: self.good.seq + 1,
                what: TamperKind::Cut(stored.seq),
            });
        }
        // A daemon that ends between a record and its head leaves one record more than the head
        // names. A running one may have written any number.
        let more = writer == WriterPresence::None && self.good.seq > stored.seq + 1;
        self.conflict.clone().or_else(|| self.beyond.clone().filter(|_| more))
    }
}

/// Returns what a repair found missing or changed. An incomplete last record alone is neither.
fn loss(place: &LogPosition, line: &[u8]) -> Option<BadRecord> {
    let Ok(Entry { record: Record::Repair(repair), .. }) = Entry::parse(line) else {
        return None;
    };
    let found = repair.found.seq;
    let (seq, what) = match repair.head? {
        HeadFault::Missing => (found, TamperKind::HeadMissing),
        HeadFault::Named(head) if head.seq > found => (found + 1, TamperKind::Cut(head.seq)),
        HeadFault::Named(head) if head.seq == found => (found, TamperKind::Edited),
        HeadFault::Named(head) => (head.seq + 1, TamperKind::Inserted),
    };
    Some(BadRecord { place: place.clone(), seq, what })
}

#[cfg(test)]
mod tests;
