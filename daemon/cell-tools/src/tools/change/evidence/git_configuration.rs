//! Compares files with git's configuration. They are read on their own: git obeys them also where
//! the rest of the repository can not be read, or is made by a later call. Runs in the cell.

use super::{
    linked::joined,
    trees::{self, TreeView, Trees},
    working_tree::bounds,
};
use palisade_plan::evidence::ConfigurationChange;
use palisade_repository::{Configuration, ConfigurationKey};
use sha2::{Digest as _, Sha256};

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

/// Returns what a change sets, changes or removes in the configuration of a directory of git.
pub(super) fn configuration_changes(trees: &Trees, git_dir: &[u8]) -> Vec<ConfigurationChange> {
    let files = CONFIGURATION_FILES.iter();
    files.flat_map(|name| file_changes(trees, &joined(git_dir, name))).collect()
}

/// Returns what a change sets, changes or removes in one file with configuration. A file that could
/// not be read before counts as empty.
pub(super) fn file_changes(trees: &Trees, way: &[u8]) -> Vec<ConfigurationChange> {
    let was = ConfigurationFile::read(trees.before(), way);
    let is = ConfigurationFile::read(trees.after(), way);
    if was == is && is != ConfigurationFile::Unreadable {
        return Vec::new();
    }
    let file = trees.path(way);
    let later = match is {
        ConfigurationFile::Absent => Some(Configuration::default()),
        ConfigurationFile::Text(text) => Configuration::parse(&text).ok(),
        ConfigurationFile::Link(_) | ConfigurationFile::Unreadable => None,
    };
    let Some(later) = later else {
        let key = "a configuration that can not be judged".to_owned();
        return vec![ConfigurationChange {
            file,
            key,
            before: None,
            after: None,
            is_harmless: false,
        }];
    };
    let earlier = match was {
        ConfigurationFile::Absent => Some(Configuration::default()),
        ConfigurationFile::Text(text) => Configuration::parse(&text).ok(),
        ConfigurationFile::Link(_) | ConfigurationFile::Unreadable => None,
    };
    let is_known = earlier.is_some();
    let earlier = earlier.unwrap_or_default();
    let change = |key: ConfigurationKey| {
        let values = later.values(&key);
        ConfigurationChange {
            file: file.clone(),
            before: earlier.values(&key).map(|values| digest(&key, values)),
            after: values.filter(|_| is_known).map(|values| digest(&key, values)),
            is_harmless: values.is_some_and(|values| earlier.are_harmless(&later, &key, values)),
            key: key.to_string(),
        }
    };
    earlier.changed_keys(&later).into_iter().map(change).collect()
}

/// Computes a digest that no other key and no other values have.
fn digest(key: &ConfigurationKey, values: &[Option<Vec<u8>>]) -> [u8; 32] {
    let mut hash = Sha256::new();
    let mut add = |part: Option<&[u8]>| {
        hash.update([u8::from(part.is_some())]);
        hash.update((part.map_or(0, <[u8]>::len) as u64).to_le_bytes());
        hash.update(part.unwrap_or_default());
    };
    add(Some(key.section.as_bytes()));
    add(key.subsection.as_deref());
    add(Some(key.name.as_bytes()));
    values.iter().for_each(|value| add(value.as_deref()));
    hash.finalize().into()
}
