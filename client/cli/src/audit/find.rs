//! Finds the call in the log that an argument names: the last one, or the one whose id has a
//! prefix.

use super::read;
use crate::{
    call::id::{self, CallSelector},
    failure::Failure,
};
use palisade_audit::{Filter, Reader, Record};
use std::{collections::BTreeSet, path::Path};

/// Returns the full id of a call. A prefix that no call in the log has is returned as typed.
pub(crate) fn find(directory: &Path, wanted: &CallSelector) -> Result<String, Failure> {
    let mut last = None;
    let mut fitting = BTreeSet::new();
    read(&mut Reader::new(directory), &Filter::default(), |sighted| {
        let record = &sighted.entry.record;
        match (wanted, record.call_id()) {
            (CallSelector::Last, Some(call)) if matches!(record, Record::Call(_)) => {
                let newer = last.as_ref().is_none_or(|(time, _)| *time <= sighted.entry.time);
                if newer {
                    last = Some((sighted.entry.time, call.to_owned()));
                }
            }
            (CallSelector::Prefix(prefix), Some(call)) if call.starts_with(prefix.as_str()) => {
                fitting.insert(call.to_owned());
            }
            (CallSelector::Last | CallSelector::Prefix(_), _) => {}
        }
        Ok(())
    })?;
    match wanted {
        CallSelector::Last => last.map(|(_, call)| call).ok_or_else(|| {
            Failure::absent("there is no call in the log", "`palisade run -- COMMAND` makes one")
        }),
        CallSelector::Prefix(prefix) => {
            // Ids begin with the time, so the last one is the newest.
            let fitting = fitting.into_iter().rev().collect();
            let found = id::pick(prefix, fitting, String::as_str, String::clone)?;
            Ok(found.unwrap_or_else(|| prefix.to_string()))
        }
    }
}
