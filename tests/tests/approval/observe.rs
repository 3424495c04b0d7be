//! A profile that is only observed: what it would have refused is recorded and done, what it denies
//! by name is denied, and what it is observed under still confines. As root's session and as an
//! ordinary user's.

use palisade_client::{Error, Open};
use palisade_protocol::{CallResult, ErrorCode};
use palisade_tests::{Mode, Sandbox, World, data};
use serde_json::{Value, json};
use std::{fs, net::TcpListener, path::Path, process::Output};

/// A world with a wide profile, a narrow one that is observed under it, and the same enforced.
fn world(mode: Mode) -> World {
    let world = World::new(mode);
    for name in ["open", "shown"] {
        let path = world.outside().join(name);
        fs::create_dir(&path).unwrap();
        world.give(&path);
    }
    let file = world.outside().join("shown/file");
    fs::write(&file, "shown\n").unwrap();
    world.give(&file);
    let secret = world.workspace().join(".env");
    fs::write(&secret, "secret\n").unwrap();
    world.give(&secret);
    let (open, shown) = (world.outside().join("open"), world.outside().join("shown"));
    let run = r#"execute = ["!/usr", "/bin", "/lib", "/lib64"]"#;
    world.add_profile(
        "wide",
        &format!(
            "version = 1\ndescription = \"What is enforced today.\"\nask = \"never\"\n[fs]\n\
             workspace = \"write\"\nallow_delete = true\n{run}\nread = [{shown:?}]\n\
             unguarded = [{open:?}]\n[layers]\noptional = [\"limits\"]\n"
        ),
    );
    let narrow = |observe: &str| {
        format!(
            "version = 1\ndescription = \"What we would like to enforce.\"\nextends = \"wide\"\n\
             {observe}tests = [\"write $WORKSPACE/x: deny\", \"read {}: deny\"]\n\
             [fs]\nworkspace = \"read\"\nallow_delete = false\n{run}\nread = []\n\
             unguarded = []\nhide = [\".env\"]\n[tools]\ndeny = [\"todo_write\"]\n[[rules]]\n\
             verdict = \"deny\"\nwhy = \"for people\"\ncommand = [\"printf\", \"forbidden\"]\n",
            file.display()
        )
    };
    world.add_profile("tried", &narrow("observe = \"wide\"\n"));
    world.add_profile("enforced", &narrow(""));
    world
}

/// Returns the denials that a call would have met: right, target.
fn would_be(result: &CallResult) -> Vec<(String, String)> {
    would_be_of("tried", result)
}

fn would_be_of(profile: &str, result: &CallResult) -> Vec<(String, String)> {
    let observed = result.receipt.as_ref().unwrap().observed.as_ref().expect("it is observed");
    assert_eq!(observed.under, "wide");
    assert_eq!(result.receipt.as_ref().unwrap().profile, profile);
    let one = |denial: &palisade_protocol::Denial| {
        let (right, _) = denial.rule.split_once(": ").unwrap_or((&denial.rule, ""));
        (right.to_owned(), denial.target.clone())
    };
    observed.would_refuse.iter().map(one).collect()
}

/// Runs a line that must succeed and must not be called a denial.
fn done(sandbox: &Sandbox, line: &str) -> CallResult {
    let result = sandbox.bash(line);
    assert!(result.success, "{line}: {:?} {}", result.error, result.stderr);
    assert_eq!(result.denials, [], "{line}");
    result
}

fn palisade(world: &World, arguments: &[&str]) -> (Output, String) {
    let output = world.mode.act(|| world.command("palisade").args(arguments).output().unwrap());
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    (output, told)
}

