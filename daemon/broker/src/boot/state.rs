//! The state directory: private, and owned by the broker's user before privilege is given up.

use crate::{
    base::reach::OpenDirectories,
    boot::{
        ownership::{self, UnsafePlace},
        privilege::Account,
        settings::StateDirectory,
    },
};
use palisade_audit::ARCHIVE_DIRECTORY;
use std::{
    fs::{self, DirBuilder, Permissions},
    io,
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _, lchown},
    path::{Path, PathBuf},
};

/// An error from preparing the state directory.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// A file operation failed.
    #[error("can not {act} {path}; choose another directory with --state")]
    Io {
        /// The operation, as a verb.
        act: &'static str,
        /// The path it was applied to.
        path: PathBuf,
        /// The error that the kernel returned.
        source: io::Error,
    },
    /// The path belongs to another user, is a symbolic link, or is not a directory.
    #[error(
        "{path} is {what}, not a directory of the daemon; {fix}, or choose another one with --state"
    )]
    NotOwn {
        /// The path.
        path: PathBuf,
        /// A description of what was found there.
        what: String,
        /// The advice on what to do about it.
        fix: String,
    },
    /// Another user could replace the directory.
    #[error(transparent)]
    Place(#[from] UnsafePlace),
    /// No directory is configured, and there is no default.
    #[error("neither XDG_STATE_HOME nor HOME is set; choose a directory with --state")]
    Nowhere,
}

/// The directories in the state directory.
#[derive(Debug)]
pub(crate) struct StateDirectories {
    pub(crate) spool: PathBuf,
    pub(crate) audit: PathBuf,
    pub(crate) undo: PathBuf,
    /// The launcher's own directory, for a launcher that this process starts.
    pub(crate) transactions: PathBuf,
}

/// Creates the state directory and those in it.
pub(crate) fn prepare(
    state: &StateDirectory,
    account: Option<Account>,
) -> Result<StateDirectories, StateError> {
    let path = match state {
        StateDirectory::Given(path) | StateDirectory::Usual(path) => path,
        StateDirectory::Nowhere => return Err(StateError::Nowhere),
    };
    let (spool, audit, undo) = (path.join("spool"), path.join("audit"), path.join("undo"));
    for directory in [path, &spool, &audit, &undo] {
        make(directory)?;
        ownership::check_above(directory, &OpenDirectories::default())?;
    }
    for directory in [path, &audit] {
        own(directory, account)?;
    }
    // Only the broker makes files in these two, and they may be many.
    for directory in [&spool, &undo] {
        own_with_files(directory, account)?;
    }
    if let Some(account) = account {
        adopt(&audit, account)?;
        let archive = audit.join(ARCHIVE_DIRECTORY);
        if fs::symlink_metadata(&archive).is_ok() {
            own(&archive, Some(account))?;
            adopt(&archive, account)?;
        }
    }
    // Owned by whoever starts the launcher, not by the user that the broker switches to: nobody
    // else may write to it.
    let transactions = path.join("transactions");
    make(&transactions)?;
    Ok(StateDirectories { spool, audit, undo, transactions })
}

fn failed<'a>(act: &'static str, path: &'a Path) -> impl Fn(io::Error) -> StateError + 'a {
    move |source| StateError::Io { act, path: path.to_owned(), source }
}

fn make(directory: &Path) -> Result<(), StateError> {
    DirBuilder::new()
        .mode(0o700)
        .recursive(true)
        .create(directory)
        .map_err(failed("make", directory))
}

/// Refuses existing directories that are not the daemon's own; changes nothing.
pub(crate) fn check(state: &StateDirectory, account: Option<Account>) -> Result<(), StateError> {
    let path = match state {
        StateDirectory::Given(path) | StateDirectory::Usual(path) => path,
        StateDirectory::Nowhere => return Ok(()),
    };
    for directory in [path, &path.join("spool"), &path.join("audit"), &path.join("undo")] {
        if fs::symlink_metadata(directory).is_ok() {
            look(directory, account)?;
            ownership::check_above(directory, &OpenDirectories::default())?;
        }
    }
    Ok(())
}

/// Returns the metadata of a directory; refuses one that is not the daemon's own.
fn look(directory: &Path, account: Option<Account>) -> Result<fs::Metadata, StateError> {
    let found = fs::symlink_metadata(directory).map_err(failed("look at", directory))?;
    let own = rustix::process::geteuid().as_raw();
    // As root, also accept directories of the broker's user, now or at an earlier start.
    let ours = found.uid() == own || account.is_some_and(|account| account.was(found.uid()));
    let (what, fix) = match found.is_dir() {
        true if ours => return Ok(found),
        true => {
            let wanted = account.map_or(own, |account| account.uid);
            (
                format!("owned by uid {}", found.uid()),
                format!("`chown -R {wanted} {}`", directory.display()),
            )
        }
        false if found.is_symlink() => ("a symbolic link".to_owned(), "remove it".to_owned()),
        false => ("a file".to_owned(), "remove it".to_owned()),
    };
    Err(StateError::NotOwn { path: directory.to_owned(), what, fix })
}

