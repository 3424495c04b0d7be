//! The arguments of the tools that change files.

use crate::{CallId, RawPath};
use serde::{Deserialize, Serialize};

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
