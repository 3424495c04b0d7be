//! Retention: archives old files of the log, and deletes old archives. What is not archived and read
//! back is not deleted, and each deletion is recorded before it is done. Runs in the broker.

use crate::{
    archive::{ARCHIVE_DIRECTORY, Archive, ArchiveError, Archiver, Manifest, archives},
    chain::Chain,
    error::ReadError,
    files::{Directory, unread},
    key::SigningKey,
    log::Log,
    record::{ArchiveAct, ArchiveEvent, Record},
    time::Timestamp,
};
use std::{collections::BTreeMap, fs, io, path::Path, time::Duration};

/// The limits of age and size of what is kept; `None` means no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RetentionPolicy {
    /// Files whose last record is older are archived.
    pub keep: Option<Duration>,
    /// The oldest files are archived until the log is at most this long, in bytes.
    pub keep_size: Option<u64>,
    /// Archives whose last record is older are deleted.
    pub keep_archives: Option<Duration>,
    /// The oldest archives are deleted until all are at most this long together, in bytes.
    pub keep_archives_size: Option<u64>,
}

/// The numbers of files that a run of retention has archived and deleted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RetentionReport {
    /// The number of files that were archived.
    pub archived: usize,
    /// The number of archives that were deleted.
    pub deleted: usize,
}

/// The size of a log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LogVolume {
    /// The length of all files of the log, in bytes.
    pub log_bytes: u64,
    /// The length of all archives beside the log, in bytes.
    pub archive_bytes: u64,
}

impl LogVolume {
    /// Measures a log and the archives beside it.
    ///
    /// # Errors
    /// If a directory can not be read.
    pub fn of(directory: &Path) -> Result<Self, ReadError> {
        let log_bytes = sum(directory, ".jsonl")?;
        let archive_bytes = sum(&directory.join(ARCHIVE_DIRECTORY), ".gz")?;
        Ok(Self { log_bytes, archive_bytes })
    }
}

/// Adds up the length of the files whose name has an ending. The directory need not exist.
fn sum(directory: &Path, ending: &str) -> Result<u64, ReadError> {
    let failed = unread("read", directory);
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        Err(error) => return Err(failed(error)),
    };
    let mut bytes = 0;
    for entry in entries {
        let entry = entry.map_err(&failed)?;
        if entry.file_name().to_str().is_some_and(|name| name.ends_with(ending)) {
            match entry.metadata() {
                Ok(found) => bytes += found.len(),
                // Archived or deleted since the directory was read.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(failed(error)),
            }
        }
    }
    Ok(bytes)
}

impl RetentionPolicy {
    /// Returns `true` if the policy has any limit.
    #[must_use]
    pub fn is_bounded(&self) -> bool {
        *self != Self::default()
    }

    /// Archives and deletes what is too old or too much at a time. The current file of each chain is
    /// never archived.
    ///
    /// # Errors
    /// If a file can not be archived, or a deletion can not be recorded. It is then not deleted.
    pub fn apply(
        &self,
        log: &Log,
        directory: &Path,
        key: Option<SigningKey>,
        now: Timestamp,
    ) -> Result<RetentionReport, ArchiveError> {
        let to = directory.join(ARCHIVE_DIRECTORY);
        let archiver = Archiver::open(directory, &to, key)?;
        let archived = self.archive(&archiver, log, directory, now)?;
        let deleted = self.delete(log, &Directory(to), now)?;
        Ok(RetentionReport { archived, deleted })
    }

    fn archive(
        &self,
        archiver: &Archiver,
        log: &Log,
        directory: &Path,
        now: Timestamp,
    ) -> Result<usize, ArchiveError> {
        let mut left = LogVolume::of(directory)?.log_bytes;
        let mut archived = 0;
        for file in archiver.complete()? {
            let old = self.keep.is_some_and(|keep| now.since(file.to) > keep);
            if !old && self.keep_size.is_none_or(|most| left <= most) {
                continue;
            }
            let record = |made: &Manifest| log.append(&event(ArchiveAct::Made, made)).map(drop);
            archiver.archive_then(&file, record)?;
            left -= file.bytes.min(left);
            archived += 1;
        }
        Ok(archived)
    }

    /// Deletes archives from the beginning of each chain on, so that the chain has no gap.
    fn delete(
        &self,
        log: &Log,
        directory: &Directory,
        now: Timestamp,
    ) -> Result<usize, ArchiveError> {
        let mut chains: BTreeMap<Chain, Vec<(Archive, Manifest)>> = BTreeMap::new();
        let mut found = archives(&directory.0)?;
        found.sort_by_key(|archive| archive.first);
        for archive in found {
            match &archive.manifest {
                Ok(signed) => {
                    let manifest = signed.manifest.clone();
                    chains.entry(archive.chain).or_default().push((archive, manifest));
                }
                Err(why) => {
                    let (file, why) = (archive.name(), why.clone());
                    return Err(ReadError::Archive { file, why }.into());
                }
            }
        }
        let mut left: u64 = chains.values().flatten().map(|(_, made)| made.compressed_bytes).sum();
        let mut deleted = 0;
        for archives in chains.into_values() {
            for (archive, made) in archives {
                let old = self.keep_archives.is_some_and(|keep| now.since(made.to) > keep);
                if !old && self.keep_archives_size.is_none_or(|most| left <= most) {
                    break;
                }
                drop(log.append(&event(ArchiveAct::Deleted, &made))?);
                archive.delete(directory)?;
                left -= made.compressed_bytes.min(left);
                deleted += 1;
            }
        }
        Ok(deleted)
    }
}

fn event(act: ArchiveAct, made: &Manifest) -> Record {
    let Manifest { file, last, sha256, .. } = made;
    Record::Archive(ArchiveEvent { act, file: file.clone(), last: *last, sha256: *sha256 })
}
