//! The closed set of errors that a peer can receive, each with a message and a hint.

use crate::limits::MAX_ERROR_TEXT;
use bincode::{Decode, Encode};
use serde::{Deserialize, Serialize};
use std::{fmt, time::Duration};

/// The kind of an error, for programs. New codes are added at the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Encode, Decode, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ErrorCode {
    /// The stream ended inside a frame or line.
    TruncatedFrame,
    /// The frame's length is over the limit; nothing of it was read.
    FrameTooLarge,
    /// The bytes are not a message of this protocol.
    MalformedMessage,
    /// A JSON line is not UTF-8.
    NotUtf8,
    /// This daemon does not know the method or request kind.
    UnknownRequest,
    /// The request can not be made now (a call before `open`, a second `hello`).
    OutOfOrder,
    /// The two sides speak no common version.
    UnsupportedVersion,
    /// The request was understood, but its contents are not acceptable.
    InvalidRequest,
    /// No such tool; the hint names near ones.
    ToolNotFound,
    /// The tool's arguments do not fit its schema.
    InvalidArguments,
    /// Policy or an approver denied the call.
    Denied,
    /// No profile has that name, or this peer may not use it.
    ProfileNotFound,
    /// The workspace can not be used.
    WorkspaceRefused,
    /// A layer that the profile requires is unavailable on this host.
    LayerUnavailable,
    /// The launcher is unavailable. Nothing can be confined without it, so nothing runs.
    LauncherGone,
    /// The session's cell ended or could not be made.
    CellFailed,
    /// The call ran out of time.
    TimedOut,
    /// The caller cancelled the call.
    Cancelled,
    /// The program could not be started (not found, not executable, arguments too long).
    SpawnFailed,
    /// No such file, call, session or stored output, or this peer may not see it.
    NotFound,
    /// The path leads outside what the session may access, or the kernel refused the access.
    OutsidePolicy,
    /// The path is not a regular file: a directory, FIFO, socket or device.
    NotRegular,
    /// The file or content is larger than the profile allows.
    TooLarge,
    /// The file exists, and the call said that it must not.
    AlreadyExists,
    /// A file operation failed for a reason of the file system itself (full, read-only, busy).
    FileSystem,
    /// Too many sessions or calls at once; the hint says how many are allowed.
    LimitReached,
    /// The daemon is stopping.
    ShuttingDown,
    /// A defect in Palisade. The message has the known details.
    Internal,
    /// The program ran and failed (non-zero status or a signal).
    CommandFailed,
    /// This peer's role may not make the request: only an operator may.
    Forbidden,
    /// The approval is for something else, was used already, or its subject has changed since.
    StaleApproval,
    /// The call ran, and an approver withheld its output.
    Withheld,
    /// The audit log can not be written, and nothing runs without being recorded.
    AuditFailed,
    /// The text to replace, or the lines around it, is not in the file. The message has the nearest
    /// lines.
    NoMatch,
    /// The file or target has changed since the state that the call refers to.
    Conflict,
    /// The process that provides the tool disconnected, answered nonsense, or reported a failure.
    ProviderFailed,
    /// The daemon proves profiles before it serves them, and could not prove this one.
    Unproved,
    /// The profile asks for more than the launcher's root-owned ceiling allows any session.
    OverCeiling,
    /// The private daemon of this client could not start. The message says why.
    NotStarted,
    /// This user's undo store has no room for the record of a change. Nothing was changed.
    UndoStoreFull,
    /// An operator ended the call or its session.
    Aborted,
    /// The page could not be got: its host was not reached, did not answer properly, or answered with
    /// an error.
    FetchFailed,
}

impl ErrorCode {
    /// Returns the code's name in JSON.
    #[must_use]
    pub fn name(self) -> String {
        match serde_json::to_value(self) {
            Ok(serde_json::Value::String(text)) => text,
            Ok(_) | Err(_) => "internal".to_owned(),
        }
    }

