//! Operators' commands against a scripted daemon: pending, answer, grants, and automatic approvers.

use crate::fake::{Daemon, approval_request};
use palisade_protocol::{
    Answer, Answered, ApprovalOutcome, Decision, Deny, Envelope, ErrorCode, Grants, Modified,
    Pending, Reply, Request, Review, WireError,
};
use std::{
    os::unix::net::UnixListener,
    process::{Child, Command, Output, Stdio},
    thread::JoinHandle,
};

struct Scene<T> {
    child: Child,
    daemon: JoinHandle<T>,
    _directory: tempfile::TempDir,
}

#[allow(clippy::disallowed_methods, reason = "the program under test")]
fn scene<T: Send + 'static>(
    words: &[&str],
    script: impl FnOnce(&mut Daemon) -> T + Send + 'static,
) -> Scene<T> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("operator.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let daemon = std::thread::spawn(move || script(&mut Daemon::accept(&listener)));
    let child = Command::new(env!("CARGO_BIN_EXE_palisade"))
        .args(words)
        .env("PALISADE_OPERATOR_SOCKET", &path)
        .env("NO_COLOR", "1")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    Scene { child, daemon, _directory: directory }
}

impl<T> Scene<T> {
    fn end(self) -> (Output, T) {
        let told = self.daemon.join().unwrap();
        (self.child.wait_with_output().unwrap(), told)
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn pending(daemon: &mut Daemon) {
    let Envelope { id, request } = daemon.next().unwrap();
    assert_eq!(request, Request::Pending);
    let requests = vec![approval_request("q-1"), approval_request("q-2")];
    daemon.reply(id, Reply::Pending(Pending { requests }));
}

#[test]
fn pending_is_shown_to_people_and_programs() {
    let (output, ()) = scene(&["pending"], pending).end();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let shown = text(&output.stdout);
    for line in ["bash wants to run ── q-1", "bash wants to run ── q-2", "  » rm -r build"]
    {
        assert!(shown.contains(line), "{shown}");
    }
    let (output, ()) = scene(&["pending", "--json"], pending).end();
    let read: Pending = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(read.requests, [approval_request("q-1"), approval_request("q-2")]);
    assert_eq!(text(&output.stdout).lines().count(), 1);
}

fn answered(words: &[&str]) -> (Output, Answer) {
    scene(words, |daemon| {
        pending(daemon);
        daemon.answer()
    })
    .end()
}

#[test]
fn an_answer_is_to_the_request_that_waits() {
    let (output, answer) = answered(&["answer", "q-2", "approve"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout), "approved q-2\n");
    assert_eq!((answer.request.as_str(), answer.digest.as_str()), ("q-2", "digest-q-2"));
    assert_eq!((answer.decision, answer.remember), (Decision::Approve, None));

    let words = ["answer", "q-1", "deny", "--reason", "not now", "--guidance", "later"];
    let (output, answer) = answered(&words);
    assert_eq!(text(&output.stdout), "denied q-1\n");
    let deny = Deny { reason: "not now".to_owned(), guidance: "later".to_owned() };
    assert_eq!(answer.decision, Decision::Deny(deny));
}

#[test]
fn an_answer_to_nothing_is_not_sent() {
    let (output, next) = scene(&["answer", "q-9", "approve"], |daemon| {
        pending(daemon);
        daemon.next()
    })
    .end();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(next, None);
    assert!(text(&output.stderr).starts_with("error: no approval request q-9 is waiting"));
}

#[test]
fn an_answer_that_is_not_taken_is_no_success() {
    let (output, ()) = scene(&["answer", "q-1", "approve"], |daemon| {
        pending(daemon);
        let asked = daemon.next().unwrap();
        let error = WireError::new(ErrorCode::StaleApproval, "the file has changed", "look again");
        daemon.reply(asked.id, Reply::Error(error));
    })
    .end();
    assert_eq!(output.status.code(), Some(126));
    assert!(output.stdout.is_empty());
    assert_eq!(text(&output.stderr), "error: the file has changed\nhint: look again\n");
}

#[test]
fn grants_are_listed_and_revoked() {
    let grants = r#"{"grants":[{"id":"g-1","session":"s-1","uid":1000,"profile":"default",
        "tool":"bash","scope":"exact_call","summary":"bash: rm x","by":"person:ann",
        "expires_in_ms":null,"used":3}]}"#;
    let grants: Grants = serde_json::from_str(grants).unwrap();
    let listed = |words: &[&str]| {
        let grants = grants.clone();
        scene(words, move |daemon| {
            let Envelope { id, request } = daemon.next().unwrap();
            assert_eq!(request, Request::Grants);
            daemon.reply(id, Reply::Grants(grants));
        })
        .end()
        .0
    };
    let shown = text(&listed(&["grants", "list"]).stdout);
    assert!(shown.starts_with("g-1  bash: rm x\n    for session s-1,"), "{shown}");
    let read: Grants =
        serde_json::from_slice(&listed(&["grants", "list", "--json"]).stdout).unwrap();
    assert_eq!(read, grants);
    let (output, request) = scene(&["grants", "revoke", "g-1"], |daemon| {
        let Envelope { id, request } = daemon.next().unwrap();
        daemon.reply(id, Reply::Done);
        request
    })
    .end();
    assert_eq!(text(&output.stdout), "revoked g-1\n");
    assert!(matches!(request, Request::Revoke(revoke) if revoke.id.as_str() == "g-1"));
}

/// Runs an approver that gets one approval request, after which the daemon disconnects.
fn handled(words: &[&str]) -> (Output, (palisade_protocol::Register, Answer)) {
    scene(words, |daemon| {
        let register = daemon.registered();
        daemon.ask(&approval_request("q-1"));
        (register, daemon.answer())
    })
    .end()
}

