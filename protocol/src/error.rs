//! The closed set of errors a peer can meet, each with a message and a hint.

use crate::limits::MAX_ERROR_TEXT;
use bincode::{Decode, Encode};
use serde::{Deserialize, Serialize};
use std::{fmt, time::Duration};

/// What went wrong, for programs. New codes are added at the end.
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
    /// A JSON line that is not UTF-8.
    NotUtf8,
    /// A method or request kind that this daemon does not know.
    UnknownRequest,
    /// The request can not be made now (a call before `open`, a second `hello`).
    OutOfOrder,
    /// The two sides speak no common version.
    UnsupportedVersion,
    /// The request is understood and its contents are not acceptable.
    InvalidRequest,
    /// No such tool; the hint names near ones.
    ToolNotFound,
    /// The tool's arguments do not fit its schema.
    InvalidArguments,
    /// Policy or a checkpoint said no.
    Denied,
    /// No profile of that name, or not for this peer.
    ProfileNotFound,
    /// The workspace can not be used.
    WorkspaceRefused,
    /// A layer that the profile requires is not to be had on this host.
    LayerUnavailable,
    /// The launcher is not there, so nothing can be confined, so nothing runs.
    LauncherGone,
    /// The session's cell ended or could not be made.
    CellFailed,
    /// The call ran out of time.
    TimedOut,
    /// The caller cancelled the call.
    Cancelled,
    /// The program could not be started (not found, not executable, arguments too long).
    SpawnFailed,
    /// No such file, call, session or spool, or not this peer's to see.
    NotFound,
    /// The path leads outside what the session may reach, or the kernel refused it.
    OutsidePolicy,
    /// Not a regular file: a directory, FIFO, socket or device.
    NotRegular,
    /// Larger than the profile allows.
    TooLarge,
    /// The file exists and the call said that it must not.
    AlreadyExists,
    /// A file operation failed for a reason of the file system's own (full, read-only, busy).
    FileSystem,
    /// Too many sessions or calls at once; the hint says how many are allowed.
    LimitReached,
    /// The daemon is stopping.
    ShuttingDown,
    /// A defect in Palisade; the message has what is known.
    Internal,
    /// The program ran and did not succeed (non-zero status or a signal).
    CommandFailed,
    /// The request is not for this peer's role: only an operator may make it.
    Forbidden,
    /// The approval is for something else, was used already, or what it was for has changed since.
    StaleApproval,
    /// The call ran, and a reviewer keeps its output back.
    Withheld,
    /// The audit log can not be written, and nothing runs that is not recorded.
    AuditFailed,
    /// What was to be replaced, or the lines around it, is not in the file; the message has the
    /// nearest lines.
    NoMatch,
    /// What is there is not what the call was about: it changed since.
    Conflict,
    /// The process that provides the tool left, answered nonsense, or says that it failed.
    ProviderFailed,
    /// The daemon proves profiles before it serves them, and could not prove this one.
    Unproved,
    /// The profile asks for more than the launcher's ceiling, which is root's, leaves any session.
    OverCeiling,
    /// The private daemon of this client could not start; the message says why.
    NotStarted,
}

impl ErrorCode {
    /// The code as it stands in JSON.
    #[must_use]
    pub fn name(self) -> String {
        match serde_json::to_value(self) {
            Ok(serde_json::Value::String(text)) => text,
            Ok(_) | Err(_) => "internal".to_owned(),
        }
    }

    /// The number in a JSON-RPC error: a standard one where there is one, else -32000 less the
    /// code's own place.
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
            | Self::NotStarted => -32000 - self as i32,
        }
    }
}

/// An error as a peer sees it: what happened, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WireError {
    /// For programs.
    pub code: ErrorCode,
    /// What happened and why, in one sentence.
    pub message: String,
    /// What to do about it; empty if there is nothing.
    pub hint: String,
    /// When the same may be asked again, in milliseconds from now; none if that is not the remedy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
}

impl WireError {
    /// An error with its hint; what is longer than [`MAX_ERROR_TEXT`] is cut.
    pub fn new(code: ErrorCode, message: impl Into<String>, hint: impl Into<String>) -> Self {
        let (message, hint) = (cut(message.into()), cut(hint.into()));
        Self { code, message, hint, retry_after_ms: None }
    }

    /// The same with the time after which it may be asked again, in whole milliseconds: never less, so
    /// that who waits so long does not come too soon.
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
