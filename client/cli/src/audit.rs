//! `palisade audit`: verifies, follows, shows, counts and exports the daemon's audit log.

mod describe;
mod export;
mod show;
mod stats;
mod tail;
mod verify;

use crate::{failure::Failure, paint::harmless, print};
use clap::{Args, Subcommand};
use palisade_audit::{Filter, ReadError, Reader, Sighted};
use std::{
    env, io,
    path::{Path, PathBuf},
};

/// Verify, follow, show, count and export the audit log
#[derive(Debug, Args)]
#[command(after_help = "\
Every call, decision and result is a line of JSON in the daemon's audit log, each with the SHA-256
of the line before it, written before the call takes effect. It is read from its directory here,
so that no daemon needs to be running, and only by who may read that directory.

Examples:
  palisade audit verify                       is anything missing or changed?
  palisade audit tail -f                      what is happening now
  palisade audit show CALL_ID                 everything about one call
  palisade audit stats --json | jq .results
  palisade audit export --format md --session SESSION > history.md")]
pub(crate) struct Audit {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Verify(verify::Verify),
    Tail(tail::Tail),
    Show(show::Show),
    Stats(stats::ShowStats),
    Export(export::Export),
}

/// What to do about a log that is not to be read.
const ANOTHERS: &str = "the log is its daemon's user's; try as that user or as root";

/// Which log.
#[derive(Debug, Args)]
pub(crate) struct Directory {
    /// The log's directory [default: /var/lib/palisade/audit for root, else
    /// $XDG_STATE_HOME/palisade/audit]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

impl Audit {
    pub(crate) async fn perform(self) -> Result<u8, Failure> {
        match self.command {
            Command::Verify(verify) => verify.perform(),
            Command::Tail(tail) => tail.perform().await,
            Command::Show(show) => show.perform(),
            Command::Stats(stats) => stats.perform(),
            Command::Export(export) => export.perform(),
        }
    }
}

impl Directory {
    /// The directory, which must be there.
    pub(crate) fn find(&self) -> Result<PathBuf, Failure> {
        let found = match &self.dir {
            Some(given) => Some(given.clone()),
            None if rustix::process::geteuid().is_root() => {
                Some(PathBuf::from("/var/lib/palisade/audit"))
            }
            None => absolute("XDG_STATE_HOME")
                .or_else(|| absolute("HOME").map(|home| home.join(".local/state")))
                .map(|state| state.join("palisade/audit")),
        };
        let hint = "name the directory of the log with --dir; it is `audit` in the daemon's state";
        let directory = found.ok_or_else(|| Failure::new("there is no usual place", hint))?;
        match directory.metadata() {
            Ok(found) if found.is_dir() => Ok(directory),
            Ok(_) => Err(Failure::new(format!("{} is not a directory", directory.display()), hint)),
            Err(error) => {
                let denied = error.kind() == io::ErrorKind::PermissionDenied;
                let hint = if denied { ANOTHERS } else { hint };
                Err(Failure::new(format!("no log at {}: {error}", directory.display()), hint))
            }
        }
    }
}

/// Hands on what is wanted of what is new. What is not a record is told of, and the rest goes on.
pub(crate) fn read(
    reader: &mut Reader,
    filter: &Filter,
    mut each: impl FnMut(Sighted) -> Result<(), Failure>,
) -> Result<(), Failure> {
    reader.read(|sighted| match sighted {
        Ok(sighted) if filter.matches(&sighted.entry) => each(sighted),
        Ok(_) => Ok(()),
        Err(error) => {
            print::note(&format!(
                "warning: {}; see palisade audit verify",
                harmless(&error.to_string())
            ));
            Ok(())
        }
    })
}

fn absolute(variable: &str) -> Option<PathBuf> {
    env::var_os(variable).map(PathBuf::from).filter(|path| Path::is_absolute(path))
}

impl From<ReadError> for Failure {
    fn from(error: ReadError) -> Self {
        let hint = match &error {
            ReadError::Io { .. } => ANOTHERS,
            ReadError::NotARecord { .. } => "`palisade audit verify` says what was done to the log",
        };
        Self::new(error.to_string(), hint)
    }
}
