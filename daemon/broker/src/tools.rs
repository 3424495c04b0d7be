//! The tools, one file each: name, description, schema, metadata for the judge, and how
//! arguments become a task. Pure, except for the messages to providers. Runs in the broker.
//!
//! - Owns: the built-in tools, the registry, tools of providers.
//! - May import: base.
//! - Imported by: boot, front, pipeline, changes, approval.

mod describe;
mod other_names;
mod provided;
pub(crate) mod provider;
mod registry;
mod schema;
mod server_tools;
pub(crate) mod thinking;
mod tool;

mod apply_patch;
mod bash;
mod delete_file;
mod diagnostics;
mod edit;
mod glob;
mod grep;
mod job_commit;
mod job_input;
mod job_kill;
mod job_list;
mod job_output;
mod list_files;
mod make_dir;
mod move_file;
mod multi_edit;
mod read_file;
mod realpath;
mod stat;
mod todo_read;
mod todo_write;
mod tool_search;
mod undo;
mod web_fetch;
mod write_file;

pub(crate) use provided::with_trusted_metadata;
pub(crate) use registry::Registry;
pub use tool::RegistryError;
pub(crate) use tool::Tool;
pub(crate) use tool_search::search;

use describe::built_in;
use palisade_protocol::arguments as wire;

/// Returns the built-in tools.
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
        built_in::<wire::Stat>(&stat::DESCRIPTION, stat::parse)?,
        built_in::<wire::RealPath>(&realpath::DESCRIPTION, realpath::parse)?,
        built_in::<wire::JobInput>(&job_input::DESCRIPTION, job_input::parse)?,
        built_in::<wire::JobCommit>(&job_commit::DESCRIPTION, job_commit::parse)?,
        built_in::<wire::JobKill>(&job_kill::DESCRIPTION, job_kill::parse)?,
        built_in::<wire::JobList>(&job_list::DESCRIPTION, job_list::parse)?,
        built_in::<wire::JobOutput>(&job_output::DESCRIPTION, job_output::parse)?,
        built_in::<wire::TodoRead>(&todo_read::DESCRIPTION, todo_read::parse)?,
        built_in::<wire::TodoWrite>(&todo_write::DESCRIPTION, todo_write::parse)?,
        built_in::<wire::ToolSearch>(&tool_search::DESCRIPTION, tool_search::parse)?,
        built_in::<wire::WebFetch>(&web_fetch::DESCRIPTION, web_fetch::parse)?,
        built_in::<wire::Diagnostics>(&diagnostics::DESCRIPTION, diagnostics::parse)?,
    ])
}