    /// Returns the number for a JSON-RPC error: a standard one if one fits, otherwise -32000 minus
    /// the code's position in the enum.
    #[must_use]
    pub fn rpc(self) -> i32 {
        match self {
            Self::TruncatedFrame | Self::MalformedMessage | Self::NotUtf8 => -32700,
            Self::OutOfOrder | Self::UnsupportedVersion => -32600,
            Self::UnknownRequest => -32601,
            Self::InvalidRequest | Self::InvalidArguments => -32602,
            Self::Internal => -32603,
            Self::FrameTooLarge
            | Self::ToolNotFound
            | Self::Denied
            | Self::ProfileNotFound
            | Self::WorkspaceRefused
            | Self::LayerUnavailable
            | Self::LauncherGone
            | Self::CellFailed
            | Self::TimedOut
            | Self::Cancelled
            | Self::SpawnFailed
            | Self::NotFound
            | Self::OutsidePolicy
            | Self::NotRegular
            | Self::TooLarge
            | Self::AlreadyExists
            | Self::FileSystem
            | Self::LimitReached
            | Self::ShuttingDown
            | Self::CommandFailed
            | Self::Forbidden
            | Self::StaleApproval
            | Self::Withheld
            | Self::AuditFailed
            | Self::NoMatch
            | Self::Conflict
            | Self::ProviderFailed
            | Self::Unproved
            | Self::OverCeiling
            | Self::NotStarted
            | Self::UndoStoreFull
            | Self::Aborted
            | Self::FetchFailed => -32000 - self as i32,
        }
    }
}

/// An error as a peer sees it: what happened, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WireError {
    /// The error's kind, for programs.
    pub code: ErrorCode,
    /// The description of the error: what happened and why, in one sentence.
    pub message: String,
    /// The advice on what to do; empty if there is none.
    pub hint: String,
    /// The time after which to retry, in milliseconds from now; `None` if retrying does not help.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// The kernel's error number, of a file tool or a program's start that the kernel refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub errno: Option<i32>,
}

impl WireError {
    /// Creates an error. A message or hint longer than [`MAX_ERROR_TEXT`] is cut.
    pub fn new(code: ErrorCode, message: impl Into<String>, hint: impl Into<String>) -> Self {
        let (message, hint) = (cut(message.into()), cut(hint.into()));
        Self { code, message, hint, retry_after_ms: None, errno: None }
    }

    /// Sets the kernel's error number; 0 stands for none.
    #[must_use]
    pub fn with_errno(self, errno: i32) -> Self {
        Self { errno: (errno != 0).then_some(errno), ..self }
    }

    /// Sets the time after which to retry, rounded up to whole milliseconds. Rounding up makes sure
    /// that a peer that waits this long does not retry too early.
    #[must_use]
    pub fn retry_after(self, time: Duration) -> Self {
        let millis = u64::try_from(time.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX).max(1);
        Self { retry_after_ms: Some(millis), ..self }
    }
}

fn cut(mut text: String) -> String {
    if text.len() > MAX_ERROR_TEXT {
        text.truncate(text.floor_char_boundary(MAX_ERROR_TEXT - '…'.len_utf8()));
        text.push('…');
    }
    text
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code.name(), self.message)?;
        if !self.hint.is_empty() {
            write!(f, " ({})", self.hint)?;
        }
        Ok(())
    }
}

impl std::error::Error for WireError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_text_is_cut_on_a_border_and_says_so() {
        let whole = "é".repeat(MAX_ERROR_TEXT / 2);
        let error = WireError::new(ErrorCode::Internal, whole.clone(), format!("{whole}é"));
        assert_eq!(error.message, whole);
        assert_eq!(error.hint, format!("{}…", "é".repeat(MAX_ERROR_TEXT / 2 - 2)));
    }

    #[test]
    fn an_error_reads_as_code_message_and_hint() {
        let error =
            WireError::new(ErrorCode::ToolNotFound, "no tool \"bsh\"", "did you mean bash?");
        assert_eq!(error.to_string(), "tool_not_found: no tool \"bsh\" (did you mean bash?)");
        assert_eq!(error.code.rpc(), -32008);
    }
}
