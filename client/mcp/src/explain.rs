//! The words in which a model is told of an error.

use palisade_client::Error;

/// Explains an error to a model.
pub(crate) fn explain(error: &Error) -> String {
    if let Some(wire) = error.wire() {
        let hint = if wire.hint.is_empty() { "" } else { "\nWhat to do: " };
        return format!("Error ({}): {}{hint}{}", wire.code.name(), wire.message, wire.hint);
    }
    if let Error::Disconnected(why) = error {
        return format!(
            "Error: the connection to the sandbox ended during the call ({why}). Whether the call \
             ran is unknown: look before you repeat it. The next call opens a new session."
        );
    }
    format!("Error: {error}")
}
