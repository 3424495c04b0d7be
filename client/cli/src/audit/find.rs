//! Finds the call in the log that an argument names: the last one, or the one whose id has a
//! prefix.

use super::{Directory, read};
use crate::{
    call::id::{self, CallSelector},
    failure::Failure,
};
use palisade_audit::{Filter, Kind, Reader};
use std::collections::BTreeSet;

/// Returns the full id of a call. A prefix that no call in the log has is returned as typed.
pub(crate) fn find(directory: &Directory, wanted: &CallSelector) -> Result<String, Failure> {
    match wanted {
        CallSelector::Last => {
            // The newest call is hardly ever in an archive.
            let found = match newest(&mut Reader::new(&directory.find()?))? {
                Some(call) => Some(call),
                None => newest(&mut directory.reader()?)?,
            };
            found.ok_or_else(|| {
                let hint = "`palisade run -- COMMAND` makes one";
                Failure::absent("there is no call in the log", hint)
            })
        }
        CallSelector::Prefix(prefix) => {
            let mut fitting = BTreeSet::new();
            read(&mut directory.reader()?, &Filter::default(), |sighted| {
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

/// Returns the id of the newest call.
fn newest(reader: &mut Reader) -> Result<Option<String>, Failure> {
    let mut last = None;
    let calls = Filter { kind: Some(Kind::Call), ..Filter::default() };
    read(reader, &calls, |sighted| {
        let (time, call) = (sighted.entry.time, sighted.entry.record.call_id());
        if let Some(call) = call
            && last.as_ref().is_none_or(|(newest, _)| *newest <= time)
        {
            last = Some((time, call.to_owned()));
        }
        Ok(())
    })?;
    Ok(last.map(|(_, call)| call))
}
