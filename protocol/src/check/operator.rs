//! Checks of operators' requests, and of a call's reverse thinking, that their types do not
//! express.

use super::{at_most, few, invalid};
use crate::{
    Answer, Decision, ErrorCode, Forget, RawPath, Register, Remember, ReverseThinking, Scope,
    ScopeQuery, Until, WireError,
    limits::{MAX_NAME, MAX_PATH, MAX_REASON, MAX_TIMEOUT_MS},
};

/// The maximum number of paths of a change set that one answer can leave out by name.
const MAX_PART: usize = 4096;

const SHORT: &str = "say it in a few sentences";

pub(crate) fn check_forget(forget: &Forget) -> Result<(), WireError> {
    match forget {
        Forget { spools: false, undo: false, .. } => {
            Err(invalid("neither `spools` nor `undo` is true".to_owned(), "set one of them"))
        }
        Forget { .. } => Ok(()),
    }
}

pub(crate) fn check_register(register: &Register) -> Result<(), WireError> {
    if register.name.trim().is_empty() || register.name.chars().any(char::is_control) {
        return Err(invalid(
            "`name` is empty or has control characters".to_owned(),
            "name the approver, for example `person:ann`",
        ));
    }
    at_most("name", register.name.len(), MAX_NAME, "give a short name")?;
    few("reviews", register.reviews.len())?;
    few("tools", register.tools.len())?;
    if register.reviews.is_empty() {
        return Err(invalid(
            "`reviews` is empty".to_owned(),
            "name `input`, `effects`, `output` or several",
        ));
    }
    for (what, value) in
        [("deadline_ms", register.deadline_ms), ("heartbeat_ms", register.heartbeat_ms)]
    {
        between(what, value)?;
    }
    Ok(())
}

fn between(what: &str, value: Option<u64>) -> Result<(), WireError> {
    match value {
        None | Some(1..=MAX_TIMEOUT_MS) => Ok(()),
        Some(found) => Err(invalid(
            format!("`{what}` is {found}, but must be from 1 to {MAX_TIMEOUT_MS}"),
            "omit it to use the profile's value",
        )),
    }
}

pub(crate) fn check_answer(answer: &Answer) -> Result<(), WireError> {
    at_most("digest", answer.digest.len(), MAX_NAME, "repeat the digest of the approval request")?;
    match &answer.decision {
        Decision::Approve | Decision::Pass => {}
        Decision::Replace(replace)
            if replace.data.as_ref().is_some_and(|data| !data.is_object()) =>
        {
            return Err(WireError::new(
                ErrorCode::InvalidRequest,
                "`decision.replace.data` is not a JSON object",
                "give the fields of the tool's structured result by name, or leave it out",
            ));
        }
        Decision::Replace(_) => {}
        Decision::ApproveModified(modified) if !modified.arguments.is_object() => {
            return Err(WireError::new(
                ErrorCode::InvalidRequest,
                "`decision.approve_modified.arguments` is not a JSON object",
                "give all of the tool's arguments by name",
            ));
        }
        Decision::ApproveModified(_) => {}
        Decision::Deny(deny) => {
            at_most("decision.deny.reason", deny.reason.len(), MAX_REASON, SHORT)?;
            at_most("decision.deny.guidance", deny.guidance.len(), MAX_REASON, SHORT)?;
        }
        Decision::Withhold(withhold) => {
            at_most("decision.withhold.reason", withhold.reason.len(), MAX_REASON, SHORT)?;
        }
        Decision::ApprovePart(part) if part.without.is_empty() && !part.without_deletions => {
            return Err(invalid(
                "`decision.approve_part` excludes nothing".to_owned(),
                "name what to exclude, or use `approve`",
            ));
        }
        Decision::ApprovePart(part) => {
            let most = MAX_PART;
            if part.without.len() > most {
                let found = part.without.len();
                return Err(invalid(
                    format!(
                        "`decision.approve_part.without` has {found} paths, the limit is {most}"
                    ),
                    "deny it, and say what should be done instead",
                ));
            }
        }
    }
    answer.remember.as_ref().map_or(Ok(()), check_remember)
}

fn check_remember(remember: &Remember) -> Result<(), WireError> {
    check_scope(&remember.scope)?;
    match remember.until {
        Until::Session => Ok(()),
        Until::Ms(ms) => between("remember.until.ms", Some(ms)),
    }
}

fn check_scope(scope: &Scope) -> Result<(), WireError> {
    match scope {
        Scope::ExactCall => {}
        Scope::CommandPrefix(prefix) => {
            few("remember.scope.command_prefix.words", prefix.words.len())?;
            if prefix.words.iter().all(String::is_empty) {
                return Err(invalid(
                    "`remember.scope.command_prefix.words` is empty".to_owned(),
                    "name the program at least",
                ));
            }
        }
        Scope::Path(scope) => check_scope_path("remember.scope.path.path", &scope.path)?,
        Scope::Losses(scope) => {
            check_scope_path("remember.scope.losses.path", &scope.path)?;
            few("remember.scope.losses.kinds", scope.kinds.len())?;
            few("remember.scope.losses.programs", scope.programs.len())?;
        }
    }
    Ok(())
}

fn check_scope_path(what: &str, path: &RawPath) -> Result<(), WireError> {
    let path = &path.0;
    let hint = "take it from the approval request's `view`";
    if path.first() != Some(&b'/') || path.contains(&0) || path.len() > MAX_PATH {
        return Err(invalid(format!("`{what}` is not an absolute path"), hint));
    }
    if path.split(|byte| *byte == b'/').any(|part| part == b"..") {
        return Err(invalid(format!("`{what}` has `..` in it"), hint));
    }
    Ok(())
}

