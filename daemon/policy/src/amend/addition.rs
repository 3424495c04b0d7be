//! What more a profile is to allow: one more entry of a list, or a value.

use crate::access::Reach;
use std::path::Path;

/// What more a profile is to allow.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Addition {
    /// The key, with its section.
    pub key: &'static str,
    /// One more entry of a list, or the value.
    pub value: String,
    /// Why, for the reader of the file.
    pub why: String,
}

impl Addition {
    pub(super) fn section(&self) -> (&'static str, &'static str) {
        self.key.split_once('.').unwrap_or(("", self.key))
    }

    /// As TOML has it.
    pub(super) fn literal(&self) -> String {
        match self.key {
            "net.ports" | "fs.allow_delete" => self.value.clone(),
            _ => toml::Value::String(self.value.clone()).to_string(),
        }
    }

    pub(super) fn is_value(&self) -> bool {
        matches!(self.key, "fs.workspace" | "fs.allow_delete" | "net.mode")
    }

    /// The path that it opens, and how far.
    fn opens(&self) -> Option<(&Path, Reach)> {
        match (self.key, self.value.as_str()) {
            ("fs.workspace", "write") => Some((Path::new("$WORKSPACE"), Reach::Write)),
            (key, path) => Some((Path::new(path), reach(key)?)),
        }
    }

    /// Whether it makes an entry of a list superfluous.
    pub(super) fn covers(&self, key: &str, entry: &str) -> bool {
        let entry = Path::new(entry.strip_prefix('!').unwrap_or(entry));
        let wanted = reach(key);
        self.opens()
            .zip(wanted)
            .is_some_and(|((path, most), wanted)| entry.starts_with(path) && wanted <= most)
    }

    pub(super) fn line(&self) -> String {
        let why: String =
            self.why.chars().map(|c| if c.is_control() { ' ' } else { c }).take(200).collect();
        format!("{}, # {why}", self.literal())
    }
}

fn reach(key: &str) -> Option<Reach> {
    match key {
        "fs.read" => Some(Reach::Read),
        "fs.execute" => Some(Reach::Execute),
        "fs.write" | "fs.unguarded" => Some(Reach::Write),
        _ => None,
    }
}
