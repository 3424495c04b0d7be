//! The tools that are about the session itself, and `diagnostics`: what they keep, what they refuse,
//! whom they ask.

use palisade_client::Open;
use palisade_protocol::{Ask, ErrorCode};
use palisade_tests::{Mode, Sandbox, World, data, profile_with};
use serde_json::{Value, json};

fn item(content: &str, status: &str) -> Value {
    json!({"content": content, "status": status})
}

#[test]
fn a_list_of_things_to_do_is_a_sessions_own() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let daemon = world.daemon();
        let open = || {
            let open = Open::new(world.workspace()).ask(Ask::Sensitive);
            Sandbox::over(daemon.connect(mode), None, open).unwrap()
        };
        let (one, other) = (open(), open());
        assert_eq!(data(&one.done("todo_read", json!({})))["items"], json!([]));
        let items = json!([
            item("read", "completed"),
            {"content": "think", "status": "in_progress", "id": "t"},
            item("write", "pending"),
        ]);
        // Nobody is asked, though no handler is there and all that changes something is asked about.
        let written = one.done("todo_write", json!({"items": items}));
        assert_eq!(written.output, "[x] read\n[>] think\n[ ] write\n");
        let read = data(&one.done("TodoRead", json!({})));
        assert_eq!(read["items"], items);
        assert_eq!(read["counts"], json!({"pending": 1, "in_progress": 1, "completed": 1}));
        assert_eq!(data(&other.done("todo_read", json!({})))["items"], json!([]));
        for (arguments, field) in [
            (json!({}), "`items`"),
            (json!({"items": [item("", "pending")]}), "`items[0].content`"),
            (json!({"items": [item(&"x".repeat(4097), "pending")]}), "`items[0].content`"),
            (json!({"items": [item("a", "done")]}), "`items[0].status`"),
            (json!({"items": vec![item("a", "pending"); 201]}), "`items`"),
            (json!({"items": [item("a", "pending")], "more": 1}), "`more`"),
            (
                json!({"items": [{"content": "a", "status": "pending", "id": "1"},
                    {"content": "b", "status": "pending", "id": "1"}]}),
                "`items[1].id`",
            ),
        ] {
            let (code, message) = one.refused("todo_write", arguments);
            assert_eq!(code, ErrorCode::InvalidArguments);
            assert!(message.contains(field), "{message}");
        }
        assert_eq!(data(&one.done("todo_read", json!({})))["items"], items, "as it was");
        let always = Open::new(world.workspace()).ask(Ask::Always);
        let always = Sandbox::over(daemon.connect(mode), None, always).unwrap();
        assert_eq!(always.refused("todo_read", json!({})).0, ErrorCode::Denied);
    }
}

#[test]
fn tools_are_found_and_those_that_may_not_be_used_are_not() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let sandbox = world.open();
        let found = data(&sandbox.done("tool_search", json!({"query": "delete"})));
        assert_eq!(found["tools"][0]["name"], "delete_file");
        assert!(found["tools"][0]["description"].as_str().unwrap().len() > 10);
        let one = data(&sandbox.done("tool_search", json!({"query": "file", "limit": 1})));
        assert_eq!(one["tools"].as_array().unwrap().len(), 1);
        assert!(one["total"].as_u64().unwrap() > 1);
        for bad in [json!({}), json!({"query": " "}), json!({"query": "a", "limit": 0})] {
            assert_eq!(sandbox.refused("tool_search", bad).0, ErrorCode::InvalidArguments);
        }
        let readonly = world.open_with("readonly");
        let found = data(&readonly.done("tool_search", json!({"query": "delete_file"})));
        let names: Vec<_> = found["tools"].as_array().unwrap().iter().map(|t| &t["name"]).collect();
        assert!(!names.contains(&&json!("delete_file")), "{names:?}");
    }
}

