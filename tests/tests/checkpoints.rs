//! Checkpoints from end to end: nothing destructive happens unless somebody who may approve it
//! approved exactly that, and an agent is never that somebody.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use palisade_client::{Answer, Open, Operator, OperatorEvent, Registration};
use palisade_protocol::{
    CallResult, Decision, Deny, ErrorCode, Event, Question, Remember, Reply, Request, Review,
    Scope, ServerMessage, Until, wire::Dialect,
};
use palisade_tests::{Daemon, Mode, Sandbox, World, profile_with, raw::Raw};
use serde_json::{Value, json};
use std::{fs, os::unix::fs::MetadataExt as _, sync::Arc};

/// A daemon, a session and an operator's connection.
struct Scene {
    world: World,
    sandbox: Arc<Sandbox>,
    operator: Operator,
    daemon: Daemon,
}

fn handlers(text: &str) -> String {
    profile_with(&[("[tools]\n", &format!("[handlers]\n{text}\n\n[tools]\n"))])
}

fn operator(sandbox: &Sandbox, daemon: &Daemon, mode: Mode) -> Operator {
    let stream = mode.act(|| std::os::unix::net::UnixStream::connect(&daemon.operators));
    sandbox.wait(async {
        let stream = stream.unwrap();
        stream.set_nonblocking(true).unwrap();
        Operator::from_stream(tokio::net::UnixStream::from_std(stream).unwrap()).await.unwrap()
    })
}

impl Scene {
    fn new(mode: Mode, profile: &str) -> Self {
        let world = World::new(mode);
        world.add_profile("asking", profile);
        let daemon = world.daemon();
        let open = Open::new(world.workspace()).profile("asking");
        let sandbox = Sandbox::over(daemon.connect(mode), None, open).unwrap();
        let operator = operator(&sandbox, &daemon, mode);
        Self { world, sandbox: Arc::new(sandbox), operator, daemon }
    }

    /// Another operator.
    fn operator(&self) -> Operator {
        operator(&self.sandbox, &self.daemon, self.world.mode)
    }

    fn file(&self, name: &str, text: &str) {
        let path = self.world.workspace().join(name);
        fs::write(&path, text).unwrap();
        self.world.give(&path);
    }

    fn text(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.world.workspace().join(name)).ok()
    }

    fn attach(&self, registration: Registration) {
        self.sandbox.wait(self.operator.register(registration)).unwrap();
    }

    fn attach_for(&self, reviews: &[Review]) {
        self.attach(Registration::new("person:ann").reviews(reviews.to_vec()));
    }

    /// Makes a call and meanwhile answers what is asked.
    fn call(
        &self,
        tool: &str,
        arguments: Value,
        answer: impl Fn(&Question) -> Option<Answer>,
    ) -> (CallResult, Vec<Question>) {
        self.sandbox.wait(async {
            let call = self.sandbox.session.call(tool, &arguments);
            let call = async { call.await.unwrap() };
            tokio::pin!(call);
            let mut asked = Vec::new();
            loop {
                tokio::select! {
                    result = &mut call => return (result, asked),
                    event = self.operator.next() => {
                        let Some(OperatorEvent::Question(question)) = event else { continue };
                        if let Some(answer) = answer(&question) {
                            self.operator.answer(&question, answer).await.unwrap();
                        }
                        asked.push(*question);
                    }
                }
            }
        })
    }

    fn refused(&self, tool: &str, arguments: Value) -> (ErrorCode, String) {
        let (result, _) = self.call(tool, arguments, |_| None);
        let checkpoint = result.checkpoint.expect("a checkpoint");
        assert_eq!((checkpoint.decision.as_str(), checkpoint.by.as_str()), ("denied", "default"));
        (result.error.expect("an error").code, checkpoint.reason)
    }
}

fn approve(_: &Question) -> Option<Answer> {
    Some(Answer::approve())
}

fn write(content: &str) -> Value {
    json!({"path": "f", "content": content})
}

