//! Walks over a script: every command in order, with the state of the script at that point.

use super::{
    field::Field,
    finding::{AnalysedCommand, FindingTarget, Kind, RawFinding},
    form::{Body, Node, Parse, Redirect, RedirectKind, Runs, Word},
    scope::{Certainty, Scope, VariableValue},
    tables::Tables,
};
use palisade_protocol::{Severity, Span};
use std::collections::HashSet;

/// The number of commands that are analysed; a longer script is itself a finding.
pub(super) const MOST_STEPS: usize = 8192;

/// The largest nesting depth of commands.
const MOST_DEPTH: usize = 24;

/// The largest number of findings of one text.
pub(super) const MOST_FINDINGS: usize = 128;

/// The number of loop iterations that are analysed one by one.
const MOST_ROUNDS: usize = 8;

/// The standard input of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Input {
    /// The input is inherited, and the text does not set it.
    Inherited,
    /// This text.
    Known(String),
    /// The contents of a file.
    File(String),
    /// The unknown output of another command.
    Unknown,
}

/// A command that would be run.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) argv: Vec<Field>,
    pub(crate) input: Input,
    pub(crate) span: Span,
}

/// The state of a walk.
pub(crate) struct Walk<'a> {
    pub(crate) tables: &'a Tables,
    pub(crate) parser: &'a dyn Parse,
    pub(crate) scope: Scope,
    pub(crate) found: Vec<RawFinding>,
    pub(crate) commands: Vec<AnalysedCommand>,
    pub(super) steps: usize,
    pub(crate) depth: usize,
    /// The position of a nested text in the whole text.
    pub(crate) inside: Option<Span>,
    pub(crate) called: HashSet<String>,
    pub(crate) calling: Vec<String>,
}

impl<'a> Walk<'a> {
    /// Makes a walk in its initial state.
    pub(super) fn new(parser: &'a dyn Parse, tables: &'a Tables) -> Self {
        Self {
            tables,
            parser,
            scope: Scope::default(),
            found: Vec::new(),
            commands: Vec::new(),
            steps: 0,
            depth: 0,
            inside: None,
            called: HashSet::new(),
            calling: Vec::new(),
        }
    }
}

