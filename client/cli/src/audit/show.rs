//! `palisade audit show`: everything about one call.

use super::{Directory, read};
use crate::{exit::TOOL, failure::Failure, print};
use clap::Args;
use palisade_audit::{Filter, Kind, Markdown, Reader};
use serde_json::{Value, json};

/// Show everything about one call: arguments, decision, changes, result
#[derive(Debug, Args)]
#[command(after_help = "\
A call's id is in its result (`call_id`) and in `palisade audit tail`.

Examples:
  palisade audit show CALL_ID
  palisade audit show CALL_ID --json | jq '.records[].kind'")]
pub(super) struct Show {
    /// From a result's `call_id`
    call_id: String,
    /// Print the records as one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    directory: Directory,
}

impl Show {
    pub(super) fn perform(self) -> Result<u8, Failure> {
        let mut reader = Reader::new(&self.directory.find()?);
        let filter = Filter { call_id: Some(self.call_id.clone()), ..Filter::default() };
        let mut found = Vec::new();
        read(&mut reader, &filter, |sighted| {
            found.push(sighted);
            Ok(())
        })?;
        // A call is written when it may run: what led to that stands before it in the log.
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
                "**No result was recorded**: the call is under way, or ended with its daemon.\n",
            );
        }
        if self.json {
            print::json(
                &json!({"call_id": self.call_id, "unfinished": unfinished, "records": records}),
            )?;
        } else if records.is_empty() {
            print::note(&format!("there is no call {:?} in the log", self.call_id));
        } else {
            print::bytes(text.as_bytes())?;
        }
        Ok(if records.is_empty() { TOOL } else { 0 })
    }
}
