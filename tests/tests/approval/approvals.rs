//! An approver sees a change beforehand, and exactly that change is made.

use palisade_client::Answer;
use palisade_protocol::{ApprovalRequest, Ask, CallResult, ErrorCode, Review};
use palisade_tests::{Desk, Mode, data, destructive, handlers, profile_with, tree};
use serde_json::{Value, json};
use std::{fs, os::unix::fs::MetadataExt as _};

/// Somebody who approves, and the files that the calls below are about.
fn attended(mode: Mode, ask: Ask) -> Desk {
    let desk = Desk::asking(mode, &profile_with(&[]), ask);
    desk.attach_for(&[Review::Input]);
    fill(&desk);
    desk
}

fn fill(desk: &Desk) {
    for (name, text) in [("a", "one\ntwo\n"), ("b", "bee\n"), ("c", "sea\n")] {
        desk.file(name, text);
    }
}

fn approved(desk: &Desk, tool: &str, arguments: &Value) -> (CallResult, ApprovalRequest) {
    let (result, mut asked) = desk.call(tool, arguments, approve);
    assert!(result.success, "{tool} {arguments}: {:?}", result.error);
    assert_eq!(asked.len(), 1, "{tool} {arguments}");
    (result, asked.remove(0))
}

fn approve(_: &ApprovalRequest) -> Option<Answer> {
    Some(Answer::approve())
}

fn deny(_: &ApprovalRequest) -> Option<Answer> {
    Some(Answer::deny("no"))
}

fn patch() -> Value {
    json!({"patch": "*** Begin Patch\n*** Update File: a\n@@\n-two\n+2\n*** Delete File: b\n\
                     *** End Patch\n"})
}

