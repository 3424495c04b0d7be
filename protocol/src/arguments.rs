//! The arguments of each built-in tool. Doc comments become the descriptions in the schemas. The
//! aliases are names that models use for the same argument; schemas do not list them.

mod servers;
mod session;
mod web;

pub use servers::{ServerCall, ServerTools};
pub use session::{Diagnostics, TodoItem, TodoRead, TodoStatus, TodoWrite, ToolSearch};
pub use web::{WebFetch, WebFormat};

use crate::{CallId, RawPath};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Arguments of `bash`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Bash {
    /// A shell line, run by `bash -c`. Give this or `argv`, not both.
    #[serde(skip_serializing_if = "Option::is_none", alias = "cmd")]
    pub command: Option<String>,
    /// A program and its arguments, run without a shell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub argv: Option<Vec<String>>,
    /// Milliseconds after which everything the call started is killed.
    #[serde(skip_serializing_if = "Option::is_none", alias = "timeout")]
    pub timeout_ms: Option<u64>,
    /// The directory to start in; absolute, or relative to the session's current directory.
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    #[serde(
        skip_serializing_if = "Option::is_none",
        alias = "workdir",
        alias = "working_directory"
    )]
    pub cwd: Option<RawPath>,
    /// Variables to add to the session's environment.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// The text that the program reads on standard input; empty if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stdin: Option<String>,
    /// What the command does, in a few words, for people who review it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Run as a background job and return its id at once. Then use `job_output`, `job_input`,
    /// `job_kill` and `job_list`. A job has no time limit unless `timeout_ms` is given, and ends
    /// with the session.
    #[serde(skip_serializing_if = "std::ops::Not::not", alias = "run_in_background")]
    pub background: bool,
    /// Wait this many milliseconds; a command that is still running then becomes a job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub yield_ms: Option<u64>,
    /// Keep a job's standard input open for `job_input`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub input: bool,
    /// Run on a terminal: output and errors are one stream, with the terminal's control codes.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub pty: bool,
    /// Rows of the terminal, 24 if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rows: Option<u16>,
    /// Columns of the terminal, 80 if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cols: Option<u16>,
    /// Where the command runs; chosen by the daemon if absent. `watch` and `direct` are for jobs
    /// only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub route: Option<BashRoute>,
}

/// Where a `bash` call asks to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum BashRoute {
    /// In a transaction over the workspace; its effects are judged before they are committed.
    Transaction,
    /// In the live workspace, mounted read-only, for a job that watches it.
    Watch,
    /// In the workspace itself, for a job; needs approval before it starts.
    Direct,
}

/// Arguments of `job_output`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct JobOutput {
    /// The job's id.
    pub job: u64,
    /// Where to continue: the `cursor` of the last result. From the start if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<u64>,
    /// How many milliseconds to wait for new output or for the job's end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_ms: Option<u64>,
    /// The maximum number of bytes to return.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
}

/// Arguments of `job_input`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct JobInput {
    /// The job's id. The job must have been started with `input`.
    pub job: u64,
    /// The text to write; end a line with a newline.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub data: String,
    /// End the job's standard input after `data`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub end: bool,
    /// The new number of rows of the job's terminal; needs `cols`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows: Option<u16>,
    /// The new number of columns of the job's terminal; needs `rows`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cols: Option<u16>,
}

/// Arguments of `job_commit`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct JobCommit {
    /// The job's id.
    pub job: u64,
    /// What happens to the job if its changes are not committed: `keep` lets it continue with them,
    /// `end` ends it and discards them.
    #[serde(default, skip_serializing_if = "IfRefused::is_keep")]
    pub if_refused: IfRefused,
}

/// What happens to a job whose changes are not committed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum IfRefused {
    /// The job continues with its changes.
    #[default]
    Keep,
    /// The job ends, and its changes are discarded.
    End,
}

impl IfRefused {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    fn is_keep(&self) -> bool {
        *self == Self::Keep
    }
}

/// Arguments of `job_kill`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct JobKill {
    /// The job's id.
    pub job: u64,
    /// The signal to send to every process of the job, by name or number. If absent: TERM, then
    /// KILL for processes that remain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<Signal>,
}

/// A signal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum Signal {
    /// `INT`, `SIGINT`.
    Name(String),
    /// `2`.
    Number(u8),
}

/// Arguments of `job_list`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct JobList {
    /// List only jobs that are still running.
    pub running: bool,
}

/// Arguments of `read_file`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ReadFile {
    /// The file; absolute, or relative to the session's current directory.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    #[serde(alias = "file_path", alias = "filePath")]
    pub path: RawPath,
    /// The first line to read, counted from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
    /// The maximum number of lines to read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
    /// How the contents are returned.
    #[serde(default)]
    pub encoding: Encoding,
    /// Put each line's number in front of it, as `cat -n` does.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub numbered: bool,
    /// The first byte to read, counted from 0; with encoding base64 or raw.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub byte_offset: Option<u64>,
    /// How many bytes to read, 0 for none (only what the file is); with encoding base64 or raw.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub byte_limit: Option<u64>,
}

