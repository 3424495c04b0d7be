//! Applies the rules of the tables to a command.

use super::{
    field::{Field, fits},
    finding::{FindingTarget, Kind},
    options::Arguments,
    schema::{Effect, Program, ProgramRule, VerbRole},
    walk::{Call, Walk},
};

/// The number of operands among which a verb is searched for.
const VERB_OPERANDS: usize = 4;

impl Walk<'_> {
    /// Reports what the tables say about a command.
    pub(crate) fn rules(&mut self, program: &Program, call: &Call) {
        let fields = call.argv.get(1..).unwrap_or_default();
        let arguments = Arguments::read(fields, &program.takes, program.style);
        let dry = self.is_dry(&arguments);
        let mut matched = false;
        for rule in &program.rule {
            if dry && rule.kind == Kind::Destructive {
                continue;
            }
            let Some(operands) = sub(rule, &arguments.operands) else {
                continue;
            };
            if !holds(rule, &arguments, operands) {
                continue;
            }
            matched = true;
            if rule.targets.is_empty() {
                let why = rule.why.clone();
                self.report(rule.kind, rule.severity, call, &why, Vec::new());
            } else {
                let targets = self.targets(rule, &arguments, operands);
                self.lose_by(call, targets, rule);
            }
        }
        let has_subs = program.verbs || program.rule.iter().any(|rule| !rule.sub.is_empty());
        if has_subs && arguments.operands.first().is_some_and(Field::is_opaque) {
            self.report(Kind::Hidden, None, call, "which subcommand runs is not known", Vec::new());
        }
        if program.verbs && !matched && !dry {
            self.verbs(call, &arguments);
        }
    }

    /// Searches the first operands for destructive words.
    pub(crate) fn verbs(&mut self, call: &Call, arguments: &Arguments) {
        for operand in arguments.operands.iter().take(VERB_OPERANDS) {
            let Some(word) = operand.text() else { continue };
            if word.len() > 64 || word.contains(['/', '=', ' ', '\n']) {
                continue;
            }
            if self.tables.verb(VerbRole::Reading, &word).is_some() {
                return;
            }
            let pieces = word.split([':', '-', '_', '.']);
            let verb = pieces.filter_map(|piece| self.tables.verb(VerbRole::Program, piece)).next();
            if let Some(verb) = verb {
                let why = format!("`{word}`: {verb}");
                self.report(Kind::Suspected, None, call, &why, Vec::new());
                return;
            }
        }
    }

    /// Returns `true` if an option requests a dry run.
    pub(crate) fn is_dry(&self, arguments: &Arguments) -> bool {
        arguments.options.iter().any(|given| {
            let off = given.value.as_ref().is_some_and(|v| fits("none|false|0|no", &v.shown()));
            !off && self.tables.verb(VerbRole::Dry, &given.name).is_some()
        })
    }

    fn targets(
        &self,
        rule: &ProgramRule,
        arguments: &Arguments,
        operands: &[Field],
    ) -> Vec<FindingTarget> {
        let mut targets = Vec::new();
        let mut add = |field: &Field, into: Vec<String>| {
            targets.extend(self.target(field, rule.effect, into));
        };
        for place in &rule.targets {
            match place.as_str() {
                "operands" => operands.iter().for_each(|field| add(field, Vec::new())),
                "first" => operands.iter().take(1).for_each(|field| add(field, Vec::new())),
                "second" => operands.iter().skip(1).take(1).for_each(|f| add(f, Vec::new())),
                "last" => operands.last().into_iter().for_each(|field| add(field, Vec::new())),
                "rest" => {
                    let script = ["-e", "--expression", "-f", "--file"].map(str::to_owned);
                    let skip = usize::from(arguments.find(&script).is_none());
                    operands.iter().skip(skip).for_each(|field| add(field, Vec::new()));
                }
                "destination" => {
                    let given =
                        arguments.values("-t").chain(arguments.values("--target-directory"));
                    if let Some(directory) = given.last() {
                        add(directory, operands.iter().map(name).collect());
                    } else if let Some((last, sources)) = operands.split_last()
                        && !sources.is_empty()
                    {
                        add(last, sources.iter().map(name).collect());
                    }
                }
                option if option.starts_with('-') => {
                    arguments.values(option).for_each(|field| add(field, Vec::new()));
                }
                prefix => {
                    let given = operands.iter().filter(|field| field.prefix().starts_with(prefix));
                    given.for_each(|field| add(&field.behind(prefix.len()), Vec::new()));
                }
            }
        }
        // A moved file leaves the workspace only if its destination is outside.
        if rule.effect == Effect::Leave {
            targets.truncate(1);
        }
        targets
    }
}

/// Returns the last component of a path.
fn name(field: &Field) -> String {
    let shown = field.shown();
    shown.trim_end_matches('/').rsplit('/').next().unwrap_or_default().to_owned()
}

/// Returns the operands after a rule's subcommand; `None` if the subcommand is another.
pub(crate) fn sub<'a>(rule: &ProgramRule, operands: &'a [Field]) -> Option<&'a [Field]> {
    behind_sub(&rule.sub, operands)
}

/// Returns the operands after a subcommand; `None` if the subcommand is another.
pub(crate) fn behind_sub<'a>(sub: &[String], operands: &'a [Field]) -> Option<&'a [Field]> {
    let (given, rest) = operands.split_at_checked(sub.len())?;
    let same = sub.iter().zip(given).all(|(want, field)| fits(want, &field.shown()));
    same.then_some(rest)
}

fn holds(rule: &ProgramRule, arguments: &Arguments, operands: &[Field]) -> bool {
    let one_of = |patterns: &[String]| {
        operands.iter().map(Field::shown).any(|text| patterns.iter().any(|p| fits(p, &text)))
    };
    (rule.any.is_empty() || arguments.find(&rule.any).is_some())
        && arguments.find(&rule.none).is_none()
        && (rule.operand.is_empty() || one_of(&rule.operand))
        && !one_of(&rule.not_operand)
        && operands.len() >= rule.at_least
        && rule.at_most.is_none_or(|most| operands.len() <= most)
}
