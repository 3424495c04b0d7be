//! A session's memory of its committed changes, so that verdicts hold across calls: the files that
//! it made, and what must stay because it keeps the bytes of something else. Pure: no I/O.

use super::{Reason, effect_of};
use crate::transactions::Transactions;
use palisade_plan::{
    Path,
    change::{Effect, EffectKind, Version},
    evidence::{ConfigurationChange, EarlierEntry, Evidence, GitEvidence, StoredContent},
};
use std::collections::{BTreeSet, HashMap, HashSet};

/// The number of files that a session remembers as its own. Changes to others need approval.
const MOST_WRITTEN: usize = 65_536;

/// The number of remembered paths of each kind. Beyond it, every path counts as remembered.
const MOST_PATHS: usize = 20_000;

/// A session's memory of its committed changes.
#[derive(Debug, Default)]
pub struct SessionMemory {
    /// Versions of files that the session made, and that keep no bytes of other files.
    written: HashSet<Version>,
    /// Those of them whose extended attributes the session made as well.
    attributes: HashSet<Version>,
    /// The git directories of repositories that the session made.
    repositories: HashSet<Vec<u8>>,
    /// Content that the session staged or stashed, and that keeps nothing else.
    stored: HashSet<StoredContent>,
    /// Digests of settings of git that were absent before the session set them, by file and key.
    settings: HashMap<(Path, String), [u8; 32]>,
    /// The git directories of repositories that keep bytes of deleted or replaced files.
    pinned: BTreeSet<Vec<u8>>,
    /// Paths that git tracked when the session began, and no longer tracks.
    protected: BTreeSet<Vec<u8>>,
    /// Ignore files that the session changed.
    ignore_files: HashSet<Vec<u8>>,
    /// True if there were too many paths to remember.
    is_full: bool,
    unasked: UnapprovedLosses,
}

/// The files that were deleted or replaced without approval, because git ignores them and undo
/// keeps them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct UnapprovedLosses {
    files: u64,
    bytes: u64,
}

/// The facts for the session to remember if a change is committed.
#[derive(Debug, Default)]
pub struct Lessons {
    /// Paths whose new content does not count as the session's own. It keeps bytes of another file,
    /// or replaces a version that only undo keeps.
    not_own: HashSet<Vec<u8>>,
    /// Versions of files that count no longer as the session's own, because they keep content that
    /// was staged or stashed.
    disowned: HashSet<Version>,
    /// Paths of which git or another file keeps the earlier version. What the session makes of it is
    /// its own.
    kept_before: HashSet<Vec<u8>>,
    /// The new paths of renamed files that are the session's own, or that git keeps.
    moved_own: HashSet<Vec<u8>>,
    pins: HashSet<Vec<u8>>,
    repositories: Vec<Vec<u8>>,
    stored: HashSet<StoredContent>,
    settings: Vec<ConfigurationChange>,
    protected: Vec<Vec<u8>>,
    ignore_files: Vec<Vec<u8>>,
    is_full: bool,
    unasked: UnapprovedLosses,
}

impl Lessons {
    /// Records the reason why a change is not a loss.
    pub(super) fn learn(&mut self, earlier: &EarlierEntry, reason: &Reason) {
        match reason {
            Reason::StillHere(path) => {
                self.not_own.insert(path.clone());
                self.kept_before.insert(earlier.path.0.clone());
            }
            Reason::Git(_) => {
                if let GitEvidence::WorkingTree(tree) = &earlier.git {
                    self.pins.insert(tree.git_dir.0.clone());
                }
                self.kept_before.insert(earlier.path.0.clone());
                self.moved_own.extend(earlier.moved_to.as_ref().map(|place| place.path.0.clone()));
            }
            Reason::Ignored | Reason::NoContent => {
                self.unasked.files = self.unasked.files.saturating_add(1);
                self.unasked.bytes = self.unasked.bytes.saturating_add(earlier.size);
                self.not_own.insert(earlier.path.0.clone());
            }
            Reason::Named => {
                self.not_own.insert(earlier.path.0.clone());
            }
            Reason::Own => {
                self.moved_own.extend(earlier.moved_to.as_ref().map(|place| place.path.0.clone()));
            }
            Reason::Noise
            | Reason::GitInternal
            | Reason::GitState
            | Reason::Unasked
            | Reason::Approved => {}
        }
    }

