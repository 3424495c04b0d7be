//! The arguments of each built-in tool. Doc comments become the descriptions in the schemas.

mod session;

pub use session::{Diagnostics, TodoItem, TodoRead, TodoStatus, TodoWrite, ToolSearch};

use crate::{CallId, RawPath};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Arguments of `bash`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Bash {
    /// A shell line, run by `bash -c`. Give this or `argv`, not both.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// A program and its arguments, run without a shell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub argv: Option<Vec<String>>,
    /// Milliseconds after which everything the call started is killed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Where to start; absolute, or relative to the session's current directory.
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<RawPath>,
    /// Variables to add to the session's environment.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// What the program reads on standard input; at end of file if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stdin: Option<String>,
    /// What this does, in a few words, for people who read along.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Return at once with a job id; `job_output`, `job_input`, `job_kill` and `job_list` go on
    /// with it. A job has no time limit unless `timeout_ms` is given, and ends with the session.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub background: bool,
    /// Wait for this many milliseconds; what still runs then becomes a job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub yield_ms: Option<u64>,
    /// Keep a job's standard input open for `job_input`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub input: bool,
    /// Run on a terminal: standard input, output and error are one, and output has its codes.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub pty: bool,
    /// Rows of the terminal, 24 if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rows: Option<u16>,
    /// Columns of the terminal, 80 if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cols: Option<u16>,
    /// Where it runs, if not where the daemon would have it: in a transaction; a job also
    /// where it only watches, or directly.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub route: Option<BashRoute>,
}

/// Where a `bash` call asks to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum BashRoute {
    /// On a layer over the workspace; its effects are judged before they are committed.
    Transaction,
    /// In the live workspace, which is read-only, for a job that watches it.
    Watch,
    /// In the workspace itself, for a job; asked about before it starts.
    Direct,
}

/// Arguments of `job_output`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct JobOutput {
    /// The job.
    pub job: u64,
    /// Where to go on: the `cursor` of the last result; from the start if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<u64>,
    /// How many milliseconds to wait for something new, or for the job's end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_ms: Option<u64>,
    /// How many bytes at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
}

/// Arguments of `job_input`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct JobInput {
    /// The job; it was started with `input`.
    pub job: u64,
    /// What to type; a line needs its newline.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub data: String,
    /// End the job's standard input after that.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub end: bool,
    /// New rows of the job's terminal; with `cols`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows: Option<u16>,
    /// New columns of the job's terminal; with `rows`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cols: Option<u16>,
}

/// Arguments of `job_commit`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct JobCommit {
    /// The job.
    pub job: u64,
    /// What becomes of the job if nothing is committed: `keep` lets it go on with its changes, `end`
    /// ends it and discards them.
    #[serde(default, skip_serializing_if = "IfRefused::is_keep")]
    pub if_refused: IfRefused,
}

/// What becomes of a job whose changes are not committed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum IfRefused {
    /// It goes on with them.
    #[default]
    Keep,
    /// It ends, and they are discarded.
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
    /// The job.
    pub job: u64,
    /// A signal for every process of the job, by name or number. If absent: TERM, then KILL for
    /// what is left.
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
    /// Only those that still run.
    pub running: bool,
}

/// Arguments of `read_file`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ReadFile {
    /// The file; absolute, or relative to the session's current directory.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub path: RawPath,
    /// The first line to read, counted from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
    /// How many lines to read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
    /// How the contents come back.
    #[serde(default)]
    pub encoding: Encoding,
    /// Put each line's number in front of it, as `cat -n` does.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub numbered: bool,
    /// The first byte to read, counted from 0; with encoding base64 or raw.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub byte_offset: Option<u64>,
    /// How many bytes to read; with encoding base64 or raw.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub byte_limit: Option<u64>,
}

/// How a file's contents come back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Encoding {
    /// Text in `output` if the file is text (a notebook as its cells); else its bytes as base64 in
    /// `data.content`, with `data.media_type`.
    #[default]
    Auto,
    /// UTF-8 text in `output`; a file that is not text is an error that says so.
    Text,
    /// Base64 in `data.content`.
    Base64,
    /// Exact bytes as `content` output events; `output` stays empty. Has no lines.
    Raw,
}

/// Arguments of `write_file`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct WriteFile {
    /// The file; absolute, or relative to the session's current directory.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub path: RawPath,
    /// What to write. Left out when the content follows as an attachment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// What to do with what is there.
    #[serde(default)]
    pub mode: WriteMode,
}

/// What `write_file` does with what is there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum WriteMode {
    /// Replace it whole.
    #[default]
    Overwrite,
    /// Add to its end.
    Append,
    /// Refuse if there is something.
    Create,
}

/// Arguments of `delete_file`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct DeleteFile {
    /// The file, link or directory; a link itself goes, never what it leads to.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub path: RawPath,
    /// Also a directory and everything in it.
    #[serde(default)]
    pub recursive: bool,
    /// For good: nothing is kept for `undo`. Needed for what is too large to be kept.
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
    pub path: RawPath,
    /// The text to replace, exactly as it is in the file. It must be there once, unless
    /// `replace_all`.
    pub old_string: String,
    /// The text to have in its place.
    pub new_string: String,
    /// Replace it wherever it is.
    #[serde(default)]
    pub replace_all: bool,
}

