//! What a script has said so far: variables, functions, aliases, the current directory.

use super::{
    field::{Field, Part},
    form::Body,
};
use std::collections::HashMap;

/// The most text that a variable is followed with; longer values are unknown.
pub(crate) const MOST_TEXT: usize = 16 * 1024;

/// A variable's value, as far as the text tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Held {
    Parts(Vec<Part>),
    List(Vec<Field>),
    Unknown,
}

/// The directory that commands run in, relative to where the script starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Directory {
    Known(String),
    Unknown,
}

/// Whether an assignment happens for certain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Certainty {
    Certain,
    Perhaps,
}

/// The state of a shell.
#[derive(Debug, Clone)]
pub(crate) struct Scope {
    variables: HashMap<String, Held>,
    pub(crate) functions: HashMap<String, Body>,
    pub(crate) aliases: HashMap<String, String>,
    pub(crate) arguments: Option<Vec<Field>>,
    pub(crate) directory: Directory,
    pub(crate) certainty: Certainty,
}

impl Default for Scope {
    fn default() -> Self {
        Self {
            variables: HashMap::new(),
            functions: HashMap::new(),
            aliases: HashMap::new(),
            arguments: None,
            directory: Directory::Known(String::new()),
            certainty: Certainty::Certain,
        }
    }
}

impl Scope {
    pub(crate) fn get(&self, name: &str) -> Option<&Held> {
        self.variables.get(name)
    }

    /// Sets a variable. In a branch both the old and the new value are possible: unknown.
    pub(crate) fn set(&mut self, name: &str, value: Held) {
        let size = match &value {
            Held::Parts(parts) => parts.iter().map(size).sum(),
            Held::List(fields) => fields.iter().flat_map(|f| &f.parts).map(size).sum::<usize>(),
            Held::Unknown => 0,
        };
        let value = if size > MOST_TEXT { Held::Unknown } else { value };
        let value = match (self.certainty, self.variables.get(name)) {
            (Certainty::Perhaps, Some(old)) if *old != value => Held::Unknown,
            (Certainty::Perhaps | Certainty::Certain, _) => value,
        };
        self.variables.insert(name.to_owned(), value);
    }

    /// Goes to another directory; an unknown one if the text does not tell which.
    pub(crate) fn go(&mut self, to: Option<&str>) {
        self.directory = match (to, &self.directory) {
            (Some(path), _) if path.starts_with('/') => Directory::Known(path.to_owned()),
            (Some(path), Directory::Known(old)) => Directory::Known(join(old, path)),
            (Some(_) | None, _) => Directory::Unknown,
        };
    }

    /// A path as seen from where the script starts.
    pub(crate) fn resolve(&self, path: &str) -> Option<String> {
        if path.starts_with(['/', '~']) {
            return Some(path.to_owned());
        }
        match &self.directory {
            Directory::Known(directory) => Some(join(directory, path)),
            Directory::Unknown => None,
        }
    }
}

fn size(part: &Part) -> usize {
    match part {
        Part::Known(text) | Part::Glob(text) | Part::Home(text) | Part::Unknown(text) => text.len(),
        Part::Process(text) => text.as_ref().map_or(0, String::len),
    }
}

/// A path below a directory. `.` goes; `..` stays, since a link may stand before it.
fn join(directory: &str, path: &str) -> String {
    let path = path.trim_start_matches("./");
    match (directory, path) {
        (_, "" | ".") => directory.to_owned(),
        ("", _) => path.to_owned(),
        _ => format!("{}/{path}", directory.trim_end_matches('/')),
    }
}
