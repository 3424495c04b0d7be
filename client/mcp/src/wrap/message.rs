//! Messages of JSON-RPC, told apart before anything is passed on.

use palisade_text::CharacterClass;
use serde_json::{Map, Value, json};

/// The maximum length of a message of the agent or the server, in bytes.
pub(super) const MAX_MESSAGE: usize = 4 << 20;

/// The maximum length of an error's message, in characters.
const MAX_TEXT: usize = 2000;

/// One message.
#[derive(Debug, PartialEq)]
pub(super) enum RpcMessage {
    Request { id: Value, method: String, params: Map<String, Value> },
    Notification { method: String, params: Map<String, Value> },
    Response { id: Value, outcome: Result<Value, RpcError> },
}

/// An error of JSON-RPC.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RpcError {
    pub(super) code: i64,
    pub(super) message: String,
}

impl RpcError {
    pub(super) const INVALID_REQUEST: i64 = -32600;
    pub(super) const UNKNOWN_METHOD: i64 = -32601;
    pub(super) const INVALID_PARAMS: i64 = -32602;
    const NOT_JSON: i64 = -32700;
    /// The server did not answer, or its answer is not passed on.
    const SERVER: i64 = -32000;

    pub(super) fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    /// Creates an error about the wrapped server.
    pub(super) fn of_server(message: impl Into<String>) -> Self {
        Self::new(Self::SERVER, message)
    }

    /// Reads what a peer sent as an error.
    fn from_value(value: &Value) -> Self {
        let code = value.get("code").and_then(Value::as_i64).unwrap_or(Self::SERVER);
        let message = value.get("message").and_then(Value::as_str).unwrap_or("no reason was given");
        Self { code, message: printable(message, MAX_TEXT) }
    }
}

impl RpcMessage {
    /// Parses a line; `None` for a blank one.
    pub(super) fn parse(line: &[u8]) -> Result<Option<Self>, RpcError> {
        let line = line.trim_ascii();
        if line.is_empty() {
            return Ok(None);
        }
        let value: Value = serde_json::from_slice(line)
            .map_err(|error| RpcError::new(RpcError::NOT_JSON, format!("not JSON: {error}")))?;
        let invalid = |why: &str| RpcError::new(RpcError::INVALID_REQUEST, why);
        let Value::Object(mut value) = value else {
            return Err(invalid("a message is a JSON object"));
        };
        if value.get("jsonrpc") != Some(&json!("2.0")) {
            return Err(invalid("`jsonrpc` is not \"2.0\""));
        }
        let id = value.remove("id").filter(|id| !id.is_null());
        if id.as_ref().is_some_and(|id| !(id.is_string() || id.is_i64() || id.is_u64())) {
            return Err(invalid("`id` is neither a string nor an integer"));
        }
        let params = match value.remove("params") {
            None | Some(Value::Null) => Map::new(),
            Some(Value::Object(params)) => params,
            Some(_) => return Err(invalid("`params` is not an object")),
        };
        match (value.remove("method"), id) {
            (Some(Value::String(method)), Some(id)) => {
                Ok(Some(Self::Request { id, method, params }))
            }
            (Some(Value::String(method)), None) => Ok(Some(Self::Notification { method, params })),
            (Some(_), _) => Err(invalid("`method` is not a string")),
            (None, Some(id)) => {
                let outcome = match (value.remove("result"), value.remove("error")) {
                    (Some(result), None) => Ok(result),
                    (None, Some(error)) => Err(RpcError::from_value(&error)),
                    (Some(_), Some(_)) | (None, None) => {
                        return Err(invalid("a response has either `result` or `error`"));
                    }
                };
                Ok(Some(Self::Response { id, outcome }))
            }
            (None, None) => Err(invalid("it is neither a request nor a response")),
        }
    }

    /// Returns the message as a line.
    pub(super) fn to_line(&self) -> String {
        let value = match self {
            Self::Request { id, method, params } => {
                json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
            }
            Self::Notification { method, params } => {
                json!({"jsonrpc": "2.0", "method": method, "params": params})
            }
            Self::Response { id, outcome: Ok(result) } => {
                json!({"jsonrpc": "2.0", "id": id, "result": result})
            }
            Self::Response { id, outcome: Err(RpcError { code, message }) } => {
                json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})
            }
        };
        format!("{value}\n")
    }
}

/// Returns at most `most` characters of a text of the server, without those that control a terminal and
/// those that a model reads and a person does not see.
pub(crate) fn printable(text: &str, most: usize) -> String {
    let keep = |c: char| match palisade_text::classify(c) {
        CharacterClass::Control if c != '\n' && c != '\t' => '\u{fffd}',
        CharacterClass::Invisible => '\u{fffd}',
        CharacterClass::Control | CharacterClass::Ambiguous | CharacterClass::Visible => c,
    };
    let text: String = text.chars().map(keep).collect();
    palisade_client::model_text::shorten(&text, most)
}

/// Returns the news of a request's progress for the agent; `None` if it is of another request.
pub(super) fn progress_message(progress: &Map<String, Value>, token: &Value) -> Option<RpcMessage> {
    if progress.get("progressToken") != Some(token) {
        return None;
    }
    let mut params = Map::from_iter([("progressToken".to_owned(), token.clone())]);
    for key in ["progress", "total"] {
        if let Some(number @ Value::Number(_)) = progress.get(key) {
            params.insert(key.to_owned(), number.clone());
        }
    }
    if let Some(text) = progress.get("message").and_then(Value::as_str) {
        params.insert("message".to_owned(), json!(printable(text, 500)));
    }
    params.get("progress")?;
    Some(RpcMessage::Notification { method: "notifications/progress".to_owned(), params })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Option<RpcMessage>, i64> {
        RpcMessage::parse(text.as_bytes()).map_err(|error| error.code)
    }

    #[test]
    fn messages_are_told_apart_and_written_again() {
        for line in [
            r#"{"id":1,"jsonrpc":"2.0","method":"ping","params":{}}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/x","params":{"a":[1]}}"#,
            r#"{"id":"a","jsonrpc":"2.0","result":null}"#,
            r#"{"error":{"code":-1,"message":"no"},"id":2,"jsonrpc":"2.0"}"#,
        ] {
            let message = parse(line).unwrap().unwrap();
            let written: Value = serde_json::from_str(&message.to_line()).unwrap();
            assert_eq!(written, serde_json::from_str::<Value>(line).unwrap());
        }
        assert_eq!(parse(" \n"), Ok(None));
    }

    #[test]
    fn what_is_no_message_is_refused() {
        assert_eq!(parse("{"), Err(-32700));
        for line in [
            "[]",
            "1",
            r#"{"id":1,"method":"ping"}"#,
            r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#,
            r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":7}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":1,"error":{}}"#,
            r#"{"jsonrpc":"2.0","id":1}"#,
            r#"{"jsonrpc":"2.0"}"#,
        ] {
            assert_eq!(parse(line), Err(-32600), "{line}");
        }
    }

    #[test]
    fn a_text_of_the_server_can_not_control_a_terminal() {
        assert_eq!(printable("a\x1b[31mb\r\n", 100), "a\u{fffd}[31mb\u{fffd}\n");
        assert_eq!(printable("a\u{200b}\u{e0041}b", 100), "a\u{fffd}\u{fffd}b");
        assert_eq!(printable("abcdef", 3), "abc…");
    }
}
