//! A program that answers approval requests. It gets the request as JSON on standard input and
//! writes its answer as JSON on standard output. Anything else that it does denies.

use crate::{
    operator::answer::{Verdict, answer},
    programs,
};
use palisade_client::{Answer, ApprovalRequest, Remember, Review};
use palisade_protocol::{Decision, JsonText, RawPath};
use serde::Deserialize;
use std::{path::PathBuf, time::Duration};

/// The program and its arguments.
#[derive(Debug, Clone)]
pub(crate) struct ApproverProgram {
    pub(crate) program: PathBuf,
    pub(crate) arguments: Vec<String>,
}

/// The program's answer.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ProgramAnswer {
    decision: Word,
    #[serde(default)]
    reason: Option<String>,
    #[serde(default)]
    guidance: Option<String>,
    #[serde(default)]
    arguments: Option<JsonText>,
    #[serde(default)]
    output: Option<String>,
    #[serde(default)]
    data: Option<JsonText>,
    #[serde(default)]
    remember: Option<Remember>,
    #[serde(default)]
    without_deletions: bool,
    #[serde(default)]
    without: Vec<RawPath>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Word {
    Approve,
    Deny,
}

impl ApproverProgram {
    /// Returns the program's answer; if it gave none, a denial with the reason.
    pub(crate) async fn decide(&self, request: &ApprovalRequest, time: Duration) -> Answer {
        let said = match serde_json::to_vec(request) {
            Ok(mut input) => {
                input.push(b'\n');
                programs::ask(&self.program, &self.arguments, input, time).await
            }
            Err(error) => Err(format!("can not be asked: {error}")),
        };
        let read = said.and_then(|output| read(request, &output));
        read.unwrap_or_else(|why| {
            let told = format!("the approver program {} {why}", self.program.display());
            answer(request, Verdict::Deny, &told)
        })
    }
}