/// Calls that destroy the file `f`, one of each kind of tool.
fn destructive() -> [(&'static str, Value); 4] {
    [
        ("write_file", write("new")),
        ("delete_file", json!({"path": "f"})),
        ("bash", json!({"command": "echo new > f"})),
        ("bash", json!({"argv": ["rm", "f"]})),
    ]
}

#[test]
fn without_a_handler_nothing_is_destroyed_and_what_is_harmless_goes_on() {
    for mode in Mode::all() {
        let scene = Scene::new(mode, &handlers(""));
        scene.file("f", "old");
        for (tool, arguments) in destructive() {
            let (code, reason) = scene.refused(tool, arguments);
            assert_eq!(code, ErrorCode::Denied);
            assert_eq!(reason, "no checkpoint handler is attached");
            assert_eq!(scene.text("f").as_deref(), Some("old"), "{tool}");
        }
        let made = scene.sandbox.call("write_file", json!({"path": "new", "content": "1"}));
        assert!(made.success, "{:?}", made.error);
        let again = scene.sandbox.call("write_file", json!({"path": "new", "content": "2"}));
        assert!(again.success, "the session's own file: {:?}", again.error);
        assert_eq!(scene.text("new").as_deref(), Some("2"));
        assert_eq!(scene.sandbox.ok("cat f; echo x > other; cat other"), "oldx\n");
    }
}

#[test]
fn yes_runs_it_once_and_no_does_nothing() {
    for mode in Mode::all() {
        let scene = Scene::new(mode, &handlers(""));
        scene.attach_for(&[Review::Input]);
        for (tool, arguments) in destructive() {
            scene.file("f", "old");
            let no = |_: &Question| Some(Answer::deny("not today").guidance("use g"));
            let (result, asked) = scene.call(tool, arguments.clone(), no);
            assert_eq!(asked.len(), 1, "{tool}");
            let error = result.error.unwrap();
            assert_eq!((error.code, error.hint.as_str()), (ErrorCode::Denied, "use g"));
            assert!(error.message.contains("not today"), "{}", error.message);
            assert_eq!(result.checkpoint.unwrap().by, "handler:person:ann");
            assert_eq!(scene.text("f").as_deref(), Some("old"), "{tool}");

            let (result, asked) = scene.call(tool, arguments.clone(), approve);
            assert!(result.success, "{tool}: {:?}", result.error);
            assert_eq!(asked.len(), 1);
            assert_eq!(result.checkpoint.unwrap().decision, "approved");
            assert_ne!(scene.text("f").as_deref(), Some("old"), "{tool}");

            // The approval was for one call.
            scene.file("f", "old");
            let (result, asked) = scene.call(tool, arguments, no);
            assert_eq!((result.success, asked.len()), (false, 1));
            assert_eq!(scene.text("f").as_deref(), Some("old"), "{tool}");
        }
    }
}

#[test]
fn changed_arguments_are_what_runs_and_are_judged_again() {
    for mode in Mode::all() {
        let rules =
            "[[rules]]\nverdict = \"deny\"\nwhy = \"secrets stay\"\npaths = [\"secret*\"]\n";
        let scene = Scene::new(mode, &format!("{}\n{rules}", handlers("")));
        scene.attach_for(&[Review::Input]);
        scene.file("f", "old");
        scene.file("secret", "kept");
        let change = |path: &'static str| {
            move |_: &Question| {
                Some(Answer::approve_modified(&json!({"path": path, "content": "b"})).unwrap())
            }
        };
        let (result, asked) = scene.call("write_file", write("a"), change("g"));
        assert!(result.success, "{:?}", result.error);
        assert_eq!((asked.len(), result.checkpoint.unwrap().decision.as_str()), (1, "modified"));
        assert_eq!(scene.text("f").as_deref(), Some("old"));
        assert_eq!(scene.text("g").as_deref(), Some("b"));
        // What needs asking is not asked twice if the approver wrote it.
        let (result, asked) = scene.call("write_file", write("a"), change("f"));
        assert_eq!((result.success, asked.len()), (true, 1));
        assert_eq!(scene.text("f").as_deref(), Some("b"));
        scene.file("f", "b");
        // A deny rule holds against approvers too, by any name of the file.
        let (result, _) = scene.call("write_file", write("a"), change("secret"));
        assert_eq!(result.error.unwrap().code, ErrorCode::Denied);
        std::os::unix::fs::symlink("secret", scene.world.workspace().join("alias")).unwrap();
        let (result, asked) =
            scene.call("write_file", json!({"path": "alias", "content": "x"}), approve);
        assert_eq!((result.error.unwrap().code, asked.len()), (ErrorCode::Denied, 0));
        assert_eq!(scene.text("secret").as_deref(), Some("kept"));
        let nonsense =
            |_: &Question| Some(Answer::approve_modified(&json!({"nonsense": 1})).unwrap());
        let (result, _) = scene.call("write_file", write("a"), nonsense);
        assert_eq!(result.error.unwrap().code, ErrorCode::InvalidArguments);
        assert_eq!(scene.text("f").as_deref(), Some("b"));
    }
}

