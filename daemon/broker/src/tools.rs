//! The tools, one file each: name, description, schema, metadata for the judge, and how
//! arguments become a task. Pure, except for the messages to providers. Runs in the broker.
//!
//! - Owns: the built-in tools, the registry, tools of providers.
//! - May import: base.
//! - Imported by: boot, front, pipeline, changes, approval.

mod built_in;
mod describe;
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
