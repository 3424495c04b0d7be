//! Names in a change that are evidence by themselves: plants, files with ignore rules, and
//! repositories. Runs in the cell.

use super::{
    git_directories::PossibleGitDirectories,
    is_new,
    linked::worktree_part,
    lost::last_name,
    trees::{Trees, relative},
};
use palisade_plan::{
    Path,
    change::{Effect, EffectKind, Print},
    evidence::{Evidence, PlantedPath, git_directory},
    plants::{PlantType, plant_reader},
};
use rustix::fs::FileType;
use std::collections::BTreeMap;

/// The maximum number of paths of each kind that are reported. One is enough to ask an approver.
const MOST: usize = 1024;

/// Names in a change that are evidence by themselves.
#[derive(Debug, Default)]
pub(in super::super) struct NameEvidence {
    plants: Vec<PlantedPath>,
    ignore_files: Vec<Path>,
    /// Directories that git may take for its own although they are not called `.git`.
    git_directories: PossibleGitDirectories,
    /// The repositories in which something changes, as directories relative to the workspace.
    repositories: ChangedRepositories,
}

/// Directories of repositories, and how much of each changes.
pub(super) type ChangedRepositories = BTreeMap<Vec<u8>, ChangedParts>;

/// The parts of a repository that change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ChangedParts {
    /// Only the index, as by `git status`.
    Index,
    /// Other files too.
    More,
}

/// Records a path of a repository. `way` is relative to the workspace.
pub(super) fn note_part(repositories: &mut ChangedRepositories, git_dir: &[u8], way: &[u8]) {
    let rest = way.get(git_dir.len()..).unwrap_or_default();
    let name = rest.strip_prefix(b"/").unwrap_or(rest);
    let is_index = worktree_part(name).map_or(name, |(_, name)| name) == b"index";
    let parts = if is_index { ChangedParts::Index } else { ChangedParts::More };
    let known = repositories.entry(git_dir.to_vec()).or_insert(parts);
    *known = (*known).max(parts);
}

impl NameEvidence {
    /// Examines an entry that is new or changed.
    pub(in super::super) fn look(&mut self, path: &Path, kind: FileType, top: &[u8]) {
        let Some(way) = relative(&path.0, top) else { return };
        let plant_type = match kind {
            FileType::Symlink => PlantType::SymbolicLink,
            FileType::RegularFile
            | FileType::Directory
            | FileType::Fifo
            | FileType::Socket
            | FileType::CharacterDevice
            | FileType::BlockDevice
            | FileType::Unknown => PlantType::Other,
        };
        let name = last_name(path);
        let leads_elsewhere = name == b".git" && kind != FileType::Directory;
        let reader = if leads_elsewhere { Some("git") } else { plant_reader(way, plant_type) };
        if let Some(reader) = reader.filter(|_| kind != FileType::Directory)
            && self.plants.len() < MOST
        {
            self.plants.push(PlantedPath { path: path.clone(), reader: reader.to_owned() });
        }
        if let Some(git_dir) = git_directory(way) {
            note_part(&mut self.repositories, git_dir, way);
        } else if name == b".git" {
            note_part(&mut self.repositories, way, way);
        }
        self.git_directories.note(way, kind);
        let is_exclude = name == b"exclude" && path.0.ends_with(b".git/info/exclude");
        if name == b".gitignore" || is_exclude {
            self.ignore_files.push(path.clone());
        }
    }

    /// Examines an effect. The contents of a new directory are examined when it is measured.
    pub(super) fn effect(&mut self, effect: &Effect, top: &[u8]) {
        let kind = match &effect.print {
            Print::Symlink { .. } => FileType::Symlink,
            Print::Directory | Print::Tree { .. } => FileType::Directory,
            Print::File { .. } | Print::Node { .. } => FileType::RegularFile,
            Print::Absent => FileType::Unknown,
        };
        match &effect.kind {
            // Nothing is left there that a program could read.
            EffectKind::Deleted { .. } => self.touched(&effect.path, top),
            EffectKind::Moved { from } => {
                self.touched(from, top);
                self.look(&effect.path, kind, top);
            }
            EffectKind::Special | EffectKind::Touched => {}
            EffectKind::Created
            | EffectKind::Replaced
            | EffectKind::Appended
            | EffectKind::Edited
            | EffectKind::Mode => self.look(&effect.path, kind, top),
        }
    }

