//! Finds the end of a chain when a daemon starts: cuts off what a crash left half-written, and
//! holds what is there against the head file. Nothing that was there is lost.

use crate::{
    error::{AuditError, ReadError},
    files::{Chain, Directory, Head, failed},
    hash::Hash,
    line::Entry,
    record::{HeadFault, Repair, Torn},
};
use std::{fs::File, io, os::unix::fs::FileExt as _};

/// How much is read at first to find the last line.
const CHUNK: u64 = 64 << 10;

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
    let repair =
        (torn.is_some() || fault.is_some()).then_some(Repair { torn, head: fault, found: head });
    Ok(End { name, length: end.0, head, repair })
}

/// A chain without files: new, or all of it is gone.
fn first(chain: Chain, stored: Option<Head>) -> End {
    let gone = stored.filter(|head| *head != Head::NONE).map(HeadFault::Named);
    let repair = gone.map(|head| Repair { torn: None, head: Some(head), found: Head::NONE });
    End { name: chain.segment(1), length: 0, head: Head::NONE, repair }
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
