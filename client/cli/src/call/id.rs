//! Ids of calls as people type them: in full, or an unambiguous prefix.

use crate::failure::Failure;
use palisade_client::CallId;
use std::time::{Duration, SystemTime};

/// The argument that means the newest call.
pub(crate) const LAST: &str = "last";

/// The number of characters shown of an id: the time to the millisecond and what follows it.
const SHORT: usize = 18;

/// The maximum number of ids that are listed if several match.
const NAMED: usize = 10;

/// A call as the user named it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CallSelector {
    /// The newest call.
    Last,
    /// The call whose id has this prefix.
    Prefix(CallId),
}

/// Parses an argument that names a call.
pub(crate) fn parse(text: &str) -> Result<CallSelector, String> {
    match text {
        LAST => Ok(CallSelector::Last),
        _ => text.parse().map(CallSelector::Prefix).map_err(|error| format!("{error}")),
    }
}

/// Returns the first part of an id, which is enough to identify its call.
pub(crate) fn short(id: &str) -> &str {
    id.get(..SHORT).unwrap_or(id)
}

/// Returns `true` if a call began less than this time ago. The first 48 bits of an id are the
/// milliseconds since 1970.
pub(crate) fn is_younger(id: &str, age: Duration) -> bool {
    let digits: String = id.chars().filter(|digit| *digit != '-').take(12).collect();
    let began = match (digits.len(), u64::from_str_radix(&digits, 16)) {
        (12, Ok(began)) => SystemTime::UNIX_EPOCH + Duration::from_millis(began),
        (_, _) => return false,
    };
    SystemTime::now().duration_since(began).is_ok_and(|passed| passed < age)
}

/// Picks the only match for a prefix, or an exact match. `found` has all ids with the prefix,
/// newest first; `told` describes one in the error for several matches.
pub(crate) fn pick<T>(
    prefix: &CallId,
    found: Vec<T>,
    id: impl Fn(&T) -> &str,
    told: impl Fn(&T) -> String,
) -> Result<Option<T>, Failure> {
    if found.len() > 1 && !found.iter().any(|one| id(one) == prefix.as_str()) {
        let mut lines: Vec<String> = found.iter().take(NAMED).map(told).collect();
        if found.len() > NAMED {
            lines.push(format!("and {} more", found.len() - NAMED));
        }
        return Err(Failure::absent(
            format!("{} calls start with {prefix}: {}", found.len(), lines.join(", ")),
            "give more characters of the id",
        ));
    }
    let mut found = found.into_iter();
    Ok(if found.len() > 1 { found.find(|one| id(one) == prefix.as_str()) } else { found.next() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picked(prefix: &str, ids: &[&str]) -> Result<Option<String>, String> {
        let found = ids.iter().map(|id| (*id).to_owned()).collect();
        pick(&prefix.parse().unwrap(), found, String::as_str, |id| format!("<{id}>"))
            .map_err(|failure| failure.to_json()["error"]["message"].to_string())
    }

    #[test]
    fn what_is_typed_is_the_last_or_the_start_of_an_id() {
        assert_eq!(parse("last"), Ok(CallSelector::Last));
        assert_eq!(parse("0199"), Ok(CallSelector::Prefix("0199".parse().unwrap())));
        for text in ["", "a b", "../x"] {
            assert!(parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn the_age_of_a_call_is_in_its_id() {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis();
        let id = |before: u128| {
            let digits = format!("{:012x}", now - before);
            format!("{}-{}-7fff-8000-000000000000", &digits[..8], &digits[8..])
        };
        let minute = Duration::from_secs(60);
        assert!(is_younger(&id(1_000), minute) && is_younger(short(&id(1_000)), minute));
        assert!(!is_younger(&id(61_000), minute));
        for text in ["", "ffff", "last", "no-such-call", "é00000000000"] {
            assert!(!is_younger(text, minute), "{text:?}");
        }
    }

    #[test]
    fn only_an_unambiguous_start_names_a_call() {
        assert_eq!(picked("a", &[]), Ok(None));
        assert_eq!(picked("a", &["ab"]), Ok(Some("ab".to_owned())));
        assert_eq!(picked("a", &["ab", "a"]), Ok(Some("a".to_owned())));
        let told = picked("a", &["ab", "ac"]).unwrap_err();
        assert_eq!(told, "\"2 calls start with a: <ab>, <ac>\"");
        let many: Vec<String> = (10..25).map(|n| format!("a{n}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let told = picked("a", &many).unwrap_err();
        assert!(told.ends_with("<a19>, and 5 more\""), "{told}");
    }

    #[test]
    fn an_id_is_shown_as_far_as_it_is_needed() {
        assert_eq!(short("01990f3e-71d2-7a3e-8b11-0c5d2a9e4f60"), "01990f3e-71d2-7a3e");
        assert_eq!(short("c1"), "c1");
    }
}
