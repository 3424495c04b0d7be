//! `palisade audit` on logs that these tests write.

use assert_cmd::Command;
use palisade_audit::{
    Call, CallResult, CleanJson, CleanText, Hash, Head, Judgement, LayerDenial, Log, Options,
    Record,
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
        altered: None,
        claims: Vec::new(),
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

/// A private key and its public key, as `openssl genpkey -algorithm ed25519` and `openssl pkey
/// -pubout` write them: those of test 1 of RFC 8032.
const KEYS: [&str; 2] = [
    "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g\n-----END PRIVATE KEY-----\n",
    "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEA11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=\n-----END PUBLIC KEY-----\n",
];

/// Creates a log of many small files.
fn long_log(calls: u32) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    let options = Options { rotate_at: 4000, ..Options::new("test") };
    let log = Log::open(directory.path(), options).unwrap();
    for number in 0..calls {
        let id = format!("c{number:04}");
        drop(log.append(&call(&id, "echo hello")).unwrap());
        drop(log.append(&result(&id, "hello\n")).unwrap());
    }
    drop(log);
    directory
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

#[test]
fn an_archived_log_is_verified_across_the_cut_and_searched() {
    let directory = long_log(40);
    let whole = audit(directory.path(), &["export", "--format", "jsonl"]).stdout;
    let stats = audit(directory.path(), &["stats", "--json"]).stdout;
    let nothing = audit(directory.path(), &["archive", "--older-than", "1d"]);
    assert_eq!(stdout(&nothing), "there is no complete file to archive\n");
    let made = audit(directory.path(), &["archive", "--json"]);
    let archives = json(&made)["archives"].as_array().unwrap().clone();
    assert!(archives.len() > 5, "{made:?}");
    let left = fs::read_dir(directory.path())
        .unwrap()
        .filter(|entry| entry.as_ref().unwrap().file_name().to_str().unwrap().ends_with(".jsonl"));
    assert_eq!(left.count(), 1, "only the current file is left");
    let verified = audit(directory.path(), &["verify"]);
    assert_eq!(verified.status.code(), Some(0), "{verified:?}");
    let said = stdout(&verified);
    assert!(
        said.contains(&format!(" in 1 files and {} archives, head ", archives.len())),
        "{said}"
    );
    assert_eq!(audit(directory.path(), &["export", "--format", "jsonl"]).stdout, whole);
    assert_eq!(audit(directory.path(), &["stats", "--json"]).stdout, stats);
    let shown = audit(directory.path(), &["show", "c0000", "--json"]);
    assert_eq!(json(&shown)["records"].as_array().unwrap().len(), 2);
    assert!(stdout(&audit(directory.path(), &["show", "last"])).contains("c0039"));

    // One that is elsewhere is missed, found where it is named, and not missed after --from.
    let elsewhere = tempfile::tempdir().unwrap();
    let name = archives[0]["file"].as_str().unwrap();
    for name in [name.to_owned(), name.replace(".jsonl.gz", ".manifest.json")] {
        let from = directory.path().join("archive").join(&name);
        fs::copy(&from, elsewhere.path().join(&name)).unwrap();
        fs::remove_file(from).unwrap();
    }
    let bad = audit(directory.path(), &["verify"]);
    let last = &archives[0]["last"];
    let head = format!("{}:{}", last["seq"], last["hash"].as_str().unwrap());
    assert_eq!(bad.status.code(), Some(1));
    let missing = format!("records 1 to {} are neither in the log nor in an archive", last["seq"]);
    assert!(stdout(&bad).contains(&missing), "{bad:?}");
    assert!(stdout(&bad).contains(&format!("--from {head}")), "{bad:?}");
    let there = elsewhere.path().to_str().unwrap();
    let good = audit(directory.path(), &["verify", "--archives", there]);
    assert_eq!(good.status.code(), Some(0), "{good:?}");
    let good = audit(directory.path(), &["verify", "--from", &head]);
    assert_eq!(good.status.code(), Some(0), "{good:?}");
    assert!(stdout(&good).contains(&format!(" after {head}, ")), "{good:?}");
    let shown = audit(directory.path(), &["show", "c0000", "--archives", there]);
    assert_eq!(shown.status.code(), Some(0), "{shown:?}");
}

#[test]
fn archives_are_signed_and_an_altered_one_is_named() {
    let directory = long_log(20);
    let keys = tempfile::tempdir().unwrap();
    let [private, public] = ["private.pem", "public.pem"].map(|name| keys.path().join(name));
    fs::write(&private, KEYS[0]).unwrap();
    fs::write(&public, KEYS[1]).unwrap();
    let [private, public] = [&private, &public].map(|path| path.to_str().unwrap());
    let refused = audit(directory.path(), &["archive", "--sign-with", public]);
    assert_eq!(refused.status.code(), Some(125));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("openssl genpkey"), "{refused:?}");
    assert!(!directory.path().join("archive").exists(), "nothing was done");
    let made = audit(directory.path(), &["archive", "--sign-with", private, "--json"]);
    let name = json(&made)["archives"][0]["file"].as_str().unwrap().to_owned();
    // The log's own heads are not signed, which a key reveals.
    let unsigned = audit(directory.path(), &["verify", "--public-key", public]);
    assert_eq!(unsigned.status.code(), Some(1));
    assert!(stdout(&unsigned).contains("c0000 has no signed head"), "{unsigned:?}");
    assert_eq!(json(&audit(directory.path(), &["verify", "--json"]))["good"], true);
    let path = directory.path().join("archive").join(&name);
    let mut bytes = fs::read(&path).unwrap();
    bytes.push(0);
    fs::write(&path, bytes).unwrap();
    let bad = audit(directory.path(), &["verify"]);
    assert_eq!(bad.status.code(), Some(1));
    let said = format!("bad: archive {name}: it was altered");
    assert!(stdout(&bad).contains(&said), "{bad:?}");
}

