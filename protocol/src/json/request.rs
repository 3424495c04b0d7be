//! Requests as JSON-RPC lines. Parameters stay text until the method is known, because embedded
//! JSON (`RawValue`) does not survive serde's tagged enums.

use crate::{
    Envelope, ErrorCode, Request, RequestId, WireError,
    limits::{MAX_DEPTH, MAX_FRAME, MAX_ID},
    object,
    request::REQUESTS,
    strict, wire,
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// The maximum nesting of a line. Modified arguments are nested deepest: inside a decision, inside
/// the parameters, inside the message.
const LINE_DEPTH: usize = MAX_DEPTH + 4;

/// A line that is not an acceptable request, with its id if that could be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejected {
    /// The request's id, if it had a valid one.
    pub id: Option<RequestId>,
    /// The error to send to the peer.
    pub error: WireError,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RequestLine<'a> {
    #[serde(borrow)]
    jsonrpc: Option<&'a RawValue>,
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    method: Option<&'a RawValue>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct OnlyId<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
}

/// Decodes one line, with or without its newline.
///
/// # Errors
/// [`Rejected`], with an error of its own for each kind of mistake: `frame_too_large`, `not_utf8`,
/// `malformed_message`, `unknown_request`, `invalid_request`.
pub fn decode_request(line: &[u8]) -> Result<Envelope, Box<Rejected>> {
    let nameless = |error| Box::new(Rejected { id: None, error });
    let text = readable(line).map_err(nameless)?;
    let line: RequestLine<'_> = object::parse(text).map_err(|e| {
        let id = serde_json::from_str(text).ok().and_then(|only: OnlyId<'_>| number(only.id?));
        Box::new(Rejected { id, error: malformed(format!("not a JSON-RPC request: {e}")) })
    })?;
    let id = match line.id {
        Some(raw) => Some(number(raw).ok_or_else(|| nameless(bad_id(raw)))?),
        None => None,
    };
    let rejected = |error| Box::new(Rejected { id, error });
    if line.jsonrpc.and_then(string).as_deref() != Some("2.0") {
        return Err(rejected(malformed("the message has no \"jsonrpc\":\"2.0\"".to_owned())));
    }
    let Some(method) = line.method.and_then(string) else {
        return Err(rejected(malformed("the message has no \"method\" string".to_owned())));
    };
    let request = request(&method, line.params).map_err(rejected)?;
    match (id, &request) {
        (Some(id), _) => Ok(Envelope { id, request }),
        (None, Request::Input(input)) => Ok(Envelope { id: input.call, request }),
        (None, _) => Err(rejected(WireError::new(
            ErrorCode::InvalidRequest,
            format!("{method} was sent without an id, so there can be no reply to it"),
            "give each request an integer \"id\"; only input may omit it",
        ))),
    }
}

fn readable(line: &[u8]) -> Result<&str, WireError> {
    if line.len() > MAX_FRAME + 1 {
        return Err(wire::line_too_large());
    }
    let text = std::str::from_utf8(line).map_err(|e| {
        WireError::new(
            ErrorCode::NotUtf8,
            format!("the line is not UTF-8 from byte {} on", e.valid_up_to()),
            "JSON is UTF-8; write other bytes as base64 where the field allows it",
        )
    })?;
    if text.trim_start_matches([' ', '\t', '\r', '\n']).starts_with('[') {
        return Err(WireError::new(
            ErrorCode::MalformedMessage,
            "the line is a JSON array: batches are not supported",
            "send one JSON-RPC object per line; several requests may be in flight at once",
        ));
    }
    strict::check(text, LINE_DEPTH)
        .map_err(|e| malformed(format!("the line can not be read as JSON: {e}")))?;
    Ok(text)
}

fn malformed(message: String) -> WireError {
    WireError::new(
        ErrorCode::MalformedMessage,
        message,
        "send {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"} or the like on one line",
    )
}

