//! Finds the end of a chain when a daemon starts. It cuts off a record that a crash left
//! half-written, and compares the log with the head file. Nothing that was there is lost.

use crate::{
    chain::Chain,
    error::{AuditError, ReadError},
    files::{Directory, Head, failed},
    hash::Hash,
    line::{Entry, Link},
    record::{HeadFault, Kind, Repair, TornEnd},
};
use serde::Deserialize;
use std::{collections::HashSet, fs::File, io, os::unix::fs::FileExt as _};

/// The number of bytes that are read at first to find the last line.
const CHUNK: u64 = 64 << 10;

/// The number of bytes at the end of a file that are searched for calls without a result.
const LAST_RUN: u64 = 1 << 20;

/// The number of bytes at the start of a line that contain its kind.
const BEGINNING: usize = 256;

/// The end of a chain, where writing continues.
#[derive(Debug)]
pub(crate) struct End {
    /// The file in which writing continues.
    pub(crate) name: String,
    /// The length of that file.
    pub(crate) length: u64,
    /// The last record.
    pub(crate) head: Head,
    /// The repair to record, if there was one.
    pub(crate) repair: Option<Repair>,
}

/// The last whole record of a file, with its line, and the offset at which it ends.
pub(crate) struct LastRecord {
    pub(crate) record: Option<(Link, Vec<u8>)>,
    end: u64,
}

impl From<ReadError> for AuditError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Io { act, path, source } => Self::Io { act, path, source },
            ReadError::NotARecord { .. } | ReadError::Archive { .. } => {
                Self::Failed(error.to_string())
            }
        }
    }
}

/// Finds the end of a chain, and cuts off an incomplete record.
pub(crate) fn end(directory: &Directory, chain: Chain) -> Result<End, AuditError> {
    let segments = directory.segments(chain)?;
    let stored = directory.head(chain)?;
    let Some(name) = segments.last().cloned() else {
        return Ok(first(chain, stored));
    };
    let mut last = None;
    let mut end = (0, 0);
    for (place, segment) in segments.iter().enumerate().rev() {
        let path = directory.path(segment);
        let file = directory.open_segment(segment)?;
        let length = file.metadata().map_err(failed("look at", &path))?.len();
        let found = last_of(&file, length).map_err(failed("read", &path))?;
        if place + 1 == segments.len() {
            end = (found.end, length);
        }
        if let Some((link, line)) = found.record {
            // A record that is whole but unknown is not a torn end, and must not be cut off.
            if let Err(error) = Entry::parse(&line) {
                let (file, seq, why) = (segment.clone(), link.seq, error.to_string());
                return Err(AuditError::UnknownRecord { file, seq, why });
            }
            last = Some((link, Hash::of(&line)));
            break;
        }
    }
    let head = last.as_ref().map_or(Head::NONE, |(link, hash)| Head { seq: link.seq, hash: *hash });
    let torn = cut(directory, &name, head, end)?;
    let fault = fault(stored, last.as_ref());
    let unfinished = unfinished(directory, &name, end.0)?;
    let amiss = torn.is_some() || fault.is_some() || !unfinished.is_empty();
    let repair = amiss.then_some(Repair { torn, head: fault, found: head, unfinished });
    Ok(End { name, length: end.0, head, repair })
}

/// Returns the end of a chain without files: it is new, or all of it was deleted.
fn first(chain: Chain, stored: Option<Head>) -> End {
    let gone = stored.filter(|head| *head != Head::NONE).map(HeadFault::Named);
    let unfinished = Vec::new();
    let repair =
        gone.map(|head| Repair { torn: None, head: Some(head), found: Head::NONE, unfinished });
    End { name: chain.segment(1), length: 0, head: Head::NONE, repair }
}

