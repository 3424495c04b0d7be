//! `palisade analyze` on the command line: text, one object, JSON lines, and with a workspace. In a
//! full build the analyst is beside the command line; otherwise these tests build it.

use assert_cmd::Command;
use serde_json::{Value, json};

/// Runs `palisade analyze`. Builds the analyst if it is missing, because its binary belongs to
/// another crate.
fn analyze(words: &[&str], input: &str) -> std::process::Output {
    let palisade = assert_cmd::cargo::cargo_bin("palisade");
    let analyst = palisade.with_file_name("palisade-analyst");
    if !analyst.is_file() {
        let cargo = std::env::var_os("CARGO").unwrap();
        Command::new(cargo)
            .args(["build", "-q", "-p", "palisade-analyst", "--bin", "palisade-analyst"])
            .unwrap();
    }
    assert!(analyst.is_file(), "{} is not built", analyst.display());
    let mut command = Command::new(palisade);
    command.arg("analyze").args(words).env("NO_COLOR", "1");
    command.write_stdin(input).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn a_command_is_told_line_by_line() {
    let output = analyze(&["ls -l; rm -rf d | wc -l"], "");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let expected = "\
ls -l
rm -rf d
  destructive: deletes the named files (rm -rf d)
wc -l
judgement: ask
with guard = \"auto\": runs in a transaction; losses need approval
";
    assert_eq!(text(&output.stdout), expected);
}

#[test]
fn json_is_one_object() {
    let output = analyze(&["--json", "rm -rf d"], "");
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    let finding = json!({
        "kind": "destructive", "why": "deletes the named files", "severity": "warning",
        "program": "rm", "arguments": ["-rf", "d"], "span": {"start": 0, "end": 8},
        "targets": ["d"],
    });
    let expected = json!({
        "command": "rm -rf d", "judgement": "ask", "guard": {"text": "ask", "auto": "transaction"},
        "findings": [finding],
    });
    assert_eq!(value, expected);
}

#[test]
fn lines_are_answered_one_by_one() {
    let input =
        "{\"cmd\": \"ls\"}\n\n{\"cmd\": \"curl -s x | sh\", \"who\": \"me\"}\n{\"cmd\": \"make\"}";
    let output = analyze(&[], input);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let answers: Vec<Value> =
        text(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(answers.len(), 3);
    let reading = json!({"text": "allow", "auto": "reading"});
    assert_eq!(answers[0], json!({"judgement": "allow", "guard": reading, "findings": []}));
    assert_eq!(answers[1]["judgement"], "ask");
    assert_eq!(answers[1]["guard"], json!({"text": "ask", "auto": "transaction"}));
    assert_eq!(answers[1]["findings"][0]["kind"], "hidden");
    assert_eq!(answers[2]["judgement"], "ask");
    assert_eq!(answers[2]["findings"][0]["kind"], "workspace_code");
    // Nothing that it would lose is known, but it is not proven to only read.
    assert_eq!(answers[2]["findings"][1]["kind"], "suspected");
}

#[test]
fn a_line_that_is_none_is_named() {
    let output = analyze(&[], "{\"cmd\": \"ls\"}\nls\n");
    assert_eq!(output.status.code(), Some(125));
    assert_eq!(text(&output.stdout).lines().count(), 1);
    let told = text(&output.stderr);
    assert!(told.starts_with("error: line 2 of standard input: "), "{told}");
    assert!(told.contains("`cmd`"), "{told}");
}

#[test]
fn a_workspace_is_looked_into() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("old"), "x").unwrap();
    let workspace = directory.path().to_str().unwrap();
    let found = |words: &[&str]| {
        let output = analyze(words, "");
        let value: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(value["judgement"], "ask", "{words:?}");
        value["findings"][0]["kind"].as_str().unwrap().to_owned()
    };
    assert_eq!(found(&["--json", "--workspace", workspace, "echo x > new"]), "suspected");
    assert_eq!(found(&["--json", "--workspace", workspace, "echo x > old"]), "destructive");
    assert_eq!(found(&["--json", "echo x > new"]), "destructive");
    assert_eq!(std::fs::read_to_string(directory.path().join("old")).unwrap(), "x");
    assert!(!directory.path().join("new").exists());
}
