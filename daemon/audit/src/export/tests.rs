use super::*;
use crate::{
    chain::Chain,
    clean::*,
    decision::*,
    hash::Hash,
    line::Entry,
    read::{LocatedRecord, LogPosition},
    record::*,
    stats::Stats,
    time::Timestamp,
};
use serde_json::json;

fn entry(seq: u64, record: Record) -> Entry {
    let time = Timestamp::from_millis(1_700_000_000_000);
    Entry { seq, time, prev: Hash::ZERO, record }
}

fn call(id: &str, arguments: &str, reason: Option<&str>) -> Record {
    Record::Call(Call {
        call_id: id.into(),
        session: "s".into(),
        uid: 1000,
        pid: Some(7),
        tool: "bash".into(),
        digest: Hash::of(arguments.as_bytes()),
        arguments: CleanJson::new(arguments),
        altered: None,
        cwd: "/w".into(),
        reason: reason.map(CleanText::new),
        dry_run: false,
        judgement: Judgement::Allow,
        thinking: None,
        claims: Vec::new(),
        findings: vec![Finding { kind: "opaque".into(), why: "runs `x`".into() }],
    })
}

fn result(id: &str, error: Option<&str>, output: &str) -> Record {
    Record::Result(CallResult {
        call_id: id.into(),
        session: "s".into(),
        success: error.is_none(),
        error: error.map(Into::into),
        message: error.map(|_| "it failed".into()),
        exit_code: Some(i32::from(error.is_some())),
        signal: None,
        output: Some(output.into()),
        output_bytes: output.len() as u64,
        output_digest: Hash::of(output.as_bytes()),
        data_digest: None,
        attachment: None,
        omitted_bytes: 0,
        duration_us: 1500,
        denials: Vec::new(),
        observed: Vec::new(),
    })
}

/// Returns a history with two parallel calls, and one that never ended.
fn history() -> Vec<Entry> {
    [
        Record::SessionOpen(SessionOpen {
            session: "s".into(),
            uid: 1000,
            pid: None,
            profile: "workspace".into(),
            ask: "destructive".into(),
            workspace: "/w".into(),
            runs_as: None,
        }),
        call("c1", "{\"command\":\"ls\"}", Some("to look")),
        call("c2", "{\"argv\":[\"x\"]}", None),
        result("c2", Some("command_failed"), ""),
        result("c1", None, "a\n"),
        Record::Answer(Answer {
            request: None,
            call_id: "c3".into(),
            session: "s".into(),
            review: Review::Input,
            decision: Decision::Deny,
            by: DecisionMaker::Default,
            approvals: Vec::new(),
            reason: "no handler".into(),
            digest: None,
            remember: None,
        }),
        call("c3", "{\"command\":\"rm x\"}", None),
    ]
    .into_iter()
    .zip(1..)
    .map(|(record, seq)| entry(seq, record))
    .collect()
}

fn messages(style: Style) -> serde_json::Value {
    let mut messages = Messages::new(style);
    history().iter().for_each(|entry| messages.add(entry));
    messages.finish()
}

#[test]
fn a_model_gets_its_calls_and_their_results() {
    let unfinished = "no result was recorded: the call did not end";
    let expected = json!([
        {"role": "assistant", "content": [
            {"type": "text", "text": "to look"},
            {"type": "tool_use", "id": "c1", "name": "bash", "input": {"command": "ls"}},
            {"type": "tool_use", "id": "c2", "name": "bash", "input": {"argv": ["x"]}}]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "c1", "content": "a\n", "is_error": false},
            {"type": "tool_result", "tool_use_id": "c2", "content": "it failed", "is_error": true}]},
        {"role": "assistant", "content": [
            {"type": "tool_use", "id": "c3", "name": "bash", "input": {"command": "rm x"}}]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "c3", "content": unfinished, "is_error": true}]},
    ]);
    assert_eq!(messages(Style::Anthropic), expected);
    let function = |id: &str, arguments: &str| {
        json!({"id": id, "type": "function",
            "function": {"name": "bash", "arguments": arguments}})
    };
    let expected = json!([
        {"role": "assistant", "content": "to look", "tool_calls":
            [function("c1", "{\"command\":\"ls\"}"), function("c2", "{\"argv\":[\"x\"]}")]},
        {"role": "tool", "tool_call_id": "c1", "content": "a\n"},
        {"role": "tool", "tool_call_id": "c2", "content": "it failed"},
        {"role": "assistant", "content": null, "tool_calls":
            [function("c3", "{\"command\":\"rm x\"}")]},
        {"role": "tool", "tool_call_id": "c3", "content": unfinished},
    ]);
    assert_eq!(messages(Style::Openai), expected);
}

