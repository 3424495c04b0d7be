//! Resolves environment, layers, tools, checkers, approvers and rules of a profile file over those
//! that it extends. Pure: no I/O.

use super::laxer::{WIDEN, laxer};
use crate::{
    Checker, ProfileError,
    access::Widening,
    checkers,
    document::Document,
    handlers::Handlers,
    rules::{Rule, Verdict},
    settings::{EnvironmentSettings, LayerSettings, Settings, ToolSettings, denied_tool},
    source::WithOrigin,
    stack::union,
    written::{self, List, ProfileText},
};
use palisade_plan::{Layer, ceiling::Ceiling};
use toml::Spanned;

fn values<T: Clone>(list: &List<T>) -> Vec<T> {
    list.iter().map(|said| said.get_ref().clone()).collect()
}

pub(super) fn environment(
    document: &Document<'_>,
    written: &written::Environment,
    base: &EnvironmentSettings,
    widening: Widening,
) -> Result<EnvironmentSettings, ProfileError> {
    let deny = union(&base.deny, &values(&written.deny));
    let pass = match &written.pass {
        Some(list) => {
            for said in list {
                let (name, start) = (said.get_ref(), said.span().start);
                if deny.contains(name) {
                    let why = format!("{} is denied by env.deny", name.0);
                    return Err(document.wrong_at(
                        start,
                        "env.pass",
                        why,
                        "leave one of the two out",
                    ));
                }
                if widening == Widening::No && !base.pass.contains(name) {
                    let why = format!("{} is not passed in the extended profile", name.0);
                    return Err(document.wrong_at(start, "env.pass", why, WIDEN));
                }
            }
            match widening {
                Widening::Yes => union(&base.pass, &values(list)),
                Widening::No => values(list),
            }
        }
        None => base.pass.clone(),
    };
    let mut set = base.set.clone();
    for (name, value) in &written.set {
        let start = value.span().start;
        if deny.contains(name) {
            let why = format!("{} is denied by env.deny", name.0);
            return Err(document.wrong_at(start, "env.set", why, "leave one of the two out"));
        }
        if value.get_ref().contains('\0') {
            let why = format!("the value of {} has a NUL in it", name.0);
            return Err(document.wrong_at(start, "env.set", why, ""));
        }
        set.insert(name.clone(), value.get_ref().clone());
    }
    set.retain(|name, _| !deny.contains(name));
    let pass = pass.into_iter().filter(|name| !deny.contains(name)).collect();
    let path = written.path.clone().unwrap_or_else(|| base.path.clone());
    Ok(EnvironmentSettings { path, set, pass, deny })
}

pub(super) fn layers(
    document: &Document<'_>,
    written: &written::Layers,
    base: &LayerSettings,
    widening: Widening,
) -> Result<LayerSettings, ProfileError> {
    let required = union(&base.required, &values(&written.required));
    let may_be_missing: Vec<Layer> = Ceiling::default().may_be_missing;
    let optional = match &written.optional {
        Some(list) => {
            for said in list {
                let (layer, start) = (said.get_ref(), said.span().start);
                let wrong =
                    |why, hint: &str| Err(document.wrong_at(start, "layers.optional", why, hint));
                if !may_be_missing.contains(&layer.0) {
                    return wrong(format!("{} is never optional", layer.0), "leave it out");
                }
                if required.contains(layer) {
                    let why = format!("{} is required by layers.required", layer.0);
                    return wrong(why, "leave one of the two out");
                }
                if widening == Widening::No && !base.optional.contains(layer) {
                    return wrong(
                        format!("{} is required by the extended profile", layer.0),
                        WIDEN,
                    );
                }
            }
            match widening {
                Widening::Yes => union(&base.optional, &values(list)),
                Widening::No => values(list),
            }
        }
        None => base.optional.clone(),
    };
    let optional = optional.into_iter().filter(|layer| !required.contains(layer)).collect();
    Ok(LayerSettings { required, optional })
}

