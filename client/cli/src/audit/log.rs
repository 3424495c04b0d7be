//! The audit log that the options of a command select, and how it is read.

use crate::{failure::Failure, paint::harmless, print};
use clap::Args;
use palisade_audit::{Filter, LocatedRecord, ReadError, Reader};
use std::{
    env, io,
    path::{Path, PathBuf},
};

/// The hint for a log that this user may not read.
const ANOTHERS: &str = "the log belongs to the daemon's user; try as that user or as root";

/// The options that select an audit log.
#[derive(Debug, Args)]
pub(crate) struct Directory {
    /// The log's directory [default: /var/lib/palisade/audit for root, else
    /// $XDG_STATE_HOME/palisade/audit]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Read also the archives in this directory, besides those in `archive` in the log's directory;
    /// may be given several times
    #[arg(long, value_name = "DIR")]
    pub(super) archives: Vec<PathBuf>,
}

impl Directory {
    /// Returns a reader of the log and its archives.
    pub(crate) fn reader(&self) -> Result<Reader, Failure> {
        Ok(Reader::with_archives(&self.find()?, self.archives.clone()))
    }

    /// Returns `true` if the user named the log's directory.
    pub(super) fn is_named(&self) -> bool {
        self.dir.is_some()
    }

    /// Returns the log's directory, which must exist.
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
        let hint = "name the log's directory with --dir: `audit` in the daemon's state directory";
        let directory = found.ok_or_else(|| Failure::new("no log directory is known", hint))?;
        match directory.metadata() {
            Ok(found) if found.is_dir() => Ok(directory),
            Ok(_) => Err(Failure::new(format!("{} is not a directory", directory.display()), hint)),
            Err(error) => {
                let denied = error.kind() == io::ErrorKind::PermissionDenied;
                let hint = if denied { ANOTHERS } else { hint };
                Err(Failure::new(format!("no audit log at {}: {error}", directory.display()), hint))
            }
        }
    }
}

/// Calls `each` for every new record that matches the filter. A line that is not a record causes a
/// warning, and reading goes on.
pub(crate) fn read(
    reader: &mut Reader,
    filter: &Filter,
    mut each: impl FnMut(LocatedRecord) -> Result<(), Failure>,
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
            ReadError::NotARecord { .. } | ReadError::Archive { .. } => {
                "`palisade audit verify` shows what is wrong with it"
            }
        };
        Self::new(error.to_string(), hint)
    }
}
