//! Compares files with git's configuration. They are read on their own: git obeys them also where
//! the rest of the repository can not be read, or is made by a later call. Runs in the cell.

use super::{
    linked::joined,
    trees::{self, TreeView, Trees},
    working_tree::bounds,
};
use palisade_plan::evidence::ConfigurationChange;
use palisade_repository::{Configuration, ConfigurationKey, KeyChange};

/// The names of the files with configuration in a directory of git.
pub(super) const CONFIGURATION_FILES: [&[u8]; 2] = [b"config", b"config.worktree"];

/// A file with configuration in one of the two states.
#[derive(Debug, PartialEq, Eq)]
enum ConfigurationFile {
    Absent,
    Text(Vec<u8>),
    Link(Vec<u8>),
    Unreadable,
}

impl ConfigurationFile {
    fn read(tree: TreeView<'_>, way: &[u8]) -> Self {
        if trees::seen(tree, way).is_none() {
            return Self::Absent;
        }
        if let Some(text) = trees::read(tree, way, bounds().file_bytes) {
            return Self::Text(text);
        }
        trees::link(tree, way).map_or(Self::Unreadable, Self::Link)
    }
}

/// Returns what a change sets, changes or removes in the configuration of a directory of git, except
/// what is known to be harmless.
pub(super) fn configuration_changes(trees: &Trees, git_dir: &[u8]) -> Vec<ConfigurationChange> {
    let files = CONFIGURATION_FILES.iter();
    files.flat_map(|name| file_changes(trees, &joined(git_dir, name))).collect()
}

/// Returns what a change sets, changes or removes in one file with configuration, except what is
/// known to be harmless. A file that could not be read before counts as empty.
pub(super) fn file_changes(trees: &Trees, way: &[u8]) -> Vec<ConfigurationChange> {
    let was = ConfigurationFile::read(trees.before(), way);
    let is = ConfigurationFile::read(trees.after(), way);
    if was == is && is != ConfigurationFile::Unreadable {
        return Vec::new();
    }
    let later = match is {
        ConfigurationFile::Absent => Some(Configuration::default()),
        ConfigurationFile::Text(text) => Configuration::parse(&text).ok(),
        ConfigurationFile::Link(_) | ConfigurationFile::Unreadable => None,
    };
    let Some(later) = later else {
        let key = "a configuration that can not be judged".to_owned();
        return vec![ConfigurationChange { key, is_lost: false }];
    };
    let earlier = match was {
        ConfigurationFile::Text(text) => Configuration::parse(&text).unwrap_or_default(),
        ConfigurationFile::Absent | ConfigurationFile::Link(_) | ConfigurationFile::Unreadable => {
            Configuration::default()
        }
    };
    earlier.changes(&later).iter().filter_map(configuration_change).collect()
}

/// Returns a changed key, unless the change is known to be harmless.
pub(super) fn configuration_change(
    (key, change): &(ConfigurationKey, KeyChange),
) -> Option<ConfigurationChange> {
    let is_lost = match change {
        KeyChange::AddedHarmless => return None,
        KeyChange::Added => false,
        KeyChange::Changed | KeyChange::Removed => true,
    };
    Some(ConfigurationChange { key: key.to_string(), is_lost })
}
