//! What keeps a command from being done: message, what to do, exit status.

use crate::{
    exit::{self, BROKEN_PIPE, FAILED, TOOL},
    paint::{Paint, Style, harmless},
};
use palisade_client::Error;
use serde_json::{Value, json};
use std::io;

/// A failure to be told on standard error.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) status: u8,
    /// For programs, in `--json`.
    code: String,
    message: String,
    hint: String,
}

impl Failure {
    /// A failure of Palisade's own.
    pub(crate) fn new(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            status: FAILED,
            code: "client_failed".to_owned(),
            message: message.into(),
            hint: hint.into(),
        }
    }

    /// What was asked for is not there.
    pub(crate) fn absent(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { status: TOOL, code: "not_found".to_owned(), ..Self::new(message, hint) }
    }

    /// Standard output failed. That its reader went away is nothing to talk about.
    pub(crate) fn output(error: &io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self { status: BROKEN_PIPE, ..Self::new("", "") };
        }
        Self::new(format!("can not write to standard output: {error}"), "is its disk full?")
    }

    /// What to say on standard error, a line each; nothing if it is nothing to talk about.
    pub(crate) fn lines(&self, paint: Paint) -> Vec<String> {
        let told = [(Style::Error, "error:", &self.message), (Style::Hint, "hint:", &self.hint)];
        told.into_iter()
            .filter(|(_, _, text)| !self.message.is_empty() && !text.is_empty())
            .map(|(style, label, text)| format!("{} {}", paint.apply(style, label), harmless(text)))
            .collect()
    }

    /// The same for programs.
    pub(crate) fn to_json(&self) -> Value {
        let Self { code, message, hint, .. } = self;
        json!({"success": false, "error": {"code": code, "message": message, "hint": hint}})
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        if let Some(wire) = error.wire() {
            return Self {
                status: exit::of_code(wire.code),
                code: wire.code.name(),
                message: wire.message.clone(),
                hint: wire.hint.clone(),
            };
        }
        // The client writes "what; what to do about it", the latter for those who link it.
        let text = error.to_string();
        let (message, hint) = text.split_once("; ").unwrap_or((&text, ""));
        let hint = if let Error::Connect { .. } = error {
            "is palisaded running, and may this user use its socket? Without --socket and \
             $PALISADE_SOCKET a private daemon is started"
        } else if let Error::Disconnected(_) = error {
            "the daemon's own messages say why; run the command again"
        } else {
            hint
        };
        Self::new(message, hint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use palisade_client::{ErrorCode, WireError};

    #[test]
    fn the_daemons_error_keeps_its_parts() {
        let wire = WireError::new(ErrorCode::Denied, "no handler", "attach one");
        let failure = Failure::from(Error::Remote(wire));
        assert_eq!(failure.status, 126);
        let expected = json!({"success": false,
            "error": {"code": "denied", "message": "no handler", "hint": "attach one"}});
        assert_eq!(failure.to_json(), expected);
    }

    #[test]
    fn the_clients_error_is_split_into_message_and_hint() {
        let failure = Failure::from(Error::Disconnected("why".to_owned()));
        assert_eq!(failure.status, 125);
        assert_eq!(failure.message, "the connection to the daemon ended (why)");
        assert_eq!(failure.hint, "the daemon's own messages say why; run the command again");
        let missing = palisade_client::companion("no-such-program").unwrap_err();
        let failure = Failure::from(Error::DaemonNotFound(missing));
        let last = ", /usr/libexec/palisade/no-such-program does not exist)";
        assert!(failure.message.starts_with("no-such-program was not found ("), "{failure:?}");
        assert!(failure.message.ends_with(last), "{failure:?}");
        assert_eq!(failure.hint, "build or install it, or name it in $PALISADE_DAEMON");
    }

    #[test]
    fn a_reader_that_left_is_no_news() {
        let failure = Failure::output(&io::ErrorKind::BrokenPipe.into());
        assert_eq!((failure.status, failure.message.as_str()), (141, ""));
        assert_eq!(Failure::output(&io::ErrorKind::StorageFull.into()).status, 125);
    }
}
