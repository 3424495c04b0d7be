//! Resolves `[[net.rule]]` of a profile file over the profile that it extends. Pure: no I/O.

use super::super::laxer::WIDEN;
use crate::{
    ProfileError,
    access::Widening,
    document::Document,
    net::{
        Net,
        entry::{HostEntry, Hosts},
        rule::{HostRule, HostRuleText},
    },
    source::WithOrigin,
};
use palisade_plan::listeners::can_be_direct;
use toml::Spanned;

const HOST: &str = "net.rule.host";

/// Returns the rules of a file with those that it extends. An inherited rule stays, unless a narrower
/// one, or with widening any, replaces it: without it, its host would be subject to `net.allow`.
pub(super) fn rules(
    document: &Document<'_>,
    base: &Net,
    written: &[Spanned<HostRuleText>],
    widening: Widening,
) -> Result<Vec<WithOrigin<HostRule>>, ProfileError> {
    let mut own: Vec<WithOrigin<HostRule>> = Vec::new();
    for said in written {
        let text = said.get_ref();
        let (rule, start) = (text.rule(), text.host.span().start);
        let wrong = |why: String, instead: &str| document.wrong_at(start, HOST, why, instead);
        match &rule.host.hosts {
            Hosts::Name(_) => {}
            Hosts::Below(_) | Hosts::Addresses(_) => {
                let why = format!("\"{}\" is not one name", rule.host);
                return Err(wrong(why, "write a rule for each name, such as \"api.git.example\""));
            }
        }
        if !can_be_direct(rule.port()) {
            let why = format!("\"{}\" has a port that Palisade uses in the session", rule.host);
            return Err(wrong(why, "name another port"));
        }
        if let Some(methods) = text.methods.as_ref().filter(|list| list.get_ref().is_empty()) {
            let (at, key) = (methods.span().start, "net.rule.methods");
            let name =
                "name requests, such as `methods = [\"GET\"]`, or put the host into net.deny";
            return Err(document.wrong_at(at, key, "is empty", name));
        }
        if own.iter().any(|other| other.value.is_for_host_of(&rule)) {
            let why = format!("\"{}\" has a rule already", rule.host);
            return Err(wrong(why, "name all of its requests in one rule"));
        }
        if widening == Widening::No && !base.covers_rule(&rule) {
            let why =
                format!("\"{}\" with {rule} is more than the extended profile allows", rule.host);
            return Err(wrong(why, WIDEN));
        }
        own.push(WithOrigin { value: rule, at: Some(document.origin(start)) });
    }
    let is_kept = |said: &&WithOrigin<HostRule>| {
        own.iter().all(|other| !other.value.is_for_host_of(&said.value))
    };
    let mut rules: Vec<_> = base.rules.iter().filter(is_kept).cloned().collect();
    rules.extend(own);
    rules.sort_by(|a, b| a.value.cmp(&b.value));
    Ok(rules)
}

/// Refuses a rule of the file whose host is denied.
pub(super) fn check_denied(
    document: &Document<'_>,
    written: &[Spanned<HostRuleText>],
    deny: &[WithOrigin<HostEntry>],
) -> Result<(), ProfileError> {
    for said in written {
        let (rule, start) = (said.get_ref().rule(), said.get_ref().host.span().start);
        if let Some(by) = deny.iter().find(|deny| deny.value.denies_all_of(&rule.entry())) {
            let why = format!("\"{}\" is denied by \"{}\" of net.deny", rule.host, by.value);
            return Err(document.wrong_at(start, HOST, why, "leave one of the two out"));
        }
    }
    Ok(())
}
