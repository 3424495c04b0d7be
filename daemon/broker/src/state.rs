//! The state directory: private, and the broker's own before it gives up its privilege.

use crate::{
    ownership::{self, UnsafePlace},
    privilege::Account,
    reach::Reach,
    settings::State,
};
use std::{
    fs::{self, DirBuilder, Permissions},
    io,
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _, lchown},
    path::{Path, PathBuf},
};

/// Why there is no state directory.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// Something could not be done.
    #[error("can not {act} {path}; choose another directory with --state")]
    Io {
        /// What.
        act: &'static str,
        /// With what.
        path: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
    /// It is somebody else's, a link, or not a directory.
    #[error(
        "{path} is {what}, and not a directory of the daemon's own; {fix}, or choose another one with --state"
    )]
    NotOwn {
        /// Which.
        path: PathBuf,
        /// What it is instead.
        what: String,
        /// What to do about it.
        fix: String,
    },
    /// It could be exchanged for another.
    #[error(transparent)]
    Place(#[from] UnsafePlace),
    /// There is no place for it.
    #[error("neither XDG_STATE_HOME nor HOME is set; choose a directory with --state")]
    Nowhere,
}

/// What is kept where.
#[derive(Debug)]
pub(crate) struct Places {
    pub(crate) spool: PathBuf,
    pub(crate) audit: PathBuf,
    pub(crate) undo: PathBuf,
    /// The launcher's own, for a launcher that this process starts.
    pub(crate) transactions: PathBuf,
}

/// Makes the state directory and those in it.
pub(crate) fn prepare(state: &State, account: Option<Account>) -> Result<Places, StateError> {
    let path = match state {
        State::Given(path) | State::Usual(path) => path,
        State::Nowhere => return Err(StateError::Nowhere),
    };
    let (spool, audit, undo) = (path.join("spool"), path.join("audit"), path.join("undo"));
    for directory in [path, &spool, &audit, &undo] {
        make(directory)?;
        ownership::check_above(directory, &Reach::default())?;
        own(directory, account)?;
    }
    if let Some(account) = account {
        adopt(&spool, account)?;
        adopt(&audit, account)?;
        adopt(&undo, account)?;
    }
    // Whoever starts the launcher, and not whom the broker becomes: no other may write it.
    let transactions = path.join("transactions");
    make(&transactions)?;
    Ok(Places { spool, audit, undo, transactions })
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

/// Refuses directories that are there and not the daemon's own; changes nothing.
pub(crate) fn check(state: &State, account: Option<Account>) -> Result<(), StateError> {
    let path = match state {
        State::Given(path) | State::Usual(path) => path,
        State::Nowhere => return Ok(()),
    };
    for directory in [path, &path.join("spool"), &path.join("audit"), &path.join("undo")] {
        if fs::symlink_metadata(directory).is_ok() {
            look(directory, account)?;
            ownership::check_above(directory, &Reach::default())?;
        }
    }
    Ok(())
}

/// What is there, if it is a directory of the daemon's own.
fn look(directory: &Path, account: Option<Account>) -> Result<fs::Metadata, StateError> {
    let found = fs::symlink_metadata(directory).map_err(failed("look at", directory))?;
    let own = rustix::process::geteuid().as_raw();
    // As root: what the broker's user, now or at an earlier start, was given.
    let ours = found.uid() == own || account.is_some_and(|account| account.was(found.uid()));
    let (what, fix) = match found.is_dir() {
        true if ours => return Ok(found),
        true => {
            let wanted = account.map_or(own, |account| account.uid);
            (
                format!("uid {}'s", found.uid()),
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

/// Hands files of an earlier broker user to this one. Links and second names are left alone:
/// whoever was the broker then must not have root change the owner of another file.
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
        let Places { spool, audit, undo, transactions } =
            prepare(&State::Given(state.clone()), None).unwrap();
        assert_eq!((&spool, &audit), (&state.join("spool"), &state.join("audit")));
        assert_eq!(undo, state.join("undo"));
        for path in [&state, &spool, &audit, &undo, &transactions] {
            assert_eq!(fs::metadata(path).unwrap().mode() & 0o7777, 0o700);
        }
        fs::set_permissions(&spool, Permissions::from_mode(0o777)).unwrap();
        prepare(&State::Given(state), None).unwrap();
        assert_eq!(fs::metadata(&spool).unwrap().mode() & 0o7777, 0o700);
    }

    #[test]
    fn a_link_or_a_file_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let link = directory.path().join("link");
        std::os::unix::fs::symlink(directory.path(), &link).unwrap();
        let error = prepare(&State::Given(link), None).unwrap_err();
        let expected = " is a symbolic link, and not a directory of the daemon's own; remove it, ";
        assert!(error.to_string().contains(expected), "{error}");
        let file = directory.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(prepare(&State::Given(file), None).is_err());
        assert!(matches!(prepare(&State::Nowhere, None), Err(StateError::Nowhere)));
    }
}
