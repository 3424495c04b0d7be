//! The state while the records of one chain are checked, one after the other. Pure: no I/O.

use crate::{
    chain::Chain,
    diagnose::{BadRecord, Evidence, Mark, TamperKind, diagnose},
    files::{Head, WriterPresence},
    hash::Hash,
    key::PublicKey,
    line::{Entry, Link},
    read::LogPosition,
    record::{ArchiveAct, ArchiveEvent, HeadFault, Record},
    writer::signed_text,
};
use std::collections::BTreeSet;

/// The number of lines after the first bad one that are examined to determine what was done.
const LOOK_AHEAD: usize = 1_000_000;

/// The state while reading one chain.
#[derive(Debug)]
pub(super) struct Check {
    chain: Chain,
    stored: Option<Head>,
    /// The presence of a process that writes the chain; `None` if the chain was not there at first.
    writer: Option<WriterPresence>,
    key: Option<PublicKey>,
    /// The record that the first one continues.
    pub(super) begin: Head,
    pub(super) good: Head,
    pub(super) signed: Option<Head>,
    pub(super) previous: Option<Mark>,
    /// The lines from the first one that does not fit.
    rest: Vec<Mark>,
    /// True if the previous source can not be trusted, so that the next one begins anew.
    distrusted: bool,
    /// The record at the head's number, if its hash differs.
    conflict: Option<BadRecord>,
    /// The first record after the one that the head names.
    beyond: Option<BadRecord>,
    /// The first record with a signature that does not prove anything.
    forged: Option<BadRecord>,
    pub(super) losses: Vec<BadRecord>,
    pub(super) torn: u64,
    /// Calls without a result.
    pub(super) calls: BTreeSet<String>,
    /// The deleted archives, of any chain, from the records about the deletions.
    pub(super) deleted: Vec<ArchiveEvent>,
}

impl Check {
    pub(super) const fn new(
        chain: Chain,
        stored: Option<Head>,
        writer: Option<WriterPresence>,
        key: Option<PublicKey>,
    ) -> Self {
        Self {
            chain,
            stored,
            writer,
            key,
            begin: Head::NONE,
            good: Head::NONE,
            signed: None,
            previous: None,
            rest: Vec::new(),
            distrusted: false,
            conflict: None,
            beyond: None,
            forged: None,
            losses: Vec::new(),
            torn: 0,
            calls: BTreeSet::new(),
            deleted: Vec::new(),
        }
    }

    /// Begins with the record after `head`.
    pub(super) fn begin_after(&mut self, head: Head) {
        (self.begin, self.good) = (head, head);
    }

    /// Goes on with the record after `head`, whatever came before.
    pub(super) fn continue_after(&mut self, head: Head) {
        (self.good, self.previous, self.distrusted) = (head, None, false);
        self.rest.clear();
    }

    /// Notes that the records up to here prove nothing about the next ones.
    pub(super) fn distrust(&mut self) {
        self.distrusted = true;
    }

    pub(super) const fn is_distrusted(&self) -> bool {
        self.distrusted
    }

    /// Returns `true` if a line did not continue the chain.
    pub(super) fn is_bad(&self) -> bool {
        !self.rest.is_empty()
    }

    /// Processes the next line, and returns its head if it fits.
    pub(super) fn feed(&mut self, place: LogPosition, bytes: &[u8]) -> Option<Head> {
        let hash = Hash::of(bytes);
        let link = Link::parse(bytes);
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
            Some(("signature" | "archive", _)) => self.take(&mark.place, bytes),
            Some(_) | None => {}
        }
        self.good = head;
        self.previous = Some(mark);
        Some(head)
    }

    /// Takes in a signature of the record before, or the deletion of an archive.
    fn take(&mut self, place: &LogPosition, line: &[u8]) {
        let seq = self.good.seq + 1;
        match Entry::parse(line).map(|entry| entry.record) {
            Ok(Record::Signature(signature)) => {
                let text = signed_text(self.chain, self.good);
                match signature.check(text.as_bytes(), self.key.as_ref()) {
                    Ok(()) => self.signed = Some(self.good),
                    Err(fault) => {
                        let (place, what) = (place.clone(), TamperKind::Signature(fault));
                        self.forged.get_or_insert(BadRecord { place, seq, what });
                    }
                }
            }
            Ok(Record::Archive(archive)) if archive.act == ArchiveAct::Deleted => {
                self.deleted.push(archive);
            }
            Ok(_) | Err(_) => {}
        }
    }

    pub(super) fn conclude(&self, end: LogPosition) -> Option<BadRecord> {
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
        let more = self.writer == Some(WriterPresence::None) && self.good.seq > stored.seq + 1;
        let beyond = || self.beyond.clone().filter(|_| more);
        self.forged.clone().or_else(|| self.conflict.clone()).or_else(beyond)
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