/// Arguments of `multi_edit`: `path` and `edits`, or `files`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct MultiEdit {
    /// The file, if it is one; absolute, or relative to the session's current directory.
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<RawPath>,
    /// What to replace in it, one after another: each sees what those before it left.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub edits: Vec<TextEdit>,
    /// Several files, each with its own edits. All of it is done or nothing.
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
    pub path: RawPath,
    /// What to replace in it, one after another.
    pub edits: Vec<TextEdit>,
}

/// One replacement of text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct TextEdit {
    /// The text to replace, exactly as it is there. It must be there once, unless `replace_all`.
    pub old_string: String,
    /// The text to have in its place.
    pub new_string: String,
    /// Replace it wherever it is.
    #[serde(default)]
    pub replace_all: bool,
}

/// Arguments of `apply_patch`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ApplyPatch {
    /// A unified diff, a git diff, or text from `*** Begin Patch` to `*** End Patch`. Its paths are
    /// relative to the session's current directory. All of it is applied or nothing.
    pub patch: String,
}

/// Arguments of `move_file`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct MoveFile {
    /// What to move: a file, link or directory; absolute, or relative to the session's current
    /// directory.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub from: RawPath,
    /// Its new path, with its new name.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub to: RawPath,
    /// Replace a file that is there; otherwise that is refused.
    #[serde(default)]
    pub overwrite: bool,
}

/// Arguments of `make_dir`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct MakeDir {
    /// The directory; those above it are made too. Absolute, or relative to the session's current
    /// directory.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub path: RawPath,
}

/// Arguments of `undo`: `call_id` or `to`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Undo {
    /// The call to undo: the `undo` of its result.
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call_id: Option<CallId>,
    /// Go back to how it was right after this call: every later change of its session is undone,
    /// the newest first, all of them or none.
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<CallId>,
    /// Also where something has changed since; that is then lost.
    pub force: bool,
}

/// Arguments of `list_files`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct ListFiles {
    /// The directory; the session's current one if absent.
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<RawPath>,
    /// Only entries that match, such as `*.rs` (a name, at any depth) or `src/**/*.rs` (a path below
    /// the directory); with `!` in front, all others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub glob: Option<String>,
    /// Also what is below, to any depth, but for what .gitignore, .ignore or .git/info/exclude leave
    /// out, and for .git.
    pub recursive: bool,
    /// With `recursive`: also names that begin with a dot.
    pub hidden: bool,
    /// With `recursive`: also what .gitignore, .ignore or .git/info/exclude leave out.
    pub ignored: bool,
    /// How many entries at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
    /// How many entries, in sorted order, to pass over first.
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
    /// Which files: `*.rs` (a name, at any depth), `src/**/*.{rs,toml}` (a path below the directory).
    pub pattern: String,
    /// The directory; the session's current one if absent.
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<RawPath>,
    /// How many files at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
    /// Also names that begin with a dot.
    #[serde(default = "yes")]
    pub hidden: bool,
    /// Also what .gitignore, .ignore or .git/info/exclude leave out.
    #[serde(default)]
    pub ignored: bool,
}

/// Arguments of `grep`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Grep {
    /// What to look for.
    pub pattern: String,
    /// A directory or a file; the session's current directory if absent.
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<RawPath>,
    /// Only files that match, such as `*.rs` (a name, at any depth) or `src/**/*.rs` (a path below
    /// the directory); with `!` in front, all others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub glob: Option<String>,
    /// What the pattern is.
    #[serde(default, rename = "type")]
    pub syntax: Syntax,
    /// Whether `a` and `A` are the same.
    #[serde(default, alias = "-i")]
    pub case_insensitive: bool,
    /// A match may go over several lines.
    #[serde(default)]
    pub multiline: bool,
    /// What comes back.
    #[serde(default, alias = "output_mode")]
    pub mode: GrepMode,
    /// How many lines to show before and after each that matches.
    #[serde(default, skip_serializing_if = "Option::is_none", alias = "-C")]
    pub context: Option<u32>,
    /// How many lines to show before, instead of `context`.
    #[serde(default, skip_serializing_if = "Option::is_none", alias = "-B")]
    pub before: Option<u32>,
    /// How many lines to show after, instead of `context`.
    #[serde(default, skip_serializing_if = "Option::is_none", alias = "-A")]
    pub after: Option<u32>,
    /// How many matching lines (or files, where the mode gives files) at most.
    #[serde(default, skip_serializing_if = "Option::is_none", alias = "head_limit")]
    pub limit: Option<u64>,
    /// Also files whose name, or a directory's above, begins with a dot.
    #[serde(default = "yes")]
    pub hidden: bool,
    /// Also what .gitignore, .ignore or .git/info/exclude leave out.
    #[serde(default)]
    pub ignored: bool,
}

const fn yes() -> bool {
    true
}

/// What a pattern is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Syntax {
    /// A regular expression, in Rust's syntax; without look-around and back-references.
    #[default]
    Regex,
    /// The text itself.
    Literal,
}

/// What `grep` gives back.
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
    /// The paths, and how many lines match: `path:count`.
    Count,
}
