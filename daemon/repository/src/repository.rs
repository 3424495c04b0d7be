//! Opens a repository, and refuses one that plain git would read differently from this crate.

use crate::configuration::Configuration;
use crate::directory::GitDirectory;
use crate::object::{ObjectDatabase, ObjectReader};
use crate::references::read_target;
use crate::staged::{StagingIndex, parse_index};
use crate::tips::{RepositoryLayout, Tips};
use crate::{Bounds, ObjectId, RepositoryError};
use gix_hash::Kind;
use std::collections::BTreeSet;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

/// A repository, opened only for reading.
#[derive(Debug)]
pub struct Repository {
    pub(crate) common: GitDirectory,
    pub(crate) worktree: Option<GitDirectory>,
    pub(crate) objects: ObjectDatabase,
    pub(crate) bounds: Bounds,
}

impl Repository {
    /// Opens the main repository in a directory, usually `.git`.
    ///
    /// # Errors
    ///
    /// If it is not a directory, uses an unsupported feature, or exceeds a bound.
    pub fn open(git_dir: &Path, bounds: Bounds) -> Result<Self, RepositoryError> {
        Self::new(GitDirectory::open(git_dir)?, None, bounds)
    }

    /// Opens the main repository in a directory that is already open.
    ///
    /// # Errors
    ///
    /// The errors of [`Repository::open`].
    pub fn open_at(git_dir: OwnedFd, bounds: Bounds) -> Result<Self, RepositoryError> {
        Self::new(GitDirectory::from_fd(git_dir), None, bounds)
    }

    /// Opens the repository of a linked worktree. The caller has established that the worktree's
    /// own directory belongs to the common one; what the files say about that is not trusted.
    ///
    /// # Errors
    ///
    /// The errors of [`Repository::open`].
    pub fn open_worktree(
        git_dir: OwnedFd,
        common_dir: OwnedFd,
        bounds: Bounds,
    ) -> Result<Self, RepositoryError> {
        let worktree = Some(GitDirectory::from_fd(git_dir));
        Self::new(GitDirectory::from_fd(common_dir), worktree, bounds)
    }

    fn new(
        common: GitDirectory,
        worktree: Option<GitDirectory>,
        bounds: Bounds,
    ) -> Result<Self, RepositoryError> {
        if common.read(b"commondir", bounds.file_bytes)?.is_some() {
            return Err(RepositoryError::unsupported("a link to another directory (commondir)"));
        }
        let config = common.read(b"config", bounds.file_bytes)?.unwrap_or_default();
        let kind = object_format(&Configuration::parse(&config)?)?;
        let part = |name: &[u8]| {
            let directory = common.directory(name)?;
            directory.ok_or(RepositoryError::malformed(name, "no such directory"))
        };
        let (objects, _refs) = (part(b"objects")?, part(b"refs")?);
        let own = worktree.as_ref().unwrap_or(&common);
        if read_target(own, b"HEAD", kind).is_none() {
            return Err(RepositoryError::malformed(b"HEAD", "neither a reference nor an id"));
        }
        let objects = ObjectDatabase::open(objects, kind, &bounds)?;
        Ok(Repository { common, worktree, objects, bounds })
    }

    /// Reads every reference, `HEAD` and reflog.
    ///
    /// # Errors
    ///
    /// If a directory or `packed-refs` cannot be read, or there are more than the bounds allow.
    pub fn tips(&self) -> Result<Tips, RepositoryError> {
        let (common, worktree) = (&self.common, self.worktree.as_ref());
        Tips::read(&RepositoryLayout { common, worktree, objects: &self.objects }, &self.bounds)
    }

    /// Reads the index, which has the staged blobs and the tracked paths.
    ///
    /// # Errors
    ///
    /// If it is damaged, too large, split or sparse.
    pub fn index(&self) -> Result<StagingIndex, RepositoryError> {
        let bytes = self.own().read(b"index", self.bounds.file_bytes)?;
        bytes.map_or(Ok(StagingIndex::default()), |bytes| parse_index(&bytes, self.objects.kind))
    }

    /// Reads the repository's `config`, without included files.
    ///
    /// # Errors
    ///
    /// If the file is invalid; then every change of it is a plant.
    pub fn configuration(&self) -> Result<Configuration, RepositoryError> {
        let bytes = self.common.read(b"config", self.bounds.file_bytes)?;
        Configuration::parse(&bytes.unwrap_or_default())
    }

