//! The tables of known programs, which are read from data beside the profiles. Each entry has its
//! reason.

use super::{
    field::fits,
    schema::{
        Interpreter, Language, PathRole, Paths, Program, Reading, Variables, VerbRole, Verbs,
        Wrapper,
    },
};
use serde::Deserialize;
use std::{
    collections::HashMap,
    sync::{Arc, OnceLock},
};

macro_rules! tables {
    ($($name:literal),* $(,)?) => {
        [$(($name, include_str!(concat!("../../../profiles/commands/", $name)))),*]
    };
}

const BUILTIN: [(&str, &str); 11] = tables![
    "files.toml",
    "git.toml",
    "system.toml",
    "cloud.toml",
    "data.toml",
    "packages.toml",
    "plain.toml",
    "reading.toml",
    "wrappers.toml",
    "interpreters.toml",
    "surroundings.toml",
];

/// The reason why a table can not be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TableError {
    /// The text is not a table, or an entry has no reason.
    #[error("{file}: {why}")]
    Invalid {
        /// The file of the table.
        file: String,
        /// The problem and its position.
        why: String,
    },
    /// An entry is invalid or has no effect.
    #[error("{file}: the entry for {entry:?} {why}")]
    Entry {
        /// The file of the table.
        file: String,
        /// The name of the entry.
        entry: String,
        /// The problem with the entry.
        why: String,
    },
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    program: Vec<Program>,
    #[serde(default)]
    wrapper: Vec<Wrapper>,
    #[serde(default)]
    interpreter: Vec<Interpreter>,
    #[serde(default)]
    language: Vec<Language>,
    #[serde(default)]
    variables: Vec<Variables>,
    #[serde(default)]
    paths: Vec<Paths>,
    #[serde(default)]
    verbs: Vec<Verbs>,
    #[serde(default)]
    reading: Vec<Reading>,
}

/// All tables, indexed by program name.
#[derive(Debug, Default)]
pub struct Tables {
    programs: Vec<Program>,
    pub(crate) wrappers: Vec<Wrapper>,
    pub(crate) interpreters: Vec<Interpreter>,
    languages: HashMap<String, Language>,
    variables: Vec<Variables>,
    paths: Vec<Paths>,
    verbs: Vec<Verbs>,
    reading: HashMap<String, Arc<Reading>>,
    by_name: HashMap<String, Entries>,
    patterns: Vec<(String, Entries)>,
}

/// The indexes of a program's entries.
#[derive(Debug, Default, Clone)]
pub(crate) struct Entries {
    pub(crate) programs: Vec<usize>,
    pub(crate) wrappers: Vec<usize>,
    pub(crate) interpreters: Vec<usize>,
}

impl Entries {
    pub(crate) fn is_empty(&self) -> bool {
        self.programs.is_empty() && self.wrappers.is_empty() && self.interpreters.is_empty()
    }

    fn add(&mut self, other: &Self) {
        self.programs.extend(&other.programs);
        self.wrappers.extend(&other.wrappers);
        self.interpreters.extend(&other.interpreters);
    }
}