/// Changes of `a`, and what an approver sees of each.
fn changes() -> Vec<(&'static str, Value, &'static [&'static str], &'static str)> {
    vec![
        ("write_file", json!({"path": "a", "content": "new\n"}), &["replace"], "-two\n+new\n"),
        (
            "write_file",
            json!({"path": "a", "content": "more\n", "mode": "append"}),
            &["append to"],
            "+more\n",
        ),
        (
            "edit",
            json!({"path": "a", "old_string": "two", "new_string": "2"}),
            &["edit"],
            "-two\n+2\n",
        ),
        (
            "multi_edit",
            json!({"path": "a", "edits": [{"old_string": "two", "new_string": "2"}]}),
            &["edit"],
            "-two\n+2\n",
        ),
        ("apply_patch", patch(), &["delete", "edit"], "-two\n+2\n"),
        ("move_file", json!({"from": "c", "to": "a", "overwrite": true}), &["move"], ""),
        ("delete_file", json!({"path": "a"}), &["delete"], "-two\n"),
    ]
}

#[test]
fn an_approver_sees_each_path_and_the_diff() {
    for mode in Mode::all() {
        let desk = attended(mode, Ask::Sensitive);
        for (tool, arguments, words, diff) in changes() {
            fill(&desk);
            let before = tree(&desk.world.workspace());
            let (result, request) = approved(&desk, tool, &arguments);
            let lines: Vec<&str> =
                request.view.lines.iter().map(|line| line.text.as_str()).collect();
            assert_eq!(lines.len(), words.len(), "{mode:?} {tool}: {lines:?}");
            for (line, word) in lines.iter().zip(words) {
                assert!(line.starts_with(word), "{mode:?} {tool}: {lines:?}");
            }
            let shown = request.view.diff.unwrap_or_default();
            assert!(shown.contains(diff), "{mode:?} {tool}: {shown}");
            assert!(!request.view.targets.is_empty(), "{mode:?} {tool}");
            assert_ne!(tree(&desk.world.workspace()), before, "{mode:?} {tool}");
            // Taking it back is a change like any other.
            let (_, request) = approved(&desk, "undo", &json!({"call_id": result.undo}));
            assert!(!request.view.lines.is_empty());
            assert_eq!(tree(&desk.world.workspace()), before, "{mode:?} {tool}");
        }
        let (_, request) = approved(&desk, "make_dir", &json!({"path": "m"}));
        assert!(request.view.lines[0].text.starts_with("create the directory"));
        // Calls that only read need no approval, even in this mode.
        for (tool, arguments) in [("read_file", json!({"path": "a"})), ("list_files", json!({}))] {
            let (result, asked) = desk.call(tool, &arguments, deny);
            assert!(result.success && asked.is_empty(), "{mode:?} {tool}");
        }
    }
}

#[test]
fn what_was_changed_after_it_was_shown_is_not_done() {
    for mode in Mode::all() {
        let desk = attended(mode, Ask::Sensitive);
        let file = desk.world.workspace().join("a");
        for (tool, arguments, ..) in changes() {
            fill(&desk);
            let theirs = "one\ntwo\nthree\n";
            let (result, asked) = desk.call(tool, &arguments, |_| {
                fs::write(&file, theirs).unwrap();
                Some(Answer::approve())
            });
            assert_eq!(asked.len(), 1, "{mode:?} {tool}");
            let error = result.error.unwrap_or_else(|| panic!("{mode:?} {tool} was done"));
            assert_eq!(error.code, ErrorCode::StaleApproval, "{mode:?} {tool}: {}", error.message);
            assert_eq!(fs::read_to_string(&file).unwrap(), theirs, "{mode:?} {tool}");
            assert!(desk.world.workspace().join("b").exists(), "{mode:?} {tool}");
            assert_eq!(result.undo, None, "{mode:?} {tool}");
        }
    }
}

#[test]
fn a_denied_change_does_nothing_and_a_hopeless_one_asks_nobody() {
    for mode in Mode::all() {
        let desk = attended(mode, Ask::Sensitive);
        let before = tree(&desk.world.workspace());
        for (tool, arguments, ..) in changes() {
            let (result, asked) = desk.call(tool, &arguments, deny);
            assert_eq!(asked.len(), 1, "{mode:?} {tool}");
            assert_eq!(result.error.unwrap().code, ErrorCode::Denied, "{mode:?} {tool}");
            assert_eq!(tree(&desk.world.workspace()), before, "{mode:?} {tool}");
        }
        let hopeless = json!({"path": "a", "old_string": "none", "new_string": "x"});
        let (result, asked) = desk.call("edit", &hopeless, approve);
        assert_eq!(result.error.unwrap().code, ErrorCode::NoMatch);
        assert!(asked.is_empty(), "nobody has to look at what can not be done");
    }
}

#[test]
fn only_what_is_lost_is_asked_about_by_default() {
    for mode in Mode::all() {
        let desk = attended(mode, Ask::Destructive);
        let edit = json!({"path": "a", "old_string": "two", "new_string": "2"});
        let cases = [
            ("edit", edit.clone(), 0),
            ("make_dir", json!({"path": "m"}), 0),
            ("write_file", json!({"path": "new", "content": "1"}), 0),
            ("write_file", json!({"path": "new", "content": "2"}), 0),
            ("write_file", json!({"path": "a", "content": "more", "mode": "append"}), 0),
            // The file that it edited is not all its own.
            ("write_file", json!({"path": "a", "content": "all new\n"}), 1),
            ("move_file", json!({"from": "new", "to": "newer"}), 0),
            ("move_file", json!({"from": "newer", "to": "c", "overwrite": true}), 1),
            ("delete_file", json!({"path": "b"}), 1),
        ];
        for (tool, arguments, requests) in cases {
            let (result, asked) = desk.call(tool, &arguments, approve);
            assert!(result.success, "{mode:?} {tool} {arguments}: {:?}", result.error);
            assert_eq!(asked.len(), requests, "{mode:?} {tool} {arguments}");
        }
        fill(&desk);
        let (_, asked) = desk.call("apply_patch", patch(), approve);
        assert_eq!(asked.len(), 1, "it deletes");
        assert!(asked[0].findings.iter().any(|found| found.kind == "destructive"));
        fill(&desk);
        // Its own call is taken back unasked; by force, somebody is asked.
        let (change, asked) = desk.call("edit", &edit, approve);
        assert!(change.success && asked.is_empty());
        let (back, asked) = desk.call("undo", json!({"call_id": change.undo}), deny);
        assert!(back.success && asked.is_empty(), "{:?}", back.error);
        let forced = json!({"call_id": change.undo, "force": true});
        let (forced, asked) = desk.call("undo", &forced, deny);
        assert_eq!((forced.error.unwrap().code, asked.len()), (ErrorCode::Denied, 1));
        let report = desk.sandbox.session.call("undo", json!({"call_id": back.undo})).dry_run();
        let report = desk.sandbox.wait(async { report.await.unwrap() });
        assert_eq!(data(&report)["judgement"], json!("allow"));
    }
}

#[test]
fn an_approval_is_stale_when_its_target_is_another() {
    for mode in Mode::all() {
        let desk = Desk::new(mode, &handlers(""));
        desk.attach_for(&[Review::Input, Review::Effects]);
        let path = desk.world.workspace().join("f");
        type Change<'a> = &'a (dyn Fn() + Sync);
        let content: Change<'_> = &|| desk.file("f", "changed");
        let inode: Change<'_> = &|| {
            desk.file("g", "old");
            fs::rename(desk.world.workspace().join("g"), &path).unwrap();
        };
        for change in [content, inode] {
            for (tool, arguments) in destructive() {
                desk.file("f", "old");
                let (result, asked) = desk.call(tool, arguments, |_| {
                    change();
                    Some(Answer::approve())
                });
                assert_eq!(asked.len(), 1);
                let error = result.error.unwrap();
                let code =
                    if tool == "bash" { ErrorCode::Conflict } else { ErrorCode::StaleApproval };
                assert_eq!(error.code, code, "{tool}: {}", error.message);
                let kept = desk.text("f");
                assert!(matches!(kept.as_deref(), Some("changed" | "old")), "{tool}: {kept:?}");
            }
        }
    }
}

