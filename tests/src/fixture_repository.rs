//! A realistic repository, created with plain git outside of every sandbox, and copies of it.

use crate::{World, unconfined};
use std::path::{Path, PathBuf};

/// Creates the repository in the current directory.
const SCRIPT: &str = include_str!("fixture_repository.sh");

/// The uncommitted work of a day: an edit of a tracked file, and an untracked file.
const EDITS: &str = "printf '\\n# not committed yet\\n' >> src/app/views.py && \
                     printf 'not tracked\\n' > scratch.txt";

/// Prints git's view of a repository, without commit ids, which depend on the time.
const SUMMARY: &str = "export GIT_OPTIONAL_LOCKS=0
git symbolic-ref -q HEAD || git rev-parse HEAD
git status --porcelain -uall
git for-each-ref --format='%(refname) %(tree)%(*tree) %(contents:subject)'
git log --all --format='%T %s' | sort
git reflog | wc -l
git stash list | wc -l
git ls-files -s";

/// The state of a copy's working tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkingTree {
    /// As in the last commit.
    Clean,
    /// With an edit in `src/app/views.py`, and an untracked `scratch.txt`.
    Dirty,
}

/// A repository that every test case gets a copy of.
#[derive(Debug)]
pub struct FixtureRepository {
    template: PathBuf,
}

impl FixtureRepository {
    /// Creates the repository outside of the workspace.
    #[must_use]
    pub fn new(world: &World) -> Self {
        Self::with(world, WorkingTree::Clean, "true")
    }

    /// Creates the repository with uncommitted work if requested, and runs a shell line in it.
    #[must_use]
    pub fn with(world: &World, state: WorkingTree, line: &str) -> Self {
        let repository = Self { template: world.outside().join("template") };
        outside(world, &world.outside(), "mkdir template");
        outside(world, &repository.template, SCRIPT);
        if state == WorkingTree::Dirty {
            outside(world, &repository.template, EDITS);
        }
        outside(world, &repository.template, line);
        repository
    }

    /// Creates a copy, in a directory of this name outside of the workspace.
    #[must_use]
    pub fn copy(&self, world: &World, name: &str) -> PathBuf {
        let copy = world.outside().join(name);
        let line = format!("cp -a --reflink=auto template {name}");
        outside(world, &world.outside(), &line);
        copy
    }
}

/// Runs a shell line as the session's user, without a sandbox; returns its output.
///
/// # Panics
/// If the line fails.
pub fn outside(world: &World, directory: &Path, line: &str) -> String {
    let output = unconfined(world, directory, &world.state(), line);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{line}: {:?}: {said}", output.status);
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Returns git's view of a repository, without commit ids, which depend on the time.
#[must_use]
pub fn git_summary(world: &World, directory: &Path) -> String {
    outside(world, directory, SUMMARY)
}
