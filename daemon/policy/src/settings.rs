//! What a profile comes to, once it is put together with what it extends.

use crate::{
    checkers::Checker,
    entries::{LayerEntry, PathEntry, ToolEntry, VariableEntry},
    examples::Example,
    handlers::Handlers,
    names::Listed,
    net::Net,
    rules::Rule,
    size::Size,
    source::{Origin, Said},
    transactions::Transactions,
    written::Who,
};
use palisade_plan::Access;
use palisade_protocol::{Ask, Guard};
use serde::{Deserialize, Serialize, Serializer, ser::SerializeStruct as _};
use std::{collections::BTreeMap, num::NonZeroU64};

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
    pub(crate) rules: Vec<Said<Rule>>,
    /// What `diagnostics` runs.
    pub(crate) diagnostics: Vec<Checker>,
    /// Each of them has to let a peer in.
    pub(crate) who: Vec<Who>,
    /// They change nothing of what is allowed.
    #[serde(skip)]
    pub(crate) tests: Vec<Example>,
}

/// Whether a profile may allow more than what it extends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Widening {
    No,
    Yes,
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

impl Serialize for Files {
    /// As a profile would say it: a list for each kind of access.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let list = |reach| {
            let of = self.entries.iter().filter(move |entry| entry.reach == reach);
            of.map(|entry| &entry.path).collect::<Vec<_>>()
        };
        let mut files = serializer.serialize_struct("Files", 7)?;
        files.serialize_field("workspace", &self.workspace)?;
        files.serialize_field("allow_delete", &self.allow_delete)?;
        files.serialize_field("execute", &list(Reach::Execute))?;
        files.serialize_field("read", &list(Reach::Read))?;
        files.serialize_field("write", &list(Reach::Write))?;
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
    pub(crate) at: Origin,
}

/// What may be done below a path; each includes those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reach {
    Read,
    Execute,
    Write,
}

impl Reach {
    pub(crate) const fn access(self) -> Access {
        match self {
            Self::Read => Access::Read,
            Self::Execute => Access::Execute,
            Self::Write => Access::Write,
        }
    }
}

/// What may be done with the workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum WorkspaceAccess {
    Read,
    Write,
}

impl WorkspaceAccess {
    /// Programs of the workspace run either way.
    pub(crate) const fn reach(self) -> Reach {
        match self {
            Self::Read => Reach::Execute,
            Self::Write => Reach::Write,
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

/// Makes the limits: as written, as they come to, and how they go together. Less is stricter.
macro_rules! limits {
    ($($(#[$doc:meta])* $name:ident: $type:ty = $default:expr;)*) => {
        /// `[limits]` as it is written.
        #[derive(Debug, Default, Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub(crate) struct LimitsText { $(pub(crate) $name: Option<$type>,)* }

        /// Bounds of a session and its calls.
        #[derive(Debug, Clone, PartialEq, Eq, Serialize)]
        pub(crate) struct Limits { $($(#[$doc])* pub(crate) $name: $type,)* }

        impl Default for Limits {
            fn default() -> Self { Self { $($name: $default,)* } }
        }

        impl Limits {
            /// The stricter of each.
            pub(crate) fn stricter(&self, other: &Self) -> Self {
                Self { $($name: self.$name.min(other.$name),)* }
            }

            /// What is written in place of what was; the first that is laxer, unless it may be.
            pub(crate) fn with(
                &self, text: &LimitsText, widening: Widening,
            ) -> Result<Self, (&'static str, String)> {
                $(if let Some(value) = text.$name
                    && value > self.$name && widening == Widening::No {
                    return Err((concat!("limits.", stringify!($name)), self.$name.to_string()));
                })*
                Ok(Self { $($name: text.$name.unwrap_or(self.$name),)* })
            }

            /// Each with its name and value.
            pub(crate) fn each(&self) -> Vec<(&'static str, String, u64)> {
                vec![$((stringify!($name), self.$name.to_string(), u64::from(self.$name)),)*]
            }
        }
    };
}

limits! {
    memory: Size = Size::gib(4);
    processes: NonZeroU64 = count(1024);
    cpu_percent: NonZeroU64 = count(400);
    file_size: Size = Size::gib(4);
    open_files: NonZeroU64 = count(4096);
    /// Of each private file system.
    tmp: Size = Size::gib(1);
    timeout_ms: NonZeroU64 = count(30_000);
    max_timeout_ms: NonZeroU64 = count(600_000);
    /// Of a result.
    output: Size = Size::kib(100);
    /// That a file tool reads or writes.
    file: Size = Size::mib(10);
    /// Of a call's whole output.
    spool: Size = Size::mib(64);
    /// Of what the changes of a session replaced, for undo.
    undo: Size = Size::mib(256);
    /// Of what a command changes in its transaction, where that is in memory.
    transaction: Size = Size::gib(1);
    kill_grace_ms: NonZeroU64 = count(2_000);
    /// Of one user at once.
    sessions: NonZeroU64 = count(32);
    /// Of one session at once.
    jobs: NonZeroU64 = count(16);
    /// How long a job may run, whatever it asks for.
    job_ms: NonZeroU64 = ENDLESS;
    /// Calls of one session that only look, at once.
    parallel: NonZeroU64 = count(8);
    /// How long a session may outlive its connection; 0 is not at all.
    grace_ms: u64 = 30_000;
}

/// No end: the largest number that TOML has.
pub(crate) const ENDLESS: NonZeroU64 = match NonZeroU64::new(i64::MAX as u64) {
    Some(most) => most,
    None => NonZeroU64::MIN,
};

const fn count(value: u32) -> NonZeroU64 {
    // A zero here would become one, the strictest value that is allowed.
    match NonZeroU64::new(value as u64) {
        Some(value) => value,
        None => NonZeroU64::MIN,
    }
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
