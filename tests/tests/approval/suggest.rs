//! From the audit log of real sessions: `profile suggest` names the lines that would have allowed what
//! was refused, and with them it passes; `profile diff --replay` names the calls that would change. As
//! root's session and as an ordinary user's.

use palisade_protocol::{CallResult, ErrorCode};
use palisade_tests::{Mode, Sandbox, World};
use serde_json::{Value, json};
use std::{collections::BTreeSet, fs, path::Path};

/// A profile with these lists; of none that is there, so that it need not be root's to say more.
fn profile(execute: &[String], read: &[String], etc: &[String], more: &str) -> String {
    let run = ["!/usr/bin", "/usr/lib", "/usr/lib64", "/bin", "/lib", "/lib64"].map(str::to_owned);
    let run = [&run[..], execute].concat();
    format!(
        "version = 1\ndescription = \"x\"\nask = \"never\"\n{more}[fs]\nworkspace = \"write\"\n\
         execute = {run:?}\nread = {read:?}\netc = {etc:?}\n[layers]\noptional = [\"limits\"]\n"
    )
}

const FILE: &str = "/etc/passwd";
const PROGRAM: &str = "/usr/sbin/chroot";
const DIRECTORY: &str = "/usr/share";

/// The calls that need what the profile has not, and one that does not; the second is made twice.
fn calls(sandbox: &Sandbox) -> [CallResult; 5] {
    let program = || sandbox.call("bash", json!({"argv": [PROGRAM, "--help"]}));
    [
        sandbox.call("read_file", json!({"path": FILE})),
        program(),
        program(),
        sandbox.call("list_files", json!({"path": DIRECTORY})),
        sandbox.call("read_file", json!({"path": "probe", "limit": 1, "encoding": "base64"})),
    ]
}

fn successes(results: &[CallResult]) -> Vec<bool> {
    results.iter().map(|result| result.success).collect()
}

