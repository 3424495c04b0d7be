//! `palisade audit verify`: checks whether anything is missing or changed.

use super::log::Directory;
use crate::{
    exit::TOOL,
    failure::Failure,
    paint::{self, Paint, Style, harmless},
    print,
};
use clap::Args;
use palisade_audit::{
    BadRecord, ChainReport, Head, PublicKey, TamperKind, Verification, VerifyOptions, verify_with,
};
use serde_json::{Value, json};
use std::path::PathBuf;

/// Check the hashes of all records, and report the first bad one
#[derive(Debug, Args)]
#[command(after_help = "\
Exit status: 0 the log is intact; 1 a record was edited, deleted, inserted, moved or cut off, or an
archive is missing, altered, renamed, of another log, or not signed with the key.

Without a key, a user who can write to the log's directory could rewrite it. Store the `head` that
this prints somewhere else from time to time, and check it with --expect: a log that was cut off or
rewritten does not contain it. Or have the daemon sign heads (audit.key in palisaded.toml), and
check the signatures with --public-key.

Archives are checked with the log, so that the chain is checked across the cut. With --from,
archives up to that record may be missing, and are not read.

Examples:
  palisade audit verify
  palisade audit verify --expect 812:4f0c…    (the whole hash)
  palisade audit verify --from 812:4f0c… --public-key audit.pub
  palisade audit verify --dir /var/lib/palisade/audit --json | jq .chains")]
pub(super) struct Verify {
    /// A head that was stored elsewhere and must be in the log; may be given several times
    #[arg(long, value_name = "SEQ:HASH")]
    expect: Vec<Head>,
    /// Begin after this record: those up to it were verified before, or are archived elsewhere
    #[arg(long, value_name = "SEQ:HASH")]
    from: Option<Head>,
    /// Require that heads and archives are signed with this ed25519 key, a PEM file
    #[arg(long, value_name = "FILE")]
    public_key: Option<PathBuf>,
    /// Print the report as one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    directory: Directory,
}

impl Verify {
    pub(super) fn perform(self) -> Result<u8, Failure> {
        let directory = self.directory.find()?;
        let options = VerifyOptions {
            expect: self.expect,
            from: self.from,
            archives: self.directory.archives,
            key: self.public_key.as_deref().map(PublicKey::load).transpose()?,
        };
        let found = verify_with(&directory, &options)?;
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
    for chain in &found.unsigned {
        let bad = paint.apply(Style::Error, "unsigned:");
        text.push_str(&format!("{bad} {chain} has no signed head, and a key was given\n"));
    }
    text
}

fn of_chain(chain: &ChainReport, paint: Paint) -> String {
    let ChainReport { chain: name, files, head, torn, losses, faults, bad, unfinished, .. } = chain;
    let verdict = if bad.is_none() && losses.is_empty() && faults.is_empty() {
        paint.apply(Style::Good, "good")
    } else {
        paint.apply(Style::Error, "bad")
    };
    let count = head.seq - chain.begin.seq.min(head.seq);
    let archives = match chain.archives {
        0 => String::new(),
        count => format!(" and {count} archives"),
    };
    let mut text = format!("{name}: {verdict}, {count} records in {files} files{archives}");
    if chain.begin.seq > 0 {
        text.push_str(&format!(" after {}", chain.begin));
    }
    text.push_str(&format!(", head {head}"));
    if let Some(signed) = chain.signed {
        text.push_str(&format!(", signed up to record {}", signed.seq));
    }
    text.push('\n');
    let label = paint.apply(Style::Error, "bad:");
    for fault in faults {
        text.push_str(&format!("  {label} {}\n", harmless(&fault.to_string())));
    }
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
            | TamperKind::Signature(_)
            | TamperKind::HeadMissing => bad.seq,
        };
        json!({"file": bad.place.file, "line": bad.place.line, "seq": bad.seq, "last": last,
            "what": bad.what.to_string(), "message": bad.to_string()})
    };
    let chain = |chain: &ChainReport| {
        json!({"chain": chain.chain.to_string(), "files": chain.files, "archives": chain.archives,
            "begin": chain.begin.to_string(),
            "records": chain.head.seq - chain.begin.seq.min(chain.head.seq),
            "head": chain.head.to_string(), "torn_bytes": chain.torn,
            "signed": chain.signed.map(|head| head.to_string()),
            "archive_faults": chain.faults.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "losses": chain.losses.iter().map(bad).collect::<Vec<_>>(),
            "unfinished": chain.unfinished, "bad": chain.bad.as_ref().map(bad)})
    };
    json!({"good": found.is_good(),
        "chains": found.chains.iter().map(chain).collect::<Vec<_>>(),
        "unsigned": found.unsigned.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "missing": found.missing.iter().map(ToString::to_string).collect::<Vec<_>>()})
}
