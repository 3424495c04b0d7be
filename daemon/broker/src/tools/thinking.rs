//! Reverse thinking: a tool that requires it is not called without the assumptions, failure
//! scenarios and verdict. Runs in the broker. Pure: no I/O.

use crate::tools::Tool;
use palisade_policy::Profile;
use palisade_protocol::{Call, ErrorCode, ReverseThinking, WireError};

/// Refuses a call without the reverse thinking that its tool requires, and names what is missing.
pub(crate) fn check(tool: &Tool, call: &Call, profile: &Profile) -> Result<(), WireError> {
    if !profile.wants_reverse_thinking(&tool.spec) {
        return Ok(());
    }
    let missing = missing(call.options.reverse_thinking.as_ref());
    if missing.is_empty() {
        return Ok(());
    }
    Err(WireError::new(
        ErrorCode::InvalidArguments,
        format!("{} needs reverse thinking: {} missing", tool.spec.name, missing.join(", ")),
        "say in options.reverse_thinking what you take for granted (assumptions), how it could go \
         wrong (failure_scenarios), whether to go on (verdict) and why (verdict_reason)",
    ))
}

fn missing(thinking: Option<&ReverseThinking>) -> Vec<&'static str> {
    let Some(thinking) = thinking else { return vec!["options.reverse_thinking is"] };
    let blank = |list: &[String]| list.iter().all(|text| text.trim().is_empty());
    [
        ("`assumptions`", blank(&thinking.assumptions)),
        ("`failure_scenarios`", blank(&thinking.failure_scenarios)),
        ("`verdict`", thinking.verdict.trim().is_empty()),
        ("`verdict_reason`", thinking.verdict_reason.trim().is_empty()),
    ]
    .into_iter()
    .filter_map(|(name, absent)| absent.then_some(name))
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::Registry;
    use palisade_protocol::{CallOptions, JsonText};

    fn check_with(profile: &str, thinking: Option<ReverseThinking>) -> Result<(), String> {
        let text = format!(
            "version = 1\ndescription = \"test\"\n[fs]\nworkspace = \"write\"\nexecute = [\"/usr\"]\n{profile}\n"
        );
        let profile = Profile::parse("test", &text).unwrap();
        let registry = Registry::new().unwrap();
        let tool = registry.resolve(&"delete_file".parse().unwrap()).unwrap();
        let call = Call {
            tool: "delete_file".parse().unwrap(),
            arguments: JsonText::default(),
            reason: None,
            options: CallOptions { reverse_thinking: thinking, ..CallOptions::default() },
        };
        check(&tool, &call, &profile).map_err(|error| {
            assert_eq!(error.code, ErrorCode::InvalidArguments);
            error.message
        })
    }

    #[test]
    fn what_is_missing_is_named() {
        let wanted = "[tools]\nreverse_thinking = [\"delete_file\"]";
        let whole = ReverseThinking {
            assumptions: vec!["nobody needs it".to_owned()],
            failure_scenarios: vec!["somebody does".to_owned()],
            verdict: "go on".to_owned(),
            verdict_reason: "it is generated".to_owned(),
        };
        assert_eq!(check_with("", None), Ok(()));
        assert_eq!(check_with(wanted, Some(whole.clone())), Ok(()));
        assert_eq!(
            check_with(wanted, None).unwrap_err(),
            "delete_file needs reverse thinking: options.reverse_thinking is missing"
        );
        let partly =
            ReverseThinking { assumptions: vec![" ".to_owned()], verdict: String::new(), ..whole };
        assert_eq!(
            check_with(wanted, Some(partly)).unwrap_err(),
            "delete_file needs reverse thinking: `assumptions`, `verdict` missing"
        );
    }
}