impl Tables {
    /// Returns the built-in tables.
    ///
    /// # Errors
    /// If a table is invalid.
    pub fn builtin() -> Result<&'static Self, TableError> {
        static TABLES: OnceLock<Result<Tables, TableError>> = OnceLock::new();
        TABLES.get_or_init(|| Self::read(&BUILTIN)).as_ref().map_err(Clone::clone)
    }

    fn read(files: &[(&str, &str)]) -> Result<Self, TableError> {
        let mut tables = Self::default();
        for (name, text) in files {
            let file: File = toml::from_str(text).map_err(|error| TableError::Invalid {
                file: (*name).to_owned(),
                why: error.to_string(),
            })?;
            check(name, &file)?;
            tables.programs.extend(file.program);
            tables.wrappers.extend(file.wrapper);
            tables.interpreters.extend(file.interpreter);
            tables.languages.extend(file.language.into_iter().map(|l| (l.name.clone(), l)));
            tables.variables.extend(file.variables);
            tables.paths.extend(file.paths);
            tables.verbs.extend(file.verbs);
            for entry in file.reading.into_iter().map(Arc::new) {
                let named = entry.names.iter().map(|name| (name.clone(), Arc::clone(&entry)));
                tables.reading.extend(named.collect::<Vec<_>>());
            }
        }
        tables.index();
        Ok(tables)
    }

    fn index(&mut self) {
        let mut named: Vec<(String, Entries)> = Vec::new();
        for (at, entry) in self.programs.iter().enumerate() {
            let found = Entries { programs: vec![at], ..Entries::default() };
            named.extend(entry.names.iter().map(|name| (name.clone(), found.clone())));
        }
        for (at, entry) in self.wrappers.iter().enumerate() {
            let found = Entries { wrappers: vec![at], ..Entries::default() };
            named.extend(entry.names.iter().map(|name| (name.clone(), found.clone())));
        }
        for (at, entry) in self.interpreters.iter().enumerate() {
            let found = Entries { interpreters: vec![at], ..Entries::default() };
            named.extend(entry.names.iter().map(|name| (name.clone(), found.clone())));
        }
        for (name, entries) in named {
            if name.contains('*') {
                self.patterns.push((name, entries));
            } else {
                self.by_name.entry(name).or_default().add(&entries);
            }
        }
    }

    /// Returns the entries of a program.
    pub(crate) fn entries(&self, name: &str) -> Entries {
        let mut entries = self.by_name.get(name).cloned().unwrap_or_default();
        for (_, more) in self.patterns.iter().filter(|(pattern, _)| fits(pattern, name)) {
            entries.add(more);
        }
        entries
    }

    /// Returns the conditions under which a program only reads, if they are known.
    pub(crate) fn reading(&self, name: &str) -> Option<&Reading> {
        self.reading.get(name).map(AsRef::as_ref)
    }

    pub(crate) fn program(&self, at: usize) -> Option<&Program> {
        self.programs.get(at)
    }

    pub(crate) fn language(&self, name: &str) -> Option<&Language> {
        self.languages.get(name)
    }

    /// Returns the entry of a variable, if setting it to this value has an effect.
    pub(crate) fn variable(&self, name: &str, value: &str) -> Option<&Variables> {
        let named = |entry: &&Variables| entry.names.iter().any(|pattern| fits(pattern, name));
        let found = self.variables.iter().find(named)?;
        let harmless = found.harmless.iter().any(|pattern| fits(pattern, value));
        (!harmless).then_some(found)
    }

    /// Returns the reason why a path has this role, if it has.
    pub(crate) fn path(&self, role: PathRole, path: &str) -> Option<&str> {
        self.paths
            .iter()
            .filter(|entry| entry.are == role)
            .find(|entry| entry.names.iter().any(|pattern| fits(pattern, path)))
            .map(|entry| entry.why.as_str())
    }

    /// Returns the meaning of a word as a verb of this role, if it is one.
    pub(crate) fn verb(&self, role: VerbRole, word: &str) -> Option<&str> {
        self.verbs
            .iter()
            .filter(|entry| entry.of == role)
            .find(|entry| entry.names.iter().any(|name| name.eq_ignore_ascii_case(word)))
            .map(|entry| entry.why.as_str())
    }
}

fn check(file: &str, tables: &File) -> Result<(), TableError> {
    let programs = tables.program.iter().map(|e| (&e.names, &e.why));
    let wrappers = tables.wrapper.iter().map(|e| (&e.names, &e.why));
    let interpreters = tables.interpreter.iter().map(|e| (&e.names, &e.why));
    let variables = tables.variables.iter().map(|e| (&e.names, &e.why));
    let paths = tables.paths.iter().map(|e| (&e.names, &e.why));
    let verbs = tables.verbs.iter().map(|e| (&e.names, &e.why));
    let reading = tables.reading.iter().map(|e| (&e.names, &e.why));
    let entries = programs.chain(wrappers).chain(interpreters).chain(variables).chain(paths);
    let refuse = |entry: &str, why: &str| {
        let (file, entry) = (file.to_owned(), entry.to_owned());
        Err(TableError::Entry { file, entry, why: why.to_owned() })
    };
    for (names, why) in entries.chain(verbs).chain(reading) {
        let Some(first) = names.first() else {
            return refuse("", "names nothing");
        };
        if why.trim().is_empty() {
            return refuse(first, "gives no reason; say why in `why`");
        }
    }
    for program in &tables.program {
        let name = program.names.first().map_or("", String::as_str);
        if program.rule.iter().any(|rule| rule.why.trim().is_empty()) {
            return refuse(name, "has a rule without a reason; say why in `why`");
        }
    }
    if let Some(language) = tables.language.iter().find(|l| l.why.trim().is_empty()) {
        return refuse(&language.name, "gives no reason; say why in `why`");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_tables_are_sound() {
        let tables = Tables::builtin().unwrap();
        assert!(tables.programs.len() > 50 && tables.wrappers.len() > 10);
        for interpreter in &tables.interpreters {
            let language = &interpreter.language;
            assert!(language == "shell" || tables.language(language).is_some(), "{language}");
        }
    }

    #[test]
    fn an_entry_without_a_reason_is_refused() {
        let none = "[[program]]\nnames = [\"x\"]\n";
        let error = Tables::read(&[("t.toml", none)]).unwrap_err().to_string();
        assert!(error.contains("missing field `why`"), "{error}");
        let empty = "[[program]]\nnames = [\"x\"]\nwhy = \" \"\n";
        let error = Tables::read(&[("t.toml", empty)]).unwrap_err();
        let told = "t.toml: the entry for \"x\" gives no reason; say why in `why`";
        assert_eq!(error.to_string(), told);
        let rule = "[[program]]\nnames = [\"x\"]\nwhy = \"w\"\n[[program.rule]]\nwhy = \"\"\n";
        assert!(Tables::read(&[("t.toml", rule)]).is_err());
        let whole = "[[program]]\nnames = [\"x\"]\nwhy = \"w\"\n";
        assert_eq!(Tables::read(&[("t.toml", whole)]).unwrap().entries("x").programs, [0]);
    }
}