#[test]
fn a_policy_answers_at_once() {
    let (output, (register, answer)) = handled(&["approve", "--policy", "approve"]);
    assert_eq!(
        (register.name.as_str(), &register.reviews[..]),
        ("policy:approve", &[Review::Input, Review::Effects][..])
    );
    assert!(register.heartbeat_ms.is_some());
    assert_eq!(answer.decision, Decision::Approve);
    assert_eq!(answer.digest, "digest-q-1");
    assert_eq!(output.status.code(), Some(125), "the daemon went away");
    assert_eq!(text(&output.stdout), "approved q-1 bash: rm -r build (and 1 more)\n");

    let words = [
        "approve",
        "--policy",
        "deny",
        "--tool",
        "bash",
        "--priority",
        "-3",
        "--outputs",
        "--name",
        "night",
    ];
    let (_, (register, answer)) = handled(&words);
    assert_eq!((register.name.as_str(), register.priority), ("night", -3));
    assert_eq!(register.tools.len(), 1);
    assert_eq!(register.reviews, [Review::Input, Review::Effects, Review::Output]);
    assert!(matches!(answer.decision, Decision::Deny(_)), "{answer:?}");
}

#[test]
fn a_program_answers_and_may_change_the_arguments() {
    let script = r#"grep -q '"digest":"digest-q-1"' &&
        echo '{"decision":"approve","arguments":{"command":"true"}}'"#;
    let (_, (register, answer)) = handled(&["approve", "--exec", "/bin/sh", "--", "-c", script]);
    assert_eq!(register.name, "program:/bin/sh");
    let arguments = serde_json::from_str(r#"{"command":"true"}"#).unwrap();
    assert_eq!(answer.decision, Decision::ApproveModified(Modified { arguments }));
}

#[test]
fn a_program_that_fails_denies_and_the_next_request_is_asked_all_the_same() {
    let script = r#"grep -q q-1 && exit 3; echo '{"decision":"approve"}'"#;
    let (_, answers) = scene(&["approve", "--exec", "/bin/sh", "--", "-c", script], |daemon| {
        daemon.registered();
        daemon.ask(&approval_request("q-1"));
        let first = daemon.answer();
        daemon.ask(&approval_request("q-2"));
        (first, daemon.answer())
    })
    .end();
    let Decision::Deny(deny) = answers.0.decision else { panic!("{answers:?}") };
    assert_eq!(deny.reason, "the approver program /bin/sh failed (exit status: 3)");
    assert_eq!(answers.1.decision, Decision::Approve);
}

#[test]
fn a_request_that_is_over_ends_its_program() {
    let directory = tempfile::tempdir().unwrap();
    let started = directory.path().join("started");
    let script = format!(
        "grep -q q-1 || {{ echo '{{\"decision\":\"approve\"}}'; exit; }}; touch {}; exec sleep 600",
        started.display()
    );
    let words = ["approve", "--exec", "/bin/sh", "--", "-c", &script];
    let (_, (answer, rest)) = scene(&words, move |daemon| {
        daemon.registered();
        daemon.ask(&approval_request("q-1"));
        while !started.exists() {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        daemon.over("q-1", ApprovalOutcome::Denied);
        daemon.ask(&approval_request("q-2"));
        let Envelope { id, request } = daemon.next().unwrap();
        daemon.reply(id, Reply::Answered(Answered { grant: None, missing: 0 }));
        (request, ())
    })
    .end();
    let Request::Answer(answer) = answer else { panic!("{answer:?}") };
    assert_eq!((answer.request.as_str(), answer.decision), ("q-2", Decision::Approve));
    assert_eq!(rest, ());
}

#[test]
fn nobody_on_the_operator_socket_is_told_with_what_to_do() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("operator.sock");
    let mut command = assert_cmd::Command::cargo_bin("palisade").unwrap();
    let output = command
        .args(["pending", "--operator-socket"])
        .arg(&path)
        .env("NO_COLOR", "1")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(125));
    let told = text(&output.stderr);
    assert!(told.starts_with(&format!("error: can not connect to {}", path.display())), "{told}");
    assert!(told.contains("--operator-socket or $PALISADE_OPERATOR_SOCKET"), "{told}");
}

#[test]
fn an_answer_that_is_refused_becomes_a_denial() {
    let (_, answer) = scene(&["approve", "--policy", "approve"], |daemon| {
        daemon.registered();
        daemon.ask(&approval_request("q-1"));
        let asked = daemon.next().unwrap();
        let error = WireError::new(ErrorCode::InvalidRequest, "it makes no sense", "");
        daemon.reply(asked.id, Reply::Error(error));
        daemon.answer()
    })
    .end();
    let Decision::Deny(deny) = answer.decision else { panic!("{answer:?}") };
    assert!(deny.reason.contains("it makes no sense"), "{}", deny.reason);
}

#[test]
fn an_answer_that_counts_and_is_not_remembered_stands() {
    let scene = scene(&["approve", "--policy", "approve"], |daemon| {
        daemon.registered();
        daemon.ask(&approval_request("q-1"));
        let asked = daemon.next().unwrap();
        let told = "the decision counts, but is not remembered: not so long";
        daemon.reply(asked.id, Reply::Error(WireError::new(ErrorCode::Denied, told, "")));
        daemon.ask(&approval_request("q-2"));
        daemon.answer()
    });
    let (output, answer) = scene.end();
    assert_eq!((answer.request.as_str(), answer.decision), ("q-2", Decision::Approve));
    assert!(text(&output.stdout).contains("approved q-1 "), "{}", text(&output.stdout));
    let told = "note: the answer to q-1: the decision counts, but is not remembered: not so long";
    assert!(text(&output.stderr).contains(told), "{}", text(&output.stderr));
}
