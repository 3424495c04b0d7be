//! The tools: one file each, with its name, description, schema, what the judge needs to know, and
//! how its arguments become a task. Broker, pure.

mod built_in;
mod describe;
mod provided;
mod registry;
mod schema;
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
mod todo_read;
mod todo_write;
mod tool_search;
mod undo;
mod write_file;

pub(crate) use provided::believed;
pub(crate) use registry::Registry;
pub use tool::RegistryError;
pub(crate) use tool::Tool;
pub(crate) use tool_search::search;