/// A call whose records are in an archive is explained as one in the log is, wherever the archive is.
#[test]
fn a_refusal_in_an_archive_is_explained() {
    let directory = tempfile::tempdir().unwrap();
    let options = Options { rotate_at: 4000, ..Options::new("test") };
    let log = Log::open(directory.path(), options).unwrap();
    let denial = LayerDenial {
        layer: CleanText::new("mount"),
        rule: CleanText::new("read: profile workspace does not include /srv/x"),
        target: CleanText::new("/srv/x"),
        remedy: CleanText::new("add \"/srv/x\" to fs.read"),
        at: CleanText::new(""),
        opens: CleanText::new("/srv/x could be read"),
    };
    drop(log.append(&call("c-refused", "cat /srv/x")).unwrap());
    let Record::Result(refused) = result("c-refused", "") else { unreachable!() };
    let refused = CallResult { success: false, denials: vec![denial], ..refused };
    drop(log.append(&Record::Result(refused)).unwrap());
    for number in 0..20 {
        drop(log.append(&call(&format!("c{number:04}"), "echo hello")).unwrap());
    }
    drop(log);
    let why = |arguments: &[&str]| {
        let mut command = Command::cargo_bin("palisade").unwrap();
        command.args(["why", "c-refused", "--dir"]).arg(directory.path()).args(arguments);
        command.output().unwrap()
    };
    let in_log = why(&[]);
    assert_eq!(in_log.status.code(), Some(0), "{in_log:?}");
    assert!(stdout(&in_log).contains("add \"/srv/x\" to fs.read"), "{in_log:?}");
    let made = json(&audit(directory.path(), &["archive", "--json"]));
    assert!(made["archives"].as_array().unwrap().len() > 1, "{made}");
    let file = made["archives"][0]["file"].as_str().unwrap();
    assert!(!directory.path().join(file.trim_end_matches(".gz")).exists(), "{made}");
    let archived = why(&[]);
    assert_eq!((archived.status.code(), stdout(&archived)), (Some(0), stdout(&in_log)));
    // Elsewhere it is found where it is named, and the message says how to name it.
    let elsewhere = tempfile::tempdir().unwrap();
    let there = elsewhere.path().join("moved");
    fs::rename(directory.path().join("archive"), &there).unwrap();
    let missing = why(&[]);
    assert_eq!((missing.status.code(), stdout(&missing).as_str()), (Some(1), ""));
    let told = String::from_utf8_lossy(&missing.stderr);
    assert!(told.contains("no call \"c-refused\" in the log and its archives"), "{told}");
    assert!(told.contains("--archives DIR"), "{told}");
    let named = why(&["--archives", there.to_str().unwrap()]);
    assert_eq!((named.status.code(), stdout(&named)), (Some(0), stdout(&in_log)));
}
