//! Rules of a profile: tool, first words of a command, paths, findings → allow, ask or deny. The
//! strictest that matches wins. Pure.

pub(crate) mod glob;
mod shadow;

use crate::{
    entries::{TMP, ToolEntry},
    facts::{Commands, DESTRUCTIVE, Facts, SUSPECTED, is_asked},
    source::Said,
};
use palisade_protocol::{Finding, ToolSpec};
use serde::{Deserialize, Serialize};

/// What a rule answers, from lax to strict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Verdict {
    Allow,
    Ask,
    Deny,
}

/// `[[rules]]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Rule {
    /// What it answers.
    pub(crate) verdict: Verdict,
    /// Why it is there; shown with every refusal.
    pub(crate) why: String,
    /// Which tools; all if empty.
    #[serde(default)]
    pub(crate) tools: Vec<ToolEntry>,
    /// The first words of a command; a list in place of a word is a choice.
    #[serde(default)]
    pub(crate) command: Vec<OneOf>,
    /// Globs: absolute, below a variable, or else below the workspace.
    #[serde(default)]
    pub(crate) paths: Vec<String>,
    /// Kinds of findings.
    #[serde(default)]
    pub(crate) findings: Vec<String>,
    /// Commands (or, without `command`, paths) that it must match, checked at load.
    #[serde(default, rename = "match")]
    pub(crate) examples: Vec<String>,
    /// The same that it must not match.
    #[serde(default, rename = "not_match")]
    pub(crate) counter_examples: Vec<String>,
}

/// A word, or a choice of words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum OneOf {
    Word(String),
    Choice(Vec<String>),
}

impl OneOf {
    fn has(&self, word: &str) -> bool {
        match self {
            Self::Word(one) => one == word,
            Self::Choice(many) => many.iter().any(|one| one == word),
        }
    }

    fn is_empty(&self) -> bool {
        match self {
            Self::Word(one) => one.is_empty(),
            Self::Choice(many) => many.is_empty() || many.iter().any(String::is_empty),
        }
    }
}

/// The variables that may begin a glob.
const VARIABLES: &str = "$WORKSPACE, $HOME and $TMP";

/// A glob or a path from the root on; none if it is below a home and there is none.
fn absolute(text: &str, facts: &Facts) -> Option<Vec<u8>> {
    let below =
        |base: &[u8], rest: &str| [base, b"/", rest.trim_start_matches('/').as_bytes()].concat();
    if text.starts_with('/') {
        return Some(text.as_bytes().to_vec());
    }
    let (variable, rest) = text.split_once('/').unwrap_or((text, ""));
    match variable {
        "$WORKSPACE" => Some(below(&facts.workspace, rest)),
        "$TMP" => Some(below(TMP.as_bytes(), rest)),
        "$HOME" => facts.home.as_ref().map(|home| below(home, rest)),
        _ => Some(below(&facts.workspace, text)),
    }
}

fn unknown_variable(text: &str) -> Option<&str> {
    let variable = text.split('/').next().filter(|word| word.starts_with('$'))?;
    (!["$WORKSPACE", "$HOME", "$TMP"].contains(&variable)).then_some(variable)
}

/// What the rules say of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ruling<'a> {
    /// Nothing: the mode decides.
    Silent,
    /// All of it is allowed.
    Allow,
    /// Asked, by this rule.
    Ask(&'a Rule),
    /// Denied, by this rule.
    Deny(&'a Rule),
}

/// Asks the rules. `Allow` only if every command, path and asked finding has a rule that allows it.
pub(crate) fn ruling<'a>(rules: &'a [Said<Rule>], tool: &ToolSpec, facts: &Facts) -> Ruling<'a> {
    let about = || rules.iter().map(|said| &said.value).filter(|rule| rule.is_about(tool));
    let strictest = about()
        .filter(|rule| rule.verdict > Verdict::Allow && rule.touches(facts))
        .reduce(|most, rule| if rule.verdict > most.verdict { rule } else { most });
    match strictest {
        Some(rule) if rule.verdict == Verdict::Deny => return Ruling::Deny(rule),
        Some(rule) => return Ruling::Ask(rule),
        None => {}
    }
    let allowing: Vec<&Rule> = about().filter(|rule| rule.verdict == Verdict::Allow).collect();
    if allowing.iter().any(|rule| rule.is_bare()) {
        return Ruling::Allow;
    }
    let commands = match &facts.commands {
        Commands::None => &[][..],
        Commands::Known(commands) => commands,
        Commands::Unknown => return Ruling::Silent,
    };
    let anything = !commands.is_empty() || !facts.paths.is_empty();
    let covered = commands.iter().all(|words| allowing.iter().any(|rule| rule.allows(words)))
        && facts.paths.iter().all(|path| {
            let below = |rule: &&Rule| rule.names_path(path, facts);
            !commands.is_empty() || allowing.iter().any(below)
        })
        && facts.findings.iter().filter(|finding| is_asked(finding)).all(|finding| {
            allowing.iter().any(|rule| rule.allows_finding(finding, &facts.commands))
        });
    if anything && covered { Ruling::Allow } else { Ruling::Silent }
}

/// What the rules that name paths say of what a call did.
pub(crate) fn ruling_of_paths<'a>(
    rules: &'a [Said<Rule>],
    tool: &ToolSpec,
    facts: &Facts,
) -> Ruling<'a> {
    let about = |rule: &&Rule| rule.is_about(tool) && !rule.paths.is_empty();
    let rules = rules.iter().map(|said| &said.value).filter(about);
    let strictest = rules
        .filter(|rule| rule.verdict > Verdict::Allow && rule.touches(facts))
        .reduce(|most, rule| if rule.verdict > most.verdict { rule } else { most });
    match strictest {
        Some(rule) if rule.verdict == Verdict::Deny => Ruling::Deny(rule),
        Some(rule) => Ruling::Ask(rule),
        None => Ruling::Silent,
    }
}

