//! A repository that web servers serve, created with plain git outside of every sandbox.

use crate::{Place, text};
use std::{fs, path::Path, process::Command};

/// A bare repository `project.git` in a directory of its own. Its branch `main` has one commit, with
/// the file `file`.
#[derive(Debug)]
pub struct BareRepository(Place);

impl BareRepository {
    /// Creates the repository.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "it creates files")]
    pub fn new() -> Self {
        let repository = Self(Place::new());
        let work = repository.0.path().join("work");
        fs::create_dir(&work).expect("mkdir");
        fs::write(work.join("file"), "from git\n").expect("write");
        repository.git(&work, &["init", "-q", "-b", "main"]);
        repository.git(&work, &["add", "file"]);
        repository.git(&work, &["commit", "-q", "-m", "first"]);
        repository.git(&work, &["clone", "-q", "--bare", ".", "../project.git"]);
        // For servers that know nothing of git.
        repository.git(&repository.0.path().join("project.git"), &["update-server-info"]);
        repository
    }

    /// Returns the directory that `project.git` is in.
    #[must_use]
    pub fn directory(&self) -> &Path {
        self.0.path()
    }

    /// Returns the subjects of the commits on `main`, newest first.
    #[must_use]
    pub fn subjects(&self) -> String {
        self.git(&self.0.path().join("project.git"), &["log", "--format=%s", "main"])
    }

    fn git(&self, directory: &Path, arguments: &[&str]) -> String {
        let mut command = Command::new("git");
        command.args(["-c", "user.name=a", "-c", "user.email=a@test"]).args(arguments);
        let made = command.current_dir(directory).env("HOME", self.0.path()).output();
        let made = made.expect("git");
        assert!(made.status.success(), "{arguments:?}: {}", text(&made.stderr));
        text(&made.stdout)
    }
}
