//! What a profile says, as it is written: the keys, their types and their defaults.

use crate::{
    checkers::Checker,
    entries::{EtcEntry, LayerEntry, PathEntry, ToolEntry, VariableEntry, WritableEntry},
    handlers::Handlers,
    rules::Rule,
    size::Size,
};
use palisade_protocol::Ask;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, num::NonZeroU64};

/// A whole profile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Settings {
    /// What it is for, in a sentence.
    pub(crate) description: String,
    /// When a checkpoint is asked.
    #[serde(default = "default_ask")]
    pub(crate) ask: Ask,
    pub(crate) fs: Files,
    #[serde(default)]
    pub(crate) env: Environment,
    #[serde(default)]
    pub(crate) limits: Limits,
    #[serde(default)]
    pub(crate) layers: Layers,
    #[serde(default)]
    pub(crate) tools: Tools,
    #[serde(default)]
    pub(crate) handlers: Handlers,
    #[serde(default)]
    pub(crate) rules: Vec<Rule>,
    /// What `diagnostics` runs.
    #[serde(default)]
    pub(crate) diagnostics: Vec<Checker>,
}

const fn default_ask() -> Ask {
    Ask::Destructive
}

/// `[fs]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Files {
    pub(crate) workspace: WorkspaceAccess,
    #[serde(default)]
    pub(crate) allow_delete: bool,
    /// Programs and libraries.
    pub(crate) execute: Vec<PathEntry>,
    #[serde(default)]
    pub(crate) read: Vec<PathEntry>,
    #[serde(default)]
    pub(crate) write: Vec<WritableEntry>,
    /// What of `/etc` is there.
    #[serde(default)]
    pub(crate) etc: Vec<EtcEntry>,
}

/// What may be done with the workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum WorkspaceAccess {
    Read,
    Write,
}

/// `[env]`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Environment {
    /// The directories of `PATH`.
    pub(crate) path: Vec<PathEntry>,
    /// Variables with their values.
    pub(crate) set: BTreeMap<VariableEntry, String>,
    /// Variables that the broker hands on from its own environment.
    pub(crate) pass: Vec<VariableEntry>,
}

/// `[limits]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Limits {
    pub(crate) memory: Size,
    pub(crate) processes: NonZeroU64,
    pub(crate) cpu_percent: NonZeroU64,
    pub(crate) file_size: Size,
    pub(crate) open_files: NonZeroU64,
    /// Of each private file system.
    pub(crate) tmp: Size,
    pub(crate) timeout_ms: NonZeroU64,
    pub(crate) max_timeout_ms: NonZeroU64,
    /// Of a result.
    pub(crate) output: Size,
    /// That a file tool reads or writes.
    pub(crate) file: Size,
    /// Of a call's whole output.
    pub(crate) spool: Size,
    /// Of what the changes of a session replaced, for undo.
    pub(crate) undo: Size,
    pub(crate) kill_grace_ms: NonZeroU64,
    /// Of one user at once.
    pub(crate) sessions: NonZeroU64,
    /// Of one session at once.
    pub(crate) jobs: NonZeroU64,
    /// How long a job may run, whatever it asks for; without end if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) job_ms: Option<NonZeroU64>,
}

const fn count(value: u32) -> NonZeroU64 {
    // A zero here would become one, the strictest value that is allowed.
    match NonZeroU64::new(value as u64) {
        Some(value) => value,
        None => NonZeroU64::MIN,
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory: Size::gib(4),
            processes: count(1024),
            cpu_percent: count(400),
            file_size: Size::gib(4),
            open_files: count(4096),
            tmp: Size::gib(1),
            timeout_ms: count(30_000),
            max_timeout_ms: count(600_000),
            output: Size::kib(100),
            file: Size::mib(10),
            spool: Size::mib(64),
            undo: Size::mib(256),
            kill_grace_ms: count(2_000),
            sessions: count(32),
            jobs: count(16),
            job_ms: None,
        }
    }
}

/// `[layers]`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Layers {
    /// Layers that may be missing; every result then says so.
    pub(crate) optional: Vec<LayerEntry>,
}

/// `[tools]`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
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
