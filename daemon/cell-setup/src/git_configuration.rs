//! Reads the user's configuration of git, of which a session gets the author of commits. Nothing is
//! parsed here. Runs in the cell, while it has privilege.

use crate::{borrowed::BorrowedIdentity, failure::StepFailure};
use palisade_plan::{Identity, Path};
use rustix::{
    fs::{CWD, FileType, Mode, OFlags},
    io::Errno,
};
use std::{
    fs::File,
    io::{self, Read as _},
    path::Path as FilePath,
};

/// The configuration files of a user, relative to the home, in git's order: later ones win.
const FILES: [&str; 2] = [".config/git/config", ".gitconfig"];

/// The largest file that is read, in bytes.
const LARGEST: u64 = 64 * 1024;

/// The user's configuration of git, as it is in the files.
#[derive(Debug, Default)]
pub struct GitConfiguration {
    /// The user's home, which is private in the session.
    pub home: Path,
    /// The content of the files; later ones win. Empty if one of them can not be used.
    pub files: Vec<Vec<u8>>,
}

/// Reads the configuration with the user's rights, while the process still sees the user's home.
pub(crate) fn read(home: Path, user: Identity) -> Result<GitConfiguration, StepFailure> {
    let borrowed = BorrowedIdentity::take(user)?;
    let read = FILES.iter().filter_map(|name| read_file(&home.as_path().join(name)).transpose());
    let files = read.collect::<io::Result<_>>();
    borrowed.give_back()?;
    // Without the files, git asks for a name as it does for every new user.
    Ok(GitConfiguration { home, files: files.unwrap_or_default() })
}

/// Reads a regular file of moderate size; `None` if there is none.
fn read_file(path: &FilePath) -> io::Result<Option<Vec<u8>>> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = match rustix::fs::openat(CWD, path, flags, Mode::empty()) {
        Ok(file) => file,
        Err(Errno::NOENT | Errno::NOTDIR) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let stat = rustix::fs::fstat(&file)?;
    let mut text = Vec::new();
    File::from(file).take(LARGEST + 1).read_to_end(&mut text)?;
    let is_small = u64::try_from(text.len()).is_ok_and(|length| length <= LARGEST);
    match FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile && is_small {
        true => Ok(Some(text)),
        false => Err(io::ErrorKind::InvalidData.into()),
    }
}