#[test]
fn an_approval_is_stale_when_its_target_is_another() {
    for mode in Mode::all() {
        let scene = Scene::new(mode, &handlers(""));
        scene.attach_for(&[Review::Input]);
        let path = scene.world.workspace().join("f");
        type Change<'a> = &'a (dyn Fn() + Sync);
        let content: Change<'_> = &|| scene.file("f", "changed");
        let inode: Change<'_> = &|| {
            scene.file("g", "old");
            fs::rename(scene.world.workspace().join("g"), &path).unwrap();
        };
        for change in [content, inode] {
            for (tool, arguments) in destructive() {
                scene.file("f", "old");
                let (result, asked) = scene.call(tool, arguments, |_| {
                    change();
                    Some(Answer::approve())
                });
                assert_eq!(asked.len(), 1);
                let error = result.error.unwrap();
                assert_eq!(error.code, ErrorCode::StaleApproval, "{tool}: {}", error.message);
                let kept = scene.text("f");
                assert!(matches!(kept.as_deref(), Some("changed" | "old")), "{tool}: {kept:?}");
            }
        }
    }
}

#[test]
fn what_the_approver_sees_is_what_would_run() {
    for mode in Mode::all() {
        let scene = Scene::new(mode, &handlers(""));
        scene.attach_for(&[Review::Input]);
        scene.file("f", "one\ntwo\n");
        let inode = fs::metadata(scene.world.workspace().join("f")).unwrap().ino();
        let (_, asked) =
            scene.call("write_file", write("one\n2\u{202e}\n"), |_| Some(Answer::deny("no")));
        let question = &asked[0];
        let real = scene.world.workspace().canonicalize().unwrap().join("f");
        let target = &question.view.targets[0];
        assert_eq!(target.path.as_path(), real);
        assert_eq!((target.there.as_deref(), target.size, target.lost), (Some("file"), 8, true));
        assert_eq!(question.view.lines[0].text, format!("replace {}", real.display()));
        let diff = question.view.diff.as_deref().unwrap();
        assert!(diff.ends_with("@@ -1,2 +1,2 @@\n one\n-two\n+2\\u{202e}\n"), "{diff}");
        assert_eq!(question.asker.uid, mode.uid());
        assert_eq!(question.digest.len(), 64);
        assert_eq!(fs::metadata(&real).unwrap().ino(), inode);

        let hidden = "echo hi\nrm -r f \u{1b}[2K\u{202e}";
        let (_, asked) = scene.call(
            "bash",
            json!({"command": hidden, "description": "only lists files"}),
            |_| Some(Answer::deny("no")),
        );
        let lines: Vec<_> = asked[0].view.lines.iter().map(|line| line.text.as_str()).collect();
        assert_eq!(lines, ["echo hi", "rm -r f \\u{1b}[2K\\u{202e}"]);
        assert!(asked[0].view.lines[0].findings.is_empty());
        assert!(!asked[0].view.lines[1].findings.is_empty());
        assert_eq!(scene.text("f").as_deref(), Some("one\ntwo\n"));
    }
}

