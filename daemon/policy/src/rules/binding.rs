//! Finds rules about paths that programs would not obey. A rule judges the calls of tools; a program
//! opens files without a call. Pure: no I/O.

use super::{Rule, Verdict};
use crate::{
    ProfileError,
    document::invalid,
    entries::ToolEntry,
    names::{PatternList, to_lists},
    settings::Settings,
    source::WithOrigin,
};
use palisade_plan::names::{Kind, Matcher};
use palisade_protocol::Guard;

/// A tool that runs programs of the session, under all of its names.
struct Runner {
    names: &'static [&'static str],
}

const BASH: Runner = Runner { names: &["bash", "Bash", "shell"] };
const DIAGNOSTICS: Runner = Runner { names: &["diagnostics", "Diagnostics"] };

impl Runner {
    fn is(&self, entry: &ToolEntry) -> bool {
        self.names.contains(&entry.0.as_str())
    }

    /// Returns `true` if a session may call the tool, and a rule applies to it.
    fn is_bound_by(&self, rule: &Rule, settings: &Settings) -> bool {
        let listed = |list: &[ToolEntry]| list.iter().any(|entry| self.is(entry));
        let tools = &settings.tools;
        tools.allow.as_ref().is_none_or(|list| listed(list))
            && !listed(&tools.deny)
            && (rule.tools.is_empty() || listed(&rule.tools))
    }
}

/// Refuses a rule that keeps paths from tools while programs could use the paths.
///
/// # Errors
/// The first such rule, with the keys to use instead.
pub(crate) fn check_bound(settings: &Settings) -> Result<(), ProfileError> {
    settings.rules.iter().try_for_each(|rule| check_one(rule, settings))
}

fn check_one(said: &WithOrigin<Rule>, settings: &Settings) -> Result<(), ProfileError> {
    let rule = &said.value;
    // A finding is made by what decides about commands and their effects, so a rule about findings
    // says nothing about reading.
    if rule.verdict == Verdict::Allow || rule.paths.is_empty() || !rule.findings.is_empty() {
        return Ok(());
    }
    let diagnostics = (!settings.diagnostics.is_empty()).then_some(DIAGNOSTICS);
    let mut runners = std::iter::once(BASH).chain(diagnostics);
    let Some(runner) = runners.find(|runner| runner.is_bound_by(rule, settings)) else {
        return Ok(());
    };
    let tool = runner.names.first().copied().unwrap_or_default();
    let open = rule.paths.iter().find(|glob| !is_hidden(glob, &settings.fs.hide));
    let (Some(glob), Some(at)) = (open, said.at.clone()) else { return Ok(()) };
    let wrong = |why, instead| Err(invalid(at, "rules.paths", why, instead));
    match (rule.changes, settings.modes.guard) {
        (true, Guard::Auto | Guard::Transaction) => Ok(()),
        (true, Guard::Off | Guard::Text) => wrong(
            format!(
                "programs of {tool:?} could change {glob:?}: this guard does not judge what they do"
            ),
            "set guard = \"auto\", or protect it with fs.protect, or name only file tools in rules.tools",
        ),
        (false, _) => wrong(
            format!("programs of {tool:?} could read {glob:?}: rules do not bind programs"),
            "hide it with fs.hide; or, where only changes matter, protect it with fs.protect or set \
             `changes = true`; or name only file tools in rules.tools",
        ),
    }
}

/// Returns `true` if `fs.hide` certainly hides every path that a glob of a rule matches.
fn is_hidden(glob: &str, hide: &[PatternList]) -> bool {
    let below = glob.strip_prefix("$WORKSPACE/").unwrap_or(glob);
    if below.starts_with(['/', '$']) {
        return false;
    }
    let parts: Vec<&str> = below.split('/').collect();
    (1..=parts.len()).any(|end| {
        let kind = if end < parts.len() { Kind::Directory } else { Kind::Other };
        is_covered(parts.get(..end).unwrap_or_default(), kind, hide)
    })
}

/// Returns `true` if every path that these parts of a glob match is hidden.
fn is_covered(parts: &[&str], kind: Kind, hide: &[PatternList]) -> bool {
    let text = parts.join("/");
    if !text.contains(['*', '?', '[', '\\']) {
        let hides = |matcher: &Matcher| matcher.covers(text.as_bytes(), kind).is_some();
        return Matcher::new(&to_lists(hide)).as_ref().is_ok_and(hides);
    }
    // With wildcards, only a pattern of the same text is known to match the same names. In a list
    // with exceptions even that is unsure.
    let sure = hide.iter().filter(|list| list.0.iter().all(|one| !one.value.0.starts_with('!')));
    sure.flat_map(|list| &list.0).any(|one| {
        let pattern = one.value.0.as_str();
        let (name, directory) = match pattern.strip_suffix('/') {
            Some(name) => (name, true),
            None => (pattern, false),
        };
        let same = match name.contains('/') {
            true => name.strip_prefix('/').unwrap_or(name) == text,
            // Such a pattern matches at any depth.
            false => parts.last() == Some(&name),
        };
        same && !pattern.contains(['[', '\\']) && (!directory || kind == Kind::Directory)
    })
}