fn own(directory: &Path, account: Option<Account>) -> Result<(), StateError> {
    let found = look(directory, account)?;
    if found.mode() & 0o7777 != 0o700 {
        let mode = Permissions::from_mode(0o700);
        fs::set_permissions(directory, mode).map_err(failed("chmod", directory))?;
    }
    if let Some(Account { uid, gid }) = account {
        lchown(directory, Some(uid), Some(gid)).map_err(failed("chown", directory))?;
    }
    Ok(())
}

/// Gives a directory to an account, like [`own`], and its files too if it had another owner. The
/// group is changed last: it shows at the next start whether the files were all changed.
fn own_with_files(directory: &Path, account: Option<Account>) -> Result<(), StateError> {
    let found = look(directory, account)?;
    if let Some(account) = account
        && (found.uid(), found.gid()) != (account.uid, account.gid)
    {
        lchown(directory, Some(account.uid), None).map_err(failed("chown", directory))?;
        adopt(directory, account)?;
    }
    own(directory, account)
}

/// Changes the owner of files from an earlier broker user to this one. Symbolic and hard links are
/// skipped: the earlier user must not make root change the owner of another file.
fn adopt(directory: &Path, account: Account) -> Result<(), StateError> {
    for entry in fs::read_dir(directory).map_err(failed("read", directory))? {
        let path = entry.map_err(failed("read", directory))?.path();
        let found = fs::symlink_metadata(&path).map_err(failed("look at", &path))?;
        if found.is_file() && found.nlink() == 1 && found.uid() != account.uid {
            lchown(&path, Some(account.uid), Some(account.gid)).map_err(failed("chown", &path))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_directory_is_made_private() {
        let directory = tempfile::tempdir().unwrap();
        let state = directory.path().join("a/state");
        let StateDirectories { spool, audit, undo, transactions } =
            prepare(&StateDirectory::Given(state.clone()), None).unwrap();
        assert_eq!((&spool, &audit), (&state.join("spool"), &state.join("audit")));
        assert_eq!(undo, state.join("undo"));
        for path in [&state, &spool, &audit, &undo, &transactions] {
            assert_eq!(fs::metadata(path).unwrap().mode() & 0o7777, 0o700);
        }
        fs::set_permissions(&spool, Permissions::from_mode(0o777)).unwrap();
        prepare(&StateDirectory::Given(state), None).unwrap();
        assert_eq!(fs::metadata(&spool).unwrap().mode() & 0o7777, 0o700);
    }

    #[test]
    fn files_of_an_earlier_broker_user_become_those_of_this_one() {
        let directory = tempfile::tempdir().unwrap();
        let state = StateDirectory::Given(directory.path().join("state"));
        let StateDirectories { spool, undo, .. } = prepare(&state, None).unwrap();
        let (earlier, account) = (61_200, Account { uid: 61_300, gid: 61_300 });
        if !rustix::process::geteuid().is_root() {
            let error = prepare(&state, Some(account)).unwrap_err();
            assert!(matches!(error, StateError::NotOwn { .. } | StateError::Io { .. }), "{error}");
            return;
        }
        let uid = |path: &Path| fs::symlink_metadata(path).unwrap().uid();
        // The second time, an earlier start ended after it had changed the directory alone.
        for (directory, owner) in [(&spool, earlier), (&undo, earlier), (&undo, account.uid)] {
            let file = directory.join("file");
            fs::write(&file, "").unwrap();
            let link = directory.join("link");
            std::os::unix::fs::symlink("/", &link).unwrap();
            for path in [&file, &link] {
                lchown(path, Some(earlier), Some(earlier)).unwrap();
            }
            lchown(directory, Some(owner), Some(earlier)).unwrap();
            prepare(&state, Some(account)).unwrap();
            assert_eq!((uid(directory), uid(&file)), (account.uid, account.uid));
            assert_eq!(uid(&link), earlier);
            fs::remove_file(&file).unwrap();
            fs::remove_file(&link).unwrap();
        }
    }

    #[test]
    fn a_link_or_a_file_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let link = directory.path().join("link");
        std::os::unix::fs::symlink(directory.path(), &link).unwrap();
        let error = prepare(&StateDirectory::Given(link), None).unwrap_err();
        let expected = " is a symbolic link, not a directory of the daemon; remove it, ";
        assert!(error.to_string().contains(expected), "{error}");
        let file = directory.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(prepare(&StateDirectory::Given(file), None).is_err());
        assert!(matches!(prepare(&StateDirectory::Nowhere, None), Err(StateError::Nowhere)));
    }
}
