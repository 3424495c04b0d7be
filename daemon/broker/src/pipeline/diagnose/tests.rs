//! Tests of how the output of checkers becomes a result.

use super::*;

fn diagnostic(path: &str, severity: Severity) -> Diagnostic {
    Diagnostic {
        path: Some(path.to_owned()),
        line: Some(3),
        column: Some(9),
        severity,
        code: Some("E1".to_owned()),
        message: "wrong".to_owned(),
    }
}

fn failed(found: Vec<Diagnostic>) -> CheckerResult {
    let error = WireError::new(ErrorCode::CommandFailed, "the program ended with status 101", "");
    let outcome = Outcome {
        error: Some(error),
        exit_code: Some(101),
        stderr: "error: no manifest\n".to_owned(),
        ..Outcome::default()
    };
    let spoke = if found.is_empty() { DiagnosticPresence::No } else { DiagnosticPresence::Yes };
    CheckerResult {
        name: "cargo".to_owned(),
        outcome,
        read: CheckerOutput { found, ..CheckerOutput::default() },
        spoke,
    }
}

fn data(outcome: &Outcome) -> serde_json::Value {
    serde_json::from_str(outcome.data.as_ref().unwrap().as_str()).unwrap()
}

#[test]
fn a_checker_that_finds_something_has_succeeded() {
    let found = vec![diagnostic("a.rs", Severity::Error), diagnostic("b.rs", Severity::Warning)];
    let outcome = combine(vec![failed(found)], 10_000).unwrap();
    assert_eq!(outcome.error, None);
    assert_eq!(
        outcome.output,
        "a.rs:3:9: error[E1]: wrong (cargo)\nb.rs:3:9: warning[E1]: wrong (cargo)\n"
    );
    let data = data(&outcome);
    assert_eq!(data["counts"], json!({"error": 1, "warning": 1, "note": 0}));
    let first = json!({"path": "a.rs", "line": 3, "column": 9, "severity": "error",
        "code": "E1", "message": "wrong", "source": "cargo"});
    assert_eq!(data["diagnostics"][0], first);
    assert_eq!(data["checkers"][0]["exit_code"], 101);
}

#[test]
fn one_that_fails_and_says_nothing_has_not() {
    let outcome = combine(vec![failed(Vec::new())], 10_000).unwrap();
    assert_eq!(outcome.error.map(|error| error.code), Some(ErrorCode::CommandFailed));
    assert_eq!(outcome.output, "error: no manifest\n");
}

#[test]
fn what_does_not_fit_is_counted() {
    let found = (0..100).map(|n| diagnostic(&format!("{n}.rs"), Severity::Note)).collect();
    let outcome = combine(vec![failed(found)], 100).unwrap();
    let data = data(&outcome);
    assert_eq!(data["diagnostics"].as_array().unwrap().len(), 2);
    assert_eq!(data["omitted"], 98);
    assert_eq!(data["counts"]["note"], 100);
    assert!(outcome.output.len() <= 100);
}

#[test]
fn paths_are_told_apart_as_text() {
    for (path, expected) in [
        ("/w/a", Some("a")),
        ("/w/./b/../a", Some("a")),
        ("/w", Some("")),
        ("/w/..", None),
        ("/wide/a", None),
        ("/other", None),
    ] {
        assert_eq!(
            below(b"/w", path.as_bytes()),
            expected.map(|e| e.as_bytes().to_vec()),
            "{path}"
        );
    }
    let mut absolute = diagnostic("/w/src/a.rs", Severity::Note);
    relate(&mut absolute, b"/w");
    assert_eq!(absolute.path.as_deref(), Some("src/a.rs"));
    let about = |named: &[&str]| {
        let named: Vec<_> = named.iter().map(|n| n.as_bytes().to_vec()).collect();
        is_about(&absolute, &named)
    };
    assert!(about(&[]) && about(&["src"]) && about(&["src/a.rs"]));
    assert!(!about(&["sr"]) && !about(&["src/a"]) && !about(&["docs"]));
}