    /// Records the changes to repositories and ignore files.
    pub(super) fn note_changes(&mut self, memory: &SessionMemory, evidence: &Evidence) {
        for change in &evidence.repositories {
            if change.is_new {
                self.repositories.push(change.git_dir.0.clone());
            }
            self.is_full |= change.is_cut;
            self.protected.extend(change.untracked.iter().map(|path| path.0.clone()));
            // What the session staged or stashed itself was its own, or is kept elsewhere.
            let keepers = change.keepers.iter().filter(|file| !memory.stored(&file.content));
            for file in keepers {
                self.not_own.insert(file.path.0.clone());
                self.disowned.extend(file.version);
            }
            // A stash that keeps something else is not the session's own.
            let is_own =
                |content: &&StoredContent| content.path != change.git_dir || self.pins.is_empty();
            self.stored.extend(change.stored.iter().filter(is_own).cloned());
            self.settings.extend(change.configuration.iter().cloned());
        }
        self.ignore_files.extend(evidence.ignore_files.iter().map(|path| path.0.clone()));
    }
}

impl SessionMemory {
    /// Returns `true` if the session made this version of a file.
    #[must_use]
    pub fn wrote(&self, version: Version) -> bool {
        self.written.contains(&version)
    }

    /// Returns `true` if the session made this version of a file, and its extended attributes. A file
    /// that it only changed has those that were there before.
    pub(super) fn made_attributes(&self, version: Version) -> bool {
        self.attributes.contains(&version)
    }

    /// Returns `true` if the session staged or stashed this content.
    pub(super) fn stored(&self, content: &StoredContent) -> bool {
        self.stored.contains(content)
    }

    /// Returns `true` if a setting of git may change without approval: it is new and harmless, or the
    /// session itself had made it and removes it or gives it a harmless value.
    ///
    /// To return to a value that was there before the session is not enough: files that this value
    /// names may have been written while it was not in force.
    pub(super) fn permits(&self, change: &ConfigurationChange) -> bool {
        let is_end = change.after.is_none() || change.is_harmless;
        change.is_harmless_addition() || (is_end && self.made_setting(change))
    }

    /// Returns `true` if the session made the setting that a change replaces or removes.
    fn made_setting(&self, change: &ConfigurationChange) -> bool {
        let own = self.settings.get(&(change.file.clone(), change.key.clone()));
        own.is_some() && own == change.before.as_ref()
    }

    /// Records a setting of git. One that replaces somebody else's is not the session's own.
    fn set(&mut self, change: ConfigurationChange) {
        let is_own = change.before.is_none() || self.made_setting(&change);
        let place = (change.file, change.key);
        match change.after.filter(|_| is_own && self.settings.len() < MOST_PATHS) {
            Some(after) => drop(self.settings.insert(place, after)),
            None => drop(self.settings.remove(&place)),
        }
    }

    /// Returns the repository that contains a path, if it keeps bytes of deleted or replaced files.
    #[must_use]
    pub fn pinned_repository(&self, path: &[u8]) -> Option<&[u8]> {
        let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
        let mut directories = ends.chain([path.len()]).filter_map(|end| path.get(..end));
        directories.find_map(|directory| self.pinned.get(directory)).map(Vec::as_slice)
    }

    /// Returns `true` if a repository keeps bytes of deleted or replaced files, or may do so.
    pub(super) fn is_pinned(&self, git_dir: &[u8]) -> bool {
        self.is_full || self.pinned.contains(git_dir)
    }

    /// Returns `true` if the session made a repository, and it keeps no bytes of other files.
    pub(super) fn owns_repository(&self, git_dir: &[u8]) -> bool {
        self.repositories.contains(git_dir) && !self.is_pinned(git_dir)
    }

    /// Returns `true` if git tracked a path, or anything below it, when the session began. A path
    /// above a repository that keeps bytes of other files counts too.
    pub(super) fn protects(&self, path: &[u8]) -> bool {
        let below = [path, b"/"].concat();
        let is_at = |known: &BTreeSet<Vec<u8>>| {
            let next = known.range(below.clone()..).next();
            known.contains(path) || next.is_some_and(|next| next.starts_with(&below))
        };
        self.is_full || is_at(&self.protected) || is_at(&self.pinned)
    }

