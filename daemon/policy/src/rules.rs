//! A profile's rules: they match the tool, the first words of a command, paths and findings, and
//! allow, ask or deny. The strictest matching rule wins. Pure: no I/O.

mod binding;
pub(crate) mod glob;
mod shadow;

pub(crate) use binding::check_bound;

use crate::{
    entries::{TMP, ToolEntry, VARIABLES},
    facts::{Commands, DESTRUCTIVE, Facts, SUSPECTED, is_asked, is_unproven},
    keys::{noun, text, words},
    source::WithOrigin,
};
use palisade_protocol::{Finding, ToolSpec};
use serde::{Deserialize, Serialize};

words! {
    /// The verdict of a rule, from lax to strict.
    pub(crate) enum Verdict {
        Allow = "allow",
        Ask = "ask",
        Deny = "deny",
    }
}

text! {
    /// One `[[rules]]` section of a profile.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    "rules." pub(crate) struct Rule {
        /// the decision
        verdict: Verdict, "must be there";
        /// the reason, shown with every refusal
        why: String, "must be there";
        /// which tools it applies to
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        tools: Vec<ToolEntry>, "every tool";
        /// the first words of a command; a list in place of a word is a choice
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        command: Vec<OneOf>, "any";
        /// absolute, below a variable, or below the workspace; `*` and `?` match within one name,
        /// `**` across directories
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        paths: Vec<String> ["list of globs"], "any";
        /// whether only changes of the paths match, by any tool and by programs, and not reading
        /// them; only with `guard` `auto` or `transaction`
        #[serde(default, skip_serializing_if = "is_false")]
        changes: bool, "`false`";
        /// kinds of findings, such as `destructive` (which includes `suspected`), `plant` and
        /// `hidden`
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        findings: Vec<String> ["list of kinds"], "any";
        /// commands (or paths) that the rule must match, checked when the profile is loaded
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        examples as "match": Vec<String>, "none";
        /// commands (or paths) that the rule must not match, checked likewise
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        counter_examples as "not_match": Vec<String>, "none";
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_false(value: &bool) -> bool {
    !*value
}

noun! { OneOf: "word", "words"; }

/// A word, or a list of alternative words.
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

/// Returns the absolute form of a glob or path; `None` if it is below the home and there is no
/// home.
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

/// The rules' answer about a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ruling<'a> {
    /// No rule applies: the ask mode decides.
    Silent,
    /// Rules allow every part of the call.
    Allow,
    /// This rule requires approval.
    Ask(&'a Rule),
    /// This rule denies the call.
    Deny(&'a Rule),
}

/// Applies the rules to a call. The answer is `Allow` only if rules allow every command, every path
/// and every finding that would need approval.
pub(crate) fn ruling<'a>(
    rules: &'a [WithOrigin<Rule>],
    tool: &ToolSpec,
    facts: &Facts,
) -> Ruling<'a> {
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
    // Whoever allows a command by name does not expect a proof that it only reads.
    let is_expected = |words: &Vec<String>| allowing.iter().any(|rule| rule.allows_acting(words));
    let acts = !commands.is_empty() && commands.iter().all(is_expected);
    let anything = !commands.is_empty() || !facts.paths.is_empty();
    let covered = commands.iter().all(|words| allowing.iter().any(|rule| rule.allows(words)))
        && facts.paths.iter().all(|path| {
            let below = |rule: &&Rule| rule.names_path(path, facts);
            !commands.is_empty() || allowing.iter().any(below)
        })
        && facts.findings.iter().filter(|finding| is_asked(finding)).all(|finding| {
            acts && is_unproven(finding)
                || allowing.iter().any(|rule| rule.allows_finding(finding, &facts.commands))
        });
    if anything && covered { Ruling::Allow } else { Ruling::Silent }
}

/// Applies the rules that name paths to the effects of a call.
pub(crate) fn ruling_of_paths<'a>(
    rules: &'a [WithOrigin<Rule>],
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

