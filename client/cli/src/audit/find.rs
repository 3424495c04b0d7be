//! Finds the call in the log that an argument names: the last one, or the one whose id has a
//! prefix.

use super::log::{Directory, read};
use crate::{
    call::id::{self, CallSelector},
    failure::Failure,
};
use palisade_audit::{Filter, Kind, Reader, Record};
use std::{
    collections::BTreeSet,
    thread,
    time::{Duration, Instant},
};

/// The name of the profile under which `palisade why --trace` runs a call again.
pub(crate) const TRACED: &str = "traced-call";

/// The age up to which a call without a result may have ended just now.
const RECENT: Duration = Duration::from_secs(60);

/// The longest wait for the result of a recent call, and the time between two looks.
const LATE: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(20);

/// Finds a call as [`find`] does. If it is recent and has no result in the log, waits a moment for
/// it: a daemon replies to its client before it writes the records of what has ended.
pub(super) fn find_ended(directory: &Directory, wanted: &CallSelector) -> Result<String, Failure> {
    let limit = Instant::now() + LATE;
    loop {
        let call_id = find(directory, wanted)?;
        let may_end = id::is_younger(&call_id, RECENT) && Instant::now() < limit;
        if !may_end || is_ended(directory, &call_id)? {
            return Ok(call_id);
        }
        thread::sleep(PAUSE);
    }
}

/// Returns `true` if the log has the call's result.
fn is_ended(directory: &Directory, call_id: &str) -> Result<bool, Failure> {
    // What is recent is in no archive.
    let mut reader = Reader::new(&directory.find()?).only_with(&[call_id]);
    let filter =
        Filter { call_id: Some(call_id.to_owned()), kind: Some(Kind::Result), ..Filter::default() };
    let mut found = false;
    read(&mut reader, &filter, |_| {
        found = true;
        Ok(())
    })?;
    Ok(found)
}

/// Returns the full id of a call. A prefix that no call in the log has is returned as typed.
pub(crate) fn find(directory: &Directory, wanted: &CallSelector) -> Result<String, Failure> {
    match wanted {
        CallSelector::Last => {
            // The newest call is hardly ever in an archive.
            let found = match newest(Reader::new(&directory.find()?))? {
                Some(call) => Some(call),
                None => newest(directory.reader()?)?,
            };
            found.ok_or_else(|| {
                let hint = "`palisade run -- COMMAND` makes one";
                Failure::absent("there is no call in the log", hint)
            })
        }
        CallSelector::Prefix(prefix) => {
            let mut fitting = BTreeSet::new();
            let mut reader = directory.reader()?.only_with(&[prefix.as_str()]);
            read(&mut reader, &Filter::default(), |sighted| {
                let call = sighted.entry.record.call_id();
                fitting.extend(
                    call.filter(|call| call.starts_with(prefix.as_str())).map(str::to_owned),
                );
                Ok(())
            })?;
            // Ids begin with the time, so the last one is the newest.
            let fitting = fitting.into_iter().rev().collect();
            let found = id::pick(prefix, fitting, String::as_str, String::clone)?;
            Ok(found.unwrap_or_else(|| prefix.to_string()))
        }
    }
}

/// Returns the id of the newest call, except for those that `why --trace` made.
fn newest(reader: Reader) -> Result<Option<String>, Failure> {
    let (mut last, mut traces) = (None, BTreeSet::new());
    let mut reader = reader.only_with(&["\"kind\":\"call\"", TRACED]);
    read(&mut reader, &Filter::default(), |sighted| {
        let time = sighted.entry.time;
        let record = sighted.entry.record;
        if let Record::SessionOpen(open) = &record
            && open.profile == TRACED
        {
            traces.insert(open.session.clone());
        }
        if let Record::Call(call) = record
            && !traces.contains(&call.session)
            && last.as_ref().is_none_or(|(newest, _)| *newest <= time)
        {
            last = Some((time, call.call_id));
        }
        Ok(())
    })?;
    Ok(last.map(|(_, call)| call))
}
