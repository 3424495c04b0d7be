//! Messages of the daemon as JSON-RPC lines. A result carries its `kind` beside its fields. So a
//! message can be read without remembering the request.

use crate::{
    Bytes, CallId, ErrorCode, Event, Reply, RequestId, ServerMessage, SessionId, Stream, WireError,
    object,
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::collections::BTreeMap;

#[derive(Serialize)]
struct Success<'a, T> {
    jsonrpc: &'static str,
    id: Option<RequestId>,
    result: Kinded<'a, T>,
}

#[derive(Serialize)]
struct Kinded<'a, T> {
    kind: &'static str,
    #[serde(flatten)]
    fields: Option<&'a T>,
}

#[derive(Serialize)]
struct Failure<'a> {
    jsonrpc: &'static str,
    id: Option<RequestId>,
    error: RpcError<'a>,
}

#[derive(Serialize)]
struct RpcError<'a> {
    code: i32,
    message: &'a str,
    data: RpcData<'a>,
}

#[derive(Serialize)]
struct RpcData<'a> {
    code: ErrorCode,
    hint: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    errno: Option<i32>,
}

#[derive(Serialize)]
struct Notification<'a> {
    jsonrpc: &'static str,
    method: &'static str,
    params: &'a Event,
}

/// Encodes a message as one line, including the newline.
///
/// # Errors
/// These types cause none; otherwise the JSON writer's own.
pub fn encode_message(message: &ServerMessage) -> Result<Vec<u8>, serde_json::Error> {
    let (id, reply) = match message {
        ServerMessage::Event(params) => {
            return line(&Notification { jsonrpc: "2.0", method: "event", params });
        }
        ServerMessage::Reply { id, reply } => (*id, reply),
    };
    let Reply::Error(error) = reply else { return reply.to_json(id) };
    let WireError { code, message, hint, retry_after_ms, errno } = error;
    let (retry_after_ms, errno) = (*retry_after_ms, *errno);
    let data = RpcData { code: *code, hint, retry_after_ms, errno };
    let error = RpcError { code: code.rpc(), message, data };
    line(&Failure { jsonrpc: "2.0", id, error })
}

/// Writes a reply that is not an error as one line, including the newline.
pub(crate) fn reply_line<T: Serialize>(
    id: Option<RequestId>,
    kind: &'static str,
    fields: Option<&T>,
) -> Result<Vec<u8>, serde_json::Error> {
    line(&Success { jsonrpc: "2.0", id, result: Kinded { kind, fields } })
}