    /// Counts a renamed directory as a plant, because it was not possible to examine all names in it.
    pub(super) fn unexamined(&mut self, to: Path) {
        let reader = "a program, if it has a listed name among its many files,".to_owned();
        self.plants.push(PlantedPath { path: to, reader });
    }

    /// Counts every file that is written in a repository as a plant for git, and a directory that
    /// becomes one.
    pub(super) fn plant_git_files(&mut self, effects: &[Effect], top: &[u8], main: Option<&Path>) {
        for effect in effects {
            let is_left = !matches!(effect.kind, EffectKind::Deleted { .. });
            let way = relative(&effect.path.0, top).unwrap_or_default();
            let is_outside = main.is_some_and(|main| relative(&effect.path.0, &main.0).is_some());
            let is_known = self.plants.iter().any(|plant| plant.path == effect.path);
            let becomes_one = matches!(effect.kind, EffectKind::Moved { .. })
                && last_name(&effect.path) == b".git";
            let is_gits = is_outside || becomes_one || git_directory(way).is_some();
            if is_left && is_gits && !is_known {
                let (path, reader) = (effect.path.clone(), "git".to_owned());
                self.plants.push(PlantedPath { path, reader });
            }
        }
    }

    /// Records the changes to a repository outside of the workspace.
    pub(super) fn outside_repository(&mut self, effects: &[Effect], Path(git_dir): &Path) {
        for effect in effects.iter().filter(|effect| effect.kind != EffectKind::Special) {
            if relative(&effect.path.0, git_dir).is_some() {
                note_part(&mut self.repositories, git_dir, &effect.path.0);
            }
        }
    }

    /// Records a path at which nothing is left.
    fn touched(&mut self, path: &Path, top: &[u8]) {
        let Some(way) = relative(&path.0, top) else { return };
        if let Some(git_dir) = git_directory(way) {
            note_part(&mut self.repositories, git_dir, way);
        } else if last_name(path) == b".git" {
            note_part(&mut self.repositories, way, way);
        }
        if last_name(path) == b".gitignore" {
            self.ignore_files.push(path.clone());
        }
    }

    pub(in super::super) fn extend(&mut self, other: Self) {
        let Self { plants, ignore_files, git_directories, repositories } = other;
        self.plants.extend(plants);
        self.ignore_files.extend(ignore_files);
        self.git_directories.extend(git_directories);
        for (git_dir, parts) in repositories {
            let known = self.repositories.entry(git_dir).or_insert(parts);
            *known = (*known).max(parts);
        }
    }

    /// Returns `true` if a repository may be changed or created.
    pub(super) fn has_repositories(&self) -> bool {
        !self.repositories.is_empty() || !self.git_directories.is_empty()
    }

    pub(super) const fn repositories(&self) -> &ChangedRepositories {
        &self.repositories
    }

    /// Returns what git would run or obey in directories that are not called `.git`.
    pub(super) fn git_plants(&self, trees: &Trees, is_made: bool) -> Vec<PlantedPath> {
        self.git_directories.plants(trees, is_made)
    }

    /// Returns directories of git that are not called `.git` and in which an operation may change.
    pub(super) fn operations(&self, trees: &Trees) -> impl Iterator<Item = Vec<u8>> {
        self.git_directories.with_operations(trees)
    }

    pub(super) fn into_evidence(self, evidence: &mut Evidence) {
        evidence.plants.extend(self.plants);
        evidence.ignore_files.extend(self.ignore_files);
    }
}

/// Returns the effects that leave something new.
pub(super) fn new_paths(effects: &[Effect]) -> impl Iterator<Item = &Effect> {
    effects.iter().filter(|effect| is_new(effect))
}