/// Whether a rule about paths keeps one of many from being shown. `named` is what the call was
/// judged for.
pub(crate) fn withhold(
    rules: &[Said<Rule>],
    tool: &ToolSpec,
    named: &[u8],
    path: &[u8],
    facts: &Facts,
) -> bool {
    let plain = |rule: &&Rule| rule.command.is_empty() && rule.findings.is_empty();
    rules
        .iter()
        .map(|said| &said.value)
        .filter(plain)
        .filter(|rule| rule.is_about(tool) && rule.names_path(path, facts))
        .any(|rule| match rule.verdict {
            Verdict::Allow => false,
            Verdict::Ask => !rule.names_path(named, facts),
            Verdict::Deny => true,
        })
}

impl Rule {
    fn is_about(&self, tool: &ToolSpec) -> bool {
        let is = |entry: &ToolEntry| tool.name == entry.0 || tool.aliases.contains(&entry.0);
        self.tools.is_empty() || self.tools.iter().any(is)
    }

    /// Whether it says nothing but a tool's name.
    fn is_bare(&self) -> bool {
        self.command.is_empty() && self.paths.is_empty() && self.findings.is_empty()
    }

    /// Whether everything it asks for is somewhere in the call; what can not be told counts.
    fn touches(&self, facts: &Facts) -> bool {
        let command = self.command.is_empty()
            || match &facts.commands {
                Commands::None => false,
                Commands::Known(commands) => commands.iter().any(|words| self.begins(words)),
                Commands::Unknown => true,
            };
        let path =
            self.paths.is_empty() || facts.paths.iter().any(|path| self.names_path(path, facts));
        let finding = self.findings.is_empty()
            || facts.findings.iter().any(|finding| self.names_kind(&finding.kind));
        command && path && finding
    }

    fn allows(&self, words: &[String]) -> bool {
        !self.command.is_empty() && self.paths.is_empty() && self.begins(words)
    }

    /// A finding is allowed with its command, or by its kind.
    fn allows_finding(&self, finding: &Finding, commands: &Commands) -> bool {
        if !self.findings.is_empty() && !self.names_kind(&finding.kind) {
            return false;
        }
        if self.command.is_empty() {
            return !self.paths.is_empty() && *commands == Commands::None
                || !self.findings.is_empty();
        }
        let words: Vec<String> =
            std::iter::once(&finding.program).chain(&finding.arguments).cloned().collect();
        self.begins(&words)
    }

    /// Whether a command begins with the rule's words. A program is also named by its path.
    fn begins(&self, words: &[String]) -> bool {
        words.len() >= self.command.len()
            && self.command.iter().zip(words).enumerate().all(|(place, (one, word))| {
                let base = word.rsplit('/').next().unwrap_or(word);
                one.has(word) || place == 0 && one.has(base)
            })
    }

    /// Whether it is about findings of a kind.
    fn names_kind(&self, kind: &str) -> bool {
        let is = |name: &str| self.findings.iter().any(|one| one == name);
        is(kind) || kind == SUSPECTED && is(DESTRUCTIVE)
    }

    fn names_path(&self, path: &[u8], facts: &Facts) -> bool {
        self.paths
            .iter()
            .any(|text| absolute(text, facts).is_some_and(|whole| glob::matches(&whole, path)))
    }

    /// What is wrong with it, if anything; its examples are tried.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.why.trim().is_empty() {
            return Err("`why` says nothing".to_owned());
        }
        if self.tools.is_empty() && self.is_bare() {
            return Err("is empty: it names no tools, command, paths or findings".to_owned());
        }
        if let Some(word) = self.paths.iter().find_map(|path| unknown_variable(path)) {
            return Err(format!("`paths` has the variable {word:?}; there are {VARIABLES}"));
        }
        if self.command.iter().any(OneOf::is_empty) {
            return Err("`command` has an empty word or choice".to_owned());
        }
        if self.paths.iter().any(|path| path.is_empty() || path.split('/').any(|p| p == "..")) {
            return Err("`paths` has an empty glob, or one with `..`".to_owned());
        }
        let about = if self.command.is_empty() { "path" } else { "command" };
        if self.command.is_empty() && self.paths.is_empty() && !self.examples.is_empty() {
            return Err("`match` needs a `command` or `paths` to try it on".to_owned());
        }
        for example in &self.examples {
            if !self.tries(example) {
                return Err(format!("the {about} {example:?} of `match` is not matched"));
            }
        }
        match self.counter_examples.iter().find(|example| self.tries(example)) {
            Some(example) => Err(format!("the {about} {example:?} of `not_match` is matched")),
            None => Ok(()),
        }
    }

    fn tries(&self, example: &str) -> bool {
        if self.command.is_empty() {
            let (workspace, home) = (b"/workspace".to_vec(), Some(b"/home/user".to_vec()));
            let facts = Facts { workspace, home, ..Facts::default() };
            let path = absolute(example, &facts);
            return path.is_some_and(|path| self.names_path(&path, &facts));
        }
        let words: Vec<String> = example.split_whitespace().map(str::to_owned).collect();
        self.begins(&words)
    }

    /// For a denial's `rule`.
    pub(crate) fn name(&self) -> String {
        format!("rules: {}", self.why)
    }
}

#[cfg(test)]
mod tests;
