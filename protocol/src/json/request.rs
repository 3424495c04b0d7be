//! Requests as JSON-RPC lines. Parameters stay text until the method is known, because embedded
//! JSON does not survive serde's tagged enums.

use crate::{
    Envelope, ErrorCode, Request, RequestId, WireError,
    limits::{MAX_DEPTH, MAX_FRAME, MAX_ID},
    object, strict, wire,
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::value::RawValue;
use std::borrow::Cow;

/// Every method, in the order of [`Request`]'s variants.
pub const METHODS: [&str; 10] =
    ["hello", "open", "call", "input", "cancel", "close", "ping", "output", "tools", "status"];

/// A call's arguments stand inside the parameters, which stand inside the message.
const LINE_DEPTH: usize = MAX_DEPTH + 2;

/// A line that is no acceptable request, and whose it was if that much could be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejected {
    /// The request's id, if it had a good one.
    pub id: Option<RequestId>,
    /// What to tell the peer.
    pub error: WireError,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line<'a> {
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

/// Reads one line, with or without its newline.
///
/// # Errors
/// [`Rejected`], with an error of its own for each way of being wrong: `frame_too_large`,
/// `not_utf8`, `malformed_message`, `unknown_request`, `invalid_request`.
pub fn decode_request(line: &[u8]) -> Result<Envelope, Box<Rejected>> {
    let nameless = |error| Box::new(Rejected { id: None, error });
    let text = readable(line).map_err(nameless)?;
    let line: Line<'_> = object::parse(text).map_err(|e| {
        let id = serde_json::from_str(text).ok().and_then(|only: OnlyId<'_>| number(only.id?));
        Box::new(Rejected { id, error: malformed(format!("not a JSON-RPC request: {e}")) })
    })?;
    let id = match line.id {
        Some(raw) => Some(number(raw).ok_or_else(|| nameless(bad_id(raw)))?),
        None => None,
    };
    let rejected = |error| Box::new(Rejected { id, error });
    if line.jsonrpc.and_then(string).as_deref() != Some("2.0") {
        return Err(rejected(malformed("the message does not say \"jsonrpc\":\"2.0\"".to_owned())));
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
            format!("{method} was sent without an id, so its reply would have no address"),
            "give each request an integer \"id\"; only input may go without",
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

fn string(raw: &RawValue) -> Option<Cow<'_, str>> {
    serde_json::from_str(raw.get()).ok().map(Cow::Owned::<str>)
}

fn request(method: &str, params: Option<&RawValue>) -> Result<Request, WireError> {
    let params = params.map_or("{}", RawValue::get);
    Ok(match method {
        "hello" => Request::Hello(fields(method, params)?),
        "open" => Request::Open(fields(method, params)?),
        "call" => Request::Call(fields(method, params)?),
        "input" => Request::Input(fields(method, params)?),
        "cancel" => Request::Cancel(fields(method, params)?),
        "close" => fields(method, params).map(|Nothing {}| Request::Close)?,
        "ping" => fields(method, params).map(|Nothing {}| Request::Ping)?,
        "output" => Request::Output(fields(method, params)?),
        "tools" => Request::Tools(fields(method, params)?),
        "status" => fields(method, params).map(|Nothing {}| Request::Status)?,
        _ => {
            let method: String = method.chars().take(40).collect();
            return Err(WireError::new(
                ErrorCode::UnknownRequest,
                format!("there is no method {method:?}"),
                format!("the methods are {}", METHODS.join(", ")),
            ));
        }
    })
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

fn fields<T: DeserializeOwned>(method: &str, params: &str) -> Result<T, WireError> {
    object::parse(params).map_err(|e| {
        WireError::new(
            ErrorCode::InvalidRequest,
            format!("the params of {method} do not fit: {e}"),
            format!("PROTOCOL.md lists the params of {method}"),
        )
    })
}

/// Writes one line, newline included. An `input` under its call's own id goes as a notification.
///
/// # Errors
/// None that these types can cause; the JSON writer's own otherwise.
pub fn encode_request(envelope: &Envelope) -> Result<Vec<u8>, serde_json::Error> {
    let id = envelope.id;
    match &envelope.request {
        Request::Hello(params) => line(Some(id), "hello", Some(params)),
        Request::Open(params) => line(Some(id), "open", Some(params)),
        Request::Call(params) => line(Some(id), "call", Some(params)),
        Request::Input(params) => line((id != params.call).then_some(id), "input", Some(params)),
        Request::Cancel(params) => line(Some(id), "cancel", Some(params)),
        Request::Close => line(Some(id), "close", None::<&Nothing>),
        Request::Ping => line(Some(id), "ping", None::<&Nothing>),
        Request::Output(params) => line(Some(id), "output", Some(params)),
        Request::Tools(params) => line(Some(id), "tools", Some(params)),
        Request::Status => line(Some(id), "status", None::<&Nothing>),
    }
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

fn line<P: Serialize>(
    id: Option<RequestId>,
    method: &str,
    params: Option<&P>,
) -> Result<Vec<u8>, serde_json::Error> {
    let mut line = serde_json::to_vec(&Written { jsonrpc: "2.0", id, method, params })?;
    line.push(b'\n');
    Ok(line)
}
