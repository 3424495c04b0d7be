//! A person and a program who both have to approve, with the profile block of `docs/approvals.md`.

use crate::approvers::{Office, PROMPT, Screen, by, code};
use palisade_client::CallResult;
use palisade_protocol::ErrorCode;
use palisade_tests::{Mode, rooms::until};
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