/// Returns `true` if a path rule keeps one of many paths out of a tool's result. `named` is the
/// path that the call names, which was judged already.
pub(crate) fn withhold(
    rules: &[WithOrigin<Rule>],
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
        let named = self.tools.is_empty() || self.tools.iter().any(is);
        named && !(self.changes && tool.metadata.read_only)
    }

    /// Returns `true` if the rule has no condition except tools.
    fn is_bare(&self) -> bool {
        self.command.is_empty() && self.paths.is_empty() && self.findings.is_empty()
    }

    /// Returns `true` if every condition of the rule matches some part of the call. An unknown
    /// command matches.
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

    /// Returns `true` if the rule allows a command that is not proven to only read.
    fn allows_acting(&self, words: &[String]) -> bool {
        self.allows(words) && (self.findings.is_empty() || self.names_kind(SUSPECTED))
    }

    /// Returns `true` if the rule allows a finding, through its command or through its kind.
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

    /// Returns `true` if a command begins with the rule's words. The program also matches if it is
    /// given by path.
    fn begins(&self, words: &[String]) -> bool {
        words.len() >= self.command.len()
            && self.command.iter().zip(words).enumerate().all(|(place, (one, word))| {
                let base = word.rsplit('/').next().unwrap_or(word);
                one.has(word) || place == 0 && one.has(base)
            })
    }

    /// Returns `true` if the rule applies to findings of a kind.
    fn names_kind(&self, kind: &str) -> bool {
        let is = |name: &str| self.findings.iter().any(|one| one == name);
        is(kind) || kind == SUSPECTED && is(DESTRUCTIVE)
    }

    fn names_path(&self, path: &[u8], facts: &Facts) -> bool {
        self.paths
            .iter()
            .any(|text| absolute(text, facts).is_some_and(|whole| glob::matches(&whole, path)))
    }

    /// Checks that the rule is valid and that its examples hold.
    ///
    /// # Errors
    /// A description of the fault in the rule.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.why.trim().is_empty() {
            return Err("`why` is empty".to_owned());
        }
        if self.tools.is_empty() && self.is_bare() {
            return Err("is empty: it names no tools, command, paths or findings".to_owned());
        }
        if self.changes && self.paths.is_empty() {
            return Err("`changes` needs `paths`".to_owned());
        }
        if let Some(word) = self.paths.iter().find_map(|path| unknown_variable(path)) {
            return Err(format!(
                "`paths` has the variable {word:?}; the variables are {}",
                VARIABLES.join(", ")
            ));
        }
        if self.command.iter().any(OneOf::is_empty) {
            return Err("`command` has an empty word or choice".to_owned());
        }
        if self.paths.iter().any(|path| path.is_empty() || path.split('/').any(|p| p == "..")) {
            return Err("`paths` has an empty glob, or one with `..`".to_owned());
        }
        let about = if self.command.is_empty() { "path" } else { "command" };
        if self.command.is_empty() && self.paths.is_empty() && !self.examples.is_empty() {
            return Err("`match` needs a `command` or `paths` to be tested with".to_owned());
        }
        for example in &self.examples {
            if !self.matches_example(example) {
                return Err(format!("the {about} {example:?} in `match` does not match"));
            }
        }
        match self.counter_examples.iter().find(|example| self.matches_example(example)) {
            Some(example) => Err(format!("the {about} {example:?} in `not_match` matches")),
            None => Ok(()),
        }
    }

    fn matches_example(&self, example: &str) -> bool {
        if self.command.is_empty() {
            let (workspace, home) = (b"/workspace".to_vec(), Some(b"/home/user".to_vec()));
            let facts = Facts { workspace, home, ..Facts::default() };
            let path = absolute(example, &facts);
            return path.is_some_and(|path| self.names_path(&path, &facts));
        }
        let words: Vec<String> = example.split_whitespace().map(str::to_owned).collect();
        self.begins(&words)
    }

    /// Returns the text for the `rule` field of a denial.
    pub(crate) fn name(&self) -> String {
        format!("rules: {}", self.why)
    }
}

#[cfg(test)]
mod tests;
