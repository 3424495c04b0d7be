//! Holds every chain of a directory against itself, its head file and what was noted elsewhere.

use crate::{
    chain::Chain,
    diagnose::{Bad, Evidence, Mark, What, diagnose},
    error::ReadError,
    files::{Directory, Head, Writer, unread},
    hash::Hash,
    line::Entry,
    read::{Place, next_line},
    record::{HeadFault, Record},
};
use serde::Deserialize;
use std::{collections::BTreeSet, fs::File, io::BufReader, path::Path};

/// How many lines after the first bad one are looked at to tell what was done.
const LOOK_AHEAD: usize = 1_000_000;

/// What was found of one chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainReport {
    /// Which.
    pub chain: Chain,
    /// How many files it has.
    pub files: usize,
    /// The last record up to which all is well.
    pub head: Head,
    /// Bytes of a record that was being written when its daemon was ended. They belong to nothing
    /// that happened; the next start repairs it.
    pub torn: u64,
    /// What earlier starts of a daemon found missing or changed, as their `repair` records say.
    pub losses: Vec<Bad>,
    /// The first bad record.
    pub bad: Option<Bad>,
    /// Calls that have no result: under way, or ended with their daemon, and then nobody knows what
    /// they did.
    pub unfinished: Vec<String>,
}

/// What was found of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verification {
    /// Chain by chain.
    pub chains: Vec<ChainReport>,
    /// Heads that were noted elsewhere and that no chain holds.
    pub missing: Vec<Head>,
}

impl Verification {
    /// Whether all is well.
    #[must_use]
    pub fn is_good(&self) -> bool {
        let good = |chain: &ChainReport| chain.bad.is_none() && chain.losses.is_empty();
        self.missing.is_empty() && self.chains.iter().all(good)
    }
}

/// Verifies all chains of a directory. `anchors` are heads that were noted elsewhere: against
/// somebody who may write to the directory only they tell whether the end was cut off, or all of
/// it written anew.
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
    // A writer may go on meanwhile: what the head names now must be in what is read after.
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
            let place = Place { file: name.clone(), line };
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
    let end = || Place {
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

/// One chain while it is being read.
struct Check {
    stored: Option<Head>,
    good: Head,
    previous: Option<Mark>,
    /// From the first line that does not fit.
    rest: Vec<Mark>,
    /// The record that the head names, if it is another one.
    conflict: Option<Bad>,
    /// The first record after the one that the head names.
    beyond: Option<Bad>,
    losses: Vec<Bad>,
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

    /// Takes the next line; its head if it fits.
    fn feed(&mut self, place: Place, bytes: &[u8]) -> Option<Head> {
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
        let at = |what| Some(Bad { place: mark.place.clone(), seq: head.seq, what });
        match self.stored {
            Some(stored) if stored.seq == head.seq && stored.hash != hash => {
                self.conflict = at(What::Edited);
            }
            Some(stored) if stored.seq + 1 == head.seq => self.beyond = at(What::Inserted),
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

    fn conclude(&self, end: Place, writer: Writer) -> Option<Bad> {
        if let Some((first, rest)) = self.rest.split_first() {
            let (before, stored, good) = (self.previous.as_ref(), self.stored, self.good);
            return Some(diagnose(&Evidence { before, first, rest, good, stored }));
        }
        let Some(stored) = self.stored else {
            return Some(Bad { place: end, seq: self.good.seq, what: What::HeadMissing });
        };
        if stored.seq > self.good.seq {
            return Some(Bad { place: end, seq: self.good.seq + 1, what: What::Cut(stored.seq) });
        }
        // An end of the daemon between a record and its head leaves one record more, and one that
        // is alive as many as it likes.
        let more = writer == Writer::None && self.good.seq > stored.seq + 1;
        self.conflict.clone().or_else(|| self.beyond.clone().filter(|_| more))
    }
}

/// What a repair found missing or changed; a torn end alone is neither.
fn loss(place: &Place, line: &[u8]) -> Option<Bad> {
    let Ok(Entry { record: Record::Repair(repair), .. }) = Entry::parse(line) else {
        return None;
    };
    let found = repair.found.seq;
    let (seq, what) = match repair.head? {
        HeadFault::Missing => (found, What::HeadMissing),
        HeadFault::Named(head) if head.seq > found => (found + 1, What::Cut(head.seq)),
        HeadFault::Named(head) if head.seq == found => (found, What::Edited),
        HeadFault::Named(head) => (head.seq + 1, What::Inserted),
    };
    Some(Bad { place: place.clone(), seq, what })
}

#[cfg(test)]
mod tests;
