//! What an approver sees of a change, and that exactly this is what is done.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that can not go on fails"
)]

use palisade_client::{Answer, Open, Operator, OperatorEvent, Registration};
use palisade_protocol::{Ask, CallResult, ErrorCode, Question, Review};
use palisade_tests::{Daemon, Mode, Sandbox, World, data, profile_with, tree};
use serde_json::{Value, json};
use std::fs;

struct Scene {
    world: World,
    sandbox: Sandbox,
    operator: Operator,
    _daemon: Daemon,
}

impl Scene {
    fn new(mode: Mode, ask: Ask) -> Self {
        let world = World::new(mode);
        world.add_profile("asking", &profile_with(&[]));
        let daemon = world.daemon();
        let open = Open::new(world.workspace()).profile("asking").ask(ask);
        let sandbox = Sandbox::over(daemon.connect(mode), None, open).unwrap();
        let stream = mode.act(|| std::os::unix::net::UnixStream::connect(&daemon.operators));
        let operator = sandbox.wait(async {
            let stream = stream.unwrap();
            stream.set_nonblocking(true).unwrap();
            let stream = tokio::net::UnixStream::from_std(stream).unwrap();
            let operator = Operator::from_stream(stream).await.unwrap();
            let registration = Registration::new("person:ann").reviews(vec![Review::Input]);
            operator.register(registration).await.unwrap();
            operator
        });
        let scene = Self { world, sandbox, operator, _daemon: daemon };
        scene.fill();
        scene
    }

    /// The files that the calls below are about.
    fn fill(&self) {
        for (name, text) in [("a", "one\ntwo\n"), ("b", "bee\n"), ("c", "sea\n")] {
            let path = self.world.workspace().join(name);
            fs::write(&path, text).unwrap();
            self.world.give(&path);
        }
    }

    /// Makes a call and meanwhile does something and answers, whatever is asked.
    fn call(
        &self,
        tool: &str,
        arguments: &Value,
        answer: impl Fn(&Question) -> Answer,
    ) -> (CallResult, Vec<Question>) {
        self.sandbox.wait(async {
            let call = self.sandbox.session.call(tool, arguments);
            let call = async { call.await.unwrap() };
            tokio::pin!(call);
            let mut asked = Vec::new();
            loop {
                tokio::select! {
                    result = &mut call => return (result, asked),
                    event = self.operator.next() => {
                        let Some(OperatorEvent::Question(question)) = event else { continue };
                        self.operator.answer(&question, answer(&question)).await.unwrap();
                        asked.push(*question);
                    }
                }
            }
        })
    }

    fn approved(&self, tool: &str, arguments: &Value) -> (CallResult, Question) {
        let (result, mut asked) = self.call(tool, arguments, |_| Answer::approve());
        assert!(result.success, "{tool} {arguments}: {:?}", result.error);
        assert_eq!(asked.len(), 1, "{tool} {arguments}");
        (result, asked.remove(0))
    }
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
        let scene = Scene::new(mode, Ask::Sensitive);
        for (tool, arguments, words, diff) in changes() {
            scene.fill();
            let before = tree(&scene.world.workspace());
            let (result, question) = scene.approved(tool, &arguments);
            let lines: Vec<&str> =
                question.view.lines.iter().map(|line| line.text.as_str()).collect();
            assert_eq!(lines.len(), words.len(), "{mode:?} {tool}: {lines:?}");
            for (line, word) in lines.iter().zip(words) {
                assert!(line.starts_with(word), "{mode:?} {tool}: {lines:?}");
            }
            let shown = question.view.diff.unwrap_or_default();
            assert!(shown.contains(diff), "{mode:?} {tool}: {shown}");
            assert!(!question.view.targets.is_empty(), "{mode:?} {tool}");
            assert_ne!(tree(&scene.world.workspace()), before, "{mode:?} {tool}");
            // Taking it back is a change like any other.
            let (_, question) = scene.approved("undo", &json!({"call_id": result.undo}));
            assert!(!question.view.lines.is_empty());
            assert_eq!(tree(&scene.world.workspace()), before, "{mode:?} {tool}");
        }
        let (_, question) = scene.approved("make_dir", &json!({"path": "m"}));
        assert!(question.view.lines[0].text.starts_with("make the directory"));
        // What only looks asks nobody, even in this mode.
        for (tool, arguments) in [("read_file", json!({"path": "a"})), ("list_files", json!({}))] {
            let (result, asked) = scene.call(tool, &arguments, |_| Answer::deny("no"));
            assert!(result.success && asked.is_empty(), "{mode:?} {tool}");
        }
    }
}