#[test]
fn output_is_passed_replaced_or_withheld() {
    for mode in Mode::all() {
        let profile = handlers("review_output = [\"bash\", \"read_file\"]");
        let scene = Scene::new(mode, &profile);
        scene.file("f", "secret");
        let calls = || {
            [("bash", json!({"command": "cat f; cat f >&2"})), ("read_file", json!({"path": "f"}))]
        };
        for (tool, arguments) in calls() {
            let (result, _) = scene.call(tool, arguments, |_| None);
            assert_eq!(result.error.as_ref().unwrap().code, ErrorCode::Withheld, "{tool}");
            assert!(!format!("{result:?}").contains("secret"), "{tool}");
        }
        scene.attach_for(&[Review::Output]);
        for (tool, arguments) in calls() {
            let pass = |_: &Question| Some(Answer::pass());
            let (result, asked) = scene.call(tool, arguments.clone(), pass);
            assert!(result.success && result.output.contains("secret"), "{tool}");
            assert!(asked[0].output.as_deref().unwrap().contains("secret"));
            assert_eq!(asked[0].review, Review::Output);
            let replace = |_: &Question| Some(Answer::replace("[redacted]"));
            let (result, _) = scene.call(tool, arguments.clone(), replace);
            assert!(result.success && result.output == "[redacted]", "{tool}: {result:?}");
            assert!(!format!("{result:?}").contains("secret"), "{tool}");
            let withhold = |_: &Question| Some(Answer::withhold("keys in it"));
            let (result, _) = scene.call(tool, arguments, withhold);
            let error = result.error.as_ref().unwrap();
            assert_eq!(error.code, ErrorCode::Withheld);
            assert!(error.message.contains("keys in it"));
            assert!(!format!("{result:?}").contains("secret"), "{tool}");
        }
        let raw = scene.call("read_file", json!({"path": "f", "encoding": "raw"}), |_| None).0;
        assert_eq!(raw.error.unwrap().code, ErrorCode::InvalidArguments);
    }
}

#[test]
fn a_handler_that_is_silent_leaves_or_talks_nonsense_denies() {
    for mode in Mode::all() {
        let scene = Scene::new(mode, &handlers("deadline_ms = 300"));
        scene.file("f", "old");
        scene.attach_for(&[Review::Input]);
        let (code, reason) = scene.refused("write_file", write("new"));
        assert_eq!((code, reason.as_str()), (ErrorCode::Denied, "no answer came in time"));
        let connect = || {
            let stream =
                mode.act(|| std::os::unix::net::UnixStream::connect(&scene.daemon.operators));
            Raw::greeted(stream.unwrap(), Dialect::JsonLines)
        };
        scene.sandbox.wait(scene.operator.withdraw()).unwrap();
        let mut operator = connect();
        let registered = operator.ask(Request::Register(palisade_protocol::Register {
            name: "program:odd".to_owned(),
            reviews: vec![Review::Input],
            tools: Vec::new(),
            priority: 0,
            deadline_ms: None,
            heartbeat_ms: None,
        }));
        assert!(matches!(registered, palisade_protocol::Reply::Registered(_)));
        drop(operator);
        let (code, _) = scene.refused("write_file", write("new"));
        assert_eq!(code, ErrorCode::Denied);
        assert_eq!(scene.text("f").as_deref(), Some("old"));
    }
}

#[test]
fn agents_neither_register_nor_answer_and_cells_do_not_reach_the_socket() {
    for mode in Mode::all() {
        let scene = Scene::new(mode, &handlers(""));
        scene.attach_for(&[Review::Input]);
        for dialect in palisade_tests::raw::DIALECTS {
            let mut agent = Raw::greeted(scene.daemon.connect(mode), dialect);
            for request in [
                Request::Register(palisade_protocol::Register {
                    name: "me".to_owned(),
                    reviews: vec![Review::Input],
                    tools: Vec::new(),
                    priority: i32::MAX,
                    deadline_ms: None,
                    heartbeat_ms: None,
                }),
                Request::Answer(Box::new(palisade_protocol::Answer {
                    question: "q-1".parse().unwrap(),
                    digest: String::new(),
                    decision: Decision::Approve,
                    remember: Some(Remember { scope: Scope::ExactCall, until: Until::Session }),
                })),
                Request::Withdraw,
                Request::Pending,
                Request::Grants,
                Request::Revoke(palisade_protocol::Revoke { id: "g-1".parse().unwrap() }),
                Request::Abort(palisade_protocol::Abort { session: "s-1".parse().unwrap() }),
            ] {
                assert_eq!(agent.refusal(request), ErrorCode::Forbidden);
            }
        }
        let sockets = [&scene.daemon.socket, &scene.daemon.operators];
        for socket in sockets {
            let inside = scene.sandbox.bash(&format!("ls -l {}", socket.display()));
            assert!(!inside.success, "{}", inside.output);
        }
        // The same lookup succeeds outside.
        assert!(scene.daemon.operators.exists());
    }
}

