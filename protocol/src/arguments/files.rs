//! The arguments of the tools that read and search files.

use crate::RawPath;
use serde::{Deserialize, Serialize};

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
