//! Tests of what a model reads of a result.

use super::*;
use palisade_client::{
    ApprovalOutcome, Checkpoint, DecidedBy, Degraded, Denial, ErrorCode, Receipt, WireError,
};

fn result() -> CallResult {
    let text = json!({
        "call_id": "c1", "tool": "bash", "success": true, "output": "hello\n", "truncated": false,
        "lossy": false, "execution_time_ms": 1, "error": null, "stdout": "hello\n", "stderr": "",
        "exit_code": 0, "signal": null, "timed_out": false, "cancelled": false, "oom": false,
        "pipe_held": false, "omitted_bytes": 0, "spool": null, "data": null, "undo": null,
        "findings": [], "denials": [], "checkpoint": null, "route": null,
        "receipt": serde_json::to_value(Receipt::default()).unwrap(),
    });
    serde_json::from_value(text).unwrap()
}

const USUAL: Circumstances = Circumstances { continuity: Continuity::Same, is_given_up: false };

fn text(rendered: &RenderedResult) -> String {
    rendered.answer.content[0].as_text().unwrap().text.clone()
}

#[test]
fn a_command_is_its_output_and_its_status() {
    let rendered = render(&result(), USUAL, 30_000);
    assert_eq!(text(&rendered), "hello\n[exit 0]");
    assert_eq!(rendered.answer.is_error, Some(false));
    let expected = json!({"success": true, "output": "hello\n", "exit_code": 0,
        "tool": "bash", "call_id": "c1"});
    assert_eq!(rendered.answer.structured_content, Some(expected));
}

#[test]
fn a_denial_says_why_and_what_to_do() {
    let mut denied = result();
    denied.success = false;
    denied.error = Some(WireError::new(ErrorCode::Denied, "it deleted a.txt", "ask alice"));
    denied.denials = vec![Denial {
        layer: "landlock".to_owned(),
        rule: "fs.write".to_owned(),
        target: "/usr/x".to_owned(),
        remedy: "add /usr/x to fs.write".to_owned(),
        at: String::new(),
        opens: String::new(),
    }];
    denied.checkpoint = Some(Checkpoint {
        decision: ApprovalOutcome::Denied,
        by: DecidedBy::Default,
        reason: "no approver is connected".to_owned(),
    });
    let rendered = render(&denied, USUAL, 30_000);
    let said = text(&rendered);
    for line in [
        "Denied: it deleted a.txt",
        "What to do: ask alice",
        "Refused by landlock: /usr/x (fs.write). To allow it: add /usr/x to fs.write",
    ] {
        assert!(said.contains(&format!("\n{line}")), "{line}: {said}");
    }
    assert_eq!(rendered.answer.is_error, Some(true));
    let facts = rendered.answer.structured_content.unwrap();
    assert_eq!(facts["error"]["code"], "denied");
    assert_eq!(facts["denials"][0]["remedy"], "add /usr/x to fs.write");
    assert_eq!(facts["approval"]["by"], "default");
}

#[test]
fn a_long_output_is_cut_in_the_text_and_in_the_facts() {
    let mut long = result();
    long.output = "0123456789\n".repeat(10_000);
    let rendered = render(&long, USUAL, 2000);
    let said = text(&rendered);
    assert!(said.chars().count() <= 2000, "{}", said.len());
    assert!(said.contains("read_output with call_id \"c1\" and offset "), "{said}");
    assert!(said.starts_with("0123456789\n") && said.ends_with("0123456789\n[exit 0]"), "{said}");
    assert!(rendered.is_cut);
    let facts = rendered.answer.structured_content.unwrap();
    assert!(facts["output"].as_str().unwrap().chars().count() <= 2000);
    assert!(facts["omitted_characters"].as_u64().unwrap() > 100_000);
}

#[test]
fn what_is_different_is_always_said() {
    let mut other = result();
    let degraded = vec![Degraded { layer: "uts".to_owned(), why: "not here".to_owned() }];
    other.receipt = Some(Box::new(Receipt { degraded, ..Receipt::default() }));
    other.timed_out = true;
    let around = Circumstances { continuity: Continuity::Renewed, is_given_up: true };
    let said = text(&render(&other, around, 30_000));
    for part in [
        "[not enforced on this host: uts]",
        "[timed out;",
        "[a new session",
        "[the session is over",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
}

#[test]
fn a_ticket_says_what_the_call_waits_for() {
    let key = CallKey { tool: "mcp_a_b".to_owned(), ticket: "ticket", arguments: "{}".to_owned() };
    for (activity, said, waits_for) in [
        (Activity::Running, "after 50 s: it is still running. ", json!(null)),
        (
            Activity::StartingServer,
            "after 50 s: its server is still starting. ",
            json!("server_start"),
        ),
        (
            Activity::WaitingForApproval,
            "after 50 s: it is waiting for approval. ",
            json!("approval"),
        ),
    ] {
        let answer = pending(&key, 50, activity, "t-1");
        let facts = answer.structured_content.unwrap();
        assert_eq!(facts["waits_for"], waits_for);
        assert!(facts["message"].as_str().unwrap().contains(said), "{facts}");
    }
}

#[test]
fn an_image_is_an_image_and_a_pdf_a_resource() {
    let file = |kind: &str, content: &str| {
        let mut read = result();
        (read.tool, read.exit_code) = ("read_file".parse().unwrap(), None);
        let data = json!({"path": "/w/a", "bytes": 12, "content": content, "media_type": kind});
        read.data = Some(serde_json::from_value(data).unwrap());
        let rendered = render(&read, USUAL, 30_000);
        assert_eq!(rendered.answer.structured_content, None);
        serde_json::to_value(&rendered.answer.content).unwrap()
    };
    let image = file("image/png", "iVBORw0K");
    assert_eq!(image[0]["text"], "[image/png, 12 bytes]");
    let expected = json!({"type": "image", "data": "iVBORw0K", "mimeType": "image/png"});
    assert_eq!(image[1], expected);
    let pdf = file("application/pdf", "JVBERi0=");
    let expected = json!({"uri": "file:///w/a", "mimeType": "application/pdf", "blob": "JVBERi0="});
    assert_eq!(pdf[1]["resource"], expected);
    let large = file("image/png", &"A".repeat((5 << 20) + 1));
    assert_eq!(large[0]["text"], "[image/png, 12 bytes: too large to be shown]");
    assert_eq!(large[1]["type"], "text");
}
