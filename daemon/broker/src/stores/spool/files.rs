//! The files of a spool: the output, and beside it the owner. Runs in the broker.

use super::shelf::{MAX_AGE, SpoolIndex, SpoolStatus};
use crate::stores::moment::{Age, Moment};
use palisade_protocol::{Bytes, OutputPage, OutputQuery, limits};
use serde::{Deserialize, Serialize};
use std::{
    fs::{self, OpenOptions},
    io::{self, Read as _, Seek as _, SeekFrom, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
};

/// The owner of a spool. Stored beside it on disk, so that it outlives the daemon.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Meta {
    pub(super) uid: u32,
    /// The number of bytes that the call printed in all; unknown while it runs.
    pub(super) total: Option<u64>,
}

/// Adds spools in the directory that are not in the index. Deletes expired files without a valid
/// owner.
pub(super) fn scan(directory: &Path, shelf: &mut SpoolIndex, now: Moment) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let (spool, meta) = match name.strip_suffix(".meta") {
            Some(spool) => (path.with_file_name(spool), path.clone()),
            None => (path.clone(), path.with_file_name(format!("{name}.meta"))),
        };
        let call = spool.file_name().and_then(|name| name.to_str()).and_then(|n| n.parse().ok());
        if call.as_ref().is_some_and(|call| shelf.knows(call)) {
            continue;
        }
        // Another daemon of the same user may delete it meanwhile.
        let found = fs::metadata(&spool).or_else(|_| fs::metadata(&path));
        let Ok(Ok(modified)) = found.map(|found| found.modified()) else { continue };
        let age = Age::since(modified, now);
        match (call, fs::read(&meta).map(|text| serde_json::from_slice::<Meta>(&text))) {
            (Some(call), Ok(Ok(Meta { uid, .. }))) => {
                let bytes = fs::metadata(&spool).map_or(0, |found| found.len());
                shelf.add(call, uid, bytes, (age, SpoolStatus::Closed));
            }
            (Some(_) | None, Ok(_) | Err(_)) if age.at(now) < MAX_AGE => {}
            (Some(_) | None, Ok(_) | Err(_)) => fs::remove_file(&path)?,
        }
    }
    Ok(())
}

/// Writes the owner file of a spool.
pub(super) fn write_meta(path: &Path, meta: &Meta) -> io::Result<()> {
    let text = serde_json::to_vec(meta)?;
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.write_all(&text)
}

/// Reads a page of a spool; `None` if it belongs to another user.
pub(super) fn read_page(
    path: &Path,
    meta: &Path,
    query: OutputQuery,
    uid: u32,
) -> io::Result<Option<OutputPage>> {
    let meta: Meta = serde_json::from_slice(&fs::read(meta)?)?;
    if meta.uid != uid {
        return Ok(None);
    }
    let mut file = fs::File::open(path)?;
    let spooled = file.metadata()?.len();
    let most = limits::MAX_CHUNK as u64;
    let mut data = Vec::new();
    file.seek(SeekFrom::Start(query.offset.min(spooled)))?;
    file.take(query.limit.unwrap_or(most).min(most)).read_to_end(&mut data)?;
    Ok(Some(OutputPage {
        call_id: query.call_id,
        offset: query.offset,
        data: Bytes(data),
        spooled,
        total: meta.total.unwrap_or(spooled),
    }))
}
