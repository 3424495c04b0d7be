//! The settings of a profile, combined with those of the profiles that it extends. Pure: no I/O.

use crate::{
    access::{Guarding, PathAccess, Widening, WorkspaceAccess},
    checkers::Checker,
    entries::{Base, PathEntry, ToolEntry},
    environment::settings::EnvironmentSettings,
    example::Example,
    handlers::Handlers,
    jobs::Jobs,
    layers::LayerSettings,
    limits::Limits,
    modes::ModeSettings,
    names::{NameEntry, PatternList},
    net::Net,
    rules::Rule,
    source::{Origin, WithOrigin},
    tools::ToolSettings,
    transactions::Transactions,
    who::Who,
};
use serde::{Serialize, Serializer, ser::SerializeStruct as _};
use std::path::Path;

/// The settings of a profile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Settings {
    pub(crate) description: String,
    /// The profiles that it extends; their settings are included already.
    #[serde(skip)]
    pub(crate) extends: Vec<String>,
    #[serde(skip)]
    pub(crate) widening: Widening,
    /// The modes: which calls need approval, and how commands of `bash` are checked.
    #[serde(flatten)]
    pub(crate) modes: ModeSettings,
    pub(crate) fs: FileSettings,
    pub(crate) net: Net,
    pub(crate) env: EnvironmentSettings,
    pub(crate) limits: Limits,
    pub(crate) layers: LayerSettings,
    pub(crate) tools: ToolSettings,
    #[serde(flatten)]
    pub(crate) handlers: Handlers,
    pub(crate) transactions: Transactions,
    pub(crate) jobs: Jobs,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) rules: Vec<WithOrigin<Rule>>,
    /// The checkers that `diagnostics` runs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) diagnostics: Vec<Checker>,
    /// The conditions for using the profile. A client has to meet each of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) who: Vec<Who>,
    /// The profile's own tests. They do not affect what is allowed.
    #[serde(skip)]
    pub(crate) tests: Vec<Example>,
}

impl Settings {
    /// Returns the settings without entries that have no effect, which a file must not have:
    /// protection of names that can not be changed anyway, and rules that are never reached. They
    /// result from combining profiles, and a profile that extends this one may give them effect.
    pub(crate) fn effective(&self) -> Self {
        let mut settings = self.clone();
        settings.fs.protect = self.fs.protectable();
        let rules = self.rules.iter().enumerate();
        let reached = rules.filter(|(number, said)| {
            denied_tool(&said.value, &self.tools).is_none()
                && !self.rules.iter().enumerate().any(|(other, earlier)| {
                    other != *number
                        && (earlier.value.verdict > said.value.verdict || other < *number)
                        && earlier.value.shadows(&said.value)
                })
        });
        settings.rules = reached.map(|(_, said)| said.clone()).collect();
        settings
    }
}

/// Returns a tool of a rule that applies to denied tools only. A list of allowed tools is not
/// checked, because it may use other names for them.
pub(crate) fn denied_tool<'a>(rule: &'a Rule, tools: &ToolSettings) -> Option<&'a ToolEntry> {
    let denied = rule.tools.iter().all(|tool| tools.deny.contains(tool));
    rule.tools.first().filter(|_| denied)
}

/// The file system settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FileSettings {
    pub(crate) workspace: WithOrigin<WorkspaceAccess>,
    pub(crate) allow_delete: bool,
    /// The paths that a session can access, in the order in which they are mounted.
    pub(crate) entries: Vec<FileEntry>,
    /// Names in the workspace that are hidden from the session.
    pub(crate) hide: Vec<PatternList>,
    /// Names in the workspace that the session can not change.
    pub(crate) protect: Vec<PatternList>,
}

impl FileSettings {
    /// Returns the directories that `fs.unguarded` lists.
    pub(crate) fn unguarded(&self) -> impl Iterator<Item = &PathEntry> {
        let is = |entry: &&FileEntry| entry.key() == "fs.unguarded";
        self.entries.iter().filter(is).map(|entry| &entry.path)
    }

    /// Returns the protected names without those that need no protection: all names of a read-only
    /// workspace, and hidden names.
    fn protectable(&self) -> Vec<PatternList> {
        if self.workspace.value == WorkspaceAccess::Read {
            return Vec::new();
        }
        let hidden: Vec<_> = self.hide.iter().flat_map(|list| &list.0).collect();
        let open = |said: &&WithOrigin<NameEntry>| {
            said.value.0.starts_with('!') || !hidden.iter().any(|name| name.value == said.value)
        };
        let lists = self.protect.iter().map(|list| list.0.iter().filter(open).cloned().collect());
        lists.map(PatternList).filter(|list| !list.0.is_empty()).collect()
    }
}

impl Serialize for FileSettings {
    /// Writes the settings as in a profile: one list for each kind of access.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let list = |reach, guarding| {
            let is = move |entry: &&FileEntry| entry.reach == reach && entry.guarding == guarding;
            self.entries.iter().filter(is).map(|entry| &entry.path).collect::<Vec<_>>()
        };
        let guarded = Guarding::Guarded;
        let mut files = serializer.serialize_struct("Files", 8)?;
        files.serialize_field("workspace", &self.workspace)?;
        files.serialize_field("allow_delete", &self.allow_delete)?;
        files.serialize_field("execute", &list(PathAccess::Execute, guarded))?;
        files.serialize_field("read", &list(PathAccess::Read, guarded))?;
        files.serialize_field("write", &list(PathAccess::Write, guarded))?;
        files.serialize_field("unguarded", &list(PathAccess::Write, Guarding::Unguarded))?;
        for (key, lists) in [("hide", &self.hide), ("protect", &self.protect)] {
            match lists.as_slice() {
                [] => files.skip_field(key)?,
                [only] => files.serialize_field(key, only)?,
                // Several lists stay separate: an exception in one does not apply to the others.
                several => files.serialize_field(key, several)?,
            }
        }
        files.end()
    }
}

/// A file, or a directory with everything below it, and the access to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FileEntry {
    pub(crate) path: PathEntry,
    pub(crate) reach: PathAccess,
    pub(crate) guarding: Guarding,
    pub(crate) at: Origin,
}

impl FileEntry {
    /// Returns the profile key that lists the entry.
    pub(crate) fn key(&self) -> &'static str {
        let etc = self.path.base == Base::Root && Path::new(&self.path.rest).starts_with("/etc");
        match (self.reach, self.guarding) {
            (PathAccess::Read, _) if etc => "fs.etc",
            (PathAccess::Read, _) => "fs.read",
            (PathAccess::Execute, _) => "fs.execute",
            (PathAccess::Write, Guarding::Guarded) => "fs.write",
            (PathAccess::Write, Guarding::Unguarded) => "fs.unguarded",
        }
    }
}
