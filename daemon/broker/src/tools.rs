//! The tools: one file each, with its name, description, schema, what the judge needs to know, and
//! how its arguments become a task. Broker, pure.

mod describe;
mod provided;
mod registry;
mod schema;

mod apply_patch;
mod bash;
mod delete_file;
mod diagnostics;
mod edit;
mod glob;
mod grep;
mod job_input;
mod job_kill;
mod job_list;
mod job_output;
mod list_files;
mod make_dir;
mod move_file;
mod multi_edit;
mod read_file;
mod todo_read;
mod todo_write;
mod tool_search;
mod undo;
mod write_file;

pub(crate) use provided::believed;
pub(crate) use registry::Registry;
pub(crate) use tool_search::search;

use crate::{provider::Provider, task::Task};
use describe::{Description, Traits, built_in};
use palisade_protocol::{Call, NameError, ToolName, ToolSpec, WireError, arguments as wire};
use provided::Provided;
use std::sync::Arc;

/// A tool.
#[derive(Debug)]
pub(crate) struct Tool {
    pub(crate) spec: ToolSpec,
    origin: Origin,
}

/// Whose a tool is.
#[derive(Debug)]
enum Origin {
    BuiltIn(Parse),
    Provided(Provided),
}

/// Reads a call's arguments.
type Parse = fn(&Tool, &Call) -> Result<Parsed, WireError>;

/// What the arguments say.
#[derive(Debug)]
pub(crate) struct Parsed {
    pub(crate) task: Task,
    /// How long it may take, where that is an argument.
    pub(crate) timeout_ms: Option<u64>,
}

impl From<Task> for Parsed {
    fn from(task: Task) -> Self {
        Self { task, timeout_ms: None }
    }
}

/// Why a tool can not be had.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    /// Its name.
    #[error("a built-in tool has a bad name")]
    Name(#[from] NameError),
    /// Its schema.
    #[error("a built-in tool has no schema")]
    Schema(#[from] serde_json::Error),
    /// The name means another.
    #[error("the name {name} is taken by the tool {by}")]
    Taken {
        /// Which.
        name: ToolName,
        /// By whom.
        by: ToolName,
    },
}

impl Tool {
    /// Reads a call's arguments.
    pub(crate) fn parse(&self, call: &Call) -> Result<Parsed, WireError> {
        match &self.origin {
            Origin::BuiltIn(parse) => parse(self, call),
            Origin::Provided(provided) => provided::parse(self, provided, call),
        }
    }

    /// Who provides it; none for a built-in.
    pub(crate) const fn provider(&self) -> Option<&Arc<Provider>> {
        match &self.origin {
            Origin::BuiltIn(_) => None,
            Origin::Provided(provided) => Some(&provided.provider),
        }
    }

    /// Its name and aliases.
    fn names(&self) -> impl Iterator<Item = &ToolName> {
        std::iter::once(&self.spec.name).chain(&self.spec.aliases)
    }

    /// The schema of its arguments.
    fn schema(&self) -> serde_json::Value {
        serde_json::from_str(self.spec.schema.as_str()).unwrap_or_default()
    }
}

/// The tools that are always there.
fn built_ins() -> Result<Vec<Tool>, RegistryError> {
    Ok(vec![
        built_in::<wire::Bash>(&bash::DESCRIPTION, bash::parse)?,
        built_in::<wire::ReadFile>(&read_file::DESCRIPTION, read_file::parse)?,
        built_in::<wire::WriteFile>(&write_file::DESCRIPTION, write_file::parse)?,
        built_in::<wire::Edit>(&edit::DESCRIPTION, edit::parse)?,
        built_in::<wire::MultiEdit>(&multi_edit::DESCRIPTION, multi_edit::parse)?,
        built_in::<wire::ApplyPatch>(&apply_patch::DESCRIPTION, apply_patch::parse)?,
        built_in::<wire::MoveFile>(&move_file::DESCRIPTION, move_file::parse)?,
        built_in::<wire::MakeDir>(&make_dir::DESCRIPTION, make_dir::parse)?,
        built_in::<wire::Undo>(&undo::DESCRIPTION, undo::parse)?,
        built_in::<wire::DeleteFile>(&delete_file::DESCRIPTION, delete_file::parse)?,
        built_in::<wire::Glob>(&glob::DESCRIPTION, glob::parse)?,
        built_in::<wire::Grep>(&grep::DESCRIPTION, grep::parse)?,
        built_in::<wire::ListFiles>(&list_files::DESCRIPTION, list_files::parse)?,
        built_in::<wire::JobInput>(&job_input::DESCRIPTION, job_input::parse)?,
        built_in::<wire::JobKill>(&job_kill::DESCRIPTION, job_kill::parse)?,
        built_in::<wire::JobList>(&job_list::DESCRIPTION, job_list::parse)?,
        built_in::<wire::JobOutput>(&job_output::DESCRIPTION, job_output::parse)?,
        built_in::<wire::TodoRead>(&todo_read::DESCRIPTION, todo_read::parse)?,
        built_in::<wire::TodoWrite>(&todo_write::DESCRIPTION, todo_write::parse)?,
        built_in::<wire::ToolSearch>(&tool_search::DESCRIPTION, tool_search::parse)?,
        built_in::<wire::Diagnostics>(&diagnostics::DESCRIPTION, diagnostics::parse)?,
    ])
}
