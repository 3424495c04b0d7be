//! `palisade audit` on logs that these tests write.

use assert_cmd::Command;
use palisade_audit::{
    Call, CallResult, CleanJson, CleanText, Hash, Head, Judgement, Log, Options, Record,
};
use serde_json::Value;
use std::{fs, path::Path, process::Output};
use tempfile::TempDir;

fn call(id: &str, command: &str) -> Record {
    let arguments = serde_json::json!({ "command": command }).to_string();
    Record::Call(Call {
        call_id: id.into(),
        session: "s1".into(),
        uid: 1000,
        pid: Some(7),
        tool: "bash".into(),
        digest: Hash::of(arguments.as_bytes()),
        arguments: CleanJson::new(&arguments),
        cwd: "/w".into(),
        reason: None,
        dry_run: false,
        judgement: Judgement::Allow,
        findings: Vec::new(),
        thinking: None,
    })
}

fn result(id: &str, output: &str) -> Record {
    Record::Result(CallResult {
        call_id: id.into(),
        session: "s1".into(),
        success: true,
        error: None,
        message: None,
        exit_code: Some(0),
        signal: None,
        output: Some(CleanText::new(output)),
        output_bytes: output.len() as u64,
        output_digest: Hash::of(output.as_bytes()),
        data_digest: None,
        attachment: None,
        omitted_bytes: 0,
        duration_us: 900,
        denials: Vec::new(),
        observed: Vec::new(),
    })
}

/// Creates a log of five records: start, two calls and their results.
fn log() -> (TempDir, Head) {
    let directory = tempfile::tempdir().unwrap();
    let log = Log::open(directory.path(), Options::new("test")).unwrap();
    for record in [
        call("c1", "echo hello"),
        result("c1", "hello\n"),
        call("c2", "printf '\u{1b}[2J'"),
        result("c2", "\u{1b}[2J"),
    ] {
        drop(log.append(&record).unwrap());
    }
    let head = log.head();
    (directory, head)
}

fn audit(directory: &Path, words: &[&str]) -> Output {
    let mut command = Command::cargo_bin("palisade").unwrap();
    command.arg("audit").args(words).arg("--dir").arg(directory).output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn edit(directory: &Path, from: &str, to: &str) {
    let path = directory.join("c0000-000000000001.jsonl");
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains(from));
    fs::write(path, text.replacen(from, to, 1)).unwrap();
}

#[test]
fn verify_names_the_first_bad_record_and_exits_with_1() {
    let (directory, head) = log();
    let good = audit(directory.path(), &["verify", "--expect", &head.to_string()]);
    assert_eq!(good.status.code(), Some(0), "{good:?}");
    assert_eq!(stdout(&good), format!("c0000: good, 5 records in 1 files, head {head}\n"));

    edit(directory.path(), "echo hello", "echo hullo");
    let bad = audit(directory.path(), &["verify"]);
    assert_eq!(bad.status.code(), Some(1));
    assert!(
        stdout(&bad).contains("bad: c0000-000000000001.jsonl:2: record 2 was edited\n"),
        "{bad:?}"
    );
    let bad = audit(directory.path(), &["verify", "--json"]);
    assert_eq!(bad.status.code(), Some(1));
    let found: Value = serde_json::from_slice(&bad.stdout).unwrap();
    assert_eq!(found["good"], false);
    assert_eq!(found["chains"][0]["bad"]["seq"], 2);
    assert_eq!(found["chains"][0]["bad"]["what"], "edited");
}

#[test]
fn an_anchor_that_is_not_there_is_bad() {
    let (directory, head) = log();
    let anchor = Head { seq: head.seq + 1, ..head }.to_string();
    let bad = audit(directory.path(), &["verify", "--expect", &anchor]);
    assert_eq!(bad.status.code(), Some(1));
    assert!(stdout(&bad).contains(&format!("no chain contains {anchor}\n")), "{bad:?}");
    let nonsense = audit(directory.path(), &["verify", "--expect", "5"]);
    assert_eq!(nonsense.status.code(), Some(2));
}

#[test]
fn no_log_is_not_a_good_log() {
    let directory = tempfile::tempdir().unwrap();
    let missing = audit(&directory.path().join("missing"), &["verify"]);
    assert_eq!(missing.status.code(), Some(125));
    assert!(String::from_utf8(missing.stderr).unwrap().contains("--dir"));
}

#[test]
fn tail_prints_the_last_records_and_nothing_that_steers_a_terminal() {
    let (directory, _) = log();
    let output = audit(directory.path(), &["tail", "-n", "2"]);
    let text = stdout(&output);
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), 2, "{text}");
    assert!(lines[0].contains("call") && lines[0].contains("c2 bash: printf"), "{text}");
    assert!(lines[1].ends_with("c2 ok status 0, 1 ms"), "{text}");
    assert!(!text.contains('\u{1b}'));
    let raw = audit(directory.path(), &["tail", "-n", "9", "--json", "--session", "s1"]);
    let kinds: Vec<_> = stdout(&raw)
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["kind"].clone())
        .collect();
    assert_eq!(kinds, ["call", "result", "call", "result"]);
}

#[test]
fn show_has_everything_about_a_call() {
    let (directory, _) = log();
    let text = stdout(&audit(directory.path(), &["show", "c1"]));
    assert!(text.contains("echo hello") && text.contains("```\nhello\n```"), "{text}");
    assert!(!text.contains("c2"));
    let json = audit(directory.path(), &["show", "c1", "--json"]);
    let found: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(found["records"].as_array().unwrap().len(), 2);
    assert_eq!(audit(directory.path(), &["show", "c9"]).status.code(), Some(1));
}

#[test]
fn stats_and_exports() {
    let (directory, _) = log();
    let stats = audit(directory.path(), &["stats", "--json"]);
    let found: Value = serde_json::from_slice(&stats.stdout).unwrap();
    assert_eq!((&found["tools"]["bash"], &found["results"]["ok"]), (&2.into(), &2.into()));
    let raw = fs::read(directory.path().join("c0000-000000000001.jsonl")).unwrap();
    assert_eq!(audit(directory.path(), &["export", "--format", "jsonl"]).stdout, raw);
    let page = stdout(&audit(directory.path(), &["export", "--format", "md"]));
    assert!(page.contains("## 2. `bash`") && !page.contains('\u{1b}'), "{page}");
    let messages = audit(directory.path(), &["export", "--format", "messages"]);
    let found: Value = serde_json::from_slice(&messages.stdout).unwrap();
    assert_eq!(found[1]["content"][0]["content"], "hello\n");
    let openai = audit(directory.path(), &["export", "--format", "messages", "--style", "openai"]);
    let found: Value = serde_json::from_slice(&openai.stdout).unwrap();
    assert_eq!(found[1]["role"], "tool");
}