#[test]
fn what_would_be_refused_is_recorded_and_done() {
    for mode in Mode::all() {
        let world = world(mode);
        let sandbox = world.open_with("tried");
        let (open, shown) = (world.outside().join("open/new"), world.outside().join("shown/file"));
        let text = |path: &Path| path.display().to_string();

        assert_eq!(would_be(&done(&sandbox, "true")), []);
        let written = done(&sandbox, &format!("echo done > {}", open.display()));
        assert_eq!(would_be(&written), [("write".to_owned(), text(&open))], "{mode:?}");
        assert_eq!(fs::read_to_string(&open).unwrap(), "done\n", "{mode:?}");
        let read = done(&sandbox, &format!("cat {}", shown.display()));
        assert_eq!(read.stdout, "shown\n");
        assert_eq!(would_be(&read), [("read".to_owned(), text(&shown))], "{mode:?}");
        let made = done(&sandbox, "echo made > made");
        assert_eq!(would_be(&made), [("write".to_owned(), text(&world.workspace()))], "{mode:?}");
        assert_eq!(fs::read_to_string(world.workspace().join("made")).unwrap(), "made\n");

        // File tools, and a tool that would not be there.
        let read = sandbox.call("read_file", json!({"path": text(&shown)}));
        assert!(read.success, "{:?}", read.error);
        assert_eq!(would_be(&read), [("read".to_owned(), text(&shown))], "{mode:?}");
        let path = world.workspace().join("by-tool");
        let write = json!({"path": text(&path), "content": "x"});
        let write = sandbox.call("write_file", write);
        assert!(write.success, "{:?}", write.error);
        assert_eq!(would_be(&write), [("write".to_owned(), text(&path))], "{mode:?}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "x");
        let delete = sandbox.call("delete_file", json!({"path": text(&path)}));
        assert!(delete.success, "{:?}", delete.error);
        let expected = [("fs.allow_delete", "delete_file".to_owned()), ("write", text(&path))];
        assert_eq!(would_be(&delete), expected.map(|(a, b)| (a.to_owned(), b)), "{mode:?}");
        assert!(!path.exists());

        recorded(&world, &written, &text(&open));
    }
}

/// The log has it, as what it is, and so has whatever is read from the log.
fn recorded(world: &World, call: &CallResult, target: &str) {
    let log = world.state().join("audit");
    let (id, log) = (call.call_id.as_str(), log.to_str().unwrap());
    let (output, told) = palisade(world, &["why", id, "--dir", log]);
    assert_eq!(output.status.code(), Some(0), "{told}");
    let head = format!("would be refused if the profile were enforced: {target}\n");
    assert!(told.starts_with(&head), "{told}");
    let (_, json) = palisade(world, &["why", id, "--dir", log, "--json"]);
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["denials"], json!([]));
    assert_eq!(json["observed"][0]["target"], json!(target));
    // The differences for real calls, if the narrow profile were enforced.
    let profiles = world.profiles();
    let diff = ["profile", "diff", "wide", "enforced", "--replay", "1h", "--dir", log];
    let more = ["--json", "--profiles", profiles.to_str().unwrap()];
    let (_, told) = palisade(world, &[&diff[..], &more].concat());
    let lines = told.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let of_call: Vec<Value> = lines.filter(|line| line["call_id"] == json!(id)).collect();
    let answers: Vec<_> = of_call.iter().map(|l| (&l["what"], &l["from"])).collect();
    assert_eq!(answers, [(&json!(format!("write {target}")), &json!("allow"))], "{told}");
    // In a temporary directory the narrow one would have it written privately.
    let to = of_call[0]["to"].as_str().unwrap();
    assert!(["deny", "allow, privately"].contains(&to), "{to}");
}

/// The end of a job, as `job_output` tells it.
fn ended(sandbox: &Sandbox, job: &Value) -> Value {
    for _ in 0..120 {
        let output = sandbox.call("job_output", json!({"job": job, "wait_ms": 5_000}));
        let data = data(&output);
        if data["state"] == json!("ended") {
            return data;
        }
    }
    panic!("the job did not end");
}

#[test]
fn a_jobs_would_be_refusals_are_told_with_its_end() {
    for mode in Mode::all() {
        let world = world(mode);
        let sandbox = world.open_with("tried");
        let open = world.outside().join("open/of-a-job");
        let line = format!("echo done > {}", open.display());
        let started = sandbox.call("bash", json!({"command": line, "background": true}));
        assert!(started.success, "{:?}", started.error);
        let job = data(&started)["job"].clone();
        let end = ended(&sandbox, &job);
        assert_eq!(
            (&end["exit_code"], fs::read_to_string(&open).unwrap().as_str()),
            (&json!(0), "done\n")
        );
        let target = json!(open.display().to_string());
        let list = data(&sandbox.call("job_list", json!({})));
        for told in [&end, &list["jobs"][0]] {
            assert_eq!(told["denials"], Value::Null, "{mode:?}: {told}");
            assert_eq!(told["observed"][0]["target"], target, "{mode:?}: {told}");
            assert_eq!(told["observed"].as_array().unwrap().len(), 1, "{told}");
        }
        // One that ends while its call waits is told with both, and by `why` once.
        let line = format!("echo more >> {}", open.display());
        let waited = sandbox.call("bash", json!({"command": line, "yield_ms": 60_000}));
        assert!(waited.success, "{:?}", waited.error);
        assert_eq!(would_be(&waited).len(), 1, "{mode:?}");
        drop(sandbox);
        let log = world.state().join("audit");
        for call in [&started, &waited] {
            let id = call.call_id.as_str();
            let (output, told) = palisade(&world, &["why", id, "--dir", log.to_str().unwrap()]);
            assert_eq!(output.status.code(), Some(0), "{told}");
            let head = "would be refused if the profile were enforced: ";
            assert_eq!(told.matches(head).count(), 1, "{mode:?}: {told}");
            assert!(told.starts_with(&format!("{head}{}\n", open.display())), "{told}");
        }
    }
}

