//! The arguments of each built-in tool. Doc comments become the descriptions in the schemas. The
//! aliases are names that models use for the same argument; schemas do not list them.

mod bash;
mod changes;
mod files;
mod servers;
mod session;
mod web;

pub use bash::{
    Bash, BashRoute, IfRefused, JobCommit, JobInput, JobKill, JobList, JobOutput, Signal,
};
pub use changes::{
    ApplyPatch, DeleteFile, Edit, FileEdits, MakeDir, MoveFile, MultiEdit, TextEdit, Undo,
    WriteFile, WriteMode,
};
pub use files::{Encoding, Glob, Grep, GrepMode, ListFiles, ReadFile, RealPath, Stat, Syntax};
pub use servers::{ServerCall, ServerTools};
pub use session::{Diagnostics, TodoItem, TodoRead, TodoStatus, TodoWrite, ToolSearch};
pub use web::{WebFetch, WebFormat};