#[test]
fn what_was_changed_after_it_was_shown_is_not_done() {
    for mode in Mode::all() {
        let scene = Scene::new(mode, Ask::Sensitive);
        let file = scene.world.workspace().join("a");
        for (tool, arguments, ..) in changes() {
            scene.fill();
            let theirs = "one\ntwo\nthree\n";
            let (result, asked) = scene.call(tool, &arguments, |_| {
                fs::write(&file, theirs).unwrap();
                Answer::approve()
            });
            assert_eq!(asked.len(), 1, "{mode:?} {tool}");
            let error = result.error.unwrap_or_else(|| panic!("{mode:?} {tool} was done"));
            assert_eq!(error.code, ErrorCode::StaleApproval, "{mode:?} {tool}: {}", error.message);
            assert_eq!(fs::read_to_string(&file).unwrap(), theirs, "{mode:?} {tool}");
            assert!(scene.world.workspace().join("b").exists(), "{mode:?} {tool}");
            assert_eq!(result.undo, None, "{mode:?} {tool}");
        }
    }
}

#[test]
fn a_denied_change_does_nothing_and_a_hopeless_one_asks_nobody() {
    for mode in Mode::all() {
        let scene = Scene::new(mode, Ask::Sensitive);
        let before = tree(&scene.world.workspace());
        for (tool, arguments, ..) in changes() {
            let (result, asked) = scene.call(tool, &arguments, |_| Answer::deny("not now"));
            assert_eq!(asked.len(), 1, "{mode:?} {tool}");
            assert_eq!(result.error.unwrap().code, ErrorCode::Denied, "{mode:?} {tool}");
            assert_eq!(tree(&scene.world.workspace()), before, "{mode:?} {tool}");
        }
        let hopeless = json!({"path": "a", "old_string": "none", "new_string": "x"});
        let (result, asked) = scene.call("edit", &hopeless, |_| Answer::approve());
        assert_eq!(result.error.unwrap().code, ErrorCode::NoMatch);
        assert!(asked.is_empty(), "nobody has to look at what can not be done");
    }
}

#[test]
fn only_what_is_lost_is_asked_about_by_default() {
    for mode in Mode::all() {
        let scene = Scene::new(mode, Ask::Destructive);
        let edit = json!({"path": "a", "old_string": "two", "new_string": "2"});
        let cases = [
            ("edit", edit.clone(), 0),
            ("make_dir", json!({"path": "m"}), 0),
            ("write_file", json!({"path": "new", "content": "1"}), 0),
            ("write_file", json!({"path": "new", "content": "2"}), 0),
            ("write_file", json!({"path": "a", "content": "more", "mode": "append"}), 0),
            // What it edited is not all its own.
            ("write_file", json!({"path": "a", "content": "all new\n"}), 1),
            ("move_file", json!({"from": "new", "to": "newer"}), 0),
            ("move_file", json!({"from": "newer", "to": "c", "overwrite": true}), 1),
            ("delete_file", json!({"path": "b"}), 1),
        ];
        for (tool, arguments, questions) in cases {
            let (result, asked) = scene.call(tool, &arguments, |_| Answer::approve());
            assert!(result.success, "{mode:?} {tool} {arguments}: {:?}", result.error);
            assert_eq!(asked.len(), questions, "{mode:?} {tool} {arguments}");
        }
        scene.fill();
        let (_, asked) = scene.call("apply_patch", &patch(), |_| Answer::approve());
        assert_eq!(asked.len(), 1, "it deletes");
        assert!(asked[0].findings.iter().any(|found| found.kind == "destructive"));
        scene.fill();
        // Its own call is taken back unasked; by force, somebody is asked.
        let (change, asked) = scene.call("edit", &edit, |_| Answer::approve());
        assert!(change.success && asked.is_empty());
        let (back, asked) =
            scene.call("undo", &json!({"call_id": change.undo}), |_| Answer::deny("no"));
        assert!(back.success && asked.is_empty(), "{:?}", back.error);
        let forced = json!({"call_id": change.undo, "force": true});
        let (forced, asked) = scene.call("undo", &forced, |_| Answer::deny("no"));
        assert_eq!((forced.error.unwrap().code, asked.len()), (ErrorCode::Denied, 1));
        let report = scene.sandbox.session.call("undo", json!({"call_id": back.undo})).dry_run();
        let report = scene.sandbox.wait(async { report.await.unwrap() });
        assert_eq!(data(&report)["judgement"], json!("allow"));
    }
}
