//! Finds the call in the log that an argument names: the last one, or the one whose id has a
//! prefix.

use super::log::{Directory, read};
use crate::{
    call::id::{self, CallSelector},
    failure::Failure,
};
use palisade_audit::{Filter, Reader, Record};
use std::collections::BTreeSet;

/// The name of the profile under which `palisade why --trace` runs a call again.
pub(crate) const TRACED: &str = "traced-call";

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
