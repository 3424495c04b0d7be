//! From the audit log of real sessions: `profile suggest` names the lines that would have allowed what
//! was refused, and with them it passes; `profile diff --replay` names the calls that would change. As
//! root's session and as an ordinary user's.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test that can not go on fails; it runs the command line"
)]

use palisade_protocol::CallResult;
use palisade_tests::{Mode, Sandbox, World};
use serde_json::{Value, json};
use std::collections::BTreeSet;

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

/// What a command prints, an object a line.
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
            // What neither allows is none, though its tool is.
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
