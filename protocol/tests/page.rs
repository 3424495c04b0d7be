//! Checks PROTOCOL.md against the code: its examples are decoded, its tables compared, and its
//! binary layout is executed against arbitrary messages.

#![allow(clippy::unwrap_used, clippy::panic)]

mod arbitrary;
mod layout;

use layout::Layout;
use palisade_protocol::{
    CallId, Envelope, ErrorCode, Reply, ServerMessage, codec, json,
    json::{KINDS, REQUESTS},
    limits,
};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::BTreeSet;

const PAGE: &str = include_str!("../PROTOCOL.md");

/// Returns the contents of the fenced blocks of one kind.
fn blocks(kind: &str) -> Vec<&'static str> {
    let open = format!("```{kind}\n");
    PAGE.split(open.as_str()).skip(1).map(|rest| rest.split("\n```").next().unwrap()).collect()
}

/// Returns the rows of the table under a heading, without the header.
fn table(heading: &str) -> Vec<Vec<&'static str>> {
    let (_, section) = PAGE.split_once(&format!("\n## {heading}\n")).unwrap();
    section
        .lines()
        .skip_while(|line| !line.starts_with('|'))
        .take_while(|line| line.starts_with('|'))
        .skip(2)
        .map(|line| {
            line.trim_matches('|').split('|').map(|cell| cell.trim().trim_matches('`')).collect()
        })
        .collect()
}

/// Returns messages with their marks; a line without a mark continues the message before it.
fn marked(block: &str) -> Vec<(&str, String)> {
    let mut messages: Vec<(&str, String)> = Vec::new();
    for line in block.lines() {
        match line.split_once(' ') {
            Some((mark @ ("-->" | "<--" | "-x>"), text)) => messages.push((mark, text.to_owned())),
            Some(_) | None => messages.last_mut().unwrap().1.push_str(line.trim_start()),
        }
    }
    messages
}

fn request(text: &str) -> Envelope {
    json::decode_request(text.as_bytes()).unwrap_or_else(|e| panic!("{text}\n{e:?}"))
}

fn message(text: &str) -> ServerMessage {
    json::decode_message(text.as_bytes()).unwrap_or_else(|e| panic!("{text}\n{e:?}"))
}

#[test]
fn every_example_is_a_message() {
    let (mut methods, mut kinds) = (BTreeSet::new(), BTreeSet::new());
    for (mark, text) in blocks("json").into_iter().flat_map(marked) {
        match mark {
            "-->" => {
                assert_eq!(request(&text).request.check(), Ok(()), "{text}");
                let value: Value = serde_json::from_str(&text).unwrap();
                methods.insert(value["method"].as_str().unwrap().to_owned());
            }
            "<--" => {
                let written = json::encode_message(&message(&text)).unwrap();
                let (written, shown): (Value, Value) = (
                    serde_json::from_slice(&written).unwrap(),
                    serde_json::from_str(&text).unwrap(),
                );
                assert_eq!(written, shown);
                let kind = written.pointer("/result/kind").or(written.pointer("/params/event"));
                kinds.insert(kind.map_or("error", |kind| kind.as_str().unwrap()).to_owned());
            }
            "-x>" => {}
            other => panic!("{other}"),
        }
    }
    assert_eq!(methods, REQUESTS.iter().map(|row| row.method.to_owned()).collect());
    let events = [
        "output",
        "progress",
        "approval_request",
        "approval_closed",
        "approval_given",
        "tool_approval",
        "call_started",
        "call_ended",
        "denied",
        "invoke",
        "invoke_cancelled",
        "call_output",
        "lost",
    ];
    assert_eq!(kinds, KINDS.iter().chain(&events).map(|kind| (*kind).to_owned()).collect());
}

#[test]
fn every_refusal_is_word_for_word() {
    let mut refused = 0;
    for block in blocks("json") {
        for pair in marked(block).windows(2).filter(|pair| pair[0].0 == "-x>") {
            let rejected = json::decode_request(pair[0].1.as_bytes()).unwrap_err();
            let reply = Reply::Error(rejected.error);
            let line =
                json::encode_message(&ServerMessage::Reply { id: rejected.id, reply }).unwrap();
            assert_eq!(String::from_utf8(line).unwrap(), format!("{}\n", pair[1].1));
            refused += 1;
        }
    }
    assert_eq!(refused, 5);
}

