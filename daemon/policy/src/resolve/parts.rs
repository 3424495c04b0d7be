//! Resolves checkers and rules of a profile file over those that it extends. Pure: no I/O.

use super::laxer::WIDEN;
use crate::{
    Checker, ProfileError,
    access::Widening,
    checkers,
    document::Document,
    keys::values,
    rules::{Rule, Verdict},
    settings::{Settings, denied_tool},
    source::WithOrigin,
    written::List,
};
use toml::Spanned;

/// Resolves the checkers. A file's own list replaces the inherited one: this widens nothing,
/// because a call could run the same programs.
pub(super) fn diagnostics(
    document: &Document<'_>,
    written: Option<&List<Checker>>,
    base: Vec<Checker>,
) -> Result<Vec<Checker>, ProfileError> {
    let Some(list) = written else { return Ok(base) };
    let own = values(list);
    checkers::check(&own).map_err(|(number, why)| {
        let start = list.get(number).map_or(0, |said| said.span().start);
        document.wrong_at(start, &format!("diagnostics, number {}", number + 1), why, "")
    })?;
    Ok(own)
}

/// Adds a file's rules. Each must be valid by itself, permitted in this file, and reachable.
pub(super) fn rules(
    document: &Document<'_>,
    written: &List<Rule>,
    settings: &mut Settings,
) -> Result<(), ProfileError> {
    for (number, said) in written.iter().enumerate() {
        let rule = said.get_ref();
        let key = format!("rules, number {}", number + 1);
        let wrong =
            |why: String, hint: &str| Err(document.wrong_at(said.span().start, &key, why, hint));
        if let Err(why) = rule.check() {
            return wrong(why, "");
        }
        if rule.verdict == Verdict::Allow && settings.widening == Widening::No {
            return wrong(
                "allows calls that may need approval in the extended profile".to_owned(),
                WIDEN,
            );
        }
        if let Some(tool) = denied_tool(rule, &settings.tools) {
            return wrong(
                format!("is never reached: {} is not allowed by [tools]", tool.0),
                "leave it out",
            );
        }
        let others = written.iter().enumerate().filter(|(other, _)| *other != number);
        let earlier = |other: usize, found: &Spanned<Rule>| {
            found.get_ref().verdict > rule.verdict || other < number
        };
        let others = others
            .filter(|(other, found)| earlier(*other, found))
            .map(|(_, found)| (found.get_ref(), document.origin(found.span().start).to_string()));
        let inherited = settings.rules.iter().map(|found| {
            (&found.value, found.at.as_ref().map(ToString::to_string).unwrap_or_default())
        });
        let over = others.chain(inherited).find(|(other, _)| other.shadows(rule));
        if let Some((other, place)) = over {
            let what = match other.verdict == rule.verdict {
                true => "covers the same and more",
                false if other.matches_same_calls(rule) => "contradicts it and is stricter",
                false => "is stricter and matches everything that it matches",
            };
            return wrong(
                format!("is never reached: the rule at {place} {what}"),
                "leave one of the two out",
            );
        }
    }
    settings.rules.extend(written.iter().map(|said| WithOrigin {
        value: said.get_ref().clone(),
        at: Some(document.origin(said.span().start)),
    }));
    Ok(())
}