fn bad_id(raw: &RawValue) -> WireError {
    let text: String = raw.get().chars().take(40).collect();
    WireError::new(
        ErrorCode::InvalidRequest,
        format!("the id {text} is not an integer from 0 to {MAX_ID}"),
        "number the requests of a connection, for example from 1 on",
    )
}

fn number(raw: &RawValue) -> Option<RequestId> {
    serde_json::from_str(raw.get()).ok().filter(|id| *id <= MAX_ID)
}

fn string(raw: &RawValue) -> Option<String> {
    serde_json::from_str(raw.get()).ok()
}

fn request(method: &str, params: Option<&RawValue>) -> Result<Request, WireError> {
    let params = params.map_or("{}", RawValue::get);
    match Request::from_json(method, params) {
        Some(request) => request.map_err(|e| {
            WireError::new(
                ErrorCode::InvalidRequest,
                format!("the params of {method} are invalid: {e}"),
                format!("PROTOCOL.md lists the params of {method}"),
            )
        }),
        None => {
            let method: String = method.chars().take(40).collect();
            let known: Vec<_> = REQUESTS.iter().map(|row| row.method).collect();
            Err(WireError::new(
                ErrorCode::UnknownRequest,
                format!("there is no method {method:?}"),
                format!("the methods are {}", known.join(", ")),
            ))
        }
    }
}

/// Encodes a request as one line, including the newline. An `input` whose id equals its call's id
/// is sent as a notification.
///
/// # Errors
/// These types cause none; otherwise the JSON writer's own.
pub fn encode_request(envelope: &Envelope) -> Result<Vec<u8>, serde_json::Error> {
    let is_notification =
        matches!(&envelope.request, Request::Input(input) if input.call == envelope.id);
    envelope.request.to_json((!is_notification).then_some(envelope.id))
}

#[derive(Serialize)]
struct Written<'a, P> {
    jsonrpc: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<RequestId>,
    method: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    params: Option<&'a P>,
}