#[test]
fn every_frame_is_the_message_beside_it() {
    let mut frames = 0;
    for block in blocks("frames") {
        let lines: Vec<&str> = block.lines().collect();
        for pair in lines.chunks(2) {
            let bytes: Vec<u8> =
                pair[0].split(' ').map(|hex| u8::from_str_radix(hex, 16).unwrap()).collect();
            let written = match pair[1].split_once(' ').unwrap() {
                ("-->", text) => codec::frame(&request(text)),
                ("<--", text) => codec::frame(&message(text)),
                (other, _) => panic!("{other}"),
            };
            assert_eq!(written.unwrap(), bytes, "{}", pair[1]);
            frames += 1;
        }
    }
    assert_eq!(frames, 6);
}

/// Compares the rows of a table with the code's. `BLESS=1` writes them; read them before you commit
/// them.
fn assert_rows(heading: &str, expected: &[String]) {
    let (_, section) = PAGE.split_once(&format!("\n## {heading}\n")).unwrap();
    let lines = section.lines().skip_while(|line| !line.starts_with('|'));
    let rows: Vec<&str> = lines.take_while(|line| line.starts_with('|')).skip(2).collect();
    if std::env::var_os("BLESS").is_some() && rows != expected {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/PROTOCOL.md");
        let page = std::fs::read_to_string(path).unwrap();
        std::fs::write(path, page.replace(&rows.join("\n"), &expected.join("\n"))).unwrap();
    }
    assert_eq!(rows, expected);
}

#[test]
fn the_error_codes_are_all_there() {
    let rows: Vec<String> = ErrorCode::ALL.iter().map(|code| code.row()).collect();
    assert_rows("Errors", &rows);
    for (place, code) in ErrorCode::ALL.iter().enumerate() {
        assert_eq!(codec::decode::<ErrorCode>(&[u8::try_from(place).unwrap()]).as_ref(), Ok(code));
    }
    assert!(codec::decode::<ErrorCode>(&[u8::try_from(rows.len()).unwrap()]).is_err());
}

#[test]
fn the_requests_are_all_there_with_their_senders() {
    let rows = table("Requests");
    let shown: Vec<_> = rows.iter().map(|row| (row[0], row[1])).collect();
    let expected: Vec<_> =
        REQUESTS.iter().map(|row| (row.method, row.senders.documented())).collect();
    assert_eq!(shown, expected);
}

#[test]
fn the_limits_are_the_code_s() {
    let code = [
        ("VERSION", u64::from(limits::VERSION)),
        ("MAX_FRAME", limits::MAX_FRAME as u64),
        ("MAX_CHUNK", limits::MAX_CHUNK as u64),
        ("MAX_REASON", limits::MAX_REASON as u64),
        ("MAX_NAME", limits::MAX_NAME as u64),
        ("MAX_LIST", limits::MAX_LIST as u64),
        ("MAX_CLAIMS", limits::MAX_CLAIMS as u64),
        ("MAX_CLAIM", limits::MAX_CLAIM as u64),
        ("MAX_KEY", limits::MAX_KEY as u64),
        ("MAX_KEYS", limits::MAX_KEYS as u64),
        ("MAX_PATH", limits::MAX_PATH as u64),
        ("MAX_CALLS_IN_FLIGHT", limits::MAX_CALLS_IN_FLIGHT as u64),
        ("MAX_TIMEOUT_MS", limits::MAX_TIMEOUT_MS),
        ("MAX_DEPTH", limits::MAX_DEPTH as u64),
        ("MAX_ID", limits::MAX_ID),
        ("MAX_DOMAIN", limits::MAX_DOMAIN as u64),
        ("MAX_BATCH", limits::MAX_BATCH as u64),
        ("MAX_GRACE_MS", limits::MAX_GRACE_MS),
        ("MAX_ERROR_TEXT", limits::MAX_ERROR_TEXT as u64),
        ("MAX_UNDO_RECORDS", limits::MAX_UNDO_RECORDS as u64),
    ];
    let page: Vec<(&str, u64)> =
        table("Limits").into_iter().map(|row| (row[0], row[1].parse().unwrap())).collect();
    assert_eq!(page, code);
    let declared = include_str!("../src/limits.rs").matches("\npub const ").count();
    assert_eq!(declared, code.len());
    assert!("n".repeat(limits::MAX_NAME).parse::<CallId>().is_ok());
}

fn page_layout() -> Layout {
    let codes = table("Errors").into_iter().map(|row| row[1]).collect();
    Layout::parse(blocks("layout")[0], codes)
}

