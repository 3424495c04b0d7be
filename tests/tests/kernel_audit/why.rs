//! Promise 9: a denial says which layer, which rule or right, which path, and the smallest change
//! that would allow it; and an ordinary failure is not called a denial.

use palisade_protocol::{CallResult, Denial, ErrorCode, Receipt};
use palisade_tests::{KernelAudit, Mode, Sandbox, World};
use serde_json::{Value, json};
use std::{fs, os::unix::fs::PermissionsExt as _, process::Stdio, thread, time::Duration};

fn code(result: &CallResult) -> Option<ErrorCode> {
    result.error.as_ref().map(|error| error.code)
}

/// The one denial of a call.
fn denial(sandbox: &Sandbox, tool: &str, arguments: Value) -> (CallResult, Denial) {
    let result = sandbox.call(tool, arguments.clone());
    let [denial] = &result.denials[..] else {
        panic!("{tool} {arguments}: {:?} {:?}", result.error, result.denials)
    };
    let denial = denial.clone();
    // One clear sentence, what to do instead, and the same receipt as every result.
    let error = result.error.as_ref().unwrap();
    let (_, rule) = denial.rule.split_once(": ").unwrap();
    assert!(error.message.ends_with(rule), "{tool}: {}", error.message);
    assert!(error.hint.contains("; or in ") || error.hint.contains("; no profile"), "{error:?}");
    // But for what the kernel records, which other tests turn on and off.
    let steady = |receipt: &Receipt| Receipt { unrecorded: Vec::new(), ..receipt.clone() };
    assert_eq!(steady(result.receipt.as_ref().unwrap()), steady(sandbox.session.receipt()));
    assert_eq!(result.receipt.as_ref().unwrap().profile_digest.len(), 64);
    assert_eq!(result.receipt.as_ref().unwrap().seccomp.as_ref().unwrap().digest.len(), 64);
    (result, denial)
}

/// A refused call: tool and arguments, then code, layer, right, target, key of the remedy.
type Refused = (&'static str, Value, ErrorCode, &'static str, &'static str, String, &'static str);

fn refused() -> Vec<Refused> {
    let (absent, kept) = (ErrorCode::NotFound, ErrorCode::OutsidePolicy);
    let text = |text: &str| text.to_owned();
    let nothing = "no profile can allow it";
    vec![
        (
            "read_file",
            json!({"path": "/etc/shadow"}),
            absent,
            "mount",
            "read",
            text("/etc/shadow"),
            nothing,
        ),
        (
            "read_file",
            json!({"path": "/srv/x"}),
            absent,
            "mount",
            "read",
            text("/srv/x"),
            "fs.read",
        ),
        (
            "list_files",
            json!({"path": "/media"}),
            absent,
            "mount",
            "read",
            text("/media"),
            "fs.read",
        ),
        (
            "glob",
            json!({"pattern": "*", "path": "/srv"}),
            absent,
            "mount",
            "read",
            text("/srv"),
            "fs.read",
        ),
        (
            "grep",
            json!({"pattern": "x", "path": "/boot"}),
            absent,
            "mount",
            "read",
            text("/boot"),
            "fs.read",
        ),
        (
            "write_file",
            json!({"path": "/usr/x", "content": "x"}),
            kept,
            "mount",
            "write",
            text("/usr/x"),
            "fs.unguarded",
        ),
        (
            "edit",
            json!({"path": "/etc/passwd", "old_string": "root", "new_string": "x"}),
            kept,
            "mount",
            "write",
            text("/etc/passwd"),
            nothing,
        ),
        ("make_dir", json!({"path": "/new"}), kept, "mount", "write", text("/new"), "fs.unguarded"),
        (
            "make_dir",
            json!({"path": "/run/new"}),
            kept,
            "landlock",
            "write",
            text("/run/new"),
            "fs.unguarded",
        ),
        (
            "delete_file",
            json!({"path": "/usr/bin/env"}),
            kept,
            "mount",
            "write",
            text("/usr/bin/env"),
            "fs.unguarded",
        ),
        (
            "move_file",
            json!({"from": "program", "to": "/usr/program"}),
            kept,
            "mount",
            "write",
            text("/usr/program"),
            "fs.unguarded",
        ),
        (
            "bash",
            json!({"argv": ["/srv/tool"]}),
            ErrorCode::SpawnFailed,
            "mount",
            "exec",
            text("/srv/tool"),
            "fs.execute",
        ),
    ]
}

#[test]
fn a_refusal_names_layer_right_path_line_and_change() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let sandbox = world.open();
        assert_eq!(sandbox.ok("touch program"), "");
        for (tool, arguments, code, layer, right, target, key) in refused() {
            let shown = format!("{mode:?}: {tool} {arguments}");
            let (result, denial) = denial(&sandbox, tool, arguments);
            assert_eq!(self::code(&result), Some(code), "{shown}");
            assert_eq!((denial.layer.as_str(), &denial.target), (layer, &target), "{shown}");
            assert!(denial.rule.starts_with(&format!("{right}: ")), "{shown}: {}", denial.rule);
            assert!(denial.remedy.contains(key), "{shown}: {}", denial.remedy);
            assert_eq!(denial.opens.is_empty(), key == "no profile can allow it", "{shown}");
        }
        // If a line of the profile makes the path readable only, the denial names that line.
        let (_, denial) = denial(&sandbox, "make_dir", json!({"path": "/usr/x"}));
        let text = fs::read_to_string(world.profiles().join("unasked.toml")).unwrap();
        let line = 1 + text.lines().position(|line| line.contains("\"!/usr\"")).unwrap();
        assert!(denial.at.contains(&format!("unasked.toml:{line}:")), "{}", denial.at);
        world.assert_canary_untouched();
    }
}