#[test]
fn its_tests_are_tried_as_if_it_were_enforced() {
    for mode in Mode::all() {
        let world = world(mode);
        let profiles = world.profiles();
        let tried =
            ["profile", "test", "--kernel", "--profiles", profiles.to_str().unwrap(), "tried"];
        let (output, told) = palisade(&world, &tried);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(0), "{mode:?}: {told}{said}");
        assert_eq!(told.matches("holds   tried: ").count(), 2, "{told}{said}");
        assert!(said.contains("tried is observed under wide, not enforced"), "{said}");
    }
}

/// A listener on this host's loopback.
fn listen() -> (TcpListener, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

/// Profiles of which the widest has two ports; the others are observed under it.
fn on_ports(mode: Mode, shared: u16, wider: u16) -> World {
    let world = World::new(mode);
    let add = |name: &str, more: &str, net: &str| {
        let text = format!(
            "version = 1\ndescription = \"x\"\nask = \"never\"\n{more}[fs]\nworkspace = \"write\"\n\
             execute = [\"!/usr\", \"/bin\", \"/lib\", \"/lib64\"]\n[net]\n{net}\n\
             [layers]\noptional = [\"limits\"]\n"
        );
        world.add_profile(name, &text);
    };
    add("wide", "", &format!("mode = \"ports\"\nports = [{shared}, {wider}]"));
    add("tried", OBSERVE, &format!("mode = \"ports\"\nports = [{shared}]"));
    add("alone", OBSERVE, "mode = \"loopback\"");
    world
}

const OBSERVE: &str = "observe = \"wide\"\n";

/// A session below a launcher that lets sessions connect to these ports.
fn below(world: &World, profile: &str, ports: &str) -> Result<Sandbox, Error> {
    let (stream, daemon) = world.embedded(&["--allow-ports", ports]);
    Sandbox::over(stream, Some(daemon), Open::new(world.workspace()).profile(profile))
}

fn connect(port: u16) -> String {
    format!("exec 3<> /dev/tcp/127.0.0.1/{port}")
}

#[test]
fn a_port_that_would_be_refused_is_connected_to_and_what_no_base_opens_is_not() {
    let ((both, shared), (base, wider), (shut, neither)) = (listen(), listen(), listen());
    for mode in Mode::all() {
        let world = on_ports(mode, shared, wider);
        let ports = format!("{shared},{wider}");
        let sandbox = below(&world, "tried", &ports).unwrap();
        assert_eq!(would_be(&done(&sandbox, &connect(shared))), [], "{mode:?}");
        both.accept().expect("the connection that both allow");
        let expected = [("connect".to_owned(), format!("127.0.0.1:{wider}"))];
        assert_eq!(would_be(&done(&sandbox, &connect(wider))), expected, "{mode:?}");
        base.accept().expect("the connection that would be refused");
        let refused = sandbox.bash(&connect(neither));
        assert!(!refused.success && refused.stderr.contains("Permission denied"), "{refused:#?}");
        assert_eq!(would_be(&refused), [], "{mode:?}: what is refused is no would-be");
        drop(sandbox);
        // Its base is what the ceiling is asked for.
        let error = below(&world, "tried", &shared.to_string()).expect_err("no session");
        assert_eq!(error.wire().map(|error| error.code), Some(ErrorCode::OverCeiling), "{mode:?}");
        // With a loopback of its own it would not have come to the host's.
        let sandbox = below(&world, "alone", &ports).unwrap();
        let result = done(&sandbox, &connect(wider));
        assert_eq!(would_be_of("alone", &result), expected, "{mode:?}");
        base.accept().expect("the connection to the host's loopback");
        let would = &result.receipt.as_ref().unwrap().observed.as_ref().unwrap().would_refuse[0];
        assert_eq!(would.layer, "network");
        assert!(would.remedy.contains(&format!("add {wider} to net.ports")), "{would:?}");
        let nobody = shut.accept().err().map(|error| error.kind());
        assert_eq!(nobody, Some(std::io::ErrorKind::WouldBlock), "{mode:?}");
    }
}

#[test]
fn the_profile_that_is_suggested_connects_to_the_same_and_to_no_other() {
    let ((both, shared), (base, wider), (shut, neither)) = (listen(), listen(), listen());
    for mode in Mode::all() {
        let world = on_ports(mode, shared, wider);
        let ports = format!("{shared},{wider}");
        let sandbox = below(&world, "tried", &ports).unwrap();
        done(&sandbox, &connect(wider));
        base.accept().expect("the connection that would be refused");
        drop(sandbox);
        let (log, path) = (world.state().join("audit"), world.profiles().join("next.toml"));
        let (log, profiles) = (log.display().to_string(), world.profiles());
        let to = ["-o", path.to_str().unwrap(), "--profiles", profiles.to_str().unwrap()];
        let suggest = ["profile", "suggest", "--profile", "tried", "--dir", &log];
        let (_, said) = palisade(&world, &[&suggest[..], &to].concat());
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{error}: {said}"));
        assert!(text.contains(OBSERVE), "it is observed until somebody says otherwise: {text}");
        world.add_profile("next", &text.replace(OBSERVE, ""));
        let sandbox = below(&world, "next", &ports).unwrap();
        for (port, listener) in [(shared, &both), (wider, &base)] {
            let result = sandbox.bash(&connect(port));
            assert!(result.success, "{mode:?}: {}\n{text}", result.stderr);
            listener.accept().expect("the connection that is allowed now");
        }
        assert!(!sandbox.bash(&connect(neither)).success, "{mode:?}");
        let nobody = shut.accept().err().map(|error| error.kind());
        assert_eq!(nobody, Some(std::io::ErrorKind::WouldBlock), "{mode:?}");
    }
}

#[test]
fn what_is_denied_by_name_is_denied_and_the_base_still_confines() {
    for mode in Mode::all() {
        let world = world(mode);
        let sandbox = world.open_with("tried");
        let denied = sandbox.bash("printf forbidden > /tmp/x");
        assert_eq!(denied.error.as_ref().map(|error| error.code), Some(ErrorCode::Denied));
        assert_eq!(denied.denials.len(), 1, "{mode:?}");
        assert_eq!(would_be(&denied), []);
        let tool = sandbox.call("todo_write", json!({"items": []}));
        assert_eq!(
            tool.error.as_ref().map(|error| error.code),
            Some(ErrorCode::Denied),
            "{mode:?}"
        );
        let hidden = sandbox.bash("cat .env; ls -A");
        assert!(hidden.stderr.contains("No such file or directory"), "{}", hidden.stderr);
        assert!(!hidden.stdout.contains(".env"), "{}", hidden.stdout);
        assert!(!would_be(&hidden).iter().any(|(_, target)| target.contains(".env")));

        // The base has no word of these.
        let canary = world.canary();
        let before = fs::read(&canary).unwrap();
        drop(sandbox.bash(&format!("echo x > {}", canary.display())));
        assert_eq!(fs::read(&canary).unwrap(), before, "{mode:?}");
        let beyond = sandbox.bash("echo x > /usr/oops; cat /etc/shadow; cat /etc/passwd");
        assert_eq!(beyond.stdout, "", "{mode:?}");
        assert_eq!(would_be(&beyond), [], "{mode:?}: what is refused is no would-be");
        assert!(!Path::new("/usr/oops").exists());
        let outside = sandbox.call("read_file", json!({"path": "/etc/passwd"}));
        assert!(!outside.success);
        assert_eq!((outside.denials.len(), would_be(&outside).len()), (1, 0), "{mode:?}");
        assert_eq!(fs::read_to_string(world.workspace().join(".env")).unwrap(), "secret\n");
    }
}

#[test]
fn the_same_profile_enforced_refuses_the_same() {
    for mode in Mode::all() {
        let world = world(mode);
        let sandbox = world.open_with("enforced");
        let open = world.outside().join("open/new");
        let shown = world.outside().join("shown/file");
        for line in [
            format!("echo done > {}", open.display()),
            format!("cat {}", shown.display()),
            "echo made > made".to_owned(),
        ] {
            let result = sandbox.bash(&line);
            assert!(!result.success && result.stdout.is_empty(), "{mode:?}: {line}");
            assert_eq!(result.receipt.as_ref().unwrap().observed, None);
        }
        assert!(!open.exists() && !world.workspace().join("made").exists(), "{mode:?}");
        assert!(sandbox.bash("true").success);
    }
}

#[test]
fn it_is_said_wherever_the_profile_is_shown() {
    for mode in Mode::all() {
        let world = world(mode);
        let profiles = world.profiles();
        let profiles = profiles.to_str().unwrap();
        let (_, shown) = palisade(&world, &["profile", "show", "tried", "--profiles", profiles]);
        assert!(shown.contains("# OBSERVED, NOT ENFORCED: profile wide is enforced\n"), "{shown}");
        assert!(shown.contains("observe = \"wide\"\n"), "{shown}");
        let run = ["run", "-v", "--profile", "tried", "--profiles", profiles, "--", "echo x > y"];
        let (output, _) = palisade(&world, &run);
        assert_eq!(output.status.code(), Some(0));
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            told.contains("observed, not enforced: profile tried; profile wide is enforced"),
            "{told}"
        );
        assert!(told.contains("mount would have refused"), "{told}");
        let (_, enforced) =
            palisade(&world, &["profile", "show", "enforced", "--profiles", profiles]);
        assert!(!enforced.to_lowercase().contains("observe"), "{enforced}");
    }
}
