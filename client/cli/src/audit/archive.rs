//! `palisade audit archive`: compresses complete files of the log, and deletes them from it.

use super::log::Directory;
use crate::{failure::Failure, paint::harmless, print};
use clap::Args;
use palisade_audit::{
    ARCHIVE_DIRECTORY, ArchiveError, Archiver, KeyError, Manifest, SigningKey, Timestamp,
};
use palisade_options::duration;
use rustix::{
    process::{Gid, Uid, geteuid},
    thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid},
};
use serde_json::json;
use std::{
    io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

/// Compress complete files of the log into archives, and delete them from the log
#[derive(Debug, Args)]
#[command(after_help = "\
A file of the log is complete when the log continues in the next one: after 64 MiB or a day. The
file that is written to is never archived. A daemon may be running meanwhile.

An archive is a gzip file and a manifest with the chain's hashes at both ends. It is forced to disk
and read back before its file is deleted. A file whose records do not follow each other is not
archived. If the command is interrupted, run it again.

`verify`, `show`, `stats`, `export` and `why` read archives that are in `archive` in the log's
directory, or where --archives says. `gunzip -k ARCHIVE` restores the file as it was.

Root acts as the owner of the log's directory, who must be able to write to DIR.

Examples:
  palisade audit archive
  palisade audit archive --older-than 30d --to /srv/audit
  palisade audit archive --sign-with /etc/palisade/audit.pem")]
pub(super) struct MakeArchives {
    /// Where archives are put [default: `archive` in the log's directory]
    #[arg(long, value_name = "DIR")]
    to: Option<PathBuf>,
    /// Archive only files whose last record is older than this
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    older_than: Option<Duration>,
    /// Sign the manifests with this ed25519 private key, a PEM file
    #[arg(long, value_name = "FILE")]
    sign_with: Option<PathBuf>,
    /// Print the manifests as one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    directory: Directory,
}

impl MakeArchives {
    pub(super) fn perform(self) -> Result<u8, Failure> {
        let log = self.directory.find()?;
        let key = self.sign_with.as_deref().map(SigningKey::load).transpose()?;
        become_owner(&log)?;
        let to = self.to.unwrap_or_else(|| log.join(ARCHIVE_DIRECTORY));
        let archiver = Archiver::open(&log, &to, key)?;
        let now = Timestamp::now();
        let mut made = Vec::new();
        for file in archiver.complete()? {
            if self.older_than.is_some_and(|age| now.since(file.to) < age) {
                continue;
            }
            let manifest = archiver.archive(&file)?;
            if !self.json {
                print::line(&line(&manifest, &to))?;
            }
            made.push(manifest);
        }
        if self.json {
            print::json(&json!({"directory": to.display().to_string(), "archives": made}))?;
        } else if made.is_empty() {
            print::line("there is no complete file to archive")?;
        }
        Ok(0)
    }
}

fn line(made: &Manifest, to: &Path) -> String {
    let path = to.join(&made.file).display().to_string();
    format!(
        "{}: records {} to {}, {} to {}, {} bytes in {}",
        harmless(&path),
        made.first,
        made.last.seq,
        made.from,
        made.to,
        made.bytes,
        made.compressed_bytes
    )
}

/// Gives up root's rights for those of the log's owner, so that nothing in a directory that
/// somebody else may write to is done with them.
fn become_owner(log: &Path) -> Result<(), Failure> {
    let owner = || -> io::Result<()> {
        let found = log.metadata()?;
        if !geteuid().is_root() || found.uid() == 0 {
            return Ok(());
        }
        let (uid, gid) = (Uid::from_raw(found.uid()), Gid::from_raw(found.gid()));
        set_thread_groups(&[])?;
        set_thread_res_gid(gid, gid, gid)?;
        set_thread_res_uid(uid, uid, uid)?;
        Ok(())
    };
    owner().map_err(|error| {
        Failure::new(
            format!("can not become the owner of {}: {error}", log.display()),
            "run this as the owner of the log's directory",
        )
    })
}

impl From<KeyError> for Failure {
    fn from(error: KeyError) -> Self {
        Self::new(error.to_string(), "")
    }
}

impl From<ArchiveError> for Failure {
    fn from(error: ArchiveError) -> Self {
        let hint = match &error {
            ArchiveError::File(_) | ArchiveError::Read(_) => {
                "the owner of the log's directory must be able to write to the archives' \
                 directory, and there must be room for one compressed file"
            }
            ArchiveError::Busy(_) => {
                "wait until it has finished; the daemon makes archives if audit.keep or \
                 audit.keep_size is set"
            }
            ArchiveError::NotReadBack(_) => "check that disk",
            ArchiveError::Broken { .. } | ArchiveError::Conflict { .. } => "",
        };
        Self::new(error.to_string(), hint)
    }
}