#[test]
fn an_ordinary_failure_is_no_denial() {
    // Also where the kernel says what it refused.
    let _audit = KernelAudit::on();
    for mode in Mode::all() {
        let world = World::new(mode);
        let sandbox = world.open();
        let locked = world.workspace().join("locked");
        fs::write(&locked, "x").unwrap();
        world.give(&locked);
        fs::set_permissions(&locked, fs::Permissions::from_mode(0o000)).unwrap();
        assert_eq!(sandbox.ok("mkdir directory; echo a > file; ln -s /srv/x away"), "");
        for (tool, arguments) in [
            ("read_file", json!({"path": "missing"})),
            ("read_file", json!({"path": "missing/deeper"})),
            ("read_file", json!({"path": "/tmp/missing"})),
            // Its own mode does it, and the kernel's answer is the one that Landlock gives.
            ("read_file", json!({"path": "locked"})),
            ("write_file", json!({"path": "locked", "content": "y", "mode": "append"})),
            ("read_file", json!({"path": "directory"})),
            // The target of the link is not what the call names.
            ("read_file", json!({"path": "away"})),
            ("read_file", json!({"path": "a/../../b"})),
            ("list_files", json!({"path": "file"})),
            ("edit", json!({"path": "file", "old_string": "b", "new_string": "c"})),
            ("edit", json!({"path": "missing", "old_string": "b", "new_string": "c"})),
            ("make_dir", json!({"path": "file/x"})),
            ("move_file", json!({"from": "missing", "to": "x"})),
            ("delete_file", json!({"path": "missing"})),
            ("bash", json!({"argv": ["/usr/bin/no-such-program"]})),
            ("bash", json!({"argv": ["./file"]})),
            ("bash", json!({"command": "exit 3"})),
            ("bash", json!({"command": "cat missing"})),
            ("bash", json!({"command": "echo Permission denied >&2; exit 1"})),
            ("bash", json!({"command": "no-such-command"})),
        ] {
            let result = sandbox.call(tool, arguments.clone());
            assert!(!result.success, "{mode:?}: {tool} {arguments} succeeded");
            assert_eq!(result.denials, [], "{mode:?}: {tool} {arguments}");
        }
        // The control: the same tool on a file that is there.
        assert!(sandbox.call("read_file", json!({"path": "file"})).success);
    }
}

#[test]
fn why_tells_it_from_the_log_afterwards() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let sandbox = world.open();
        let (result, denial) = denial(&sandbox, "read_file", json!({"path": "/srv/x"}));
        let fine = sandbox.bash("exit 3");
        drop(sandbox);
        let why = |words: &[&str]| {
            let mut command = world.command("palisade");
            command.arg("why").args(words).arg("--dir").arg(world.state().join("audit"));
            command.output().unwrap()
        };
        let told = why(&[result.call_id.as_str()]);
        let text = String::from_utf8(told.stdout).unwrap();
        assert_eq!(told.status.code(), Some(0), "{text}");
        for part in ["refused: /srv/x\n", "  layer      mount\n", &denial.remedy, &denial.opens] {
            assert!(text.contains(part), "{part} is not in {text}");
        }
        let told = why(&["--json", result.call_id.as_str()]);
        let told: Value = serde_json::from_slice(&told.stdout).unwrap();
        assert_eq!(told["denials"][0]["target"], json!("/srv/x"));
        // The control: a program that failed by itself was refused nothing.
        let told = why(&[fine.call_id.as_str()]);
        assert_eq!(told.status.code(), Some(1));
        assert!(String::from_utf8_lossy(&told.stdout).contains("No refusal was recorded."));
        assert_eq!(why(&["no-such-call"]).status.code(), Some(1));
    }
}

/// A daemon replies first and then writes the records: who asks at once is not told that there was no
/// such call.
#[test]
fn the_records_of_a_call_that_has_just_ended_are_awaited() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let sandbox = world.open();
        let (result, _) = denial(&sandbox, "read_file", json!({"path": "/srv/x"}));
        drop(sandbox);
        let (log, late) = (world.state().join("audit"), world.outside().join("late"));
        fs::create_dir(&late).unwrap();
        let name = "c0000-000000000001.jsonl";
        let text = fs::read_to_string(log.join(name)).unwrap();
        let (before, _) = text.split_once(result.call_id.as_str()).unwrap();
        let (before, _) = before.rsplit_once('\n').unwrap();
        fs::write(late.join(name), format!("{before}\n")).unwrap();
        for words in [&["why"][..], &["audit", "show"]] {
            let mut command = world.command("palisade");
            command.args(words).arg(result.call_id.as_str()).arg("--dir").arg(&late);
            // The control: nothing comes.
            assert_eq!(command.output().unwrap().status.code(), Some(1), "{mode:?}: {words:?}");
            command.stdout(Stdio::piped());
            let asking = command.spawn().unwrap();
            thread::sleep(Duration::from_millis(200));
            fs::write(late.join(name), &text).unwrap();
            let told = asking.wait_with_output().unwrap();
            let said = String::from_utf8(told.stdout).unwrap();
            assert_eq!(told.status.code(), Some(0), "{mode:?}: {words:?}: {said}");
            assert!(said.contains("/srv/x"), "{mode:?}: {words:?}: {said}");
            fs::write(late.join(name), format!("{before}\n")).unwrap();
        }
    }
}
