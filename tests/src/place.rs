//! A temporary directory that is deleted afterwards, whatever was done in it and even if a process
//! still writes there.

use std::{
    fs, io,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

/// The time for which a daemon that is ending may still write.
const PATIENCE: Duration = Duration::from_secs(20);

/// A temporary directory that every user may enter.
#[derive(Debug)]
pub struct Place(PathBuf);

impl Place {
    /// Creates it in the default directory for temporary files.
    #[must_use]
    pub fn new() -> Self {
        Self::below(&std::env::temp_dir())
    }

    /// Creates it in this directory.
    #[must_use]
    pub fn below(parent: &Path) -> Self {
        let made = tempfile::Builder::new().prefix("palisade-test-").tempdir_in(parent);
        let place = Self(made.expect("tempdir").keep());
        place.set_mode(0o755);
        place
    }

    /// Sets the mode of the directory.
    pub fn set_mode(&self, mode: u32) {
        fs::set_permissions(&self.0, fs::Permissions::from_mode(mode)).expect("chmod");
    }

    /// Returns the path of the directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Default for Place {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let until = Instant::now() + PATIENCE;
        while let Err(error) = remove(&self.0) {
            if Instant::now() > until {
                // This does not fail the test; the message says where to look.
                return eprintln!("{} stays: {error}", self.0.display());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn remove(directory: &Path) -> io::Result<()> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            open_up(directory);
            fs::remove_dir_all(directory)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// Makes directories writable, because otherwise only root can delete what is in them.
fn open_up(directory: &Path) {
    // An error here is ignored: deleting then fails as well, and that is reported.
    fs::set_permissions(directory, fs::Permissions::from_mode(0o700)).unwrap_or_default();
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            open_up(&entry.path());
        }
    }
}