/// Finds the calls of the last run that have no result, within the end of the file.
fn unfinished(directory: &Directory, name: &str, end: u64) -> Result<Vec<String>, AuditError> {
    /// The fields of a record that matter here.
    #[derive(Deserialize)]
    struct CallFields {
        kind: Kind,
        call_id: Option<String>,
    }
    let path = directory.path(name);
    let size = end.min(LAST_RUN);
    let mut bytes = vec![0; usize::try_from(size).unwrap_or_default()];
    File::open(&path)
        .and_then(|file| file.read_exact_at(&mut bytes, end - size))
        .map_err(failed("read", &path))?;
    let (mut calls, mut ended) = (Vec::new(), HashSet::new());
    // From the end back to the start of the last run, which is usually near.
    for line in bytes.rsplit(|byte| *byte == b'\n') {
        // The kind is near the start of a line, so most other lines need not be parsed.
        let begin = line.get(..line.len().min(BEGINNING)).unwrap_or_default();
        let tells = |kind: &str| begin.windows(kind.len()).any(|part| part == kind.as_bytes());
        if !["\"kind\":\"start", "\"kind\":\"call", "\"kind\":\"result"].into_iter().any(tells) {
            continue;
        }
        match serde_json::from_slice::<CallFields>(line) {
            Ok(CallFields { kind: Kind::Start, .. }) => break,
            Ok(CallFields { kind: Kind::Result, call_id: Some(id) }) => {
                ended.insert(id);
            }
            Ok(CallFields { kind: Kind::Call, call_id: Some(id) }) if !ended.contains(&id) => {
                calls.push(id);
            }
            Ok(_) | Err(_) => {}
        }
    }
    calls.reverse();
    Ok(calls)
}

/// Finds a disagreement between head file and log. A head that is one record behind is not a fault:
/// a daemon that ends between the two writes leaves that.
fn fault(stored: Option<Head>, last: Option<&(Link, Hash)>) -> Option<HeadFault> {
    let Some(stored) = stored else {
        return last.map(|_| HeadFault::Missing);
    };
    let agrees = match last {
        None => stored == Head::NONE,
        Some((link, hash)) => {
            let before = Head { seq: link.seq.saturating_sub(1), hash: link.prev };
            stored == Head { seq: link.seq, hash: *hash } || stored == before
        }
    };
    (!agrees).then_some(HeadFault::Named(stored))
}

/// Cuts off what follows the last whole record, and keeps it in a separate file. If that file
/// exists already, an earlier start ended before it could record its repair.
fn cut(
    directory: &Directory,
    name: &str,
    head: Head,
    (end, length): (u64, u64),
) -> Result<Option<TornEnd>, AuditError> {
    let path = directory.path(name);
    let kept_in = format!("{name}.torn-{}", head.seq + 1);
    let torn = |bytes| Some(TornEnd { file: name.to_owned(), kept_in: kept_in.clone(), bytes });
    if end == length {
        return match directory.path(&kept_in).metadata() {
            Ok(kept) => Ok(torn(kept.len())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(failed("look at", &directory.path(&kept_in))(error)),
        };
    }
    let file = directory.open_segment(name)?;
    let mut bytes = vec![0; usize::try_from(length - end).unwrap_or(usize::MAX)];
    file.read_exact_at(&mut bytes, end).map_err(failed("read", &path))?;
    directory.keep(&kept_in, &bytes)?;
    directory.sync()?;
    file.set_len(end).and_then(|()| file.sync_all()).map_err(failed("cut", &path))?;
    Ok(torn(length - end))
}

/// Finds the last complete line of a file that is a record, of whatever kind.
pub(crate) fn last_of(file: &File, length: u64) -> io::Result<LastRecord> {
    let mut end = length;
    while end > 0 {
        let (start, line) = last_line(file, end)?;
        if line.last() == Some(&b'\n')
            && let Some(link) = Link::parse(&line)
        {
            return Ok(LastRecord { record: Some((link, line)), end });
        }
        end = start;
    }
    Ok(LastRecord { record: None, end: 0 })
}

/// Reads the last line before `end`, and returns it with its offset.
fn last_line(file: &File, end: u64) -> io::Result<(u64, Vec<u8>)> {
    let mut size = CHUNK.min(end);
    loop {
        let from = end - size;
        let mut bytes = vec![0; usize::try_from(size).map_err(io::Error::other)?];
        file.read_exact_at(&mut bytes, from)?;
        let before = bytes.len().saturating_sub(1);
        match bytes[..before].iter().rposition(|byte| *byte == b'\n') {
            Some(at) => return Ok((from + at as u64 + 1, bytes.split_off(at + 1))),
            None if from == 0 => return Ok((0, bytes)),
            None => size = size.saturating_mul(2).min(end),
        }
    }
}
