//! Gives a session its user's name and e-mail address for git's commits. The rest of the user's
//! configuration stays invisible, because it may hold secrets and name programs. Runs in the cell.

use crate::{borrowed::BorrowedIdentity, failure::StepFailure};
use palisade_plan::{Identity, Path};
use palisade_repository::CommitAuthor;
use rustix::{
    fs::{CWD, FileType, Mode, OFlags},
    io::Errno,
};
use std::{
    fs::File,
    io::{self, Read as _, Write as _},
    path::Path as FilePath,
};

/// The configuration files of a user, relative to the home, in git's order: later ones win.
const FILES: [&str; 2] = [".config/git/config", ".gitconfig"];

/// The largest file that is read, in bytes.
const LARGEST: u64 = 64 * 1024;

/// The user's configuration of git, as it is in the files.
#[derive(Debug, Default)]
pub(crate) struct GitConfiguration {
    home: Path,
    files: Vec<Vec<u8>>,
}

/// Reads the user's configuration of git with that user's rights. Called while the process has
/// privilege and still sees the user's home; nothing is parsed before the privilege is gone.
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

impl GitConfiguration {
    /// Writes the author into the session's private home. Called once the process is confined.
    pub(crate) fn write_author(&self) -> Result<(), StepFailure> {
        let Some(author) = CommitAuthor::find(&self.files) else { return Ok(()) };
        let [name, _] = FILES;
        let path = self.home.as_path().join(name);
        match create(&path, author.configuration().as_bytes()) {
            Ok(()) => Ok(()),
            // The profile shows the user's own files there.
            Err(error) if is_occupied(&error) => Ok(()),
            Err(error) => Err(StepFailure::kernel(format!("write {}", path.display()))(error)),
        }
    }
}

fn create(path: &FilePath, text: &[u8]) -> io::Result<()> {
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory)?;
    }
    File::create_new(path)?.write_all(text)
}

fn is_occupied(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EEXIST | libc::EROFS | libc::EACCES | libc::ENOTDIR))
}
