//! The closed set of errors that a peer can receive, each with a message and a hint.

use crate::{limits::MAX_ERROR_TEXT, table::error_codes};
use bincode::{Decode, Encode};
use serde::{Deserialize, Serialize};
use std::{fmt, time::Duration};

/// The numbers that JSON-RPC has for errors of its own.
const PARSE_ERROR: i32 = -32700;
const BAD_REQUEST: i32 = -32600;
const NO_SUCH_METHOD: i32 = -32601;
const BAD_PARAMS: i32 = -32602;
const INTERNAL_ERROR: i32 = -32603;
/// A number of the code's own: -32000 minus its position.
const OWN: i32 = 0;

error_codes! {
    /// The kind of an error, for programs. New codes are added at the end.
    pub enum ErrorCode {
        /// the stream ended inside a frame or line
        TruncatedFrame = "truncated_frame", PARSE_ERROR, Palisade;
        /// the frame's length is over the limit; nothing of it was read
        FrameTooLarge = "frame_too_large", OWN, Palisade;
        /// the bytes are not a message of this protocol
        MalformedMessage = "malformed_message", PARSE_ERROR, Palisade;
        /// a JSON line is not UTF-8
        NotUtf8 = "not_utf8", PARSE_ERROR, Palisade;
        /// this daemon does not know the method or request kind
        UnknownRequest = "unknown_request", NO_SUCH_METHOD, Palisade;
        /// the request can not be made now (a call before `open`, a second `hello`)
        OutOfOrder = "out_of_order", BAD_REQUEST, Palisade;
        /// the two sides speak no common version
        UnsupportedVersion = "unsupported_version", BAD_REQUEST, Palisade;
        /// the request was understood, but its contents are not acceptable; the message
        /// names the field
        InvalidRequest = "invalid_request", BAD_PARAMS, Palisade;
        /// no such tool; the hint names near ones
        ToolNotFound = "tool_not_found", OWN, Palisade;
        /// the tool's arguments do not fit its schema
        InvalidArguments = "invalid_arguments", BAD_PARAMS, Palisade;
        /// policy or an approver denied the call
        Denied = "denied", OWN, Denied;
        /// no profile has that name, or this peer may not use it
        ProfileNotFound = "profile_not_found", OWN, Palisade;
        /// the workspace can not be used
        WorkspaceRefused = "workspace_refused", OWN, Palisade;
        /// a layer that the profile requires is unavailable on this host
        LayerUnavailable = "layer_unavailable", OWN, Palisade;
        /// the launcher is unavailable. Nothing can be confined without it, so nothing runs
        LauncherGone = "launcher_gone", OWN, Palisade;
        /// the session's cell ended or could not be made
        CellFailed = "cell_failed", OWN, Palisade;
        /// the call ran out of time
        TimedOut = "timed_out", OWN, TimedOut;
        /// the caller cancelled the call
        Cancelled = "cancelled", OWN, Palisade;
        /// the program could not be started (not found, not executable, arguments too long)
        SpawnFailed = "spawn_failed", OWN, Palisade;
        /// no such file, call, session or stored output, or this peer may not see it
        NotFound = "not_found", OWN, Tool;
        /// the path leads outside what the session may access, or the kernel refused the access
        OutsidePolicy = "outside_policy", OWN, Denied;
        /// the path is not a regular file: a directory, FIFO, socket or device
        NotRegular = "not_regular", OWN, Tool;
        /// the file or content is larger than the profile allows
        TooLarge = "too_large", OWN, Tool;
        /// the file exists, and the call said that it must not
        AlreadyExists = "already_exists", OWN, Tool;
        /// a file operation failed for a reason of the file system itself (full, read-only, busy)
        FileSystem = "file_system", OWN, Tool;
        /// too many sessions or calls at once; the hint says how many are allowed
        LimitReached = "limit_reached", OWN, Palisade;
        /// the daemon is stopping
        ShuttingDown = "shutting_down", OWN, Palisade;
        /// a defect in Palisade. The message has the known details
        Internal = "internal", INTERNAL_ERROR, Palisade;
        /// the program ran and failed (non-zero status or a signal)
        CommandFailed = "command_failed", OWN, Tool;
        /// the request belongs to the socket of another role: agents, operators or providers
        Forbidden = "forbidden", OWN, Palisade;
        /// the approval is for something else, was used already, or its subject has changed since
        StaleApproval = "stale_approval", OWN, Denied;
        /// the call ran, and an approver withheld its output
        Withheld = "withheld", OWN, Palisade;
        /// the audit log can not be written, and nothing runs without being recorded
        AuditFailed = "audit_failed", OWN, Palisade;
        /// the text to replace, or the lines around it, is not in the file. The message has the
        /// nearest lines
        NoMatch = "no_match", OWN, Tool;
        /// the file or target has changed since the state that the call refers to
        Conflict = "conflict", OWN, Tool;
        /// the process that provides the tool disconnected, answered nonsense, or reported a
        /// failure
        ProviderFailed = "provider_failed", OWN, Palisade;
        /// the daemon proves profiles before it serves them, and could not prove this one
        Unproved = "unproved", OWN, Palisade;
        /// the profile asks for more than the launcher's root-owned ceiling allows any session;
        /// the message names the limit or the option
        OverCeiling = "over_ceiling", OWN, Palisade;
        /// the private daemon of this client could not start. The message says why
        NotStarted = "not_started", OWN, Palisade;
        /// this user's undo store has no room for the record of a change. Nothing was changed. The
        /// message says how much is stored and how old the oldest record is, `retry_after_ms` when
        /// that expires
        UndoStoreFull = "undo_store_full", OWN, Tool;
        /// an operator ended the call or its session
        Aborted = "aborted", OWN, Palisade;
        /// the page could not be got: its host was not reached, did not answer properly, or
        /// answered with an error
        FetchFailed = "fetch_failed", OWN, Tool;
    }
}

/// The part that a failure is attributed to, which decides the exit status of `palisade`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorClass {
    /// Policy or an approver denied the call.
    Denied,
    /// The deadline ended the call.
    TimedOut,
    /// The tool was called and failed.
    Tool,
    /// Palisade, or the request itself.
    Palisade,
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
