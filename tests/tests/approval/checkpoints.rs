//! Checkpoints from end to end: nothing destructive happens unless somebody who may approve it
//! approved exactly that.

use palisade_client::Answer;
use palisade_protocol::{ApprovalRequest, ErrorCode, Review, Scope, Until};
use palisade_tests::{Desk, Mode, destructive, handlers};
use serde_json::{Value, json};

fn approve(_: &ApprovalRequest) -> Option<Answer> {
    Some(Answer::approve())
}

fn write(content: &str) -> Value {
    json!({"path": "f", "content": content})
}

#[test]
fn without_a_handler_nothing_is_destroyed_and_what_is_harmless_goes_on() {
    for mode in Mode::all() {
        let desk = Desk::new(mode, &handlers(""));
        desk.file("f", "old");
        for (tool, arguments) in destructive() {
            let (code, reason) = desk.refused(tool, arguments);
            assert_eq!(code, ErrorCode::Denied);
            assert_eq!(reason, "no approver is connected");
            assert_eq!(desk.text("f").as_deref(), Some("old"), "{tool}");
        }
        let made = desk.sandbox.call("write_file", json!({"path": "new", "content": "1"}));
        assert!(made.success, "{:?}", made.error);
        let again = desk.sandbox.call("write_file", json!({"path": "new", "content": "2"}));
        assert!(again.success, "the session's own file: {:?}", again.error);
        assert_eq!(desk.text("new").as_deref(), Some("2"));
        assert_eq!(desk.sandbox.ok("cat f; echo x > other; cat other"), "oldx\n");
    }
}

#[test]
fn yes_runs_it_once_and_no_does_nothing() {
    for mode in Mode::all() {
        let desk = Desk::new(mode, &handlers(""));
        desk.attach_for(&[Review::Input, Review::Effects]);
        for (tool, arguments) in destructive() {
            desk.file("f", "old");
            let no = |_: &ApprovalRequest| Some(Answer::deny("not today").guidance("use g"));
            let (result, asked) = desk.call(tool, arguments.clone(), no);
            assert_eq!(asked.len(), 1, "{tool}");
            let error = result.error.unwrap();
            assert_eq!((error.code, error.hint.as_str()), (ErrorCode::Denied, "use g"));
            assert!(error.message.contains("not today"), "{}", error.message);
            assert_eq!(result.denials[0].remedy, "", "{tool}: advice is no change of a profile");
            assert_eq!(result.checkpoint.unwrap().by.approver(), Some("person:ann"));
            assert_eq!(desk.text("f").as_deref(), Some("old"), "{tool}");

            let (result, asked) = desk.call(tool, arguments.clone(), approve);
            assert!(result.success, "{tool}: {:?}", result.error);
            assert_eq!(asked.len(), 1);
            assert_eq!(result.checkpoint.unwrap().decision.as_str(), "approved");
            assert_ne!(desk.text("f").as_deref(), Some("old"), "{tool}");

            // The approval was for one call.
            desk.file("f", "old");
            let (result, asked) = desk.call(tool, arguments, no);
            assert_eq!((result.success, asked.len()), (false, 1));
            assert_eq!(desk.text("f").as_deref(), Some("old"), "{tool}");
        }
    }
}

