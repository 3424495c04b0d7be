//! The sources of a chain's records in order: archives, then the files of the log. A file that is
//! in both is read from the log.

use crate::{
    archive::{ARCHIVE_DIRECTORY, Archive, archives},
    chain::Chain,
    error::ReadError,
    files::{Directory, Head, unread},
    hash::Hash,
    line::Link,
    lines::next_line,
};
use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, BufRead, BufReader, Read, Seek as _, SeekFrom},
    path::{Path, PathBuf},
};

/// A file of the log, or the archive of one.
#[derive(Debug)]
pub(crate) enum LogSource {
    File { name: String, first: u64, path: PathBuf },
    Archive(Box<Archive>),
}

/// Finds the sources of all chains. Archives are looked for beside the log, and then in further
/// directories.
pub(crate) fn sources(
    log: &Directory,
    further: &[PathBuf],
) -> Result<BTreeMap<Chain, Vec<LogSource>>, ReadError> {
    let mut found: BTreeMap<(Chain, u64), LogSource> = BTreeMap::new();
    let beside = log.path(ARCHIVE_DIRECTORY);
    for directory in std::iter::once(&beside).chain(further) {
        for archive in archives(directory)? {
            let key = (archive.chain, archive.first);
            found.entry(key).or_insert(LogSource::Archive(Box::new(archive)));
        }
    }
    // The log is listed last: a file that is archived meanwhile is missed here, and then its reader
    // looks again.
    let mut chains: BTreeMap<Chain, Vec<LogSource>> = BTreeMap::new();
    for (chain, names) in log.chains()? {
        chains.entry(chain).or_default();
        for name in names {
            let Some((chain, first)) = Chain::of_segment(&name) else { continue };
            let path = log.path(&name);
            found.insert((chain, first), LogSource::File { name, first, path });
        }
    }
    for ((chain, _), source) in found {
        chains.entry(chain).or_default().push(source);
    }
    Ok(chains)
}

impl LogSource {
    /// Returns the name of the file.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::File { name, .. } => name.clone(),
            Self::Archive(archive) => archive.name(),
        }
    }

    /// Returns the path of the file.
    pub(crate) fn path(&self) -> &Path {
        match self {
            Self::File { path, .. } => path,
            Self::Archive(archive) => &archive.path,
        }
    }

    /// Returns the number of the first record, by the name of the file.
    pub(crate) const fn first(&self) -> u64 {
        match self {
            Self::File { first, .. } => *first,
            Self::Archive(archive) => archive.first,
        }
    }

    /// Returns the length of the records in an archive. A file of the log may still grow.
    pub(crate) fn ends_at(&self) -> Option<u64> {
        match self {
            Self::File { .. } => None,
            Self::Archive(archive) => {
                archive.manifest.as_ref().ok().map(|signed| signed.manifest.bytes)
            }
        }
    }

    /// Opens the records, without the first bytes.
    pub(crate) fn open(&self, skip: u64) -> Result<Box<dyn BufRead>, ReadError> {
        match self {
            Self::File { path, .. } => {
                let failed = unread("read", path);
                let mut file = File::open(path).map_err(&failed)?;
                file.seek(SeekFrom::Start(skip)).map_err(&failed)?;
                Ok(Box::new(BufReader::new(file)))
            }
            Self::Archive(archive) => {
                let mut records = archive.open()?;
                io::copy(&mut records.by_ref().take(skip), &mut io::sink())
                    .map_err(unread("read", &archive.path))?;
                Ok(Box::new(BufReader::new(records)))
            }
        }
    }

    /// Returns the record that the first one says it follows; `None` if there is no first record.
    pub(crate) fn follows(&self) -> Result<Option<Head>, ReadError> {
        let prev = match self {
            Self::File { path, .. } => {
                let mut file =
                    File::open(path).map(BufReader::new).map_err(unread("read", path))?;
                let line = next_line(&mut file).map_err(unread("read", path))?;
                line.and_then(|line| Link::parse(&line)).map(|link| link.prev)
            }
            Self::Archive(archive) => {
                archive.manifest.as_ref().ok().map(|signed| signed.manifest.prev)
            }
        };
        Ok(prev.map(|hash: Hash| Head { seq: self.first().saturating_sub(1), hash }))
    }
}

/// Returns `true` if the error says that a file was archived or deleted after the directory was
/// listed.
pub(crate) fn is_gone(error: &ReadError) -> bool {
    matches!(error, ReadError::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
}
