//! What a command changed in its transaction, as values. Runs in the agent's process.

use crate::CallResult;
use palisade_protocol::RawPath;
use serde::Deserialize;

/// What a `bash` call changed, or in a dry run would have changed.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct ChangeSet {
    /// Whether it counts. If not, the workspace is as it was.
    pub committed: bool,
    /// In order.
    pub effects: Vec<Change>,
    /// How many more there are than are told.
    #[serde(default)]
    pub more_effects: u64,
    /// What an approver left out; the workspace is there as it was.
    #[serde(default)]
    pub left_out: Option<LeftOut>,
    /// In a dry run: a unified diff.
    #[serde(default)]
    pub diff: Option<String>,
    /// Whether that is all of it.
    #[serde(default)]
    pub diff_complete: Option<bool>,
}

/// What an approver left out of a change set.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct LeftOut {
    /// Who.
    pub by: String,
    /// In order.
    pub effects: Vec<Change>,
    /// How many more there are than are told.
    #[serde(default)]
    pub more_effects: u64,
}

/// What became of one path.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Change {
    /// Absolute: where it is, or was if it is gone.
    pub path: RawPath,
    /// What happened.
    pub effect: Effect,
    /// Bytes afterwards, of a regular file.
    pub size: u64,
    /// Bytes before, of a regular file.
    pub size_before: u64,
    /// Of a tree, how many entries it has, itself included.
    #[serde(default)]
    pub entries: Option<u64>,
    /// Where it was, if it was moved.
    #[serde(default)]
    pub from: Option<RawPath>,
}

/// Kinds of changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Effect {
    /// It did not exist.
    Created,
    /// It has other contents.
    Replaced,
    /// It has more than before, and nothing less.
    Appended,
    /// A part of it is different.
    Edited,
    /// It is gone, with everything below it.
    Deleted,
    /// It has another name.
    Moved,
    /// Only its mode is another.
    Mode,
    /// Only its times or attributes are others.
    Touched,
}

/// The part of a result's data that is about a transaction.
#[derive(Deserialize)]
struct Data {
    transaction: Option<ChangeSet>,
}

impl ChangeSet {
    /// The change set of a call; none if it ran in no transaction or changed nothing.
    #[must_use]
    pub fn of(result: &CallResult) -> Option<Self> {
        let data = result.data.as_ref()?;
        serde_json::from_str::<Data>(data.as_str()).ok()?.transaction
    }

    /// In the short form of `git status`, paths relative to `base` where they are below it.
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
