//! A person and a program who both have to approve, with the profile block of `docs/approvals.md`.

use crate::approvers::{Office, PROMPT, Screen, WAITING, by, code};
use palisade_client::CallResult;
use palisade_protocol::ErrorCode;
use palisade_tests::{
    Mode,
    rooms::{awaited, until},
};
use serde_json::{Value, json};
use std::{fs, thread};

/// The settings of the page's example.
fn block() -> &'static str {
    let page = include_str!("../../../docs/approvals.md");
    let (_, section) = page.split_once("\n## A person and a program\n").expect("the section");
    let (_, block) = section.split_once("\n```toml\n[handlers]\n").expect("its profile");
    let block = block.split_once("\n```").expect("its end").0;
    assert!(block.contains("quorum = 2"), "{block}");
    block
}

/// Starts a person at a terminal.
fn person(office: &Office) -> Screen {
    let screen = Screen::new();
    screen.line(&office.line(&["approve"]));
    screen.shows("Waiting for approval requests (q quits)");
    screen
}

const NO: &str = "echo '{\"decision\": \"deny\", \"reason\": \"against the rules\"}'";

#[test]
fn a_person_and_a_program_both_have_to_approve() {
    for mode in Mode::all() {
        let office = Office::new(mode, block());
        let screen = person(&office);
        let program = |script: &str, act: &dyn Fn() -> CallResult| {
            screen.clear();
            office.attended(&["--exec", "/bin/sh", "--", "-c", script], act)
        };
        // The program approves, and leaves a mark; then the person is asked.
        let mark = office.world.workspace().join("mark");
        let yes = format!(": > {}; echo '{{\"decision\": \"approve\"}}'", mark.display());
        let approved_by_the_program = |act: &dyn Fn()| {
            thread::scope(|scope| {
                let asked = scope.spawn(|| office.delete());
                screen.shows(PROMPT);
                until("the program has approved", || mark.exists());
                assert!(office.path().exists(), "{mode:?}: the program alone does not suffice");
                act();
                let result = asked.join().unwrap();
                fs::remove_file(&mark).unwrap();
                result
            })
        };
        let done = program(&yes, &|| approved_by_the_program(&|| screen.keys(&["y"])));
        assert!(done.success, "{mode:?}: {:?}", done.error);
        assert!(!office.path().exists(), "{mode:?}");

        // One denial denies: the person's, after the program has approved, and the program's.
        office.file();
        let denied = program(&yes, &|| {
            approved_by_the_program(&|| {
                screen.keys(&["n"]);
                screen.shows("reason for the denial (Enter sends):");
                screen.keys(&["Enter"]);
            })
        });
        assert_eq!(code(&denied), Some(ErrorCode::Denied), "{mode:?}: {denied:?}");
        assert!(by(&denied).contains("person:"), "{mode:?}: {}", by(&denied));
        let denied = program(NO, &|| office.delete());
        assert_eq!(code(&denied), Some(ErrorCode::Denied), "{mode:?}: {denied:?}");
        assert!(denied.error.unwrap().message.contains("against the rules"), "{mode:?}");

        // A person alone does not suffice either.
        screen.clear();
        let alone = thread::scope(|scope| {
            let asked = scope.spawn(|| office.delete());
            screen.shows(PROMPT);
            screen.keys(&["y"]);
            asked.join().unwrap()
        });
        assert_eq!(code(&alone), Some(ErrorCode::Denied), "{mode:?}: {alone:?}");
        let told = alone.error.unwrap().message;
        assert!(told.contains("fewer approvers are left"), "{mode:?}: {told}");
        assert!(office.path().exists(), "{mode:?}");
    }
}

/// The request that waits with one approval, and what `palisade pending` prints of it.
fn half_approved(office: &Office) -> (String, String) {
    let id = awaited("a request with one approval", || {
        let pending = office.json(&["pending", "--json"]);
        let first = &pending["requests"][0];
        let approved = first["approved_by"].as_array()?.len() == 1 && first["quorum"] == 2;
        approved.then(|| first["id"].as_str().unwrap().to_owned())
    });
    let (status, card, stderr) = office.run(&["pending"]);
    assert_eq!(status, Some(0), "{stderr}");
    (id, card)
}

