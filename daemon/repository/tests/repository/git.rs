//! A repository in its own directory, made by the git program without any other configuration.

use palisade_repository::{Bounds, ContentQuery, FileType, KeepAnswer, Repository, Tips};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

/// A repository and its working tree.
#[derive(Debug)]
pub(crate) struct Git {
    directory: TempDir,
}

impl Git {
    /// Creates an empty repository.
    pub(crate) fn new() -> Self {
        Git::with(&[])
    }

    /// Creates an empty repository with arguments for `git init`.
    pub(crate) fn with(arguments: &[&str]) -> Self {
        let git = Git { directory: tempfile::tempdir().unwrap() };
        git.run(&[["init", "-q", "-b", "main"].as_slice(), arguments].concat());
        git
    }

    pub(crate) fn tree(&self) -> PathBuf {
        self.directory.path().to_path_buf()
    }

    pub(crate) fn git_dir(&self) -> PathBuf {
        self.tree().join(".git")
    }

    pub(crate) fn open(&self) -> Repository {
        Repository::open(&self.git_dir(), Bounds::default()).unwrap()
    }

    pub(crate) fn write(&self, path: &str, content: &[u8]) {
        let path = self.tree().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    /// Commits everything and returns the commit's id.
    pub(crate) fn commit(&self, message: &str) -> String {
        self.run(&["add", "-A"]);
        self.run(&["commit", "-q", "--allow-empty", "-m", message]);
        self.line(&["rev-parse", "HEAD"])
    }

    /// Runs git and returns its output, whether it failed or not.
    pub(crate) fn attempt_in(&self, directory: &Path, arguments: &[&str]) -> Output {
        self.start(directory, "git", arguments)
    }

    /// Runs a line of shell in the working tree.
    pub(crate) fn shell(&self, line: &str) -> Vec<u8> {
        let output = self.start(&self.tree(), "sh", &["-ec", line]);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{line}: {error}");
        output.stdout
    }

    fn start(&self, directory: &Path, program: &str, arguments: &[&str]) -> Output {
        Command::new(program)
            .args(arguments)
            .current_dir(directory)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", "/nonexistent")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_AUTHOR_NAME", "Author")
            .env("GIT_AUTHOR_EMAIL", "author@example.org")
            .env("GIT_COMMITTER_NAME", "Committer")
            .env("GIT_COMMITTER_EMAIL", "committer@example.org")
            .env("GIT_EDITOR", "true")
            .output()
            .expect("git runs")
    }

    pub(crate) fn run_in(&self, directory: &Path, arguments: &[&str]) -> Vec<u8> {
        let output = self.attempt_in(directory, arguments);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "git {arguments:?}: {error}");
        output.stdout
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Vec<u8> {
        self.run_in(&self.tree(), arguments)
    }

    pub(crate) fn text(&self, arguments: &[&str]) -> String {
        String::from_utf8(self.run(arguments)).unwrap()
    }

    pub(crate) fn line(&self, arguments: &[&str]) -> String {
        self.text(arguments).trim_end().to_owned()
    }

    /// Returns the path of the only pack's file with this extension.
    pub(crate) fn pack(&self, ending: &str) -> String {
        let packs = fs::read_dir(self.git_dir().join("objects/pack")).unwrap();
        let mut found: Vec<_> = packs
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().is_some_and(|extension| extension == ending))
            .collect();
        assert_eq!(found.len(), 1, "{found:?}");
        found.remove(0).to_str().unwrap().to_owned()
    }

    pub(crate) fn loose_objects(&self) -> usize {
        let count = self.text(&["count-objects"]);
        count.split(' ').next().unwrap().parse().unwrap()
    }

    /// Returns the path of a loose object.
    pub(crate) fn loose(&self, id: &str) -> PathBuf {
        let (directory, file) = id.split_at(2);
        self.git_dir().join("objects").join(directory).join(file)
    }

    /// Copies the repository, so that a later state can be compared with it.
    pub(crate) fn snapshot(&self) -> (TempDir, Repository) {
        let copy = tempfile::tempdir().unwrap();
        let target = copy.path().join("git");
        let status = Command::new("cp").arg("-a").arg(self.git_dir()).arg(&target).status();
        assert!(status.unwrap().success());
        let repository = Repository::open(&target, Bounds::default()).unwrap();
        (copy, repository)
    }
}

/// Queries an open repository for one regular file.
pub(crate) fn ask(repository: &Repository, path: &str, content: &[u8]) -> KeepAnswer {
    let tips = repository.tips().unwrap();
    repository.keeps(&tips, question(path, content)).unwrap()
}

pub(crate) fn question<'a>(path: &'a str, content: &'a [u8]) -> ContentQuery<'a> {
    let content: Box<dyn std::io::Read + 'a> = Box::new(content);
    ContentQuery { path: path.as_bytes(), file_type: FileType::Regular, content }
}

/// Opens the repository and queries it for one regular file.
pub(crate) fn keeps(git: &Git, path: &str, content: &[u8]) -> KeepAnswer {
    ask(&git.open(), path, content)
}

pub(crate) fn tips(git: &Git) -> Tips {
    git.open().tips().unwrap()
}
