//! What a profile comes to, once it is put together with what it extends.

use crate::{
    access::{Guarding, Reach, Widening, WorkspaceAccess},
    checkers::Checker,
    entries::{Base, LayerEntry, PathEntry, ToolEntry, VariableEntry},
    example::Example,
    handlers::Handlers,
    jobs::Jobs,
    limits::Limits,
    names::Listed,
    net::Net,
    rules::Rule,
    source::{Origin, Said},
    transactions::Transactions,
    who::Who,
};
use palisade_protocol::{Ask, Guard};
use serde::{Serialize, Serializer, ser::SerializeStruct as _};
use std::{collections::BTreeMap, path::Path};

/// A whole profile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Settings {
    pub(crate) description: String,
    /// Which profiles it extends; what they say is in here already.
    #[serde(skip)]
    pub(crate) extends: Vec<String>,
    #[serde(skip)]
    pub(crate) widening: Widening,
    pub(crate) ask: Ask,
    /// How `bash` is held.
    pub(crate) guard: Guard,
    pub(crate) fs: Files,
    pub(crate) net: Net,
    pub(crate) env: Environment,
    pub(crate) limits: Limits,
    pub(crate) layers: Layers,
    pub(crate) tools: Tools,
    pub(crate) handlers: Handlers,
    pub(crate) transactions: Transactions,
    pub(crate) jobs: Jobs,
    pub(crate) rules: Vec<Said<Rule>>,
    /// What `diagnostics` runs.
    pub(crate) diagnostics: Vec<Checker>,
    /// Each of them has to let a peer in.
    pub(crate) who: Vec<Who>,
    /// They change nothing of what is allowed.
    #[serde(skip)]
    pub(crate) tests: Vec<Example>,
}

/// What there is of the file system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Files {
    pub(crate) workspace: Said<WorkspaceAccess>,
    pub(crate) allow_delete: bool,
    /// In the order in which they are mounted.
    pub(crate) entries: Vec<FileEntry>,
    /// Names in the workspace that do not exist for the session.
    pub(crate) hide: Vec<Listed>,
    /// Names in the workspace that it can not change.
    pub(crate) protect: Vec<Listed>,
}

impl Files {
    /// The directories that `fs.unguarded` names.
    pub(crate) fn unguarded(&self) -> impl Iterator<Item = &PathEntry> {
        let is = |entry: &&FileEntry| entry.key() == "fs.unguarded";
        self.entries.iter().filter(is).map(|entry| &entry.path)
    }
}

impl Serialize for Files {
    /// As a profile would say it: a list for each kind of access.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let list = |reach, guarding| {
            let is = move |entry: &&FileEntry| entry.reach == reach && entry.guarding == guarding;
            self.entries.iter().filter(is).map(|entry| &entry.path).collect::<Vec<_>>()
        };
        let guarded = Guarding::Guarded;
        let mut files = serializer.serialize_struct("Files", 8)?;
        files.serialize_field("workspace", &self.workspace)?;
        files.serialize_field("allow_delete", &self.allow_delete)?;
        files.serialize_field("execute", &list(Reach::Execute, guarded))?;
        files.serialize_field("read", &list(Reach::Read, guarded))?;
        files.serialize_field("write", &list(Reach::Write, guarded))?;
        files.serialize_field("unguarded", &list(Reach::Write, Guarding::Unguarded))?;
        for (key, lists) in [("hide", &self.hide), ("protect", &self.protect)] {
            match lists.as_slice() {
                [] => files.skip_field(key)?,
                [only] => files.serialize_field(key, only)?,
                // What one list takes back, another may mean.
                several => files.serialize_field(key, several)?,
            }
        }
        files.end()
    }
}

/// A file, or a directory with all below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FileEntry {
    pub(crate) path: PathEntry,
    pub(crate) reach: Reach,
    pub(crate) guarding: Guarding,
    pub(crate) at: Origin,
}

impl FileEntry {
    /// The key that it is said by.
    pub(crate) fn key(&self) -> &'static str {
        let etc = self.path.base == Base::Root && Path::new(&self.path.rest).starts_with("/etc");
        match (self.reach, self.guarding) {
            (Reach::Read, _) if etc => "fs.etc",
            (Reach::Read, _) => "fs.read",
            (Reach::Execute, _) => "fs.execute",
            (Reach::Write, Guarding::Guarded) => "fs.write",
            (Reach::Write, Guarding::Unguarded) => "fs.unguarded",
        }
    }
}

/// Variables.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Environment {
    /// The directories of `PATH`.
    pub(crate) path: Vec<PathEntry>,
    /// Variables with their values.
    pub(crate) set: BTreeMap<VariableEntry, String>,
    /// Variables that the broker hands on from its own environment.
    pub(crate) pass: Vec<VariableEntry>,
    /// Variables that no call may add.
    pub(crate) deny: Vec<VariableEntry>,
}

/// Which layers may be missing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Layers {
    /// Never optional, in whatever extends this.
    pub(crate) required: Vec<LayerEntry>,
    /// Layers that may be missing; every result then says so.
    pub(crate) optional: Vec<LayerEntry>,
}

/// Which tools there are.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Tools {
    /// Only these; all if absent.
    pub(crate) allow: Option<Vec<ToolEntry>>,
    /// Not these.
    pub(crate) deny: Vec<ToolEntry>,
    /// These only with their reverse thinking.
    pub(crate) reverse_thinking: Vec<ToolEntry>,
    /// Provided tools that are what they say of themselves; others get the careful answers.
    pub(crate) trust_provided: Vec<ToolEntry>,
}