#[test]
fn everybody_is_told_between_the_first_and_the_second_approval() {
    for mode in Mode::all() {
        let office = Office::new(mode, &format!("quorum = 2\n{WAITING}"));
        let screen = person(&office);
        let program = ["--exec", "/bin/sh", "--", "-c", "echo '{\"decision\": \"approve\"}'"];
        let done = office.attended(&program, || {
            thread::scope(|scope| {
                let run = scope.spawn(|| office.piped("rm f"));
                let (id, card) = half_approved(&office);
                let by = "approvals 2 are needed; given by handler:program:";
                assert!(card.contains(by), "{mode:?}: {card}");
                screen.shows("; 1 more approval is needed");
                assert!(office.path().exists(), "{mode:?}: one approval does not suffice");
                screen.shows(PROMPT);
                screen.keys(&["y"]);
                let over = screen.shows(&format!("{} approved", &id[..20]));
                assert!(!over.contains("more approvals are needed"), "{mode:?}: {over}");
                run.join().unwrap()
            })
        });
        let stderr = String::from_utf8(done.stderr).unwrap();
        assert_eq!(done.status.code(), Some(0), "{mode:?}: {stderr}");
        assert!(stderr.contains("note: waiting for approval, 1m5"), "{mode:?}: {stderr}");
        assert!(stderr.contains("note: waiting for approval, 1 given, "), "{mode:?}: {stderr}");
        assert!(!office.path().exists(), "{mode:?}");
    }
}

#[test]
fn one_user_who_answers_twice_is_one_approver() {
    for mode in Mode::all() {
        let office = Office::new(mode, &format!("quorum = 2\n{WAITING}"));
        let screen = person(&office);
        let result = thread::scope(|scope| {
            let asked = scope.spawn(|| office.delete());
            screen.shows(PROMPT);
            let first = office.json(&["pending", "--json"]);
            let id = first["requests"][0]["id"].as_str().unwrap().to_owned();
            let (status, told, stderr) = office.run(&["answer", &id, "approve"]);
            assert_eq!(status, Some(0), "{mode:?}: {stderr}");
            assert_eq!(told, format!("approved {id}; 1 more approval is needed\n"), "{mode:?}");
            let (status, told, stderr) = office.run(&["answer", &id, "approve"]);
            assert_eq!((status == Some(0), told.as_str()), (false, ""), "{mode:?}: {status:?}");
            assert!(stderr.contains("this approver has already answered"), "{mode:?}: {stderr}");
            assert_eq!(half_approved(&office).0, id, "{mode:?}: it still waits");
            assert!(office.path().exists(), "{mode:?}");
            // The control: another approver's answer counts.
            screen.keys(&["y"]);
            asked.join().unwrap()
        });
        assert!(result.success, "{mode:?}: {:?}", result.error);
        assert!(!office.path().exists(), "{mode:?}");
    }
}

#[test]
fn without_the_second_approval_the_denial_tells_of_the_first() {
    for mode in Mode::all() {
        let office = Office::new(mode, "quorum = 2\ngrace_ms = 120000\ndeadline_ms = 120000");
        let screen = person(&office);
        let program = ["--exec", "/bin/sh", "--", "-c", "echo '{\"decision\": \"approve\"}'"];
        let denied = office.attended(&program, || {
            thread::scope(|scope| {
                let asked = scope.spawn(|| office.delete());
                half_approved(&office);
                screen.shows(PROMPT);
                // The request is the person's to answer: to quit disconnects.
                screen.keys(&["q"]);
                asked.join().unwrap()
            })
        });
        assert_eq!(code(&denied), Some(ErrorCode::Denied), "{mode:?}: {denied:?}");
        let told = denied.error.unwrap().message;
        let approvals = "it had 1 of the 2 required approvals (handler:program:";
        assert!(told.contains(approvals), "{mode:?}: {told}");
        assert!(office.path().exists(), "{mode:?}");
    }
}

