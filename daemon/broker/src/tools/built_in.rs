//! The built-in tools, which are always available. Runs in the broker. Pure: no I/O.

use super::{
    apply_patch, bash, delete_file,
    describe::built_in,
    diagnostics, edit, glob, grep, job_commit, job_input, job_kill, job_list, job_output,
    list_files, make_dir, move_file, multi_edit, read_file, realpath, stat, todo_read, todo_write,
    tool::{RegistryError, Tool},
    tool_search, undo, web_fetch, write_file,
};
use palisade_protocol::arguments as wire;

/// Returns the built-in tools.
pub(super) fn built_ins() -> Result<Vec<Tool>, RegistryError> {
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
