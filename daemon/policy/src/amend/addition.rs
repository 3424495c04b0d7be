//! An addition to what a profile allows: one more entry of a list, or a value. Pure: no I/O.

use crate::access::PathAccess;
use palisade_text::on_one_line;
use std::path::Path;

/// An addition to what a profile allows.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Addition {
    /// The key, with its section.
    pub key: &'static str,
    /// The new entry of the list, or the new value.
    pub value: String,
    /// The reason, as a comment for readers of the file.
    pub why: String,
}

impl Addition {
    pub(super) fn section(&self) -> (&'static str, &'static str) {
        self.key.rsplit_once('.').unwrap_or(("", self.key))
    }

    /// Returns the value as a TOML literal.
    pub(super) fn literal(&self) -> String {
        match self.key {
            "net.ports" | "net.host.ports" | "fs.allow_delete" => self.value.clone(),
            _ => toml::Value::String(self.value.clone()).to_string(),
        }
    }

    pub(super) fn is_value(&self) -> bool {
        matches!(self.key, "fs.workspace" | "fs.allow_delete" | "net.mode")
    }

    /// Returns the path that the addition makes accessible, and the access.
    fn opens(&self) -> Option<(&Path, PathAccess)> {
        match (self.key, self.value.as_str()) {
            ("fs.workspace", "write") => Some((Path::new("$WORKSPACE"), PathAccess::Write)),
            (key, path) => Some((Path::new(path), reach(key)?)),
        }
    }

    /// Returns `true` if the addition makes an entry of a list redundant.
    pub(super) fn covers(&self, key: &str, entry: &str) -> bool {
        let entry = Path::new(entry.strip_prefix('!').unwrap_or(entry));
        let wanted = reach(key);
        self.opens()
            .zip(wanted)
            .is_some_and(|((path, most), wanted)| entry.starts_with(path) && wanted <= most)
    }

    pub(super) fn line(&self) -> String {
        let why = on_one_line(&self.why, 200);
        format!("{}, # {why}", self.literal())
    }
}

fn reach(key: &str) -> Option<PathAccess> {
    match key {
        "fs.read" => Some(PathAccess::Read),
        "fs.execute" => Some(PathAccess::Execute),
        "fs.write" | "fs.unguarded" => Some(PathAccess::Write),
        _ => None,
    }
}
