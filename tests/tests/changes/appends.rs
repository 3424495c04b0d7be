//! A command that appends to a file appends to that same file: a program outside that has it open
//! goes on writing into it, and undo leaves it the same file.

use palisade_client::Answer;
use palisade_protocol::{CallResult, ErrorCode};
use palisade_tests::{Desk, Mode, profile_with};
use serde_json::json;
use std::{
    fs::{self, File},
    io::Write as _,
    os::unix::fs::MetadataExt as _,
};

fn desk(mode: Mode) -> Desk {
    let desk = Desk::new(mode, &profile_with(&[("guard = \"auto\"", "guard = \"transaction\"")]));
    desk.file("log", "one\n");
    desk.attach();
    desk
}

fn run(desk: &Desk, line: &str) -> CallResult {
    let (result, asked) = desk.bash(line, |_| Answer::approve());
    assert!(result.success, "{line}: {result:?}");
    assert!(asked.is_empty(), "{asked:?}");
    result
}

fn undo(desk: &Desk, result: &CallResult) -> CallResult {
    let call = json!({"call_id": result.undo.clone().expect("an undo id")});
    desk.call("undo", call, |_| Some(Answer::approve())).0
}

#[test]
fn a_program_outside_goes_on_writing_into_the_same_file() {
    for mode in Mode::all() {
        let desk = desk(mode);
        let path = desk.path("log");
        let ino = || fs::metadata(&path).unwrap().ino();
        let (before, mut outside) = (ino(), File::options().append(true).open(&path).unwrap());
        let result = run(&desk, "echo two >> log");
        assert_eq!((ino(), desk.text("log").as_deref()), (before, Some("one\ntwo\n")), "{mode:?}");
        // Undone, it is what it was, and still the same.
        assert!(undo(&desk, &result).success, "{mode:?}");
        assert_eq!((ino(), desk.text("log").as_deref()), (before, Some("one\n")), "{mode:?}");
        let result = run(&desk, "echo two >> log; chmod 600 log; echo three | tee -a log");
        outside.write_all(b"outside\n").unwrap();
        let all = "one\ntwo\nthree\noutside\n";
        assert_eq!((ino(), desk.text("log").as_deref()), (before, Some(all)), "{mode:?}");
        // Undo does not take away what somebody else added since.
        let error = undo(&desk, &result).error.expect("a conflict");
        assert_eq!(error.code, ErrorCode::Conflict, "{mode:?} {error:?}");
        assert_eq!(desk.text("log").as_deref(), Some(all), "{mode:?}");
    }
}

#[test]
fn what_is_no_longer_what_it_was_is_replaced_or_a_conflict() {
    for mode in Mode::all() {
        let desk = desk(mode);
        let path = desk.path("log");
        // Shorter or other: another file, asked about.
        let before = fs::metadata(&path).unwrap().ino();
        let (result, asked) = desk.bash("echo other > log", |_| Answer::approve());
        assert!(result.success && asked.len() == 1, "{mode:?} {result:?}");
        assert_ne!(fs::metadata(&path).unwrap().ino(), before, "{mode:?}");
        // Somebody else adds to it while the command runs.
        let line = "echo ready; cat; echo ours >> log";
        let theirs = || {
            let mut file = File::options().append(true).open(&path).unwrap();
            file.write_all(b"theirs\n").unwrap();
        };
        let (result, _) = desk.meanwhile(line, theirs, |_| Answer::deny("no"));
        assert!(!result.success, "{mode:?} {result:?}");
        assert_eq!(desk.text("log").as_deref(), Some("other\ntheirs\n"), "{mode:?}");
    }
}