#[test]
fn what_the_approver_sees_is_what_would_run() {
    for mode in Mode::all() {
        let desk = Desk::asking(mode, &handlers(""), Ask::Sensitive);
        desk.attach_for(&[Review::Input]);
        desk.file("f", "one\ntwo\n");
        let inode = fs::metadata(desk.world.workspace().join("f")).unwrap().ino();
        let (_, asked) =
            desk.call("write_file", json!({"path": "f", "content": "one\n2\u{202e}\n"}), |_| {
                Some(Answer::deny("no"))
            });
        let request = &asked[0];
        let real = desk.world.workspace().canonicalize().unwrap().join("f");
        let target = &request.view.targets[0];
        assert_eq!(target.path.as_path(), real);
        assert_eq!((target.there.as_deref(), target.size, target.lost), (Some("file"), 8, true));
        assert_eq!(request.view.lines[0].text, format!("replace {}", real.display()));
        let diff = request.view.diff.as_deref().unwrap();
        assert!(diff.ends_with("@@ -1,2 +1,2 @@\n one\n-two\n+2\\u{202e}\n"), "{diff}");
        assert_eq!(request.asker.uid, mode.uid());
        assert_eq!(request.digest.len(), 64);
        assert_eq!(fs::metadata(&real).unwrap().ino(), inode);

        let hidden = "echo hi\nrm -r f \u{1b}[2K\u{202e}";
        let (_, asked) = desk.call(
            "bash",
            json!({"command": hidden, "description": "only lists files"}),
            |_| Some(Answer::deny("no")),
        );
        let lines: Vec<_> = asked[0].view.lines.iter().map(|line| line.text.as_str()).collect();
        assert_eq!(lines, ["echo hi", "rm -r f \\u{1b}[2K\\u{202e}"]);
        assert!(asked[0].view.lines[0].findings.is_empty());
        assert!(!asked[0].view.lines[1].findings.is_empty());
        assert_eq!(desk.text("f").as_deref(), Some("one\ntwo\n"));
    }
}

#[test]
fn an_attachment_is_shown_before_it_is_used() {
    for mode in Mode::all() {
        let desk = Desk::new(mode, &handlers(""));
        desk.attach_for(&[Review::Input]);
        for (decision, left) in [("no", "old\n"), ("yes", "new\n")] {
            desk.file("f", "old\n");
            let call = desk.sandbox.session.call("write_file", json!({"path": "f"}));
            let call = async {
                call.attach(
                    &b"new
"[..],
                )
                .await
                .unwrap()
            };
            let (result, asked) = desk.during(call, async |request| {
                let answer = match decision {
                    "yes" => Answer::approve(),
                    _ => Answer::deny("no"),
                };
                desk.operator.answer(request, answer).await.unwrap();
            });
            assert_eq!((result.success, asked.len()), (decision == "yes", 1), "{:?}", result.error);
            let view = &asked[0].view;
            assert!(view.diff.as_deref().unwrap().ends_with("-old\n+new\n"), "{view:?}");
            // The output of `printf 'new\n' | sha256sum`.
            let sum = "7aa7a5359173d05b63cfd682e3c38487f3cb4f7f1d60659fe59fab1505977d4c";
            assert_eq!(view.lines[1].text, format!("with 4 bytes, SHA-256 {sum}"));
            assert_eq!(desk.text("f").as_deref(), Some(left), "{mode:?}");
        }
    }
}