pub(super) fn tools(
    document: &Document<'_>,
    written: &written::Tools,
    base: &ToolSettings,
    widening: Widening,
) -> Result<ToolSettings, ProfileError> {
    let deny = union(&base.deny, &values(&written.deny));
    let allow = match &written.allow {
        Some(list) if list.is_empty() => {
            return Err(document.wrong(
                "tools.allow",
                "is empty",
                "leave it out to allow every tool",
            ));
        }
        Some(list) => {
            for said in list {
                let (tool, start) = (said.get_ref(), said.span().start);
                let wrong = |why, hint| Err(document.wrong_at(start, "tools.allow", why, hint));
                if deny.contains(tool) {
                    let why = format!("{} is denied by tools.deny", tool.0);
                    return wrong(why, "leave one of the two out");
                }
                let allowed = base.allow.as_ref().is_none_or(|list| list.contains(tool));
                if widening == Widening::No && !allowed {
                    return wrong(
                        format!("{} is not allowed in the extended profile", tool.0),
                        WIDEN,
                    );
                }
            }
            match (&base.allow, widening) {
                (Some(more), Widening::Yes) => Some(union(more, &values(list))),
                (Some(_) | None, Widening::Yes | Widening::No) => Some(values(list)),
            }
        }
        None => base.allow.clone(),
    };
    let reverse_thinking = union(&base.reverse_thinking, &written.reverse_thinking);
    let trust_provided = match &written.trust_provided {
        Some(list) => {
            let wider = list.iter().find(|said| !base.trust_provided.contains(said.get_ref()));
            if let (Some(said), Widening::No) = (wider, widening) {
                let why = format!("{} is not trusted in the extended profile", said.get_ref().0);
                let start = said.span().start;
                return Err(document.wrong_at(start, "tools.trust_provided", why, WIDEN));
            }
            match widening {
                Widening::Yes => union(&base.trust_provided, &values(list)),
                Widening::No => values(list),
            }
        }
        None => base.trust_provided.clone(),
    };
    Ok(ToolSettings { allow, deny, reverse_thinking, trust_provided })
}

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

pub(super) fn handlers(
    document: &Document<'_>,
    written: &ProfileText,
    base: &Handlers,
    widening: Widening,
) -> Result<Handlers, ProfileError> {
    let (text, remember) = (&written.handlers, &written.remember);
    let quorum = text.quorum.unwrap_or(base.quorum);
    let max_pending = text.max_pending.unwrap_or(base.max_pending);
    let remember_ms = remember.ms.unwrap_or(base.remember_ms);
    let agent_client = text.agent_client.unwrap_or(base.agent_client);
    if widening == Widening::No {
        let extended = "the extended profile";
        if quorum < base.quorum {
            let why = format!("is below the {} of {extended}", base.quorum);
            return Err(laxer(document, "handlers.quorum", &why));
        }
        if max_pending > base.max_pending {
            let why = format!("exceeds the {} of {extended}", base.max_pending);
            return Err(laxer(document, "handlers.max_pending", &why));
        }
        if agent_client && !base.agent_client {
            let why = format!("is not allowed by {extended}");
            return Err(laxer(document, "handlers.agent_client", &why));
        }
        if remember_ms > base.remember_ms {
            let why = format!("exceeds the {} of {extended}", base.remember_ms);
            return Err(laxer(document, "remember.ms", &why));
        }
        for said in remember.scopes.iter().flatten() {
            if !base.remember.contains(said.get_ref()) {
                let why = format!("is not remembered in {extended}");
                return Err(document.wrong_at(said.span().start, "remember.scopes", why, WIDEN));
            }
        }
    }
    let scopes = remember.scopes.as_ref().map(values);
    if scopes.as_ref().is_some_and(Vec::is_empty) && remember.ms.is_some_and(|ms| ms > 0) {
        let why = "is above 0, but remember.scopes is empty, so nothing is remembered";
        return Err(document.wrong("remember.ms", why, "leave it out"));
    }
    Ok(Handlers {
        deadline_ms: text.deadline_ms.unwrap_or(base.deadline_ms),
        grace_ms: text.grace_ms.unwrap_or(base.grace_ms),
        quorum,
        max_pending,
        remember: scopes.unwrap_or_else(|| base.remember.clone()),
        remember_ms,
        review_output: union(&base.review_output, &text.review_output),
        agent_client,
    })
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