/// How a file's contents are returned.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Encoding {
    /// Text in `output` if the file is text (a notebook as its cells); else its bytes as base64 in
    /// `data.content`, with `data.media_type`.
    #[default]
    Auto,
    /// UTF-8 text in `output`; fails if the file is not text.
    Text,
    /// Base64 in `data.content`.
    Base64,
    /// Exact bytes as `content` output events; `output` stays empty. Can not be read by lines.
    Raw,
}

/// Arguments of `write_file`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct WriteFile {
    /// The file; absolute, or relative to the session's current directory.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    #[serde(alias = "file_path", alias = "filePath")]
    pub path: RawPath,
    /// The text to write. Omit it if the content follows as an attachment.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        alias = "contents",
        alias = "file_text"
    )]
    pub content: Option<String>,
    /// What to do if the file exists.
    #[serde(default)]
    pub mode: WriteMode,
}

/// What `write_file` does if the file exists.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum WriteMode {
    /// Replace the whole file.
    #[default]
    Overwrite,
    /// Append to the file.
    Append,
    /// Fail if the path exists.
    Create,
}

/// Arguments of `delete_file`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct DeleteFile {
    /// The file, link or directory. A link itself is deleted, never its target.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    #[serde(alias = "file_path", alias = "filePath")]
    pub path: RawPath,
    /// Also delete a directory with everything in it.
    #[serde(default)]
    pub recursive: bool,
    /// Delete without an undo record. Needed for what is too large for the undo store.
    #[serde(default)]
    pub permanent: bool,
}

/// Arguments of `edit`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Edit {
    /// The file; absolute, or relative to the session's current directory.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    #[serde(alias = "file_path", alias = "filePath")]
    pub path: RawPath,
    /// The text to replace, exactly as it is in the file. It must occur once, unless
    /// `replace_all` is set.
    #[serde(alias = "old_str", alias = "oldString", alias = "old_text")]
    pub old_string: String,
    /// The replacement text.
    #[serde(alias = "new_str", alias = "newString", alias = "new_text")]
    pub new_string: String,
    /// Replace every occurrence.
    #[serde(default, alias = "replaceAll")]
    pub replace_all: bool,
}

/// Arguments of `multi_edit`: `path` and `edits`, or `files`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct MultiEdit {
    /// The file, if there is only one; absolute, or relative to the session's current directory.
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    #[serde(skip_serializing_if = "Option::is_none", alias = "file_path", alias = "filePath")]
    pub path: Option<RawPath>,
    /// The replacements in `path`, in order: each sees the result of those before it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub edits: Vec<TextEdit>,
    /// Several files, each with its own edits. Either all edits are made or none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<FileEdits>,
}

/// The edits of one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct FileEdits {
    /// The file; absolute, or relative to the session's current directory.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    #[serde(alias = "file_path", alias = "filePath")]
    pub path: RawPath,
    /// The replacements in the file, in order.
    pub edits: Vec<TextEdit>,
}

/// One replacement of text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct TextEdit {
    /// The text to replace, exactly as it is in the file. It must occur once, unless
    /// `replace_all` is set.
    #[serde(alias = "old_str", alias = "oldString", alias = "old_text")]
    pub old_string: String,
    /// The replacement text.
    #[serde(alias = "new_str", alias = "newString", alias = "new_text")]
    pub new_string: String,
    /// Replace every occurrence.
    #[serde(default, alias = "replaceAll")]
    pub replace_all: bool,
}

/// Arguments of `apply_patch`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ApplyPatch {
    /// A unified diff, a git diff, or text from `*** Begin Patch` to `*** End Patch`. Its paths are
    /// relative to the session's current directory. Either all of it is applied or nothing.
    #[serde(alias = "input", alias = "patch_text")]
    pub patch: String,
}

/// Arguments of `move_file`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct MoveFile {
    /// The file, link or directory to move; absolute, or relative to the session's current
    /// directory.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    #[serde(alias = "source", alias = "old_path")]
    pub from: RawPath,
    /// The new path, including the new name.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    #[serde(alias = "destination", alias = "new_path")]
    pub to: RawPath,
    /// Replace a file that exists at `to`; otherwise the move is refused.
    #[serde(default)]
    pub overwrite: bool,
}

/// Arguments of `make_dir`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct MakeDir {
    /// The directory to create; missing parents are created too. Absolute, or relative to the
    /// session's current directory.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    #[serde(alias = "dir_path", alias = "directory")]
    pub path: RawPath,
}

/// Arguments of `undo`: `call_id` or `to`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Undo {
    /// The call to undo: the value of `undo` in its result.
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call_id: Option<CallId>,
    /// Return to the state right after this call: every later change of its session is undone,
    /// newest first, either all of them or none.
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<CallId>,
    /// Undo even if something has changed since; those changes are overwritten.
    pub force: bool,
}

