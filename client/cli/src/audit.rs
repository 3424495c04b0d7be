//! `palisade audit`: verifies, follows, shows, counts, exports and archives the daemon's audit log.

mod archive;
mod describe;
mod export;
mod find;
mod log;
mod records;
mod show;
mod stats;
mod tail;
mod verify;

pub(crate) use find::TRACED;
pub(crate) use log::{Directory, read};
pub(crate) use records::{RecordsOfCall, records};

use crate::failure::Failure;
use clap::{Args, Subcommand};

/// Verify, follow, show, count, export and archive the audit log
#[derive(Debug, Args)]
#[command(after_help = "\
Every call, decision and result is a line of JSON in the daemon's audit log. Each line contains the
SHA-256 of the line before it, and is written before the call takes effect. These commands read the
log's directory and its archives: no daemon needs to be running, but you need permission to read
the directory.

Examples:
  palisade audit verify                       check whether records are missing or changed
  palisade audit tail -f                      follow new records
  palisade audit show CALL_ID                 everything about one call
  palisade audit stats --json | jq .results
  palisade audit export --format md --session SESSION > history.md
  palisade audit archive --older-than 30d     compress old files of the log")]
pub(crate) struct Audit {
    #[command(subcommand)]
    command: AuditCommand,
}

#[derive(Debug, Subcommand)]
enum AuditCommand {
    Verify(verify::Verify),
    Tail(tail::Tail),
    Show(show::ShowCall),
    Stats(stats::ShowStats),
    Export(export::Export),
    Archive(archive::MakeArchives),
}

impl Audit {
    pub(crate) async fn perform(self) -> Result<u8, Failure> {
        match self.command {
            AuditCommand::Verify(verify) => verify.perform(),
            AuditCommand::Tail(tail) => tail.perform().await,
            AuditCommand::Show(show) => show.perform(),
            AuditCommand::Stats(stats) => stats.perform(),
            AuditCommand::Export(export) => export.perform(),
            AuditCommand::Archive(archive) => archive.perform(),
        }
    }
}