/// The default profile with checkers of a test's own.
fn checking(checkers: &str) -> String {
    let text = profile_with(&[]);
    let (rest, _) = text.split_once("[[diagnostics]]").unwrap();
    format!("{rest}{checkers}")
}

const SCRIPT: &str = r#"
[[diagnostics]]
name = "script"
argv = ["sh", "check.sh"]
format = "gcc"
when = "check.sh"
paths = ["*.c"]

[[diagnostics]]
name = "second"
argv = ["printf", "%s\\n", "b.c:2: warning: second [W1]"]
format = "gcc"
"#;

#[test]
fn checkers_run_confined_and_what_they_say_is_told_apart() {
    for mode in Mode::all() {
        let world = World::new(mode);
        world.add_unasked("checking", &checking(SCRIPT));
        let sandbox = world.open_with("checking");
        let only = data(&sandbox.done("diagnostics", json!({})));
        assert_eq!(only["checkers"].as_array().unwrap().len(), 1, "there is no check.sh yet");
        let script = format!(
            "echo x > {0}; cat {0}; echo 'a.c:1:2: error: wrong'; echo \"$PWD/a.c:3:4: note: n\" >&2; exit 3",
            world.canary().display()
        );
        assert!(sandbox.call("write_file", json!({"path": "check.sh", "content": script})).success);
        let result = sandbox.done("diagnostics", json!({}));
        let found = data(&result);
        let told: Vec<Value> = found["diagnostics"]
            .as_array()
            .unwrap()
            .iter()
            .map(|d| json!([d["path"], d["line"], d["severity"], d["source"]]))
            .collect();
        let expected = [
            json!(["a.c", 1, "error", "script"]),
            json!(["a.c", 3, "note", "script"]),
            json!(["b.c", 2, "warning", "second"]),
        ];
        assert!(expected.iter().all(|one| told.contains(one)), "{told:?}");
        assert_eq!(told.len(), 3, "{told:?}");
        assert_eq!(found["checkers"][0]["exit_code"], 3);
        world.assert_canary_untouched();
        let filtered = data(&sandbox.done("diagnostics", json!({"paths": ["b.c"]})));
        assert_eq!(filtered["diagnostics"].as_array().unwrap().len(), 1);
        let (code, message) = sandbox.refused("diagnostics", json!({"paths": ["../outside"]}));
        assert_eq!(code, ErrorCode::InvalidArguments);
        assert!(message.contains("not in the workspace"), "{message}");
        let dry = async { sandbox.session.call("diagnostics", &json!({})).dry_run().await };
        let report = data(&sandbox.wait(dry).unwrap());
        assert_eq!(report["checkers"][0], json!(["sh", "check.sh"]));
    }
}

#[test]
fn checkers_are_judged_as_what_they_run_and_stopped_in_time() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let removing =
            "[[diagnostics]]\nname = \"r\"\nargv = [\"rm\", \"kept\"]\nformat = \"gcc\"\n";
        world.add_profile("removing", &checking(removing));
        std::fs::write(world.workspace().join("kept"), "kept").unwrap();
        world.give(&world.workspace().join("kept"));
        let sandbox = world.open_with("removing");
        let (code, message) = sandbox.refused("diagnostics", json!({}));
        assert_eq!(code, ErrorCode::Denied);
        assert!(message.contains("no approver is connected"), "{message}");
        assert!(world.workspace().join("kept").exists());
        let slow = "[[diagnostics]]\nname = \"s\"\nargv = [\"sleep\", \"600\"]\nformat = \"gcc\"\n";
        world.add_unasked("slow", &checking(slow));
        let result = world.open_with("slow").call("diagnostics", json!({"timeout_ms": 300}));
        assert!(result.timed_out && !result.success);
        assert_eq!(result.error.unwrap().code, ErrorCode::TimedOut);
        world.add_unasked("none", &checking(""));
        let none = world.open_with("none").refused("diagnostics", json!({}));
        assert_eq!(none.0, ErrorCode::NotFound);
    }
}