    /// Returns `true` if the session changed an ignore file that may apply to a directory.
    pub(super) fn changed_ignore_rules(&self, git_dir: &[u8], directory: &[u8]) -> bool {
        let top = git_dir.strip_suffix(b"/.git").unwrap_or(git_dir);
        let decides = |file: &Vec<u8>| {
            let above = file.strip_suffix(b"/.gitignore");
            let is_exclude = file.starts_with(git_dir);
            is_exclude || above.is_some_and(|above| above == top || directory.starts_with(above))
        };
        self.is_full || self.ignore_files.iter().any(decides)
    }

    /// Returns `true` if one more file in an ignored directory may be deleted or replaced without
    /// approval.
    pub(super) const fn allows_unasked(
        &self,
        settings: &Transactions,
        lessons: &Lessons,
        size: u64,
    ) -> bool {
        let (now, then) = (&lessons.unasked, &self.unasked);
        let files = now.files.saturating_add(then.files).saturating_add(1);
        let bytes = now.bytes.saturating_add(then.bytes).saturating_add(size);
        files <= settings.unasked_files && bytes <= settings.unasked_bytes.bytes()
    }

    /// Records what another session's change in the same directories relies on, or has made
    /// untracked or ignored. That is then no more this session's to delete.
    pub fn heed(&mut self, lessons: &Lessons) {
        self.is_full |= lessons.is_full;
        self.written.retain(|version| !lessons.disowned.contains(version));
        self.pin(lessons.pins.iter().cloned());
        self.protected.extend(lessons.protected.iter().cloned());
        self.ignore_files.extend(lessons.ignore_files.iter().cloned());
        self.bound();
    }

    /// Records a committed change. `wrote` lists the files that it wrote, with their current
    /// versions.
    pub fn remember(&mut self, lessons: Lessons, effects: &[Effect], wrote: &[(Path, Version)]) {
        let by_path: HashMap<&[u8], &Effect> =
            effects.iter().map(|effect| (effect.path.0.as_slice(), effect)).collect();
        self.written.retain(|version| !lessons.disowned.contains(version));
        for (path, version) in wrote {
            let Some(effect) = effect_of(&by_path, &path.0) else { continue };
            let was_own = || effect.replaces.is_some_and(|before| self.wrote(before));
            let is_own = match effect.kind {
                EffectKind::Created | EffectKind::Replaced => true,
                EffectKind::Appended | EffectKind::Edited | EffectKind::Mode => {
                    was_own() || lessons.kept_before.contains(&path.0)
                }
                EffectKind::Touched => was_own(),
                EffectKind::Moved { .. } => lessons.moved_own.contains(&path.0),
                EffectKind::Deleted { .. } | EffectKind::Special => false,
            };
            let is_own = is_own && !lessons.not_own.contains(&path.0);
            if is_own && self.written.len() < MOST_WRITTEN {
                let is_new = effect.kind == EffectKind::Created;
                if is_new || effect.replaces.is_some_and(|before| self.made_attributes(before)) {
                    self.attributes.insert(*version);
                }
                self.written.insert(*version);
            }
        }
        let Lessons {
            not_own: _,
            disowned: _,
            kept_before: _,
            moved_own: _,
            pins,
            repositories,
            stored,
            settings,
            protected,
            ignore_files,
            is_full,
            unasked,
        } = lessons;
        settings.into_iter().for_each(|setting| self.set(setting));
        if self.stored.len() < MOST_WRITTEN {
            self.stored.extend(stored);
        }
        self.is_full |= is_full;
        self.pin(pins);
        self.repositories.extend(repositories);
        self.protected.extend(protected);
        self.ignore_files.extend(ignore_files);
        self.unasked.files = self.unasked.files.saturating_add(unasked.files);
        self.unasked.bytes = self.unasked.bytes.saturating_add(unasked.bytes);
        self.bound();
    }

    /// Pins repositories. Their stashes may be what keeps the bytes, so that these are no longer the
    /// session's own.
    fn pin(&mut self, git_dirs: impl IntoIterator<Item = Vec<u8>>) {
        for git_dir in git_dirs {
            self.stored.retain(|content| content.path.0 != git_dir);
            self.pinned.insert(git_dir);
        }
    }

    /// Notes whether there are too many paths to remember.
    fn bound(&mut self) {
        let sorted = [&self.pinned, &self.protected].map(BTreeSet::len);
        let hashed = [&self.repositories, &self.ignore_files].map(HashSet::len);
        self.is_full |= sorted.into_iter().chain(hashed).max() > Some(MOST_PATHS);
    }
}