/// Writes a request as one line, including the newline.
pub(crate) fn request_line<P: Serialize>(
    id: Option<RequestId>,
    method: &str,
    params: Option<&P>,
) -> Result<Vec<u8>, serde_json::Error> {
    let mut line = serde_json::to_vec(&Written { jsonrpc: "2.0", id, method, params })?;
    line.push(b'\n');
    Ok(line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Bytes, Call, CallOptions, Cancel, Input, JsonText};

    fn rejected(line: impl AsRef<[u8]>) -> (Option<RequestId>, ErrorCode, String) {
        let Rejected { id, error } = *decode_request(line.as_ref()).unwrap_err();
        assert!(!error.hint.is_empty());
        (id, error.code, error.message)
    }

    fn refused(line: &str, id: Option<RequestId>, code: ErrorCode, message: &str) {
        assert_eq!(rejected(line), (id, code, message.to_owned()), "{line}");
    }

    fn with(rest: &str) -> String {
        format!("{{\"jsonrpc\":\"2.0\",\"id\":3,{rest}}}")
    }

    #[test]
    fn a_call_keeps_its_arguments_as_written() {
        let line =
            with(r#""method":"call","params":{"tool":"bash","arguments":{"n": 1.50,"s":"\n"}}"#);
        let call = Call {
            tool: "bash".parse().unwrap(),
            arguments: JsonText::parse(r#"{"n": 1.50,"s":"\n"}"#.to_owned()).unwrap(),
            reason: None,
            options: CallOptions::default(),
        };
        let envelope = Envelope { id: 3, request: Request::Call(call) };
        assert_eq!(decode_request(line.as_bytes()), Ok(envelope.clone()));
        let spaced = format!(" {}\t\r\n", line.replace(",\"method", " ,\t\"method"));
        assert_eq!(decode_request(spaced.as_bytes()), Ok(envelope));
    }

    #[test]
    fn bytes_that_are_no_text_are_told_apart() {
        let message = "the line is not UTF-8 from byte 2 on".to_owned();
        assert_eq!(rejected(b"{\"\xff\":1}"), (None, ErrorCode::NotUtf8, message));
        let (id, code, _) = rejected(vec![b' '; MAX_FRAME + 2]);
        assert_eq!((id, code), (None, ErrorCode::FrameTooLarge));
    }

    #[test]
    fn text_that_is_no_message_is_malformed() {
        let deep = "[".repeat(LINE_DEPTH);
        for (line, message) in [
            ("", "EOF while parsing a value at line 1 column 0"),
            ("{", "EOF while parsing an object at line 1 column 1"),
            ("{} {}", "trailing characters at line 1 column 4"),
            ("{\"id\":1,\"id\":2}", "the key \"id\" occurs twice at line 1 column 12"),
            (
                &with(r#""params":{"a":{"b":1,"b":1}}"#),
                "the key \"b\" occurs twice at line 1 column 48",
            ),
            (&with(r#""method":"\ud800""#), "unexpected end of hex escape at line 1 column 41"),
            (&with(&format!("\"params\":{deep}")), "nested too deeply at line 1 column 101"),
        ] {
            let message = format!("the line can not be read as JSON: {message}");
            refused(line, None, ErrorCode::MalformedMessage, &message);
        }
        let batch = "the line is a JSON array: batches are not supported";
        refused(" [{}]", None, ErrorCode::MalformedMessage, batch);
        let number = "not a JSON-RPC request: invalid type: integer `1`, expected an object";
        refused("1", None, ErrorCode::MalformedMessage, number);
    }

    #[test]
    fn messages_that_are_not_json_rpc_say_what_is_missing() {
        let malformed = ErrorCode::MalformedMessage;
        let version = "the message has no \"jsonrpc\":\"2.0\"";
        refused(r#"{"id":3,"method":"ping"}"#, Some(3), malformed, version);
        refused(r#"{"jsonrpc":"1.0","id":3,"method":"ping"}"#, Some(3), malformed, version);
        refused(r#"{"jsonrpc":2.0,"id":3,"method":"ping"}"#, Some(3), malformed, version);
        let method = "the message has no \"method\" string";
        refused(&with("\"params\":{}"), Some(3), malformed, method);
        refused(&with("\"method\":[\"ping\"]"), Some(3), malformed, method);
        refused(
            &with("\"method\":\"ping\",\"result\":{}"),
            Some(3),
            malformed,
            "not a JSON-RPC request: `result`: unknown field `result`, \
             expected one of `jsonrpc`, `id`, `method`, `params`",
        );
    }

    #[test]
    fn ids_are_integers_that_every_parser_can_hold() {
        let line = |id: &str| format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"ping\"}}");
        for id in [0, 1, MAX_ID] {
            let envelope = Envelope { id, request: Request::Ping };
            assert_eq!(decode_request(line(&id.to_string()).as_bytes()), Ok(envelope));
        }
        for id in ["9007199254740992", "-1", "1.0", "1e3", "\"1\"", "true", "[]", "{}"] {
            let message = format!("the id {id} is not an integer from 0 to 9007199254740991");
            refused(&line(id), None, ErrorCode::InvalidRequest, &message);
        }
        for line in [line("null"), r#"{"jsonrpc":"2.0","method":"ping"}"#.to_owned()] {
            let message = "ping was sent without an id, so there can be no reply to it";
            refused(&line, None, ErrorCode::InvalidRequest, message);
        }
    }

    #[test]
    fn input_alone_may_be_a_notification() {
        let input = Input { call: 9, data: Bytes(b"hi".to_vec()), end: true };
        let envelope = |id| Envelope { id, request: Request::Input(input.clone()) };
        let line =
            r#"{"jsonrpc":"2.0","method":"input","params":{"call":9,"data":"aGk=","end":true}}"#;
        assert_eq!(decode_request(line.as_bytes()), Ok(envelope(9)));
        assert_eq!(encode_request(&envelope(9)).unwrap(), format!("{line}\n").into_bytes());
        let numbered = line.replace("\"method\"", "\"id\":4,\"method\"");
        assert_eq!(decode_request(numbered.as_bytes()), Ok(envelope(4)));
        assert_eq!(encode_request(&envelope(4)).unwrap(), format!("{numbered}\n").into_bytes());
    }

    #[test]
    fn unknown_methods_are_told_the_known_ones() {
        let rejected = decode_request(with("\"method\":\"exec\"").as_bytes()).unwrap_err();
        assert_eq!(rejected.id, Some(3));
        assert_eq!(rejected.error.code, ErrorCode::UnknownRequest);
        assert_eq!(rejected.error.message, "there is no method \"exec\"");
        assert_eq!(
            rejected.error.hint,
            "the methods are hello, open, call, input, cancel, close, ping, output, tools, status, \
             register, answer, withdraw, pending, grants, revoke, subscribe, abort, \
             provide, unprovide, invoke_progress, invoke_output, invoke_result, \
             resume, batch, jobs, overview, kill, forget, undo_records, connections, \
             scope_history, records"
        );
    }

    #[test]
    fn params_that_do_not_fit_name_the_field() {
        for (method, params, message) in [
            ("call", "{}", "missing field `tool`"),
            ("call", "[\"bash\"]", "invalid type: sequence, expected an object"),
            ("call", "null", "missing field `tool`"),
            (
                "call",
                r#"{"tool":"a b"}"#,
                "`tool`: a tool name consists of letters, digits, '_', '-' and '.'; ' ' is not allowed",
            ),
            (
                "call",
                r#"{"tool":"bash","options":{"timeout_ms":"5"}}"#,
                "`options.timeout_ms`: invalid type: string \"5\", expected u64",
            ),
            (
                "call",
                r#"{"tool":"bash","options":[5]}"#,
                "`options`: invalid type: sequence, expected an object",
            ),
            ("cancel", r#"{"call":1,"why":""}"#, "`why`: unknown field `why`, expected `call`"),
            ("cancel", r#"{"call":-1}"#, "`call`: invalid value: integer `-1`, expected u64"),
            (
                "input",
                r#"{"call":1,"data":"*"}"#,
                "`data`: not base64: Invalid symbol 42, offset 0.",
            ),
            (
                "open",
                r#"{"workspace":7}"#,
                "`workspace`: a path is a string, or {\"base64\": \"…\"} for other bytes",
            ),
            (
                "tools",
                &format!("{{\"names\":[{}\"a\"]}}", "\"a\",".repeat(256)),
                "`names`: more than 256 entries",
            ),
            ("tools", r#"{"names":{}}"#, "`names`: invalid type: map, expected a list"),
            ("ping", r#"{"x":1}"#, "`x`: unknown field `x`, there are no fields"),
        ] {
            let line = with(&format!("\"method\":\"{method}\",\"params\":{params}"));
            let message = format!("the params of {method} are invalid: {message}");
            refused(&line, Some(3), ErrorCode::InvalidRequest, &message);
        }
    }

    #[test]
    fn what_an_error_quotes_is_cut() {
        let line = with(&format!(
            "\"method\":\"ping\",\"params\":{{\"{}\":1}}",
            "x".repeat(crate::limits::MAX_KEY)
        ));
        let (id, code, message) = rejected(line);
        assert_eq!((id, code), (Some(3), ErrorCode::InvalidRequest));
        assert!(message.len() <= crate::limits::MAX_ERROR_TEXT && message.ends_with('…'));
    }

    #[test]
    fn the_methods_are_the_requests() {
        let cancel = Envelope { id: 1, request: Request::Cancel(Cancel { call: 2 }) };
        let line = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"cancel\",\"params\":{\"call\":2}}\n";
        assert_eq!(encode_request(&cancel).unwrap(), line.as_bytes());
        for method in REQUESTS.iter().map(|row| row.method) {
            let (_, code, _) = rejected(with(&format!("\"method\":\"{method}\",\"params\":7")));
            assert_eq!(code, ErrorCode::InvalidRequest, "{method}");
        }
    }
}