/// Arguments of `stat`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Stat {
    /// The path; absolute, or relative to the session's current directory.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    #[serde(alias = "file_path", alias = "filePath")]
    pub path: RawPath,
    /// Follow a symbolic link at the end of the path; if false, describe the link itself.
    #[serde(default = "yes")]
    pub follow: bool,
}

/// Arguments of `realpath`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RealPath {
    /// The path; absolute, or relative to the session's current directory.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    #[serde(alias = "file_path", alias = "filePath")]
    pub path: RawPath,
    /// Follow a symbolic link at the end of the path; if false, resolve only what is above it.
    #[serde(default = "yes")]
    pub follow: bool,
}

/// Arguments of `list_files`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct ListFiles {
    /// The directory; the session's current directory if absent.
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    #[serde(skip_serializing_if = "Option::is_none", alias = "dir_path", alias = "directory")]
    pub path: Option<RawPath>,
    /// List only entries that match, such as `*.rs` (a name, at any depth) or `src/**/*.rs` (a path
    /// below the directory); with `!` in front, only those that do not match.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub glob: Option<String>,
    /// Also list what is below, to any depth, except .git and what .gitignore, .ignore or
    /// .git/info/exclude exclude.
    pub recursive: bool,
    /// With `recursive`: include names that begin with a dot.
    pub hidden: bool,
    /// With `recursive`: include what .gitignore, .ignore or .git/info/exclude exclude.
    pub ignored: bool,
    /// The maximum number of entries to return.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
    /// How many entries, in sorted order, to skip first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skip: Option<u64>,
}

impl Default for ListFiles {
    fn default() -> Self {
        Self {
            path: None,
            glob: None,
            recursive: false,
            hidden: true,
            ignored: false,
            limit: None,
            skip: None,
        }
    }
}

/// Arguments of `glob`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Glob {
    /// The files to find: `*.rs` (a name, at any depth), `src/**/*.{rs,toml}` (a path below the
    /// directory).
    pub pattern: String,
    /// The directory; the session's current directory if absent.
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        alias = "dir_path",
        alias = "directory"
    )]
    pub path: Option<RawPath>,
    /// The maximum number of files to return.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
    /// Include names that begin with a dot.
    #[serde(default = "yes")]
    pub hidden: bool,
    /// Include what .gitignore, .ignore or .git/info/exclude exclude.
    #[serde(default)]
    pub ignored: bool,
}

/// Arguments of `grep`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Grep {
    /// The regular expression or text to search for.
    #[serde(alias = "query")]
    pub pattern: String,
    /// A directory or a file; the session's current directory if absent.
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        alias = "dir_path",
        alias = "directory"
    )]
    pub path: Option<RawPath>,
    /// Search only files that match, such as `*.rs` (a name, at any depth) or `src/**/*.rs` (a path
    /// below the directory); with `!` in front, only those that do not match.
    #[serde(default, skip_serializing_if = "Option::is_none", alias = "include")]
    pub glob: Option<String>,
    /// How the pattern is interpreted.
    #[serde(default, rename = "type")]
    pub syntax: Syntax,
    /// Ignore case.
    #[serde(default, alias = "-i")]
    pub case_insensitive: bool,
    /// Let a match span several lines.
    #[serde(default)]
    pub multiline: bool,
    /// What to return.
    #[serde(default, alias = "output_mode")]
    pub mode: GrepMode,
    /// How many lines to show before and after each matching line.
    #[serde(default, skip_serializing_if = "Option::is_none", alias = "-C")]
    pub context: Option<u32>,
    /// How many lines to show before each matching line, instead of `context`.
    #[serde(default, skip_serializing_if = "Option::is_none", alias = "-B")]
    pub before: Option<u32>,
    /// How many lines to show after each matching line, instead of `context`.
    #[serde(default, skip_serializing_if = "Option::is_none", alias = "-A")]
    pub after: Option<u32>,
    /// The maximum number of matching lines (or of files, in the modes that return files).
    #[serde(default, skip_serializing_if = "Option::is_none", alias = "head_limit")]
    pub limit: Option<u64>,
    /// Include files whose name, or the name of a directory above, begins with a dot.
    #[serde(default = "yes")]
    pub hidden: bool,
    /// Include what .gitignore, .ignore or .git/info/exclude exclude.
    #[serde(default)]
    pub ignored: bool,
}

const fn yes() -> bool {
    true
}

/// How a pattern is interpreted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Syntax {
    /// A regular expression, in Rust's syntax; without look-around and back-references.
    #[default]
    Regex,
    /// Literal text.
    Literal,
}

/// What `grep` returns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum GrepMode {
    /// The lines that match, each as `path:line:text`.
    #[default]
    Content,
    /// The paths of the files that match.
    #[serde(alias = "files_with_matches")]
    Files,
    /// The paths, each with its number of matching lines: `path:count`.
    Count,
}
