//! Finds the end of a chain when a daemon starts: cuts off what a crash left half-written, and
//! holds what is there against the head file. Nothing that was there is lost.

use crate::{
    chain::Chain,
    error::{AuditError, ReadError},
    files::{Directory, Head, failed},
    hash::Hash,
    line::Entry,
    record::{HeadFault, Kind, Repair, Torn},
};
use serde::Deserialize;
use std::{fs::File, io, os::unix::fs::FileExt as _};

/// How much is read at first to find the last line.
const CHUNK: u64 = 64 << 10;

/// How much of the end of a file is looked at for calls without a result.
const LAST_RUN: u64 = 1 << 20;

/// Where in a line its kind is.
const BEGINNING: usize = 256;

/// Where a chain goes on.
#[derive(Debug)]
pub(crate) struct End {
    /// The file to go on in.
    pub(crate) name: String,
    /// How long it is.
    pub(crate) length: u64,
    /// The last record.
    pub(crate) head: Head,
    /// What is to be recorded about this.
    pub(crate) repair: Option<Repair>,
}

/// The last whole record of a file, and where it ends.
struct Last {
    entry: Option<(Entry, Hash)>,
    end: u64,
}

impl From<ReadError> for AuditError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Io { act, path, source } => Self::Io { act, path, source },
            ReadError::NotARecord { .. } => Self::Failed(error.to_string()),
        }
    }
}

/// Finds the end of a chain, and cuts off what is torn.
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
        if found.entry.is_some() {
            last = found.entry;
            break;
        }
    }
    let head =
        last.as_ref().map_or(Head::NONE, |(entry, hash)| Head { seq: entry.seq, hash: *hash });
    let torn = cut(directory, &name, head, end)?;
    let fault = fault(stored, last.as_ref());
    let unfinished = unfinished(directory, &name, end.0)?;
    let amiss = torn.is_some() || fault.is_some() || !unfinished.is_empty();
    let repair = amiss.then_some(Repair { torn, head: fault, found: head, unfinished });
    Ok(End { name, length: end.0, head, repair })
}

/// A chain without files: new, or all of it is gone.
fn first(chain: Chain, stored: Option<Head>) -> End {
    let gone = stored.filter(|head| *head != Head::NONE).map(HeadFault::Named);
    let unfinished = Vec::new();
    let repair =
        gone.map(|head| Repair { torn: None, head: Some(head), found: Head::NONE, unfinished });
    End { name: chain.segment(1), length: 0, head: Head::NONE, repair }
}

/// The calls of the last run that have no result, as far as the end of the file tells.
fn unfinished(directory: &Directory, name: &str, end: u64) -> Result<Vec<String>, AuditError> {
    /// What matters of a record.
    #[derive(Deserialize)]
    struct About {
        kind: Kind,
        call_id: Option<String>,
    }
    let path = directory.path(name);
    let size = end.min(LAST_RUN);
    let mut bytes = vec![0; usize::try_from(size).unwrap_or_default()];
    File::open(&path)
        .and_then(|file| file.read_exact_at(&mut bytes, end - size))
        .map_err(failed("read", &path))?;
    let mut calls = Vec::new();
    for line in bytes.split(|byte| *byte == b'\n') {
        // The kind is among the first of a line; most other lines need not be taken apart.
        let begin = line.get(..line.len().min(BEGINNING)).unwrap_or_default();
        let tells = |kind: &str| begin.windows(kind.len()).any(|part| part == kind.as_bytes());
        if !["\"kind\":\"start", "\"kind\":\"call", "\"kind\":\"result"].into_iter().any(tells) {
            continue;
        }
        match serde_json::from_slice::<About>(line) {
            Ok(About { kind: Kind::Start, .. }) => calls.clear(),
            Ok(About { kind: Kind::Call, call_id: Some(id) }) => calls.push(id),
            Ok(About { kind: Kind::Result, call_id: Some(id) }) => calls.retain(|call| *call != id),
            Ok(_) | Err(_) => {}
        }
    }
    Ok(calls)
}

/// Whether head file and log disagree. A head that is one record behind is what an end of the
/// daemon between the two writes leaves.
fn fault(stored: Option<Head>, last: Option<&(Entry, Hash)>) -> Option<HeadFault> {
    let Some(stored) = stored else {
        return last.map(|_| HeadFault::Missing);
    };
    let agrees = match last {
        None => stored == Head::NONE,
        Some((entry, hash)) => {
            let before = Head { seq: entry.seq.saturating_sub(1), hash: entry.prev };
            stored == Head { seq: entry.seq, hash: *hash } || stored == before
        }
    };
    (!agrees).then_some(HeadFault::Named(stored))
}

/// Cuts off what follows the last whole record and keeps it in a file of its own. Such a file that
/// is there already is of an earlier start that was ended before it could record its repair.
fn cut(
    directory: &Directory,
    name: &str,
    head: Head,
    (end, length): (u64, u64),
) -> Result<Option<Torn>, AuditError> {
    let path = directory.path(name);
    let kept_in = format!("{name}.torn-{}", head.seq + 1);
    let torn = |bytes| Some(Torn { file: name.to_owned(), kept_in: kept_in.clone(), bytes });
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

/// The last line of a file that is whole and a record.
fn last_of(file: &File, length: u64) -> io::Result<Last> {
    let mut end = length;
    while end > 0 {
        let (start, line) = last_line(file, end)?;
        if line.last() == Some(&b'\n')
            && let Ok(entry) = Entry::parse(&line)
        {
            return Ok(Last { entry: Some((entry, Hash::of(&line))), end });
        }
        end = start;
    }
    Ok(Last { entry: None, end: 0 })
}

/// The last line before `end`, and where it starts.
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
