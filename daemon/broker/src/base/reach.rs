//! Directories that stay accessible after privilege is given up. Each is held open, and is entered
//! by its descriptor where the broker's new user may not traverse its path. Runs in the broker.

use palisade_programs::{Person, closed_directory, entry};
use rustix::fs::{Mode, OFlags};
use std::{
    fs, io,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    sync::Arc,
};

/// Directories that are held open, with their absolute paths.
#[derive(Debug, Clone, Default)]
pub(crate) struct OpenDirectories {
    held: Vec<(PathBuf, Arc<OwnedFd>)>,
}

impl OpenDirectories {
    /// Opens a directory and all its ancestors, as far as they exist.
    pub(crate) fn hold(&mut self, path: &Path) {
        for directory in absolute(path).ancestors() {
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            // A path that is missing or is a file is reached through the directory above it.
            if self.descriptor(directory).is_none()
                && let Ok(opened) = rustix::fs::open(directory, flags, Mode::empty())
            {
                self.held.push((directory.to_owned(), Arc::new(opened)));
            }
        }
    }

    /// Returns the path by which this process can access a file or directory now. That is `path`
    /// itself unless a directory on the way is closed. Valid for as long as this value.
    pub(crate) fn enter(&self, path: &Path) -> PathBuf {
        let absolute = absolute(path);
        if closed_directory(&absolute).is_none() {
            return path.to_owned();
        }
        let entry = absolute.ancestors().find_map(|above| {
            let entry = entry(self.descriptor(above)?);
            let rest = absolute.strip_prefix(above).ok()?;
            Some(if rest.as_os_str().is_empty() { entry } else { entry.join(rest) })
        });
        entry.unwrap_or_else(|| path.to_owned())
    }

    /// Returns the canonical path of a directory, if it can be determined.
    pub(crate) fn real(&self, directory: &Path) -> Option<PathBuf> {
        let seen = directory.canonicalize().ok();
        seen.or_else(|| fs::read_link(entry(self.descriptor(&absolute(directory))?)).ok())
    }

    fn descriptor(&self, directory: &Path) -> Option<&OwnedFd> {
        self.held.iter().find(|(path, _)| path == directory).map(|(_, opened)| opened.as_ref())
    }
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// Adds to a permission error the directory that this process may not enter, and its user.
pub(crate) fn explain(path: &Path, error: io::Error) -> io::Error {
    if error.kind() != io::ErrorKind::PermissionDenied {
        return error;
    }
    let person = Person::this_process();
    let why = match closed_directory(&absolute(path)) {
        Some(directory) => format!("{person} may not enter {}", directory.display()),
        None => format!("the daemon runs as {person}"),
    };
    io::Error::new(error.kind(), format!("{error}: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_open_path_is_used_as_it_is() {
        let directory = tempfile::tempdir().unwrap();
        let mut reach = OpenDirectories::default();
        reach.hold(&directory.path().join("missing"));
        assert_eq!(reach.enter(directory.path()), directory.path());
        let real = directory.path().canonicalize().unwrap();
        assert_eq!(reach.real(directory.path()), Some(real));
        assert_eq!(reach.real(&directory.path().join("missing")), None);
    }

    #[test]
    fn a_descriptor_leads_to_its_directory() {
        let directory = tempfile::tempdir().unwrap();
        let inner = directory.path().join("inner");
        fs::create_dir(&inner).unwrap();
        fs::write(inner.join("file"), "text").unwrap();
        let mut reach = OpenDirectories::default();
        reach.hold(&inner);
        let entry = entry(reach.descriptor(&inner).unwrap());
        assert_eq!(fs::read_to_string(entry.join("file")).unwrap(), "text");
        assert!(reach.descriptor(Path::new("/")).is_some());
    }

    #[test]
    fn only_a_refusal_is_explained() {
        let missing = explain(Path::new("/x"), io::ErrorKind::NotFound.into());
        assert_eq!(missing.to_string(), io::Error::from(io::ErrorKind::NotFound).to_string());
        let refused = explain(Path::new("/etc/x"), io::Error::from_raw_os_error(13)).to_string();
        let person = Person::this_process();
        assert_eq!(
            refused,
            format!("Permission denied (os error 13): the daemon runs as {person}")
        );
    }
}
