//! Makes archives of complete files, and deletes files that are archived. Runs in the broker, and in
//! `palisade audit archive`.

use super::{
    Manifest, SignedManifest,
    manifest::RecordRange,
    open::{Archive, archive_name, archives, digest, manifest_name},
};
use crate::{
    chain::Chain,
    error::{AuditError, ReadError},
    files::{Directory, Head, Lock, failed, unread},
    hash::Hash,
    key::SigningKey,
    line::Link,
    lines::next_line,
    repair::last_of,
    time::Timestamp,
};
use flate2::{Compression, GzBuilder};
use palisade_programs::named;
use std::{
    fs::{self, File},
    io::{self, BufReader, BufWriter, Read, Write as _},
    path::{Path, PathBuf},
};

/// An error from archiving a file. The file is then still in the log.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// An operation on a file failed.
    #[error(transparent)]
    File(#[from] AuditError),
    /// The log or an archive can not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// Another process makes archives of the same log.
    #[error("another process is making archives of {0}")]
    Busy(PathBuf),
    /// A record does not follow the one before it.
    #[error(
        "{file}:{line} does not follow the record before it, so {file} was not archived; \
         `palisade audit verify` says what was changed"
    )]
    Broken {
        /// The file's name.
        file: String,
        /// The line number, from 1.
        line: u64,
    },
    /// There is an archive of this name with other records.
    #[error(
        "{archive} is there already and does not have the records of the file in the log ({why}); \
         neither was changed. Move the archive away if it is not of this log"
    )]
    Conflict {
        /// The archive.
        archive: PathBuf,
        /// The difference.
        why: String,
    },
    /// The archive can not be read back as it was written.
    #[error("{0} can not be read back as it was written; the file in the log was not deleted")]
    NotReadBack(PathBuf),
}

/// A file of the log that is complete: the log continues in a later one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompleteFile {
    /// The chain of the file.
    pub chain: Chain,
    /// The name of the file.
    pub name: String,
    /// The length in bytes.
    pub bytes: u64,
    /// The time of the last record.
    pub to: Timestamp,
}

/// The right to make archives of a log, held until it is dropped.
#[derive(Debug)]
pub struct Archiver {
    log: Directory,
    to: Directory,
    key: Option<SigningKey>,
    _lock: Lock,
}

impl Archiver {
    /// Prepares to archive the files of a log in a directory, which is created if it is missing.
    ///
    /// # Errors
    /// If the directory can not be made, or another process makes archives of the log.
    pub fn open(log: &Path, to: &Path, key: Option<SigningKey>) -> Result<Self, ArchiveError> {
        let log = Directory(log.to_owned());
        let lock = log.lock_file("archive.lock")?;
        let lock = lock.ok_or_else(|| ArchiveError::Busy(named(&log.0)))?;
        Ok(Self { to: Directory::make(to)?, log, key, _lock: lock })
    }

    /// Lists the complete files of the log, in the order of their last records.
    ///
    /// # Errors
    /// If a file can not be read, or has no record.
    pub fn complete(&self) -> Result<Vec<CompleteFile>, ArchiveError> {
        let mut found = Vec::new();
        for (chain, mut names) in self.log.chains()? {
            // The last file is the one that is written to.
            names.pop();
            for name in names {
                let path = self.log.path(&name);
                let failed = unread("read", &path);
                let file = File::open(&path).map_err(&failed)?;
                let bytes = file.metadata().map_err(&failed)?.len();
                let last = last_of(&file, bytes).map_err(&failed)?;
                let Some((link, _)) = last.record else {
                    return Err(ArchiveError::Broken { file: name, line: 1 });
                };
                found.push(CompleteFile { chain, name, bytes, to: link.time });
            }
        }
        found.sort_by(|a, b| (a.to, &a.name).cmp(&(b.to, &b.name)));
        Ok(found)
    }

    /// Archives a complete file, reads the archive back, and deletes the file from the log. An
    /// interruption at any moment leaves each record in the log, in an archive, or in both.
    ///
    /// # Errors
    /// If the file is not intact, or the archive can not be written. The file is then still in the
    /// log.
    pub fn archive(&self, file: &CompleteFile) -> Result<Manifest, ArchiveError> {
        self.archive_then(file, |_| Ok(()))
    }

    /// Archives a complete file as [`Archiver::archive`] does, and records that before the file is
    /// deleted.
    pub(crate) fn archive_then(
        &self,
        file: &CompleteFile,
        record: impl FnOnce(&Manifest) -> Result<(), AuditError>,
    ) -> Result<Manifest, ArchiveError> {
        let manifest = self.write(file)?;
        record(&manifest)?;
        let path = self.log.path(&file.name);
        fs::remove_file(&path).map_err(failed("delete", &path))?;
        self.log.sync()?;
        Ok(manifest)
    }

    /// Writes the archive of a file, and reads it back.
    pub(super) fn write(&self, file: &CompleteFile) -> Result<Manifest, ArchiveError> {
        let range = self.range(&file.name)?;
        let name = archive_name(&file.name);
        let existing = archives(&self.to.0)?.into_iter().find(|known| known.name() == name);
        if let Some(existing) = existing {
            return self.existing(&existing, range);
        }
        let (written, path) = (format!("{name}.new"), self.to.path(&name));
        let compressed = self.compress(&file.name, &written)?;
        self.to.rename(&written, &name)?;
        self.to.sync()?;
        let (compressed_bytes, sha256) = compressed;
        let manifest = Manifest::new(name, range, compressed_bytes, sha256);
        let signed = SignedManifest::new(manifest, self.key.as_ref()).map_err(AuditError::from)?;
        let archive =
            Archive { chain: file.chain, first: range.first, path, manifest: Ok(signed.clone()) };
        read_back(&archive, range)?;
        let manifest_name = manifest_name(&file.name);
        let written = format!("{manifest_name}.new");
        self.to.keep(&written, &signed.render().map_err(AuditError::from)?)?;
        self.to.rename(&written, &manifest_name)?;
        self.to.sync()?;
        Ok(signed.manifest)
    }