/// Parses the program's output as an answer to this kind of approval request.
fn read(request: &ApprovalRequest, output: &[u8]) -> Result<Answer, String> {
    let said: ProgramAnswer =
        serde_json::from_slice(output).map_err(|error| format!("gave no valid answer: {error}"))?;
    let ProgramAnswer { decision, reason, guidance, arguments, output, data, remember, .. } = said;
    let (without, without_deletions) = (said.without, said.without_deletions);
    let mixed = |what: &str| Err(format!("gave a contradictory answer: {what}"));
    let mut given = match (decision, request.review) {
        (Word::Deny, _) if arguments.is_some() || output.is_some() || remember.is_some() => {
            return mixed("a denial can not have arguments, output or remember");
        }
        (Word::Deny, _) => answer(request, Verdict::Deny, reason.as_deref().unwrap_or_default()),
        (Word::Approve, _) if guidance.is_some() => {
            return mixed("guidance applies only to a denial");
        }
        (Word::Approve, Review::Input) => match (arguments, output) {
            (_, Some(_)) => return mixed("there is no output yet"),
            (Some(arguments), None) if !arguments.is_object() => {
                return mixed("arguments must be an object");
            }
            (Some(arguments), None) => Answer::approve_modified(&arguments)
                .map_err(|error| format!("gave arguments that can not be sent: {error}"))?,
            (None, None) => Answer::approve(),
        },
        (Word::Approve, Review::Effects) => match (arguments, output) {
            (Some(_), _) | (_, Some(_)) => return mixed("the command has run already"),
            (None, None) if without_deletions || !without.is_empty() => {
                let answer = Answer::approve_without(without);
                if without_deletions { answer.without_deletions() } else { answer }
            }
            (None, None) => Answer::approve(),
        },
        (Word::Approve, Review::Output) => match (arguments, output) {
            (Some(_), _) => return mixed("the call has run already"),
            (None, Some(output)) => Answer::replace(output),
            (None, None) => Answer::pass(),
        },
    };
    if let Some(data) = data {
        if !matches!(given.decision(), Decision::Replace(_)) {
            return mixed("data applies only to a replaced output");
        }
        if !data.is_object() {
            return mixed("data must be an object");
        }
        given = given
            .with_data(&data)
            .map_err(|error| format!("gave data that can not be sent: {error}"))?;
    }
    if let Some(guidance) = guidance {
        given = given.guidance(guidance);
    }
    if let Some(Remember { scope, until }) = remember {
        given = given.remember(scope, until);
    }
    Ok(given)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::approve::card::tests::request;
    use palisade_client::{Scope, Until};
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn answers_that_are_understood() {
        let input = request();
        let mut output = request();
        output.review = Review::Output;
        let arguments = serde_json::json!({"command": "rm -r build/mine"});
        let modified = Answer::approve_modified(&arguments).unwrap();
        let remembered = Answer::approve().remember(Scope::ExactCall, Until::Session);
        let cases = [
            (&input, r#"{"decision":"approve"}"#, Answer::approve()),
            (&input, r#"{"decision":"approve","reason":"fine"}"#, Answer::approve()),
            (
                &input,
                r#"{"decision":"approve","arguments":{"command":"rm -r build/mine"}}"#,
                modified,
            ),
            (
                &input,
                r#"{"decision":"approve","remember":{"scope":"exact_call","until":"session"}}"#,
                remembered,
            ),
            (
                &input,
                r#" {"decision":"deny","reason":"no","guidance":"ask"} "#,
                Answer::deny("no").guidance("ask"),
            ),
            (&input, r#"{"decision":"deny"}"#, Answer::deny("no reason given")),
            (&output, r#"{"decision":"approve"}"#, Answer::pass()),
            (&output, r#"{"decision":"approve","output":"x"}"#, Answer::replace("x")),
            (
                &output,
                r#"{"decision":"approve","output":"x","data":{"lines":1}}"#,
                Answer::replace("x").with_data(&serde_json::json!({"lines": 1})).unwrap(),
            ),
            (&output, r#"{"decision":"deny","reason":"secret"}"#, Answer::withhold("secret")),
        ];
        for (request, text, expected) in cases {
            assert_eq!(read(request, text.as_bytes()).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn nonsense_is_no_answer() {
        let cases: [&[u8]; 18] = [
            b"",
            b"\n",
            b"approve",
            b"true",
            b"\"approve\"",
            b"{}",
            br#"{"decision":"yes"}"#,
            br#"{"decision":"Approve"}"#,
            br#"{"decision":null}"#,
            br#"{"decision":"approve","decision":"deny"}"#,
            br#"{"decision":"approve"} {"decision":"approve"}"#,
            br#"{"decision":"approve","surprise":1}"#,
            br#"{"decision":"approve","arguments":[]}"#,
            br#"{"decision":"approve","output":"x"}"#,
            br#"{"decision":"approve","data":{}}"#,
            br#"{"decision":"deny","arguments":{}}"#,
            br#"{"decision":"deny","remember":{"scope":"exact_call","until":"session"}}"#,
            b"{\"decision\":\"approve\",\"reason\":\"\xff\"}",
        ];
        for text in cases {
            let shown = String::from_utf8_lossy(text);
            assert!(read(&request(), text).is_err(), "{shown}");
        }
    }

    /// Returns a shell script's answer, and whether it left something behind.
    async fn decided(script: &str, time: Duration) -> (Answer, bool) {
        let directory = tempfile::tempdir().unwrap();
        let program = directory.path().join("judge");
        std::fs::write(
            &program,
            format!("#!/bin/sh\ncd {}\n{script}\n", directory.path().display()),
        )
        .unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o700)).unwrap();
        let judge = ApproverProgram { program, arguments: vec![] };
        let answer = judge.decide(&request(), time).await;
        (answer, directory.path().join("late").exists())
    }

    #[tokio::test]
    async fn a_program_that_answers_is_heard() {
        let minute = Duration::from_secs(60);
        let script = r#"grep -q '"digest":"5feceb66"' && echo '{"decision":"approve"}'"#;
        assert_eq!(decided(script, minute).await.0, Answer::approve());
        let unread = r#"echo '{"decision":"deny","reason":"closed"}'"#;
        assert_eq!(decided(unread, minute).await.0, Answer::deny("closed"));
    }

    #[tokio::test]
    async fn whatever_else_a_program_does_denies() {
        let yes = r#"echo '{"decision":"approve"}'"#;
        let (minute, moment) = (Duration::from_secs(60), Duration::from_millis(300));
        let cases = [
            (format!("{yes}; exit 1"), minute, "failed (exit status: 1)"),
            (format!("{yes}; kill -9 $$"), minute, "failed (signal: 9 (SIGKILL))"),
            ("exit 0".to_owned(), minute, "gave no valid answer: EOF"),
            ("echo sure".to_owned(), minute, "gave no valid answer: expected"),
            (format!("{yes}; {yes}"), minute, "gave no valid answer: trailing"),
            ("head -c 2000000 /dev/zero".to_owned(), minute, "answered with more than 1048576"),
            ("sleep 600".to_owned(), moment, "did not answer within 300ms"),
            (format!("{yes}; (sleep 1; touch late) & wait"), moment, "did not answer within 300ms"),
            (format!("{yes}; exec >&-; sleep 600"), moment, "answered but did not end within"),
        ];
        for (script, time, why) in cases {
            let (answer, late) = decided(&script, time).await;
            let told = format!("{answer:?}");
            assert!(told.contains("Deny(") && told.contains(why), "{script}: {told}");
            assert!(!late, "{script}");
        }
        let judge = ApproverProgram { program: "/no/such/judge".into(), arguments: vec![] };
        let told = format!("{:?}", judge.decide(&request(), minute).await);
        let expected = "the approver program /no/such/judge did not start: No such file";
        assert!(told.contains("Deny(") && told.contains(expected), "{told}");
    }

    #[tokio::test]
    async fn what_a_program_started_ends_with_its_time() {
        let directory = tempfile::tempdir().unwrap();
        let (ready, late) = (directory.path().join("ready"), directory.path().join("late"));
        let script =
            format!("(touch {}; sleep 2; touch {}) & sleep 600", ready.display(), late.display());
        let arguments = vec!["-c".to_owned(), script];
        let judge = ApproverProgram { program: "/bin/sh".into(), arguments };
        drop(judge.decide(&request(), Duration::from_secs(1)).await);
        assert!(ready.exists(), "it was started");
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert!(!late.exists(), "its child was left");
    }
}