#[test]
fn changed_arguments_are_what_runs_and_are_judged_again() {
    for mode in Mode::all() {
        let rules = "[[rules]]\nverdict = \"deny\"\nwhy = \"secrets stay\"\nchanges = true\npaths = [\"secret*\"]\n";
        let desk = Desk::new(mode, &format!("{}\n{rules}", handlers("")));
        desk.attach_for(&[Review::Input]);
        desk.file("f", "old");
        desk.file("secret", "kept");
        let change = |path: &'static str| {
            move |_: &ApprovalRequest| {
                Some(Answer::approve_modified(&json!({"path": path, "content": "b"})).unwrap())
            }
        };
        let (result, asked) = desk.call("write_file", write("a"), change("g"));
        assert!(result.success, "{:?}", result.error);
        assert_eq!((asked.len(), result.checkpoint.unwrap().decision.as_str()), (1, "modified"));
        assert_eq!(desk.text("f").as_deref(), Some("old"));
        assert_eq!(desk.text("g").as_deref(), Some("b"));
        // A change that needs approval is not asked about twice if the approver wrote it.
        let (result, asked) = desk.call("write_file", write("a"), change("f"));
        assert_eq!((result.success, asked.len()), (true, 1));
        assert_eq!(desk.text("f").as_deref(), Some("b"));
        desk.file("f", "b");
        // A deny rule holds against approvers too, by any name of the file.
        let (result, _) = desk.call("write_file", write("a"), change("secret"));
        assert_eq!(result.error.unwrap().code, ErrorCode::Denied);
        std::os::unix::fs::symlink("secret", desk.world.workspace().join("alias")).unwrap();
        let (result, asked) =
            desk.call("write_file", json!({"path": "alias", "content": "x"}), approve);
        assert_eq!((result.error.unwrap().code, asked.len()), (ErrorCode::Denied, 0));
        assert_eq!(desk.text("secret").as_deref(), Some("kept"));
        let nonsense =
            |_: &ApprovalRequest| Some(Answer::approve_modified(&json!({"nonsense": 1})).unwrap());
        let (result, _) = desk.call("write_file", write("a"), nonsense);
        assert_eq!(result.error.unwrap().code, ErrorCode::InvalidArguments);
        assert_eq!(desk.text("f").as_deref(), Some("b"));
    }
}

#[test]
fn output_is_passed_replaced_or_withheld() {
    for mode in Mode::all() {
        let profile = handlers("review_output = [\"bash\", \"read_file\"]");
        let desk = Desk::new(mode, &profile);
        desk.file("f", "secret");
        let calls = || {
            [("bash", json!({"command": "cat f; cat f >&2"})), ("read_file", json!({"path": "f"}))]
        };
        for (tool, arguments) in calls() {
            let (result, _) = desk.call(tool, arguments, |_| None);
            assert_eq!(result.error.as_ref().unwrap().code, ErrorCode::Withheld, "{tool}");
            assert!(!format!("{result:?}").contains("secret"), "{tool}");
        }
        desk.attach_for(&[Review::Output]);
        for (tool, arguments) in calls() {
            let pass = |_: &ApprovalRequest| Some(Answer::pass());
            let (result, asked) = desk.call(tool, arguments.clone(), pass);
            assert!(result.success && result.output.contains("secret"), "{tool}");
            assert!(asked[0].output.as_deref().unwrap().contains("secret"));
            assert_eq!(asked[0].review, Review::Output);
            let replace = |_: &ApprovalRequest| Some(Answer::replace("[redacted]"));
            let (result, _) = desk.call(tool, arguments.clone(), replace);
            assert!(result.success && result.output == "[redacted]", "{tool}: {result:?}");
            assert_eq!(result.data, None, "{tool}");
            assert!(!format!("{result:?}").contains("secret"), "{tool}");
            let data = json!({"lines": 1});
            let answer = |_: &ApprovalRequest| Some(Answer::replace("x").with_data(&data).unwrap());
            let (result, _) = desk.call(tool, arguments.clone(), answer);
            let given = result.data.as_ref().map(|data| data.as_str());
            assert_eq!((result.output.as_str(), given), ("x", Some("{\"lines\":1}")), "{tool}");
            assert!(!format!("{result:?}").contains("secret"), "{tool}");
            let withhold = |_: &ApprovalRequest| Some(Answer::withhold("keys in it"));
            let (result, _) = desk.call(tool, arguments, withhold);
            let error = result.error.as_ref().unwrap();
            assert_eq!(error.code, ErrorCode::Withheld);
            assert!(error.message.contains("keys in it"));
            assert!(!format!("{result:?}").contains("secret"), "{tool}");
        }
        let raw = desk.call("read_file", json!({"path": "f", "encoding": "raw"}), |_| None).0;
        assert_eq!(raw.error.unwrap().code, ErrorCode::InvalidArguments);
    }
}

