//! The change set of a command's transaction, as values. Runs in the agent's process.

use crate::CallResult;
use palisade_protocol::RawPath;
use serde::Deserialize;

/// The change set of a `bash` call; in a dry run, what it would have changed.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct ChangeSet {
    /// True if the changes were committed. If not, the workspace is unchanged.
    pub committed: bool,
    /// The changes, in order.
    pub effects: Vec<Change>,
    /// The number of changes that are not listed in `effects`.
    #[serde(default)]
    pub more_effects: u64,
    /// The changes that an approver left out; the workspace is unchanged at those paths.
    #[serde(default)]
    pub left_out: Option<LeftOut>,
    /// In a dry run: a unified diff.
    #[serde(default)]
    pub diff: Option<String>,
    /// In a dry run: true if the diff is complete.
    #[serde(default)]
    pub diff_complete: Option<bool>,
}

/// The changes that an approver left out of a change set.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct LeftOut {
    /// The approver's name.
    pub by: String,
    /// The changes, in order.
    pub effects: Vec<Change>,
    /// The number of changes that are not listed in `effects`.
    #[serde(default)]
    pub more_effects: u64,
}

/// The change to one path.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Change {
    /// The absolute path after the change, or before it if the path was deleted.
    pub path: RawPath,
    /// The kind of change.
    pub effect: Effect,
    /// The size of a regular file afterwards, in bytes.
    pub size: u64,
    /// The size of a regular file before, in bytes.
    pub size_before: u64,
    /// For a directory tree, the number of its entries, including itself.
    #[serde(default)]
    pub entries: Option<u64>,
    /// The old path, if it was moved.
    #[serde(default)]
    pub from: Option<RawPath>,
}

/// The kinds of changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Effect {
    /// The path did not exist before.
    Created,
    /// The file has other contents.
    Replaced,
    /// Bytes were added at the end of the file; the old contents are unchanged.
    Appended,
    /// A part of the file is different.
    Edited,
    /// The path was deleted, with everything below it.
    Deleted,
    /// The path has another name.
    Moved,
    /// Only the mode changed.
    Mode,
    /// Only times or attributes changed.
    Touched,
}

/// The part of a result's `data` that describes a transaction.
#[derive(Deserialize)]
struct Data {
    transaction: Option<ChangeSet>,
}

impl ChangeSet {
    /// Returns the change set of a call; `None` if it did not run in a transaction or changed
    /// nothing.
    #[must_use]
    pub fn of(result: &CallResult) -> Option<Self> {
        let data = result.data.as_ref()?;
        serde_json::from_str::<Data>(data.as_str()).ok()?.transaction
    }

    /// Formats the changes in the short form of `git status`. Paths below `base` are relative to
    /// it.
    #[must_use]
    pub fn short(&self, base: &std::path::Path) -> Vec<String> {
        let name = |path: &RawPath| {
            let path = path.as_path();
            path.strip_prefix(base).unwrap_or(path).display().to_string()
        };
        let line = |change: &Change| {
            let path = name(&change.path);
            let count = match change.entries {
                Some(entries) if entries > 1 => format!("/ ({entries} entries)"),
                Some(_) | None => String::new(),
            };
            match (change.effect, &change.from) {
                (Effect::Created, _) => format!("?? {path}{count}"),
                (Effect::Deleted, _) => format!(" D {path}{count}"),
                (Effect::Moved, Some(from)) => format!(" R {} -> {path}", name(from)),
                (Effect::Mode | Effect::Touched, _) => format!(" m {path}"),
                (Effect::Replaced | Effect::Appended | Effect::Edited | Effect::Moved, _) => {
                    format!(" M {path}")
                }
            }
        };
        let mut lines: Vec<String> = self.effects.iter().map(line).collect();
        if self.more_effects > 0 {
            lines.push(format!("… and {} more", self.more_effects));
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn a_change_set_is_read_and_told_as_git_does() {
        let text = r#"{"dry_run":true,"transaction":{"committed":false,"more_effects":2,"effects":[
            {"path":"/w/new","effect":"created","size":3,"size_before":0,"created":true},
            {"path":"/w/d","effect":"deleted","size":0,"size_before":0,"entries":4},
            {"path":"/w/b","effect":"moved","size":1,"size_before":1,"from":"/w/a"},
            {"path":"/w/f","effect":"replaced","size":1,"size_before":9},
            {"path":"/w/x","effect":"mode","size":1,"size_before":1}]}}"#;
        let data: Data = serde_json::from_str(text).unwrap();
        let set = data.transaction.unwrap();
        assert_eq!((set.committed, set.diff.as_deref()), (false, None));
        let lines = ["?? new", " D d/ (4 entries)", " R a -> b", " M f", " m x", "… and 2 more"];
        assert_eq!(set.short(Path::new("/w")), lines);
    }
}