/// Each enum of the page has as many variants as in the code.
#[test]
fn no_variant_is_missing_from_the_page() {
    fn ends<T: bincode::Decode<()> + std::fmt::Debug>(layout: &Layout, name: &str, before: &[u8]) {
        let count = u8::try_from(layout.variants(name)).unwrap();
        let error = codec::decode::<T>(&[before, &[count]].concat()).unwrap_err();
        assert!(
            matches!(error, codec::CodecError::UnknownVariant { found, .. } if found == u32::from(count)),
            "{name}: {error}"
        );
        let last = codec::decode::<T>(&[before, &[count - 1]].concat());
        assert!(!matches!(last, Err(codec::CodecError::UnknownVariant { .. })), "{name}");
    }
    let layout = page_layout();
    ends::<palisade_protocol::Request>(&layout, "Request", &[]);
    ends::<palisade_protocol::Ask>(&layout, "Ask", &[]);
    ends::<ServerMessage>(&layout, "ServerMessage", &[]);
    ends::<Reply>(&layout, "Reply", &[]);
    ends::<palisade_protocol::Event>(&layout, "Event", &[]);
    ends::<palisade_protocol::Stream>(&layout, "Stream", &[]);
    ends::<palisade_protocol::PermissionClass>(&layout, "PermissionClass", &[]);
    ends::<palisade_protocol::AuditOperation>(&layout, "AuditOperation", &[]);
    ends::<palisade_protocol::Severity>(&layout, "Severity", &[]);
    ends::<palisade_protocol::Review>(&layout, "Review", &[]);
    ends::<palisade_protocol::Decision>(&layout, "Decision", &[]);
    ends::<palisade_protocol::Scope>(&layout, "Scope", &[]);
    ends::<palisade_protocol::Until>(&layout, "Until", &[]);
    ends::<palisade_protocol::Guard>(&layout, "Guard", &[]);
    ends::<palisade_protocol::CallStage>(&layout, "CallStage", &[]);
    ends::<palisade_protocol::Route>(&layout, "Route", &[]);
    ends::<palisade_protocol::ApprovalOutcome>(&layout, "ApprovalOutcome", &[]);
    assert_eq!(blocks("layout")[0].matches("enum ").count(), 17);
}

/// Converts a JSON line to the shape that the page's layout produces from a frame.
fn from_request_line(line: &[u8]) -> Value {
    let mut line: Value = serde_json::from_slice(line).unwrap();
    let method = line["method"].as_str().unwrap().to_owned();
    let id = match line.get("id") {
        Some(id) => id.clone(),
        None => line["params"]["call"].clone(),
    };
    match line.get_mut("params") {
        Some(params) => json!({"id": id, "request": {method: params.take()}}),
        None => json!({"id": id, "request": method}),
    }
}

fn from_message_line(line: &[u8]) -> Value {
    let mut line: Value = serde_json::from_slice(line).unwrap();
    if let Some(params) = line.get_mut("params") {
        let kind = params.as_object_mut().unwrap().remove("event").unwrap();
        return json!({"event": {kind.as_str().unwrap(): params}});
    }
    let reply = if let Some(error) = line.get("error") {
        let data = &error["data"];
        let (code, hint) = (&data["code"], &data["hint"]);
        let mut error = json!({"code": code, "message": error["message"], "hint": hint});
        for name in OPTIONAL {
            if let Some(value) = data.get(name) {
                error[name] = value.clone();
            }
        }
        json!({"error": error})
    } else {
        let fields = line["result"].as_object_mut().unwrap();
        let kind = fields.remove("kind").unwrap();
        match kind.as_str().unwrap() {
            kind @ ("done" | "pong") => json!(kind),
            "tools" => json!({"tools": fields["tools"]}),
            kind => json!({kind: fields}),
        }
    };
    json!({"reply": {"id": line["id"], "reply": reply}})
}

/// The fields of an error that JSON leaves out where there is none.
const OPTIONAL: [&str; 2] = ["retry_after_ms", "errno"];

/// Removes the fields that the page says JSON leaves out, if they are null.
fn without_optional(mut value: Value) -> Value {
    match &mut value {
        Value::Object(fields) => {
            fields.retain(|name, value| !OPTIONAL.contains(&name.as_str()) || !value.is_null());
            for field in fields.values_mut() {
                *field = without_optional(field.take());
            }
        }
        Value::Array(entries) => {
            for entry in entries {
                *entry = without_optional(entry.take());
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
    value
}

proptest! {
    #[test]
    fn the_layout_reads_every_request(envelope in arbitrary::envelope()) {
        let read = page_layout().read("Envelope", &codec::encode(&envelope).unwrap());
        prop_assert_eq!(without_optional(read), from_request_line(&json::encode_request(&envelope).unwrap()));
    }

    #[test]
    fn the_layout_reads_every_message(message in arbitrary::message()) {
        let read = page_layout().read("ServerMessage", &codec::encode(&message).unwrap());
        prop_assert_eq!(without_optional(read), from_message_line(&json::encode_message(&message).unwrap()));
    }
}