#[test]
fn what_is_remembered_is_not_asked_again_until_it_is_revoked() {
    for mode in Mode::all() {
        let scene =
            Scene::new(mode, &handlers("[remember]\nscopes = [\"exact\", \"prefix\", \"path\"]"));
        scene.attach_for(&[Review::Input]);
        let always = |scope: Scope| {
            move |_: &Question| Some(Answer::approve().remember(scope.clone(), Until::Session))
        };
        scene.file("f", "old");
        let (_, asked) = scene.call("write_file", write("new"), always(Scope::ExactCall));
        assert_eq!(asked.len(), 1);
        scene.file("f", "old");
        let (result, asked) = scene.call("write_file", write("new"), |_| None);
        assert_eq!((result.success, asked.len()), (true, 0));
        assert!(result.checkpoint.unwrap().by.starts_with("remembered:g-"));
        let grants = scene.sandbox.wait(scene.operator.grants()).unwrap();
        assert_eq!((grants.len(), grants[0].used), (1, 1));
        // Another content is another call.
        scene.file("f", "old");
        let (result, asked) =
            scene.call("write_file", write("other"), |_| Some(Answer::deny("no")));
        assert_eq!((result.success, asked.len()), (false, 1));
        scene.sandbox.wait(scene.operator.revoke(&grants[0].id)).unwrap();
        let (_, asked) = scene.call("write_file", write("new"), |_| Some(Answer::deny("no")));
        assert_eq!(asked.len(), 1);
        assert_eq!(scene.text("f").as_deref(), Some("old"));
    }
}

#[test]
fn what_may_not_be_remembered_is_refused_and_the_decision_counts() {
    for mode in Mode::all() {
        let scene = Scene::new(mode, &handlers(""));
        scene.attach_for(&[Review::Input]);
        scene.file("f", "old");
        let (result, _) = scene.sandbox.wait(async {
            let arguments = write("new");
            let call = scene.sandbox.session.call("write_file", &arguments);
            let call = async { call.await.unwrap() };
            tokio::pin!(call);
            loop {
                tokio::select! {
                    result = &mut call => return (result, ()),
                    event = scene.operator.next() => {
                        let Some(OperatorEvent::Question(question)) = event else { continue };
                        let wide = Answer::approve().remember(Scope::ExactCall, Until::Ms(60_000));
                        let refused = scene.operator.answer(&question, wide).await.unwrap_err();
                        assert_eq!(refused.code(), Some(ErrorCode::Denied));
                        let told = "the decision counts, but is not remembered";
                        assert!(refused.to_string().contains(told), "{refused}");
                    }
                }
            }
        });
        assert!(result.success, "{:?}", result.error);
        assert_eq!(scene.text("f").as_deref(), Some("new"));
        assert_eq!(scene.sandbox.wait(scene.operator.grants()).unwrap(), []);
        scene.file("f", "old");
        let (_, asked) = scene.call("write_file", write("new"), |_| Some(Answer::deny("no")));
        assert_eq!(asked.len(), 1, "it is asked again");
        assert_eq!(scene.text("f").as_deref(), Some("old"));
    }
}

