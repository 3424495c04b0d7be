//! `palisade audit verify`: checks whether anything is missing or changed.

use super::Directory;
use crate::{
    exit::TOOL,
    failure::Failure,
    paint::{self, Paint, Style, harmless},
    print,
};
use clap::Args;
use palisade_audit::{BadRecord, ChainReport, Head, TamperKind, Verification, verify};
use serde_json::{Value, json};

/// Check the hashes of all records, and report the first bad one
#[derive(Debug, Args)]
#[command(after_help = "\
Exit status: 0 the log is intact; 1 a record was edited, deleted, inserted, moved or cut off.

The log is not protected by a key: a user who can write to its directory could rewrite it. Store the
`head` that this prints somewhere else from time to time, and check it with --expect. A log that was
cut off or rewritten does not contain it.

Examples:
  palisade audit verify
  palisade audit verify --expect 812:4f0c…    (the whole hash)
  palisade audit verify --dir /var/lib/palisade/audit --json | jq .chains")]
pub(super) struct Verify {
    /// A head that was stored elsewhere and must be in the log; may be given several times
    #[arg(long, value_name = "SEQ:HASH")]
    expect: Vec<Head>,
    /// Print the report as one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    directory: Directory,
}

impl Verify {
    pub(super) fn perform(self) -> Result<u8, Failure> {
        let found = verify(&self.directory.find()?, &self.expect)?;
        if self.json {
            print::json(&to_json(&found))?;
        } else {
            print::bytes(text(&found, paint::stdout()).as_bytes())?;
        }
        Ok(if found.is_good() { 0 } else { TOOL })
    }
}

fn text(found: &Verification, paint: Paint) -> String {
    let mut text = String::new();
    for chain in &found.chains {
        text.push_str(&of_chain(chain, paint));
    }
    if found.chains.is_empty() {
        text.push_str("there are no records\n");
    }
    for head in &found.missing {
        let bad = paint.apply(Style::Error, "missing:");
        text.push_str(&format!("{bad} no chain contains {head}\n"));
    }
    text
}

fn of_chain(chain: &ChainReport, paint: Paint) -> String {
    let ChainReport { chain: name, files, head, torn, losses, bad, unfinished } = chain;
    let verdict = if bad.is_none() && losses.is_empty() {
        paint.apply(Style::Good, "good")
    } else {
        paint.apply(Style::Error, "bad")
    };
    let mut text =
        format!("{name}: {verdict}, {} records in {files} files, head {head}\n", head.seq);
    let label = paint.apply(Style::Error, "bad:");
    if let Some(bad) = bad {
        text.push_str(&format!("  {label} {bad}\n"));
    }
    for loss in losses {
        text.push_str(&format!("  {label} {loss}; found when the daemon started, and recorded\n"));
    }
    if *torn > 0 {
        text.push_str(&format!(
            "  note: {torn} bytes of an incomplete record; the daemon's next start removes them\n"
        ));
    }
    for call in unfinished {
        text.push_str(&format!(
            "  note: call {} has no result: it is running, or ended with its daemon\n",
            harmless(call)
        ));
    }
    text
}

fn to_json(found: &Verification) -> Value {
    let bad = |bad: &BadRecord| {
        let last = match bad.what {
            TamperKind::Deleted(last) | TamperKind::Cut(last) => last,
            TamperKind::Edited
            | TamperKind::Reordered
            | TamperKind::Inserted
            | TamperKind::HeadMissing => bad.seq,
        };
        json!({"file": bad.place.file, "line": bad.place.line, "seq": bad.seq, "last": last,
            "what": bad.what.to_string(), "message": bad.to_string()})
    };
    let chain = |chain: &ChainReport| {
        json!({"chain": chain.chain.to_string(), "files": chain.files, "records": chain.head.seq,
            "head": chain.head.to_string(), "torn_bytes": chain.torn,
            "losses": chain.losses.iter().map(bad).collect::<Vec<_>>(),
            "unfinished": chain.unfinished, "bad": chain.bad.as_ref().map(bad)})
    };
    json!({"good": found.is_good(),
        "chains": found.chains.iter().map(chain).collect::<Vec<_>>(),
        "missing": found.missing.iter().map(ToString::to_string).collect::<Vec<_>>()})
}
