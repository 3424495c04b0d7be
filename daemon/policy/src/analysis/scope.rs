//! The state of a script at one point: variables, functions, aliases and the current directory.

use super::{
    field::{Field, Part},
    form::Body,
};
use std::collections::HashMap;

/// The largest value of a variable that is tracked, in bytes; longer values are unknown.
pub(crate) const MOST_TEXT: usize = 16 * 1024;

/// The value of a variable, as far as it is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum VariableValue {
    Parts(Vec<Part>),
    List(Vec<Field>),
    Unknown,
}

/// The current directory, relative to the start directory of the script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Directory {
    Known(String),
    Unknown,
}

/// The certainty that an assignment happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Certainty {
    Certain,
    Perhaps,
}

/// The state of a shell.
#[derive(Debug, Clone)]
pub(crate) struct Scope {
    variables: HashMap<String, VariableValue>,
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
    pub(crate) fn get(&self, name: &str) -> Option<&VariableValue> {
        self.variables.get(name)
    }

    /// Sets a variable. In a branch, the old and the new value are both possible, so it becomes
    /// unknown.
    pub(crate) fn set(&mut self, name: &str, value: VariableValue) {
        let size = match &value {
            VariableValue::Parts(parts) => parts.iter().map(size).sum(),
            VariableValue::List(fields) => {
                fields.iter().flat_map(|f| &f.parts).map(size).sum::<usize>()
            }
            VariableValue::Unknown => 0,
        };
        let value = if size > MOST_TEXT { VariableValue::Unknown } else { value };
        let value = match (self.certainty, self.variables.get(name)) {
            (Certainty::Perhaps, Some(old)) if *old != value => VariableValue::Unknown,
            (Certainty::Perhaps | Certainty::Certain, _) => value,
        };
        self.variables.insert(name.to_owned(), value);
    }

    /// Changes the current directory; it becomes unknown if the text does not name it.
    pub(crate) fn go(&mut self, to: Option<&str>) {
        self.directory = match (to, &self.directory) {
            (Some(path), _) if path.starts_with('/') => Directory::Known(path.to_owned()),
            (Some(path), Directory::Known(old)) => Directory::Known(join(old, path)),
            (Some(_) | None, _) => Directory::Unknown,
        };
    }

    /// Returns a path relative to the start directory of the script.
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

/// Joins a directory and a path. A `.` is removed; a `..` stays, because a symbolic link may
/// precede it.
fn join(directory: &str, path: &str) -> String {
    let path = path.trim_start_matches("./");
    match (directory, path) {
        (_, "" | ".") => directory.to_owned(),
        ("", _) => path.to_owned(),
        _ => format!("{}/{path}", directory.trim_end_matches('/')),
    }
}