/// Returns what a command prints, an object per line.
fn lines(world: &World, arguments: &[&str]) -> Vec<Value> {
    let log = world.state().join("audit");
    let output = world.mode.act(|| {
        let mut command = world.command("palisade");
        command.args(arguments).arg("--dir").arg(&log).arg("--json").output().unwrap()
    });
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(!text.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_profile_with_the_lines_that_are_suggested_passes() {
    for mode in Mode::all() {
        let world = World::new(mode);
        world.add_profile("narrow", &profile(&[], &[], &[], ""));
        let first = calls(&world.open_with("narrow"));
        assert_eq!(successes(&first), [false, false, false, false, true], "{mode:?}: {first:#?}");

        let suggested = lines(&world, &["profile", "suggest", "--profile", "narrow"]);
        let (mut execute, mut read, mut etc, mut met) = (vec![], vec![], vec![], vec![]);
        for suggestion in &suggested {
            assert_eq!(
                (&suggestion["profile"], &suggestion["met"]),
                (&json!("narrow"), &json!("refused"))
            );
            let remedy = suggestion["remedy"].as_str().unwrap();
            // … add "PATH" to KEY
            let (_, line) = remedy.rsplit_once("add ").unwrap();
            let (path, key) = line.rsplit_once(" to ").unwrap();
            let path: String = serde_json::from_str(path).unwrap();
            let target = suggestion["targets"][0].as_str().unwrap().to_owned();
            met.push((target, key.to_owned(), suggestion["times"].as_u64().unwrap()));
            match key {
                "fs.execute" => execute.push(path),
                "fs.read" => read.push(path),
                "fs.etc" => etc.push(path),
                _ => panic!("{suggestion}"),
            }
        }
        let of = |path: &str, key: &str, times| (path.to_owned(), key.to_owned(), times);
        let expected =
            [of(PROGRAM, "fs.execute", 2), of(FILE, "fs.etc", 1), of(DIRECTORY, "fs.read", 1)];
        let all: BTreeSet<_> = met.iter().cloned().collect();
        assert_eq!(all, expected.clone().into_iter().collect(), "{mode:?}");
        assert_eq!((met.len(), &met[0]), (3, &expected[0]), "{mode:?}: the most met is first");

        world.add_profile("built", &profile(&execute, &read, &etc, ""));
        let sandbox = world.open_with("built");
        let built = calls(&sandbox);
        assert_eq!(successes(&built), [true; 5], "{mode:?}: {built:#?}");
        // And no more than that.
        assert!(!sandbox.call("read_file", json!({"path": "/etc/group"})).success);
    }
}

#[test]
fn a_replay_names_the_real_calls_that_would_change() {
    for mode in Mode::all() {
        let world = World::new(mode);
        world.add_profile("narrow", &profile(&[], &[], &[], ""));
        let deny = "[tools]\ndeny = [\"list_files\"]\n";
        let one = |text: &str| [text.to_owned()];
        world.add_profile("wide", &profile(&one(PROGRAM), &[], &one("passwd"), deny));
        let made = calls(&world.open_with("narrow"));
        assert_eq!(successes(&made), [false, false, false, false, true], "{mode:?}");

        let profiles = world.profiles();
        let profiles = profiles.to_str().unwrap();
        let replayed = |first: &str, second: &str| -> BTreeSet<[String; 4]> {
            let diff = ["profile", "diff", first, second, "--profiles", profiles, "--replay", "1h"];
            let of_calls = |line: &Value| line.get("call_id").is_some();
            let text = |line: Value| {
                ["call_id", "what", "from", "to"].map(|key| line[key].as_str().unwrap().to_owned())
            };
            lines(&world, &diff).into_iter().filter(of_calls).map(text).collect()
        };
        let (deny, allow) = ("deny", "allow");
        let changes = [
            (0, format!("read {FILE}"), deny, allow),
            (1, format!("exec {PROGRAM}"), deny, allow),
            (2, format!("exec {PROGRAM}"), deny, allow),
            // The directory, which neither profile allows, is no change; the tool is one.
            (3, "tool list_files".to_owned(), allow, deny),
        ];
        let expected = |forth: bool| -> BTreeSet<[String; 4]> {
            let of = |(number, what, from, to): &(usize, String, &str, &str)| {
                let (from, to) = if forth { (from, to) } else { (to, from) };
                let id = made[*number].call_id.as_str().to_owned();
                [id, what.clone(), (*from).to_owned(), (*to).to_owned()]
            };
            changes.iter().map(of).collect()
        };
        assert_eq!(replayed("narrow", "wide"), expected(true), "{mode:?}");
        assert_eq!(replayed("wide", "narrow"), expected(false), "{mode:?}");
    }
}

/// A world with directories outside that a profile only reads, and names that it hides.
fn furnished(mode: Mode) -> World {
    let world = World::new(mode);
    for name in ["open", "shut"] {
        let path = world.outside().join(name);
        fs::create_dir(&path).unwrap();
        world.give(&path);
    }
    for path in [
        world.outside().join("open/file"),
        world.workspace().join("secret"),
        world.workspace().join("other"),
    ] {
        fs::write(&path, "as it was\n").unwrap();
        world.give(&path);
    }
    let read = ["open", "shut"].map(|name| world.outside().join(name).display().to_string());
    let hide = "hide = [\"secret\", \"other\"]\n";
    let text = profile(&[], &read, &[], "").replace("[layers]", &format!("{hide}[layers]"));
    world.add_profile("narrow", &text);
    world
}

/// Makes calls that the profile refuses: a new file, an existing one, a new directory, a program
/// and a hidden name.
fn refused(world: &World, sandbox: &Sandbox) -> Vec<(&'static str, CallResult)> {
    let open = |name: &str| world.outside().join("open").join(name).display().to_string();
    let write = |path: String| sandbox.call("write_file", json!({"path": path, "content": "x"}));
    vec![
        ("a new file", write(open("new"))),
        ("a file", write(open("file"))),
        ("a new directory", sandbox.call("make_dir", json!({"path": open("one/two")}))),
        ("a program", sandbox.call("bash", json!({"argv": [PROGRAM, "--help"]}))),
        ("a hidden name", sandbox.call("read_file", json!({"path": "secret"}))),
    ]
}

/// Makes calls of the same kinds, which the suggestions do not cover.
fn others(world: &World, sandbox: &Sandbox) -> Vec<CallResult> {
    let shut = world.outside().join("shut/new").display().to_string();
    let results = vec![
        sandbox.call("write_file", json!({"path": shut, "content": "x"})),
        sandbox.call("bash", json!({"argv": ["/usr/sbin/nologin"]})),
        sandbox.call("read_file", json!({"path": "other"})),
    ];
    assert!(!Path::new(&shut).exists());
    assert!(Path::new("/usr/sbin/nologin").exists(), "it is there to be refused");
    results
}

/// Writes a profile of what was refused with another; gives what is said and the profile.
fn suggest(world: &World, name: &str, output: &str) -> (String, String) {
    let log = world.state().join("audit");
    let path = world.profiles().join(format!("{output}.toml"));
    let output = world.mode.act(|| {
        let mut command = world.command("palisade");
        command.args(["profile", "suggest", "--profile", name, "--dir"]).arg(&log);
        command.arg("--profiles").arg(world.profiles()).arg("-o").arg(&path).output().unwrap()
    });
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let said = text(&output.stdout) + &text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    (said, fs::read_to_string(path).unwrap())
}

#[test]
fn the_profile_that_is_written_allows_the_same_and_no_more() {
    for mode in Mode::all() {
        let world = furnished(mode);
        let sandbox = world.open_with("narrow");
        let before = refused(&world, &sandbox);
        for (what, result) in before.iter() {
            assert!(!result.success && result.denials.len() == 1, "{mode:?}: {what}: {result:#?}");
        }
        let open = world.outside().join("open");
        assert_eq!(fs::read_to_string(open.join("file")).unwrap(), "as it was\n");
        assert!(!open.join("new").exists() && !open.join("one").exists(), "{mode:?}");
        drop(sandbox);

        let (said, text) = suggest(&world, "narrow", "wider");
        // A missing path can not be named, so its directory is, with the reason.
        let directory = format!("add {:?} to fs.unguarded: for ", open.display().to_string());
        assert!(said.contains(&directory), "{said}");
        assert!(said.contains("a missing path can not be named"), "{said}");
        assert!(said.contains("written: 3 entries in "), "{said}");
        assert!(text.contains("hide = [\"secret\", \"other\",\n    \"!/secret\", # "), "{text}");

        let sandbox = world.open_with("wider");
        for (what, result) in refused(&world, &sandbox) {
            assert!(result.success, "{mode:?}: {what}: {:?}\n{text}", result.error);
        }
        assert_eq!(fs::read_to_string(open.join("file")).unwrap(), "x");
        assert_eq!(fs::read_to_string(open.join("new")).unwrap(), "x");
        assert!(open.join("one/two").is_dir(), "{mode:?}");
        for result in others(&world, &sandbox) {
            let code = result.error.as_ref().map(|error| error.code);
            let codes = [ErrorCode::OutsidePolicy, ErrorCode::NotFound, ErrorCode::SpawnFailed];
            assert!(codes.iter().any(|one| code == Some(*one)), "{mode:?}: {result:#?}");
        }
    }
}

#[test]
fn a_profile_that_extends_is_widened_by_one_of_the_daemons_owner() {
    for mode in Mode::all() {
        let world = furnished(mode);
        let text = "version = 1\ndescription = \"x\"\nextends = \"narrow\"\n";
        world.add_profile("inner", text);
        let sandbox = world.open_with("inner");
        let path = world.outside().join("open/new");
        let write = |sandbox: &Sandbox| {
            let path = path.display().to_string();
            sandbox.call("write_file", json!({"path": path, "content": "x"}))
        };
        assert!(!write(&sandbox).success && !path.exists(), "{mode:?}");
        drop(sandbox);
        let (_, text) = suggest(&world, "inner", "wider");
        assert!(text.contains("extends = \"inner\"\n"), "{text}");
        assert!(text.contains("widen = true\n"), "{text}");
        // Root's daemon takes it from root, and a user's own daemon from that user.
        let sandbox = world.open_with("wider");
        assert!(write(&sandbox).success && path.exists(), "{mode:?}: {text}");
        assert!(others(&world, &sandbox).iter().all(|result| !result.success));
    }
}