/// What `palisade` prints about the audit log of an office.
fn told(office: &Office, words: &[&str]) -> String {
    let mut command = office.world.command("palisade");
    command.args(words).arg("--dir").arg(office.world.state().join("audit"));
    let output = office.world.mode.act(|| command.output().unwrap());
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn everyone_who_approved_is_in_the_audit_log() {
    for mode in Mode::all() {
        let office = Office::new(mode, &format!("quorum = 2\n{WAITING}"));
        let screen = person(&office);
        let program = ["--exec", "/bin/sh", "--", "-c", "echo '{\"decision\": \"approve\"}'"];
        // The program approves, and then the person answers.
        let second = |respond: &dyn Fn()| {
            screen.clear();
            office.attended(&program, || {
                thread::scope(|scope| {
                    let asked = scope.spawn(|| office.delete());
                    half_approved(&office);
                    screen.shows(PROMPT);
                    respond();
                    asked.join().unwrap()
                })
            })
        };
        let answer = |result: &CallResult| -> Value {
            let call = result.call_id.as_str();
            let shown = told(&office, &["audit", "show", call, "--json"]);
            let shown: Value = serde_json::from_str(&shown).unwrap();
            let records = shown["records"].as_array().unwrap();
            let answers = records.iter().filter(|record| record["kind"] == "answer");
            let answers: Vec<Value> = answers.cloned().collect();
            let [answer] = &answers[..] else { panic!("{mode:?}: {shown}") };
            let why = told(&office, &["why", call, "--json"]);
            let why: Value = serde_json::from_str(&why).unwrap();
            assert_eq!(why["answers"][0]["approvals"], answer["approvals"], "{mode:?}: {why}");
            answer.clone()
        };
        let done = second(&|| screen.keys(&["y"]));
        assert!(done.success, "{mode:?}: {:?}", done.error);
        let approved = answer(&done);
        let approvals = approved["approvals"].as_array().unwrap();
        let who: Vec<&Value> = approvals.iter().map(|by| &by["who"]).collect();
        assert_eq!(who, ["program", "person"], "{mode:?}: {approved}");
        let name = |at: usize| approvals[at]["name"].as_str().unwrap();
        let (judge, person) = (format!("program {}", name(0)), format!("person {}", name(1)));
        assert_eq!(by(&done), format!("handler:program:{}", name(0)), "{mode:?}");
        let both = format!("by {judge}, approved by {judge} and {person}");
        let call = done.call_id.as_str();
        let request = approved["request"].as_str().unwrap();
        let why = told(&office, &["why", call]);
        assert!(why.contains(&format!("answer to {request}: approve {both}")), "{mode:?}: {why}");
        let session = approved["session"].as_str().unwrap();
        for words in [
            &["audit", "show", call][..],
            &["audit", "tail"],
            &["audit", "export", "--format", "md", "--session", session],
        ] {
            let shown = told(&office, words).replace(['*', '`'], "");
            assert!(shown.contains(&format!("approve {both}")), "{mode:?}: {words:?}: {shown}");
        }
        let events = told(&office, &["audit", "export", "--format", "ocsf"]);
        let mut events = events.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let is_answer = |event: &Value| event["unmapped"]["kind"] == "answer";
        let event = events.find(is_answer).expect("the answer as an event");
        assert_eq!(event["unmapped"]["approvals"], approved["approvals"], "{mode:?}");

        office.file();
        let denied = second(&|| {
            screen.keys(&["n"]);
            screen.shows("reason for the denial (Enter sends):");
            screen.keys(&["Enter"]);
        });
        assert_eq!(code(&denied), Some(ErrorCode::Denied), "{mode:?}: {denied:?}");
        let record = answer(&denied);
        assert_eq!(record["by"], approvals[1], "{mode:?}: {record}");
        assert_eq!(record["approvals"], json!([approvals[0]]), "{mode:?}: {record}");
        let why = told(&office, &["why", denied.call_id.as_str()]);
        let line = format!("deny by {person}, approved by {judge}: ");
        assert!(why.contains(&line), "{mode:?}: {why}");
        assert!(office.path().exists(), "{mode:?}");
    }
}