    /// Computes the id that these bytes have as a file; `None` if they look like an attempted
    /// collision.
    #[must_use]
    pub fn blob_id(&self, content: &[u8]) -> Option<ObjectId> {
        self.objects.hash(gix_object::Kind::Blob, content)
    }

    pub(crate) fn own(&self) -> &GitDirectory {
        self.worktree.as_ref().unwrap_or(&self.common)
    }

    pub(crate) fn reader(&self) -> ObjectReader<'_> {
        ObjectReader::new(&self.objects, self.bounds)
    }

    /// Returns the commits whose parents git ignores, because a file says so. Git's maintenance may
    /// delete what is behind them.
    pub(crate) fn severed(&self) -> Result<BTreeSet<ObjectId>, RepositoryError> {
        let mut severed = BTreeSet::new();
        for path in [b"shallow".as_slice(), b"info/grafts"] {
            let bytes = self.common.read(path, self.bounds.file_bytes)?.unwrap_or_default();
            for line in bytes.split(|byte| *byte == b'\n') {
                if line.is_empty() || line.starts_with(b"#") {
                    continue;
                }
                let id = line.get(..self.objects.kind.len_in_hex());
                let id = id.and_then(|id| ObjectId::from_hex(id).ok());
                severed.insert(id.ok_or(RepositoryError::malformed(path, "a line without an id"))?);
            }
        }
        Ok(severed)
    }
}

/// Reads only the index of a repository or a linked worktree. Whatever else the repository has, this
/// says which paths git tracks.
///
/// # Errors
///
/// If the index is damaged, too large, split or sparse.
pub fn read_index(git_dir: OwnedFd, bounds: &Bounds) -> Result<StagingIndex, RepositoryError> {
    let directory = GitDirectory::from_fd(git_dir);
    let Some(bytes) = directory.read(b"index", bounds.file_bytes)? else {
        return Ok(StagingIndex::default());
    };
    parse_any(&bytes)
}

/// Reads an index that is already open, whatever its position.
///
/// # Errors
///
/// If it can not be read, or exceeds a bound.
pub fn read_index_file(index: &File, bounds: &Bounds) -> Result<StagingIndex, RepositoryError> {
    let failed = |error| RepositoryError::io(b"index", error);
    let length = index.metadata().map_err(failed)?.len();
    if length > bounds.file_bytes {
        return Err(RepositoryError::bound("bytes of a file", bounds.file_bytes));
    }
    let mut bytes = vec![0; usize::try_from(length).unwrap_or(usize::MAX)];
    index.read_exact_at(&mut bytes, 0).map_err(failed)?;
    parse_any(&bytes)
}

/// Parses an index of either hash. The checksum at its end tells which: a linked worktree has no
/// configuration of its own.
fn parse_any(bytes: &[u8]) -> Result<StagingIndex, RepositoryError> {
    parse_index(bytes, Kind::Sha1)
        .or_else(|error| parse_index(bytes, Kind::Sha256).map_err(|_| error))
}

/// Determines the hash that names objects, and refuses unsupported formats.
fn object_format(configuration: &Configuration) -> Result<Kind, RepositoryError> {
    let unsupported = |key: &str, value: &Option<Vec<u8>>| {
        let value = String::from_utf8_lossy(value.as_deref().unwrap_or_default()).into_owned();
        RepositoryError::unsupported(format!("{key} = {value}"))
    };
    let mut kind = Kind::Sha1;
    let mut version = 0;
    for (key, values) in configuration.keys() {
        let name = key.to_string();
        for value in values {
            let text = value.as_deref().map(<[u8]>::to_ascii_lowercase);
            match (name.as_str(), text.as_deref()) {
                ("core.repositoryformatversion", Some(b"0")) => version = 0,
                ("core.repositoryformatversion", Some(b"1")) => version = 1,
                ("extensions.objectformat", Some(b"sha1")) => kind = Kind::Sha1,
                ("extensions.objectformat", Some(b"sha256")) => kind = Kind::Sha256,
                ("extensions.refstorage", Some(b"files")) => {}
                (
                    "extensions.noop"
                    | "extensions.partialclone"
                    | "extensions.preciousobjects"
                    | "extensions.relativeworktrees"
                    | "extensions.worktreeconfig",
                    _,
                ) => {}
                ("core.repositoryformatversion", _) => return Err(unsupported(&name, value)),
                _ if name.starts_with("extensions.") => return Err(unsupported(&name, value)),
                _ => {}
            }
        }
    }
    if version == 0 && kind == Kind::Sha256 {
        return Err(RepositoryError::unsupported("sha256 objects with format version 0"));
    }
    Ok(kind)
}
