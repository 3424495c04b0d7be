//! The directories that are searched for a program, and the reasons why it was not found.

use crate::{Program, who::Person, who::closed_directory};
use std::{
    fmt, io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

/// The directory in which packages install programs that people do not start themselves.
pub const INSTALLED: &str = "/usr/libexec/palisade";

/// The directories to search, in order. `$PATH` is never used.
#[derive(Debug, Clone, Default)]
pub struct Search(Vec<PathBuf>);

/// The error for a program that was found in none of the directories.
#[derive(Debug, thiserror::Error)]
#[error("{name} was not found ({})", shown(.searched))]
pub struct NotFound {
    /// The name of the program.
    pub name: String,
    /// The paths that were tried, in order.
    pub searched: Vec<SearchedPath>,
}

/// One path that was tried.
#[derive(Debug)]
pub struct SearchedPath {
    /// The path.
    pub path: PathBuf,
    /// The reason why the file was not used.
    pub obstacle: Obstacle,
}

/// The reason why a file was not used.
#[derive(Debug)]
pub enum Obstacle {
    /// There is no file of that name.
    Absent,
    /// A directory on the path can not be entered.
    Closed {
        /// The directory.
        directory: PathBuf,
        /// The user who may not enter it.
        person: Person,
    },
    /// Any other error.
    Other(io::Error),
}

fn shown(searched: &[SearchedPath]) -> String {
    searched.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

impl fmt::Display for SearchedPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        match &self.obstacle {
            Obstacle::Absent => write!(f, "{path} does not exist"),
            Obstacle::Closed { directory, person } => {
                write!(f, "{path} is out of reach: {person} may not enter {}", directory.display())
            }
            Obstacle::Other(error) => write!(f, "{path} can not be opened: {error}"),
        }
    }
}

impl Search {
    /// Returns the usual directories: that of the running program, then the one where packages
    /// install.
    #[must_use]
    pub fn usual() -> Self {
        Self::around(std::env::current_exe().ok().as_deref(), 1).and(INSTALLED)
    }

    /// Returns the directory of a program and the directories above it, up to a number in all.
    #[must_use]
    pub fn around(program: Option<&Path>, directories: usize) -> Self {
        let found = program.into_iter().flat_map(|path| path.ancestors().skip(1).take(directories));
        Self(found.map(Path::to_owned).collect())
    }

    /// Adds one more directory.
    #[must_use]
    pub fn and(mut self, directory: impl Into<PathBuf>) -> Self {
        self.0.push(directory.into());
        self
    }

    /// Adds a directory that the environment names, if only this user or root can write to it.
    #[must_use]
    pub fn and_own(self, directory: impl Into<PathBuf>) -> Self {
        let directory = directory.into();
        let own = std::fs::metadata(&directory).is_ok_and(|found| {
            let uid = rustix::process::geteuid().as_raw();
            directory.is_absolute() && [0, uid].contains(&found.uid()) && found.mode() & 0o002 == 0
        });
        if own { self.and(directory) } else { self }
    }

    /// Opens the first program with this name.
    ///
    /// # Errors
    /// The paths that were tried, and why each was not used.
    pub fn open(&self, name: &str) -> Result<Program, NotFound> {
        let mut searched = Vec::new();
        for path in self.0.iter().map(|directory| directory.join(name)) {
            match Program::at(&path) {
                Ok(program) => return Ok(program),
                Err(error) => {
                    let obstacle = obstacle(&path, error);
                    searched.push(SearchedPath { path, obstacle });
                }
            }
        }
        Err(NotFound { name: name.to_owned(), searched })
    }
}

fn obstacle(path: &Path, error: io::Error) -> Obstacle {
    if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) {
        return Obstacle::Absent;
    }
    match closed_directory(path) {
        Some(directory) => Obstacle::Closed { directory, person: Person::this_process() },
        None => Obstacle::Other(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_directory_that_others_can_write_to_is_left_out() {
        use std::os::unix::fs::PermissionsExt as _;
        let own = tempfile::tempdir().unwrap();
        let searched =
            || Search::default().and_own(own.path()).open("x").unwrap_err().searched.len();
        assert_eq!(searched(), 1);
        fs::set_permissions(own.path(), fs::Permissions::from_mode(0o777)).unwrap();
        assert_eq!(searched(), 0);
        let relative = Search::default().and_own("src").open("x").unwrap_err();
        assert!(relative.searched.is_empty());
    }

    #[test]
    fn the_first_directory_that_has_it_is_taken_and_the_others_are_named() {
        let top = tempfile::tempdir().unwrap();
        let (near, far) = (top.path().join("near"), top.path().join("far"));
        for directory in [&near, &far] {
            fs::create_dir(directory).unwrap();
        }
        let search = Search::around(Some(&near.join("palisaded")), 1).and(&far);
        let missing = search.open("palisade-analyst").unwrap_err().to_string();
        let (first, second) = (near.join("palisade-analyst"), far.join("palisade-analyst"));
        let expected = format!(
            "palisade-analyst was not found ({} does not exist, {} does not exist)",
            first.display(),
            second.display()
        );
        assert_eq!(missing, expected);
        fs::write(&second, "far").unwrap();
        assert_eq!(search.open("palisade-analyst").unwrap().path(), second);
        fs::create_dir(&first).unwrap();
        assert_eq!(search.open("palisade-analyst").unwrap().path(), second, "a directory is none");
        fs::remove_dir(&first).unwrap();
        fs::write(&first, "near").unwrap();
        assert_eq!(search.open("palisade-analyst").unwrap().path(), first);
    }

    #[test]
    fn no_directories_find_nothing() {
        assert!(Search::around(None, 3).open("true").unwrap_err().searched.is_empty());
    }
}
