//! The files with the credentials of inspected hosts, for egress rooms that this daemon starts. They are
//! opened here and read by the room alone. Runs in the broker.

use rustix::{
    fs::{FileType, Mode, OFlags, Stat},
    io::Errno,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    os::fd::OwnedFd,
    path::{Path, PathBuf},
};

/// Most files that are opened before privilege is given up.
const MOST: usize = 256;

/// An open file with a credential.
#[derive(Debug)]
pub(super) struct CredentialFile {
    pub(super) name: String,
    pub(super) file: OwnedFd,
}

/// The directory with a file for each credential.
#[derive(Debug)]
pub(crate) enum CredentialStore {
    /// The directory did not exist when the daemon started. Without a path, the user has none.
    Absent(Option<PathBuf>),
    /// A directory whose files are opened when a session needs them.
    Directory(PathBuf),
    /// The files of a directory, opened before privilege was given up.
    Opened(PathBuf, BTreeMap<String, Result<OwnedFd, CredentialFileError>>),
}

/// Why a credential can not be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CredentialFileError {
    /// This user has no directory of credentials.
    #[error(
        "this user has no directory for credential {0:?}; set `credentials` in \
         palisaded.toml"
    )]
    NoPlace(String),
    /// The file was created too late.
    #[error(
        "credential {path} did not exist when the daemon started; create it with mode 0600, and \
         restart the daemon"
    )]
    Late {
        /// The file.
        path: PathBuf,
    },
    /// The file or the directory can not be opened.
    #[error("credential {path} can not be opened: {errno}")]
    Open {
        /// The file.
        path: PathBuf,
        /// The error that the kernel returned.
        errno: Errno,
    },
    /// It is a directory, a socket or something else.
    #[error("credential {path} is not a regular file")]
    NotFile {
        /// The file.
        path: PathBuf,
    },
    /// The file belongs to another user, who knows and can change it.
    #[error("credential {path} belongs to uid {owner}; `chown {wanted} {path}`")]
    Owner {
        /// The file.
        path: PathBuf,
        /// The user id of its owner.
        owner: u32,
        /// The user id that should own it.
        wanted: u32,
    },
    /// Other users may read or change the file.
    #[error("credential {path} has mode {mode:04o}, so others may read it; `chmod 600 {path}`")]
    Readable {
        /// The file.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// The directory has too many files.
    #[error("{path} has more than {MOST} files; name another directory with `credentials`")]
    TooMany {
        /// The directory.
        path: PathBuf,
    },
}

impl CredentialStore {
    /// Opens every file of a directory, for a daemon that is about to give up the right to.
    pub(crate) fn open_all(directory: &Path) -> Result<Self, CredentialFileError> {
        let path = || directory.to_owned();
        let failed = |error: std::io::Error| CredentialFileError::Open {
            path: path(),
            errno: Errno::from_io_error(&error).unwrap_or(Errno::IO),
        };
        let mut files = BTreeMap::new();
        for entry in std::fs::read_dir(directory).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name().to_string_lossy().into_owned();
            if files.len() >= MOST {
                return Err(CredentialFileError::TooMany { path: path() });
            }
            let file = open(&directory.join(&name));
            files.insert(name, file);
        }
        Ok(Self::Opened(path(), files))
    }

    /// Returns the files of some credentials.
    pub(super) fn open(
        &self,
        names: BTreeSet<String>,
    ) -> Result<Vec<CredentialFile>, CredentialFileError> {
        let file = |name: String| Ok(CredentialFile { file: self.file(&name)?, name });
        names.into_iter().map(file).collect()
    }

    fn file(&self, name: &str) -> Result<OwnedFd, CredentialFileError> {
        match self {
            Self::Absent(None) => Err(CredentialFileError::NoPlace(name.to_owned())),
            Self::Absent(Some(directory)) => {
                Err(CredentialFileError::Late { path: directory.join(name) })
            }
            Self::Directory(directory) => open(&directory.join(name)),
            Self::Opened(directory, files) => match files.get(name) {
                Some(Ok(file)) => {
                    let failed =
                        |errno| CredentialFileError::Open { path: directory.join(name), errno };
                    rustix::io::fcntl_dupfd_cloexec(file, 0).map_err(failed)
                }
                Some(Err(error)) => Err(error.clone()),
                None => Err(CredentialFileError::Late { path: directory.join(name) }),
            },
        }
    }
}