pub(crate) fn check_scope_query(query: &ScopeQuery) -> Result<(), WireError> {
    few("scopes", query.scopes.len())?;
    query.scopes.iter().try_for_each(check_scope)
}

pub(crate) fn check_reverse_thinking(thinking: &ReverseThinking) -> Result<(), WireError> {
    for (what, list) in [
        ("options.reverse_thinking.assumptions", &thinking.assumptions),
        ("options.reverse_thinking.failure_scenarios", &thinking.failure_scenarios),
    ] {
        few(what, list.len())?;
        at_most(what, list.iter().map(String::len).sum(), MAX_REASON, SHORT)?;
    }
    at_most("options.reverse_thinking.verdict", thinking.verdict.len(), MAX_REASON, SHORT)?;
    let reason = thinking.verdict_reason.len();
    at_most("options.reverse_thinking.verdict_reason", reason, MAX_REASON, SHORT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CommandPrefix, Deny, JsonText, LossScope, Modified, PathScope, Review};

    fn register() -> Register {
        Register {
            name: "person:ann".to_owned(),
            reviews: vec![Review::Input],
            tools: Vec::new(),
            priority: 0,
            deadline_ms: Some(1),
            heartbeat_ms: Some(MAX_TIMEOUT_MS),
            session: None,
        }
    }

    fn answer(decision: Decision, remember: Option<Remember>) -> Answer {
        Answer { request: "q-1".parse().unwrap(), digest: "00".to_owned(), decision, remember }
    }

    fn remember(scope: Scope, until: Until) -> Option<Remember> {
        Some(Remember { scope, until })
    }

    fn path(text: &str) -> Scope {
        Scope::Path(PathScope { path: RawPath::from(text) })
    }

    fn losses(text: &str) -> Scope {
        let path = RawPath::from(text);
        Scope::Losses(LossScope { path, kinds: Vec::new(), programs: Vec::new() })
    }

    fn words(words: &[&str]) -> Scope {
        let words = words.iter().map(|word| (*word).to_owned()).collect();
        Scope::CommandPrefix(CommandPrefix { words })
    }

    fn message(result: Result<(), WireError>) -> String {
        let error = result.unwrap_err();
        assert_eq!(error.code, ErrorCode::InvalidRequest);
        assert!(!error.hint.is_empty());
        error.message
    }

    #[test]
    fn a_registration_names_somebody_who_reviews_something() {
        assert_eq!(check_register(&register()), Ok(()));
        let refused = |change: fn(&mut Register)| {
            let mut changed = register();
            change(&mut changed);
            message(check_register(&changed))
        };
        let name = "`name` is empty or has control characters";
        assert_eq!(refused(|register| register.name = " ".to_owned()), name);
        assert_eq!(refused(|register| register.name = "a\u{1b}[2J".to_owned()), name);
        assert_eq!(
            refused(|register| register.name = "n".repeat(MAX_NAME + 1)),
            "`name` has 129 bytes, the limit is 128"
        );
        assert_eq!(refused(|register| register.reviews.clear()), "`reviews` is empty");
        assert_eq!(
            refused(|register| register.deadline_ms = Some(0)),
            "`deadline_ms` is 0, but must be from 1 to 86400000"
        );
        assert_eq!(
            refused(|register| register.heartbeat_ms = Some(MAX_TIMEOUT_MS + 1)),
            "`heartbeat_ms` is 86400001, but must be from 1 to 86400000"
        );
    }

    #[test]
    fn an_answer_that_can_mean_nothing_is_refused() {
        for good in [
            answer(Decision::Approve, None),
            answer(Decision::Approve, remember(Scope::ExactCall, Until::Session)),
            answer(Decision::Approve, remember(path("/a/b"), Until::Ms(1))),
            answer(Decision::Approve, remember(losses("/a/b"), Until::Ms(1))),
            answer(Decision::Approve, remember(words(&["git", "push"]), Until::Session)),
        ] {
            assert_eq!(check_answer(&good), Ok(()));
        }
        let list = JsonText::parse("[]".to_owned()).unwrap();
        let deny = Deny { reason: "r".repeat(MAX_REASON + 1), guidance: String::new() };
        for (bad, why) in [
            (
                answer(Decision::ApproveModified(Modified { arguments: list }), None),
                "`decision.approve_modified.arguments` is not a JSON object",
            ),
            (
                answer(Decision::Deny(deny), None),
                "`decision.deny.reason` has 8193 bytes, the limit is 8192",
            ),
            (
                answer(Decision::Approve, remember(words(&[]), Until::Session)),
                "`remember.scope.command_prefix.words` is empty",
            ),
            (
                answer(Decision::Approve, remember(path("a"), Until::Session)),
                "`remember.scope.path.path` is not an absolute path",
            ),
            (
                answer(Decision::Approve, remember(path("/a/../b"), Until::Session)),
                "`remember.scope.path.path` has `..` in it",
            ),
            (
                answer(Decision::Approve, remember(losses("/a/../b"), Until::Session)),
                "`remember.scope.losses.path` has `..` in it",
            ),
            (
                answer(Decision::Approve, remember(Scope::ExactCall, Until::Ms(0))),
                "`remember.until.ms` is 0, but must be from 1 to 86400000",
            ),
        ] {
            assert_eq!(message(check_answer(&bad)), why);
        }
    }

    #[test]
    fn reverse_thinking_has_its_limits() {
        let mut thinking = ReverseThinking::default();
        assert_eq!(check_reverse_thinking(&thinking), Ok(()));
        thinking.assumptions = vec!["a".repeat(MAX_REASON), "b".to_owned()];
        assert_eq!(
            message(check_reverse_thinking(&thinking)),
            "`options.reverse_thinking.assumptions` has 8193 bytes, the limit is 8192"
        );
    }
}