#[test]
fn what_is_remembered_is_not_asked_again_until_it_is_revoked() {
    for mode in Mode::all() {
        let desk =
            Desk::new(mode, &handlers("[remember]\nscopes = [\"exact\", \"prefix\", \"path\"]"));
        desk.attach_for(&[Review::Input]);
        let always = |scope: Scope| {
            move |_: &ApprovalRequest| {
                Some(Answer::approve().remember(scope.clone(), Until::Session))
            }
        };
        desk.file("f", "old");
        let (_, asked) = desk.call("write_file", write("new"), always(Scope::ExactCall));
        assert_eq!(asked.len(), 1);
        desk.file("f", "old");
        let (result, asked) = desk.call("write_file", write("new"), |_| None);
        assert_eq!((result.success, asked.len()), (true, 0));
        assert!(result.checkpoint.unwrap().by.to_string().starts_with("remembered:g-"));
        let grants = desk.sandbox.wait(desk.operator.grants()).unwrap();
        assert_eq!((grants.len(), grants[0].used), (1, 1));
        // Another content is another call.
        desk.file("f", "old");
        let (result, asked) = desk.call("write_file", write("other"), |_| Some(Answer::deny("no")));
        assert_eq!((result.success, asked.len()), (false, 1));
        desk.sandbox.wait(desk.operator.revoke(&grants[0].id)).unwrap();
        let (_, asked) = desk.call("write_file", write("new"), |_| Some(Answer::deny("no")));
        assert_eq!(asked.len(), 1);
        assert_eq!(desk.text("f").as_deref(), Some("old"));
    }
}

#[test]
fn what_may_not_be_remembered_is_refused_and_the_decision_counts() {
    for mode in Mode::all() {
        let desk = Desk::new(mode, &handlers("[remember]\nscopes = [\"exact\"]"));
        desk.attach_for(&[Review::Input]);
        desk.file("f", "old");
        let arguments = write("new");
        let call = desk.sandbox.session.call("write_file", &arguments);
        let (result, _) = desk.during(async { call.await.unwrap() }, async |request| {
            let wide = Answer::approve().remember(Scope::ExactCall, Until::Ms(60_000));
            let refused = desk.operator.answer(request, wide).await.unwrap_err();
            assert_eq!(refused.code(), Some(ErrorCode::Denied));
            let told = "the decision counts, but is not remembered";
            assert!(refused.to_string().contains(told), "{refused}");
        });
        assert!(result.success, "{:?}", result.error);
        assert_eq!(desk.text("f").as_deref(), Some("new"));
        assert_eq!(desk.sandbox.wait(desk.operator.grants()).unwrap(), []);
        desk.file("f", "old");
        let (_, asked) = desk.call("write_file", write("new"), |_| Some(Answer::deny("no")));
        assert_eq!(asked.len(), 1, "it is asked again");
        assert_eq!(desk.text("f").as_deref(), Some("old"));
    }
}

#[test]
fn a_dry_run_asks_nobody_and_says_that_it_would() {
    for mode in Mode::all() {
        let desk = Desk::new(mode, &handlers(""));
        desk.attach_for(&[Review::Input]);
        desk.file("f", "old");
        let dry = |arguments: Value| {
            desk.sandbox.wait(async {
                let result = desk.sandbox.session.call("write_file", &arguments).dry_run().await;
                let data = result.unwrap().data.expect("a report");
                serde_json::from_str::<Value>(data.as_str()).unwrap()
            })
        };
        let report = dry(write("new"));
        assert_eq!((&report["judgement"], &report["covered_by"]), (&json!("ask"), &Value::Null));
        assert_eq!(dry(json!({"path": "g", "content": "x"}))["judgement"], "allow");
        assert_eq!(desk.sandbox.wait(desk.operator.pending()).unwrap(), []);
        assert_eq!(desk.text("f").as_deref(), Some("old"));
        let always = |_: &ApprovalRequest| {
            Some(Answer::approve().remember(Scope::ExactCall, Until::Session))
        };
        let (result, asked) = desk.call("write_file", write("new"), always);
        // The dry runs put nothing into the queue: this is the first approval request.
        assert_eq!((result.success, asked.len()), (true, 1));
        desk.file("f", "old");
        assert_eq!(dry(write("new"))["covered_by"], "g-1");
        let grants = desk.sandbox.wait(desk.operator.grants()).unwrap();
        assert_eq!((grants[0].used, desk.text("f").as_deref()), (0, Some("old")));
    }
}