/// Opens a credential, which nobody but its owner may read.
fn open(path: &Path) -> Result<OwnedFd, CredentialFileError> {
    let failed = |errno| CredentialFileError::Open { path: path.to_owned(), errno };
    // A FIFO or a device must not hold up the daemon.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = rustix::fs::open(path, flags | OFlags::CLOEXEC, Mode::empty()).map_err(failed)?;
    check(path, &rustix::fs::fstat(&file).map_err(failed)?)?;
    Ok(file)
}

fn check(path: &Path, found: &Stat) -> Result<(), CredentialFileError> {
    let path = path.to_owned();
    if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
        return Err(CredentialFileError::NotFile { path });
    }
    let (owner, wanted) = (found.st_uid, rustix::process::geteuid().as_raw());
    if owner != 0 && owner != wanted {
        return Err(CredentialFileError::Owner { path, owner, wanted });
    }
    let mode = found.st_mode & 0o7777;
    if mode & 0o077 != 0 {
        return Err(CredentialFileError::Readable { path, mode });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        fs::{self, Permissions},
        os::unix::fs::{PermissionsExt as _, symlink},
    };

    fn names(name: &str) -> BTreeSet<String> {
        BTreeSet::from([name.to_owned()])
    }

    #[test]
    fn a_file_that_others_may_read_is_refused_with_the_remedy() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("api");
        fs::write(&path, "bearer x").unwrap();
        for (mode, good) in [(0o600, true), (0o400, true), (0o640, false), (0o604, false)] {
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            let early = CredentialStore::open_all(directory.path()).unwrap();
            for store in [CredentialStore::Directory(directory.path().to_owned()), early] {
                let opened = store.open(names("api"));
                let error = opened.err().map(|error| error.to_string());
                let shown = path.display();
                let why = format!(
                    "credential {shown} has mode {mode:04o}, so others may read it; `chmod 600 {shown}`"
                );
                assert_eq!(error, (!good).then_some(why));
            }
        }
    }

    #[test]
    fn only_regular_files_of_root_or_this_user_are_credentials() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        fs::write(path("own"), "bearer x").unwrap();
        fs::set_permissions(path("own"), Permissions::from_mode(0o600)).unwrap();
        symlink(path("own"), path("link")).unwrap();
        fs::create_dir(path("directory")).unwrap();
        let store = CredentialStore::Directory(directory.path().to_owned());
        let refused = |name: &str| store.open(names(name)).unwrap_err();
        assert_eq!(store.open(names("own")).unwrap().len(), 1);
        let errno = Errno::LOOP;
        assert_eq!(refused("link"), CredentialFileError::Open { path: path("link"), errno });
        assert_eq!(refused("directory"), CredentialFileError::NotFile { path: path("directory") });
        let errno = Errno::NOENT;
        assert_eq!(refused("none"), CredentialFileError::Open { path: path("none"), errno });
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(path("own"), Some(4242), None).unwrap();
            let (owner, wanted) = (4242, 0);
            assert_eq!(
                refused("own"),
                CredentialFileError::Owner { path: path("own"), owner, wanted }
            );
        }
    }

    #[test]
    fn a_credential_that_came_after_privilege_was_given_up_needs_a_restart() {
        let directory = tempfile::tempdir().unwrap();
        let early = CredentialStore::open_all(directory.path()).unwrap();
        let path = directory.path().join("api");
        fs::write(&path, "bearer x").unwrap();
        let late = CredentialFileError::Late { path };
        assert_eq!(early.open(names("api")).unwrap_err(), late);
        let absent = CredentialStore::Absent(Some(directory.path().to_owned()));
        assert_eq!(absent.open(names("api")).unwrap_err(), late);
        assert!(absent.open(BTreeSet::new()).unwrap().is_empty(), "a session without credentials");
        let nowhere = CredentialStore::Absent(None).open(names("api")).unwrap_err();
        assert_eq!(nowhere, CredentialFileError::NoPlace("api".to_owned()));
    }
}