#[test]
fn a_dry_run_asks_nobody_and_says_that_it_would() {
    for mode in Mode::all() {
        let scene = Scene::new(mode, &handlers(""));
        scene.attach_for(&[Review::Input]);
        scene.file("f", "old");
        let dry = |arguments: Value| {
            scene.sandbox.wait(async {
                let result = scene.sandbox.session.call("write_file", &arguments).dry_run().await;
                let data = result.unwrap().data.expect("a report");
                serde_json::from_str::<Value>(data.as_str()).unwrap()
            })
        };
        let report = dry(write("new"));
        assert_eq!((&report["judgement"], &report["covered_by"]), (&json!("ask"), &Value::Null));
        assert_eq!(dry(json!({"path": "g", "content": "x"}))["judgement"], "allow");
        assert_eq!(scene.sandbox.wait(scene.operator.pending()).unwrap(), []);
        assert_eq!(scene.text("f").as_deref(), Some("old"));
        let always =
            |_: &Question| Some(Answer::approve().remember(Scope::ExactCall, Until::Session));
        let (result, asked) = scene.call("write_file", write("new"), always);
        // The dry runs put nothing into the queue: this is the first question.
        assert_eq!((result.success, asked.len()), (true, 1));
        scene.file("f", "old");
        assert_eq!(dry(write("new"))["covered_by"], "g-1");
        let grants = scene.sandbox.wait(scene.operator.grants()).unwrap();
        assert_eq!((grants[0].used, scene.text("f").as_deref()), (0, Some("old")));
    }
}

#[test]
fn an_attachment_is_shown_before_it_is_used() {
    for mode in Mode::all() {
        let scene = Scene::new(mode, &handlers(""));
        scene.attach_for(&[Review::Input]);
        for (decision, left) in [("no", "old\n"), ("yes", "new\n")] {
            scene.file("f", "old\n");
            let (result, asked) = scene.sandbox.wait(async {
                let call = scene.sandbox.session.call("write_file", json!({"path": "f"}));
                let call = async { call.attach(&b"new\n"[..]).await.unwrap() };
                tokio::pin!(call);
                let mut asked = Vec::new();
                loop {
                    tokio::select! {
                        result = &mut call => return (result, asked),
                        event = scene.operator.next() => {
                            let Some(OperatorEvent::Question(question)) = event else { continue };
                            let answer = match decision {
                                "yes" => Answer::approve(),
                                _ => Answer::deny("no"),
                            };
                            scene.operator.answer(&question, answer).await.unwrap();
                            asked.push(*question);
                        }
                    }
                }
            });
            assert_eq!((result.success, asked.len()), (decision == "yes", 1), "{:?}", result.error);
            let view = &asked[0].view;
            assert!(view.diff.as_deref().unwrap().ends_with("-old\n+new\n"), "{view:?}");
            // What `printf 'new\n' | sha256sum` prints.
            let sum = "7aa7a5359173d05b63cfd682e3c38487f3cb4f7f1d60659fe59fab1505977d4c";
            assert_eq!(view.lines[1].text, format!("with 4 bytes, SHA-256 {sum}"));
            assert_eq!(scene.text("f").as_deref(), Some(left), "{mode:?}");
        }
    }
}

#[test]
fn a_quorum_is_of_processes_and_not_of_names() {
    for mode in Mode::all() {
        let scene = Scene::new(mode, &handlers("quorum = 2\ndeadline_ms = 60000"));
        scene.file("f", "old");
        scene.attach_for(&[Review::Input]);
        let second = scene.operator();
        scene.sandbox.wait(second.register(Registration::new("person:bob"))).unwrap();
        // Two names, two connections, one process: there are not two to ask.
        let (code, reason) = scene.refused("write_file", write("new"));
        assert_eq!(code, ErrorCode::Denied, "{mode:?}");
        assert_eq!(reason, "fewer handlers are attached than the 2 the profile wants");
        assert_eq!(scene.text("f").as_deref(), Some("old"), "{mode:?}");
    }
}

/// What a handler that was asked does instead of answering properly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Misdeed {
    Silence,
    Leaving,
    Nonsense,
    OtherDigest,
    OtherKind,
    NoSuchQuestion,
    Flood,
    YesAfterNo,
    /// A handler that was not asked says yes.
    Stranger,
}