    /// Checks that an archive, which an interrupted run left, has the records of the file.
    fn existing(&self, archive: &Archive, range: RecordRange) -> Result<Manifest, ArchiveError> {
        let conflict = |why: String| {
            let archive = named(&archive.path);
            Err(ArchiveError::Conflict { archive, why })
        };
        match archive.check(None)? {
            Ok(signed) if signed.manifest.last != range.last => conflict(format!(
                "it ends with {}, and the file with {}",
                signed.manifest.last, range.last
            )),
            Ok(signed) => {
                read_back(archive, range)?;
                // Its names may not have been on disk when the run was interrupted.
                self.to.sync()?;
                Ok(signed.manifest.clone())
            }
            Err(defect) => conflict(defect.to_string()),
        }
    }

    /// Compresses a file of the log into a new file, forces that to disk, and returns its length
    /// and SHA-256.
    fn compress(&self, name: &str, to: &str) -> Result<(u64, Hash), ArchiveError> {
        let (from, path) = (self.log.path(name), self.to.path(to));
        let mut input = File::open(&from).map_err(unread("read", &from))?;
        let output = self.to.create(to)?;
        let mut encoder =
            GzBuilder::new().filename(name).write(BufWriter::new(output), Compression::default());
        let compressed = io::copy(&mut input, &mut encoder)
            .and_then(|_| encoder.finish())
            .and_then(|mut output| {
                output.flush()?;
                output.get_ref().sync_all()
            })
            .and_then(|()| digest(&path));
        compressed.map_err(|error| failed("write", &path)(error).into())
    }

    /// Reads a file of the log, and checks that each record follows the one before it, the first
    /// one that of the archive before, and that the next file continues it.
    fn range(&self, name: &str) -> Result<RecordRange, ArchiveError> {
        let path = self.log.path(name);
        let file = File::open(&path).map_err(unread("read", &path))?;
        let range = range(name, file).map_err(unread("read", &path))??;
        let Some((chain, first)) = Chain::of_segment(name) else {
            return Err(ArchiveError::Broken { file: name.to_owned(), line: 1 });
        };
        let broken = |file: &str| Err(ArchiveError::Broken { file: file.to_owned(), line: 1 });
        let before = archives(&self.to.0)?.into_iter().find_map(|archive| {
            let manifest = archive.manifest.ok()?.manifest;
            (archive.chain == chain && manifest.last.seq + 1 == first).then_some(manifest.last)
        });
        let expected = if first == 1 { Some(Head::NONE) } else { before };
        if range.first != first || expected.is_some_and(|head| head.hash != range.prev) {
            return broken(name);
        }
        let files = self.log.segments(chain)?;
        let Some(next) = files.iter().find(|known| known.as_str() > name) else {
            return Ok(range);
        };
        let path = self.log.path(next);
        let file = File::open(&path).map_err(unread("read", &path))?;
        let line = next_line(&mut BufReader::new(file)).map_err(unread("read", &path))?;
        let link = line.and_then(|line| Link::parse(&line));
        match link {
            Some(link) if (link.seq, link.prev) == (range.last.seq + 1, range.last.hash) => {
                Ok(range)
            }
            Some(_) | None => broken(next),
        }
    }
}

/// Reads records that follow each other; the outer error is that of reading.
fn range(name: &str, from: impl Read) -> io::Result<Result<RecordRange, ArchiveError>> {
    let mut from = BufReader::new(from);
    let mut found: Option<RecordRange> = None;
    let mut line = 0;
    while let Some(bytes) = next_line(&mut from)? {
        line += 1;
        let link = Link::parse(&bytes).filter(|_| bytes.last() == Some(&b'\n'));
        let follows = link.as_ref().filter(|link| {
            found.is_none_or(|range| (range.last.seq + 1, range.last.hash) == (link.seq, link.prev))
        });
        let Some(link) = follows else {
            return Ok(Err(ArchiveError::Broken { file: name.to_owned(), line }));
        };
        let last = Head { seq: link.seq, hash: Hash::of(&bytes) };
        let (prev, time) = (link.prev, link.time);
        let range = found.get_or_insert(RecordRange {
            first: link.seq,
            prev,
            last,
            from: time,
            to: time,
            bytes: 0,
        });
        (range.last, range.to) = (last, time);
        range.bytes += bytes.len() as u64;
    }
    Ok(found.ok_or_else(|| ArchiveError::Broken { file: name.to_owned(), line: 1 }))
}

/// Checks that an archive has exactly the records of a file.
fn read_back(archive: &Archive, expected: RecordRange) -> Result<(), ArchiveError> {
    let fails = || ArchiveError::NotReadBack(named(&archive.path));
    archive.check(None)?.map_err(|_| fails())?;
    match range(&archive.name(), archive.open()?) {
        Ok(Ok(range)) if range == expected => Ok(()),
        Ok(_) | Err(_) => Err(fails()),
    }
}
