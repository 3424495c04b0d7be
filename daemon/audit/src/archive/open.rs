//! Finds archives, checks them against their manifests, and reads the records in them.

use super::SignedManifest;
use crate::{
    chain::Chain,
    error::{AuditError, ReadError},
    files::{Directory, failed, unread},
    hash::Hash,
    key::{PublicKey, SignatureFault},
};
use flate2::read::GzDecoder;
use std::{
    fmt,
    fs::{self, File},
    io::{self, BufReader, Read},
    path::{Path, PathBuf},
};

/// The reason why an archive can not be trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ArchiveDefect {
    /// The manifest can not be understood.
    Manifest(String),
    /// The archive belongs at another place: it is the named file.
    Renamed(String),
    /// The signature does not prove anything.
    Signature(SignatureFault),
    /// The compressed file is missing.
    FileMissing,
    /// The compressed file is not the one that the manifest describes.
    Altered,
    /// The archive does not continue the record before it: it is of another log.
    Foreign,
}

impl fmt::Display for ArchiveDefect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Manifest(why) => write!(f, "its manifest can not be used: {why}"),
            Self::Renamed(name) => write!(f, "it is {name} under another name"),
            Self::Signature(fault) => write!(f, "it {fault}"),
            Self::FileMissing => f.write_str("it has a manifest, but the file is missing"),
            Self::Altered => f.write_str("it was altered: its contents do not fit its manifest"),
            Self::Foreign => {
                f.write_str("it does not continue the record before it: it is of another log")
            }
        }
    }
}

/// An archive in a directory.
#[derive(Debug, Clone)]
pub(crate) struct Archive {
    pub(crate) chain: Chain,
    /// The number of the first record, by the name of the file.
    pub(crate) first: u64,
    pub(crate) path: PathBuf,
    pub(crate) manifest: Result<SignedManifest, String>,
}

/// Returns the name of the manifest that belongs to a file of the log.
pub(super) fn manifest_name(segment: &str) -> String {
    format!("{}.manifest.json", segment.trim_end_matches(".jsonl"))
}

/// Returns the name of the archive of a file of the log.
pub(super) fn archive_name(segment: &str) -> String {
    format!("{segment}.gz")
}

/// Lists the archives in a directory, which need not exist.
pub(crate) fn archives(directory: &Path) -> Result<Vec<Archive>, ReadError> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(unread("read", directory)(error)),
    };
    let mut found = Vec::new();
    for entry in entries {
        let name = entry.map_err(unread("read", directory))?.file_name();
        let stem = name.to_str().and_then(|name| name.strip_suffix(".manifest.json"));
        let Some(segment) = stem.map(|stem| format!("{stem}.jsonl")) else { continue };
        let Some((chain, first)) = Chain::of_segment(&segment) else { continue };
        let path = directory.join(&name);
        let text = match fs::read(&path) {
            Ok(text) => text,
            // Deleted since the directory was read.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(unread("read", &path)(error)),
        };
        let manifest = SignedManifest::parse(&text);
        found.push(Archive {
            chain,
            first,
            path: directory.join(archive_name(&segment)),
            manifest,
        });
    }
    Ok(found)
}

impl Archive {
    /// Returns the name of the compressed file.
    pub(crate) fn name(&self) -> String {
        archive_name(&self.chain.segment(self.first))
    }

    /// Checks manifest, signature and compressed file, but not the records.
    pub(crate) fn check(
        &self,
        key: Option<&PublicKey>,
    ) -> Result<Result<&SignedManifest, ArchiveDefect>, ReadError> {
        let signed = match &self.manifest {
            Ok(signed) => signed,
            Err(why) => return Ok(Err(ArchiveDefect::Manifest(why.clone()))),
        };
        let manifest = &signed.manifest;
        if let Err(fault) = signed.check(key) {
            return Ok(Err(ArchiveDefect::Signature(fault)));
        }
        if manifest.file != self.name() || manifest.first != self.first {
            return Ok(Err(ArchiveDefect::Renamed(manifest.file.clone())));
        }
        match digest(&self.path) {
            Ok(found) if found == (manifest.compressed_bytes, manifest.sha256) => Ok(Ok(signed)),
            Ok(_) => Ok(Err(ArchiveDefect::Altered)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Ok(Err(ArchiveDefect::FileMissing))
            }
            Err(error) => Err(unread("read", &self.path)(error)),
        }
    }

    /// Deletes the archive from its directory. The manifest goes last: until then the archive is
    /// found, and deleting it is tried again.
    pub(crate) fn delete(&self, directory: &Directory) -> Result<(), AuditError> {
        let manifest = directory.path(&manifest_name(&self.chain.segment(self.first)));
        for path in [&self.path, &manifest] {
            match fs::remove_file(path) {
                Ok(()) => directory.sync()?,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(failed("delete", path)(error)),
            }
        }
        Ok(())
    }

    /// Opens the records for reading: as many bytes as the manifest names, and one more if there
    /// are more.
    pub(crate) fn open(&self) -> Result<impl Read + use<>, ReadError> {
        let signed = match &self.manifest {
            Ok(signed) => signed,
            Err(why) => return Err(ReadError::Archive { file: self.name(), why: why.clone() }),
        };
        let file = File::open(&self.path).map_err(unread("read", &self.path))?;
        let most = signed.manifest.bytes.saturating_add(1);
        Ok(GzDecoder::new(BufReader::new(file)).take(most))
    }
}

/// Returns the length and the SHA-256 of a file.
pub(super) fn digest(path: &Path) -> io::Result<(u64, Hash)> {
    let mut file = File::open(path)?;
    let mut hasher = Hash::begin();
    let mut bytes = vec![0; 64 << 10];
    let mut length = 0;
    loop {
        match file.read(&mut bytes)? {
            0 => return Ok((length, hasher.end())),
            read => {
                hasher.add(bytes.get(..read).unwrap_or_default());
                length += read as u64;
            }
        }
    }
}