#[test]
fn whatever_a_handler_does_but_a_clear_yes_denies() {
    use Misdeed::*;
    for mode in Mode::all() {
        let scene = Scene::new(mode, &handlers("deadline_ms = 2000"));
        scene.file("f", "old");
        let handler = |tools: &[&str]| {
            let path = &scene.daemon.operators;
            let stream = mode.act(|| std::os::unix::net::UnixStream::connect(path).unwrap());
            let mut raw = Raw::greeted(stream, Dialect::JsonLines);
            let reply = raw.ask(Request::Register(palisade_protocol::Register {
                name: "program:odd".to_owned(),
                reviews: vec![Review::Input],
                tools: tools.iter().map(|tool| tool.parse().unwrap()).collect(),
                priority: 0,
                deadline_ms: None,
                heartbeat_ms: None,
            }));
            assert!(matches!(reply, Reply::Registered(_)), "{reply:?}");
            raw
        };
        let question = |raw: &mut Raw| loop {
            if let Some(ServerMessage::Event(Event::Question(question))) = raw.hear() {
                return *question;
            }
        };
        let answer = |question: &Question, decision: Decision| palisade_protocol::Answer {
            question: question.question.clone(),
            digest: question.digest.clone(),
            decision,
            remember: None,
        };
        let refused = |raw: &mut Raw, answer: palisade_protocol::Answer| {
            let id = raw.send(Request::Answer(Box::new(answer)));
            match raw.reply() {
                (Some(other), Reply::Error(error)) if other == id => error.code,
                (_, other) => panic!("{other:?}"),
            }
        };
        let misdeeds = [
            Silence,
            Leaving,
            Nonsense,
            OtherDigest,
            OtherKind,
            NoSuchQuestion,
            Flood,
            YesAfterNo,
            Stranger,
        ];
        for misdeed in misdeeds {
            let mut raw = handler(&["delete_file"]);
            let mut stranger = handler(&["bash"]);
            let result = std::thread::scope(|scope| {
                let call = scope.spawn(|| scene.sandbox.call("delete_file", json!({"path": "f"})));
                let asked = question(&mut raw);
                let yes = answer(&asked, Decision::Approve);
                match misdeed {
                    Silence => {}
                    Leaving => raw.hush(),
                    Nonsense => raw.say(b"yes, of course\n"),
                    OtherDigest => {
                        let other = palisade_protocol::Answer { digest: "0".repeat(64), ..yes };
                        assert_eq!(refused(&mut raw, other), ErrorCode::StaleApproval);
                    }
                    OtherKind => {
                        let other = answer(&asked, Decision::Pass);
                        assert_eq!(refused(&mut raw, other), ErrorCode::InvalidRequest);
                    }
                    NoSuchQuestion => {
                        let question = "q-never".parse().unwrap();
                        let other = palisade_protocol::Answer { question, ..yes };
                        assert_eq!(refused(&mut raw, other), ErrorCode::NotFound);
                    }
                    Flood => {
                        for n in 0..500 {
                            let question = format!("q-{n}").parse().unwrap();
                            let other = palisade_protocol::Answer { question, ..yes.clone() };
                            assert_eq!(refused(&mut raw, other), ErrorCode::NotFound);
                        }
                    }
                    YesAfterNo => {
                        let deny = Deny { reason: "no".to_owned(), guidance: String::new() };
                        let no = answer(&asked, Decision::Deny(deny));
                        let id = raw.send(Request::Answer(Box::new(no)));
                        while raw.reply().0 != Some(id) {}
                        assert_eq!(refused(&mut raw, yes), ErrorCode::StaleApproval);
                    }
                    Stranger => {
                        assert_eq!(refused(&mut stranger, yes), ErrorCode::Forbidden);
                    }
                }
                call.join().unwrap()
            });
            let error = result.error.expect("an error");
            assert_eq!(error.code, ErrorCode::Denied, "{mode:?} {misdeed:?}: {}", error.message);
            let checkpoint = result.checkpoint.expect("a checkpoint");
            assert_eq!(checkpoint.decision, "denied", "{mode:?} {misdeed:?}");
            assert_eq!(scene.text("f").as_deref(), Some("old"), "{mode:?} {misdeed:?}");
            drop((raw, stranger));
        }
        // The same attempt with a clear yes.
        scene.attach_for(&[Review::Input]);
        let (result, asked) = scene.call("delete_file", json!({"path": "f"}), approve);
        assert_eq!((result.success, asked.len()), (true, 1), "{mode:?}: {:?}", result.error);
        assert_eq!(scene.text("f"), None, "{mode:?}");
    }
}