#[test]
fn people_get_a_page() {
    let mut markdown = Markdown::default();
    let text: String = history().iter().map(|entry| markdown.add(entry)).collect();
    for part in [
        "# Session `s`\n\n2023-11-14T22:13:20.000Z, uid 1000, profile `workspace`",
        "## 1. `bash` at 2023-11-14T22:13:20.000Z\n\n- call: `c1`\n- in: `/w`\n\
         - the agent's reason: `to look`\n- decision: allow\n\
         - finding: `opaque`: `` runs `x` ``\n\n```sh\nls\n```\n",
        "Result of `c2`: `command_failed`, status 1, 2 ms\n\n> `it failed`\n",
        "Result of `c1`: status 0, 2 ms\n\n```\na\n```\n",
        "- answer: **deny** by `default`: `no handler`\n",
    ] {
        assert!(text.contains(part), "{part}\nis not in\n{text}");
    }
}

#[test]
fn counts() {
    let mut stats = Stats::default();
    history().iter().for_each(|entry| stats.add(entry));
    let counted = serde_json::to_value(&stats).unwrap();
    assert_eq!(counted["records"], 7);
    assert_eq!(counted["kinds"], json!({"answer": 1, "call": 3, "result": 2, "session_open": 1}));
    assert_eq!(counted["tools"], json!({"bash": 3}));
    assert_eq!(counted["results"], json!({"command_failed": 1, "ok": 1}));
    assert_eq!(counted["decisions"], json!({"deny by default": 1}));
    assert_eq!((stats.unfinished, stats.longest_us, stats.total_us), (1, 1500, 3000));
}

#[test]
fn an_ocsf_event_has_what_its_class_requires() {
    let located = |seq, record| {
        let entry = entry(seq, record);
        let line = entry.render().unwrap();
        let place = LogPosition { file: "f".into(), line: 1 };
        LocatedRecord { chain: Chain(0), place, entry, line }
    };
    let event = ocsf(&located(7, call("c1", r#"{"command":"ls"}"#, Some("to look"))));
    for (path, expected) in [
        ("/class_uid", json!(6003)),
        ("/category_uid", json!(6)),
        ("/activity_id", json!(99)),
        ("/type_uid", json!(600_399)),
        ("/severity_id", json!(1)),
        ("/time", json!(1_700_000_000_000_u64)),
        ("/metadata/version", json!("1.3.0")),
        ("/metadata/uid", json!("c0000:7")),
        ("/metadata/product/vendor_name", json!("Palisade")),
        ("/metadata/correlation_uid", json!("c1")),
        ("/actor/user/uid", json!("1000")),
        ("/actor/session/uid", json!("s")),
        ("/api/operation", json!("bash")),
        ("/src_endpoint/name", json!("localhost")),
        ("/unmapped/kind", json!("call")),
    ] {
        assert_eq!(event.pointer(path), Some(&expected), "{path} of {event}");
    }
    let event = ocsf(&located(8, result("c1", Some("denied"), "")));
    assert_eq!((&event["status_id"], &event["status_code"]), (&json!(2), &json!("denied")));
    assert_eq!((&event["severity_id"], &event["status_detail"]), (&json!(3), &json!("it failed")));
    let event = ocsf(&located(9, result("c1", None, "")));
    assert_eq!((&event["status_id"], event.get("status_code")), (&json!(1), None));
}