impl Walk<'_> {
    /// Returns the position of a span in the whole text.
    pub(crate) fn place(&self, span: Span) -> Span {
        self.inside.unwrap_or(span)
    }

    /// Counts a step. Returns whether the limits allow another one.
    pub(crate) fn step(&mut self, span: Span) -> bool {
        self.steps += 1;
        if self.depth > MOST_DEPTH {
            self.hidden(span, "commands are nested too deeply to be analysed");
            return false;
        }
        self.steps <= MOST_STEPS && self.found.len() < 4 * MOST_FINDINGS
    }

    /// Reports something that is unknown from the text.
    pub(crate) fn hidden(&mut self, span: Span, why: &str) {
        let call = Call { argv: Vec::new(), input: Input::Inherited, span };
        self.report(Kind::Hidden, None, &call, why, Vec::new());
    }

    /// Adds a finding about a call.
    pub(crate) fn report(
        &mut self,
        kind: Kind,
        severity: Option<Severity>,
        call: &Call,
        why: &str,
        targets: Vec<FindingTarget>,
    ) {
        let mut shown = call.argv.iter().map(Field::shown);
        let program = shown.next().unwrap_or_default();
        self.found.push(RawFinding {
            kind,
            severity: severity.unwrap_or_else(|| kind.severity()),
            is_local: self.inside.is_none() && matches!(program.as_str(), ">" | ">>"),
            program,
            arguments: shown.take(64).map(|text| shorten(&text)).collect(),
            span: call.span,
            why: why.to_owned(),
            targets,
        });
    }

    /// Analyses commands in order, and returns their output, if known.
    pub(crate) fn body(&mut self, nodes: &[Node], input: &Input) -> Option<String> {
        let mut printed = Some(String::new());
        self.depth += 1;
        for node in nodes {
            let more = self.node(node, input);
            printed = printed.zip(more).map(|(mut all, more)| {
                all.push_str(&more);
                all
            });
        }
        self.depth -= 1;
        printed
    }

    /// Analyses commands in a subshell.
    pub(crate) fn apart(&mut self, nodes: &[Node], input: &Input) -> Option<String> {
        let before = self.scope.clone();
        let printed = self.body(nodes, input);
        self.scope = before;
        printed
    }

    /// Analyses a command substitution, and returns its output.
    pub(crate) fn substitute(&mut self, body: &Body) -> Option<String> {
        if !self.step(self.inside.unwrap_or(Span { start: 0, end: 0 })) {
            return None;
        }
        self.apart(body, &Input::Inherited)
    }

    fn node(&mut self, node: &Node, input: &Input) -> Option<String> {
        match node {
            Node::Simple(simple) => self.simple(simple, input),
            Node::Pipeline(stages) => self.pipeline(stages, input),
            Node::Group { runs, body, redirects } => {
                let input = self.redirects(redirects, input);
                let printed = match runs {
                    Runs::Here => self.body(body, &input),
                    Runs::Apart => self.apart(body, &input),
                    Runs::Perhaps => {
                        self.perhaps(body, &input);
                        None
                    }
                };
                printed.filter(|_| !redirects.iter().any(writes))
            }
            Node::For { variable, values, body, redirects } => {
                let input = self.redirects(redirects, input);
                self.rounds(variable, values.as_deref(), body, &input);
                None
            }
            Node::Function { name, body, .. } => {
                self.scope.functions.insert(name.clone(), body.clone());
                self.called.remove(name);
                Some(String::new())
            }
            Node::Words(words) => {
                self.fields(words);
                Some(String::new())
            }
            Node::Arithmetic(word) => {
                self.fields(std::slice::from_ref(word));
                self.arithmetic(&word.text, self.place(word.span));
                Some(String::new())
            }
        }
    }

    fn perhaps(&mut self, body: &[Node], input: &Input) {
        let before = std::mem::replace(&mut self.scope.certainty, Certainty::Perhaps);
        self.body(body, input);
        self.scope.certainty = before;
    }

    fn pipeline(&mut self, stages: &[Node], input: &Input) -> Option<String> {
        let mut input = input.clone();
        let mut printed = None;
        for stage in stages {
            let before = self.scope.clone();
            printed = self.node(stage, &input);
            // The last stage may run in this shell or in a subshell, so the functions that it
            // defines are kept.
            let functions = std::mem::take(&mut self.scope.functions);
            self.scope = before;
            self.scope.functions.extend(functions);
            input = printed.clone().map_or(Input::Unknown, Input::Known);
        }
        printed
    }

    fn rounds(&mut self, variable: &str, values: Option<&[Word]>, body: &[Node], input: &Input) {
        let values = match values {
            Some(words) => self.fields(words),
            None => self.scope.arguments.clone().unwrap_or_default(),
        };
        let few = !values.is_empty() && values.len() <= MOST_ROUNDS;
        let held: Vec<VariableValue> = if few {
            values.into_iter().map(|value| VariableValue::Parts(value.parts)).collect()
        } else {
            vec![VariableValue::Unknown]
        };
        for value in held {
            let before = std::mem::replace(&mut self.scope.certainty, Certainty::Certain);
            self.scope.set(variable, value);
            self.scope.certainty = before;
            self.perhaps(body, input);
        }
    }

    /// Analyses functions that the script never calls, because a later command might call them.
    pub(super) fn analyse_uncalled(&mut self) {
        let defined: Vec<(String, Body)> =
            self.scope.functions.iter().map(|(name, body)| (name.clone(), body.clone())).collect();
        for (name, body) in defined {
            if !self.called.contains(&name) {
                self.scope.arguments = None;
                self.calling.push(name);
                self.apart(&body, &Input::Inherited);
                self.calling.pop();
            }
        }
    }
}

pub(crate) fn writes(redirect: &Redirect) -> bool {
    matches!(redirect.kind, RedirectKind::Truncate | RedirectKind::Append)
}

/// Shortens an argument for a finding.
pub(crate) fn shorten(text: &str) -> String {
    const MOST: usize = 256;
    match text.char_indices().nth(MOST) {
        Some((at, _)) => format!("{}…", text.get(..at).unwrap_or_default()),
        None => text.to_owned(),
    }
}
