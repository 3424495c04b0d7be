//! Gives a session its user's name and e-mail address for git's commits. The rest of the user's
//! configuration stays invisible, because it may hold secrets and name programs. Runs in the cell,
//! after privilege is gone.

use palisade_repository::CommitAuthor;
use std::{fs::File, io, io::Write as _, path::Path};

/// The place of the configuration file in the session's home.
const FILE: &str = ".config/git/config";

/// Writes the author that a user's configuration files name into the session's private home.
///
/// # Errors
/// If the file can not be written. It is no error if the profile shows the user's own files there.
pub fn write_author(home: &Path, files: &[Vec<u8>]) -> io::Result<()> {
    let Some(author) = CommitAuthor::find(files) else { return Ok(()) };
    match create(&home.join(FILE), author.configuration().as_bytes()) {
        Err(error) if is_occupied(&error) => Ok(()),
        created => created,
    }
}

fn create(path: &Path, text: &[u8]) -> io::Result<()> {
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory)?;
    }
    File::create_new(path)?.write_all(text)
}

fn is_occupied(error: &io::Error) -> bool {
    use io::ErrorKind::{AlreadyExists, NotADirectory, PermissionDenied, ReadOnlyFilesystem};
    let occupied = [AlreadyExists, NotADirectory, PermissionDenied, ReadOnlyFilesystem];
    occupied.contains(&error.kind())
}