fn line<T: Serialize>(message: &T) -> Result<Vec<u8>, serde_json::Error> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    Ok(line)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MessageLine<'a> {
    jsonrpc: String,
    id: Option<RequestId>,
    method: Option<String>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OwnedError {
    #[serde(rename = "code")]
    _rpc: i32,
    message: String,
    #[serde(deserialize_with = "object::only")]
    data: OwnedData,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OwnedData {
    code: ErrorCode,
    hint: String,
    #[serde(default)]
    retry_after_ms: Option<u64>,
    #[serde(default)]
    errno: Option<i32>,
}

/// Decodes one line, with or without its newline.
///
/// # Errors
/// `malformed_message`, with what does not fit.
pub fn decode_message(line: &[u8]) -> Result<ServerMessage, WireError> {
    read(line).map_err(|e| {
        WireError::new(
            ErrorCode::MalformedMessage,
            format!("the line is not a message of the daemon: {e}"),
            "client and daemon must speak the same protocol version; see PROTOCOL.md",
        )
    })
}

fn read(line: &[u8]) -> Result<ServerMessage, String> {
    let text = std::str::from_utf8(line).map_err(|e| e.to_string())?;
    let line: MessageLine<'_> = object::parse(text)?;
    if line.jsonrpc != "2.0" {
        return Err("it has no \"jsonrpc\":\"2.0\"".to_owned());
    }
    match (line.method.as_deref(), line.params, line.result, line.error) {
        (Some("event"), Some(params), None, None) => event(params).map(ServerMessage::Event),
        (None, None, Some(result), None) => {
            Ok(ServerMessage::Reply { id: line.id, reply: reply(result)? })
        }
        (None, None, None, Some(error)) => {
            let OwnedError { message, data, .. } = object::parse(error.get())?;
            let OwnedData { code, hint, retry_after_ms, errno } = data;
            let reply = Reply::Error(WireError { code, message, hint, retry_after_ms, errno });
            Ok(ServerMessage::Reply { id: line.id, reply })
        }
        _ => Err("it is neither a result, nor an error, nor an event".to_owned()),
    }
}

/// Splits an object into the value of one field and an object of the other fields. Serde's tagged
/// enums can not be used, because embedded JSON (`RawValue`) does not survive them.
fn apart<'a>(object: &'a RawValue, field: &str) -> Result<(&'a str, String), String> {
    let mut fields: BTreeMap<&str, &RawValue> =
        serde_json::from_str(object.get()).map_err(|e| e.to_string())?;
    let value = fields.remove(field).ok_or_else(|| format!("there is no `{field}`"))?;
    Ok((value.get(), serde_json::to_string(&fields).map_err(|e| e.to_string())?))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OutputEvent {
    call: RequestId,
    stream: Stream,
    data: Bytes,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ProgressEvent {
    call: RequestId,
    message: String,
    done: u64,
    total: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CallOutputEvent {
    session: SessionId,
    call_id: CallId,
    stream: Stream,
    data: Bytes,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LostEvent {
    events: u64,
    bytes: u64,
}

fn event(params: &RawValue) -> Result<Event, String> {
    let (kind, rest) = apart(params, "event")?;
    Ok(match kind {
        "\"output\"" => {
            let OutputEvent { call, stream, data } = object::parse(&rest)?;
            Event::Output { call, stream, data }
        }
        "\"progress\"" => {
            let ProgressEvent { call, message, done, total } = object::parse(&rest)?;
            Event::Progress { call, message, done, total }
        }
        "\"approval_request\"" => Event::ApprovalRequest(object::parse(&rest)?),
        "\"approval_closed\"" => Event::ApprovalClosed(object::parse(&rest)?),
        "\"approval_given\"" => Event::ApprovalGiven(object::parse(&rest)?),
        "\"tool_approval\"" => Event::ToolApproval(object::parse(&rest)?),
        "\"call_started\"" => Event::CallStarted(object::parse(&rest)?),
        "\"call_ended\"" => Event::CallEnded(object::parse(&rest)?),
        "\"denied\"" => Event::Denied(object::parse(&rest)?),
        "\"invoke\"" => Event::Invoke(object::parse(&rest)?),
        "\"invoke_cancelled\"" => Event::InvokeCancelled(object::parse(&rest)?),
        "\"call_output\"" => {
            let CallOutputEvent { session, call_id, stream, data } = object::parse(&rest)?;
            Event::CallOutput { session, call_id, stream, data }
        }
        "\"lost\"" => {
            let LostEvent { events, bytes } = object::parse(&rest)?;
            Event::Lost { events, bytes }
        }
        other => return Err(format!("there is no event {other}")),
    })
}

fn reply(result: &RawValue) -> Result<Reply, String> {
    let (kind, rest) = apart(result, "kind")?;
    let name = serde_json::from_str::<&str>(kind).ok();
    // An error is no result: it has a form of its own.
    let found = name.filter(|name| *name != "error").and_then(|name| Reply::from_json(name, &rest));
    found.unwrap_or_else(|| Err(format!("there is no result of kind {kind}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ToolList, Welcome};

    fn both_ways(message: &ServerMessage, line: &str) {
        let text = String::from_utf8(encode_message(message).unwrap()).unwrap();
        assert_eq!(text, format!("{line}\n"));
        assert_eq!(decode_message(text.as_bytes()).as_ref(), Ok(message));
    }

    fn reply(id: impl Into<Option<RequestId>>, reply: Reply) -> ServerMessage {
        ServerMessage::Reply { id: id.into(), reply }
    }

    #[test]
    fn a_result_has_its_kind_beside_its_fields() {
        let welcome =
            Welcome { version: 1, server: "palisaded".to_owned(), capabilities: Vec::new() };
        both_ways(
            &reply(1, Reply::Welcome(welcome)),
            r#"{"jsonrpc":"2.0","id":1,"result":{"kind":"welcome","version":1,"server":"palisaded","capabilities":[]}}"#,
        );
        both_ways(&reply(2, Reply::Done), r#"{"jsonrpc":"2.0","id":2,"result":{"kind":"done"}}"#);
        both_ways(
            &reply(2, Reply::Tools(ToolList { tools: Vec::new() })),
            r#"{"jsonrpc":"2.0","id":2,"result":{"kind":"tools","tools":[]}}"#,
        );
    }

    #[test]
    fn an_error_has_its_code_as_a_number_and_by_name() {
        let error = WireError::new(ErrorCode::UnknownRequest, "no", "yes");
        both_ways(
            &reply(None, Reply::Error(error)),
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":"no","data":{"code":"unknown_request","hint":"yes"}}}"#,
        );
    }

    #[test]
    fn an_event_is_a_notification() {
        let data = Bytes(b"hi\n".to_vec());
        both_ways(
            &ServerMessage::Event(Event::Output { call: 3, stream: Stream::Stdout, data }),
            r#"{"jsonrpc":"2.0","method":"event","params":{"event":"output","call":3,"stream":"stdout","data":"aGkK"}}"#,
        );
    }

    #[test]
    fn what_is_no_message_is_refused() {
        for (line, why) in [
            ("", "EOF"),
            ("[]", "invalid type: sequence, expected an object"),
            (r#"{"jsonrpc":"1.0","id":1,"result":{"kind":"done"}}"#, "it has no \"jsonrpc\""),
            (r#"{"jsonrpc":"2.0","id":1}"#, "it is neither"),
            (r#"{"jsonrpc":"2.0","id":1,"result":{"kind":"done"},"error":{}}"#, "it is neither"),
            (r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, "there is no `kind`"),
            (r#"{"jsonrpc":"2.0","id":1,"result":{"kind":"x"}}"#, "there is no result of kind"),
            (r#"{"jsonrpc":"2.0","id":1,"result":{"kind":"done","x":1}}"#, "`x`: unknown field"),
            (
                r#"{"jsonrpc":"2.0","method":"event","params":{"event":"x"}}"#,
                "there is no event \"x\"",
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"","data":{"code":"x","hint":""}}}"#,
                "`data.code`: unknown variant `x`",
            ),
        ] {
            let error = decode_message(line.as_bytes()).unwrap_err();
            assert_eq!(error.code, ErrorCode::MalformedMessage);
            let told = error.message.strip_prefix("the line is not a message of the daemon: ");
            assert!(told.unwrap().starts_with(why), "{line}: {told:?}");
        }
    }
}
