//! `palisade audit show`: everything about one call.

use super::{
    find::find_ended,
    log::{Directory, read},
};
use crate::{
    call::id::{self, CallSelector},
    exit::TOOL,
    failure::Failure,
    print,
};
use clap::Args;
use palisade_audit::{Filter, Kind, Markdown};
use serde_json::{Value, json};

/// Show everything about one call: arguments, decision, changes, result
#[derive(Debug, Args)]
#[command(after_help = "\
A call's id is in its result (`call_id`) and in `palisade audit tail`.

Examples:
  palisade audit show CALL_ID
  palisade audit show CALL_ID --json | jq '.records[].kind'")]
pub(super) struct ShowCall {
    /// A call's id or an unambiguous prefix of it, or `last` for the newest call in the log
    #[arg(value_parser = id::parse)]
    call_id: CallSelector,
    /// Print the records as one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    directory: Directory,
}

impl ShowCall {
    pub(super) fn perform(self) -> Result<u8, Failure> {
        let call_id = find_ended(&self.directory, &self.call_id)?;
        let mut reader = self.directory.reader()?;
        let filter = Filter { call_id: Some(call_id.clone()), ..Filter::default() };
        let mut found = Vec::new();
        read(&mut reader, &filter, |sighted| {
            found.push(sighted);
            Ok(())
        })?;
        // A call is recorded only when it may run, so the records that led to that precede it in
        // the log.
        found.sort_by_key(|sighted| sighted.entry.record.kind() != Kind::Call);
        let (mut markdown, mut text, mut records) =
            (Markdown::default(), String::new(), Vec::new());
        for sighted in &found {
            text.push_str(&markdown.add(&sighted.entry));
            records.extend(serde_json::from_slice::<Value>(&sighted.line).ok());
        }
        let has = |kind: Kind| found.iter().any(|sighted| sighted.entry.record.kind() == kind);
        let unfinished = has(Kind::Call) && !has(Kind::Result);
        if unfinished {
            text.push_str(
                "**No result was recorded**: the call is running, or ended with its daemon.\n",
            );
        }
        if self.json {
            print::json(
                &json!({"call_id": call_id, "unfinished": unfinished, "records": records}),
            )?;
        } else if records.is_empty() {
            print::note(&format!("there is no call {call_id:?} in the log"));
        } else {
            print::bytes(text.as_bytes())?;
        }
        Ok(if records.is_empty() { TOOL } else { 0 })
    }
}
