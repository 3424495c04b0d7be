//! A failure of a subcommand: message, hint, exit status.

use crate::{
    exit::{self, BROKEN_PIPE, FAILED, TOOL},
    paint::{Paint, Style, harmless},
};
use palisade_client::{Error, WireError};
use palisade_options::WorkspaceError;
use serde_json::{Value, json};
use std::io;

/// A failure to report on standard error.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) status: u8,
    /// The error code for programs, in `--json` output.
    code: String,
    message: String,
    hint: String,
}

impl Failure {
    /// Creates a failure of Palisade itself.
    pub(crate) fn new(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            status: FAILED,
            code: "client_failed".to_owned(),
            message: message.into(),
            hint: hint.into(),
        }
    }

    /// Creates a failure for something that was requested and is missing.
    pub(crate) fn absent(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { status: TOOL, code: "not_found".to_owned(), ..Self::new(message, hint) }
    }

    /// Creates a failure for an error of standard output. If the reader is gone, nothing is
    /// printed.
    pub(crate) fn output(error: &io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self { status: BROKEN_PIPE, ..Self::new("", "") };
        }
        Self::new(format!("can not write to standard output: {error}"), "is its disk full?")
    }

    /// Returns the lines to print on standard error; none if the message is empty.
    pub(crate) fn lines(&self, paint: Paint) -> Vec<String> {
        let told = [(Style::Error, "error:", &self.message), (Style::Hint, "hint:", &self.hint)];
        told.into_iter()
            .filter(|(_, _, text)| !self.message.is_empty() && !text.is_empty())
            .map(|(style, label, text)| format!("{} {}", paint.apply(style, label), harmless(text)))
            .collect()
    }

    /// Returns the failure that [`to_json`](Self::to_json) wrote in another process, which exited with
    /// this status.
    pub(crate) fn from_json(told: &Value, status: u8) -> Self {
        let text = |name: &str| {
            told.pointer(&format!("/error/{name}")).and_then(Value::as_str).map(str::to_owned)
        };
        let message = text("message").unwrap_or_else(|| "it ended without an answer".to_owned());
        let code = text("code").unwrap_or_else(|| "client_failed".to_owned());
        Self { status, code, message, hint: text("hint").unwrap_or_default() }
    }

    /// Returns the failure as JSON, for programs.
    pub(crate) fn to_json(&self) -> Value {
        let Self { code, message, hint, .. } = self;
        json!({"success": false, "error": {"code": code, "message": message, "hint": hint}})
    }
}

impl From<&WireError> for Failure {
    fn from(wire: &WireError) -> Self {
        Self {
            status: exit::of_code(wire.code),
            code: wire.code.name(),
            message: wire.message.clone(),
            hint: wire.hint.clone(),
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        if let Some(wire) = error.wire() {
            return Self::from(wire);
        }
        // The hints of these two are for users of the library.
        let hint = if let Error::Connect { .. } = error {
            "is palisaded running, and may this user use its socket? Without --socket and \
             $PALISADE_SOCKET, a private daemon is started"
                .to_owned()
        } else if let Error::Disconnected(_) = error {
            "see the daemon's messages for the reason; then run the command again".to_owned()
        } else {
            error.hint()
        };
        Self::new(error.message(), hint)
    }
}

impl From<WorkspaceError> for Failure {
    fn from(error: WorkspaceError) -> Self {
        Self::new(error.to_string(), WorkspaceError::HINT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use palisade_client::{ErrorCode, WireError};

    #[test]
    fn the_daemons_error_keeps_its_parts() {
        let wire = WireError::new(ErrorCode::Denied, "no approver", "connect one");
        let failure = Failure::from(Error::Remote(wire));
        assert_eq!(failure.status, 126);
        let expected = json!({"success": false,
            "error": {"code": "denied", "message": "no approver", "hint": "connect one"}});
        assert_eq!(failure.to_json(), expected);
    }

    #[test]
    fn the_clients_error_keeps_its_message_and_hint() {
        let failure = Failure::from(Error::Disconnected("why".to_owned()));
        assert_eq!(failure.status, 125);
        assert_eq!(failure.message, "the connection to the daemon ended (why)");
        assert_eq!(
            failure.hint,
            "see the daemon's messages for the reason; then run the command again"
        );
        let missing = palisade_client::companion("no-such-program").unwrap_err();
        let failure = Failure::from(Error::DaemonNotFound(missing));
        assert_eq!(failure.message, "no-such-program was not found");
        let set = "set PALISADE_DAEMON to its path, or install it into /";
        assert!(failure.hint.starts_with(set), "{failure:?}");
    }

    #[test]
    fn a_reader_that_left_is_no_news() {
        let failure = Failure::output(&io::ErrorKind::BrokenPipe.into());
        assert_eq!((failure.status, failure.message.as_str()), (141, ""));
        assert_eq!(Failure::output(&io::ErrorKind::StorageFull.into()).status, 125);
    }
}
