//! The walk over a script: every command in it, in order, with what the script has said so far.

use super::{
    field::Field,
    finding::{Found, Kind, Started, Target},
    form::{Body, Node, Parse, Redirect, RedirectKind, Runs, Word},
    scope::{Certainty, Held, Scope},
    tables::Tables,
};
use palisade_protocol::{Severity, Span};
use std::collections::HashSet;

/// The most commands that are looked at; a script of more is itself a finding.
pub(super) const MOST_STEPS: usize = 8192;

/// How deep commands may stand in commands.
const MOST_DEPTH: usize = 24;

/// The most findings of one text.
pub(super) const MOST_FINDINGS: usize = 128;

/// How many rounds of a loop are looked at one by one.
const MOST_ROUNDS: usize = 8;

/// What a command reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Input {
    /// Nothing that the text speaks of.
    Inherited,
    /// This text.
    Known(String),
    /// A file.
    File(String),
    /// Another command's output.
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
    pub(crate) found: Vec<Found>,
    pub(crate) commands: Vec<Started>,
    pub(super) steps: usize,
    pub(crate) depth: usize,
    /// Where a nested text stands in the whole one.
    pub(crate) inside: Option<Span>,
    pub(crate) called: HashSet<String>,
    pub(crate) calling: Vec<String>,
}

impl<'a> Walk<'a> {
    /// Nothing was looked at yet.
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
    /// The place of a span in the whole text.
    pub(crate) fn place(&self, span: Span) -> Span {
        self.inside.unwrap_or(span)
    }

    /// Whether there is still something to be looked at.
    pub(crate) fn step(&mut self, span: Span) -> bool {
        self.steps += 1;
        if self.depth > MOST_DEPTH {
            self.hidden(span, "commands stand in commands too deeply to be looked at");
            return false;
        }
        self.steps <= MOST_STEPS && self.found.len() < 4 * MOST_FINDINGS
    }

    /// Something that can not be known.
    pub(crate) fn hidden(&mut self, span: Span, why: &str) {
        let call = Call { argv: Vec::new(), input: Input::Inherited, span };
        self.report(Kind::Hidden, None, &call, why, Vec::new());
    }

    /// A finding about a call.
    pub(crate) fn report(
        &mut self,
        kind: Kind,
        severity: Option<Severity>,
        call: &Call,
        why: &str,
        targets: Vec<Target>,
    ) {
        let mut shown = call.argv.iter().map(Field::shown);
        self.found.push(Found {
            kind,
            severity: severity.unwrap_or_else(|| kind.severity()),
            program: shown.next().unwrap_or_default(),
            arguments: shown.take(64).map(|text| shorten(&text)).collect(),
            span: call.span,
            why: why.to_owned(),
            targets,
        });
    }

    /// Runs commands in order. What they print, if that is known.
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

    /// Runs commands in a shell of their own.
    pub(crate) fn apart(&mut self, nodes: &[Node], input: &Input) -> Option<String> {
        let before = self.scope.clone();
        let printed = self.body(nodes, input);
        self.scope = before;
        printed
    }

    /// Runs a substitution; what it prints.
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
            // The last stage may run in this shell, or may not: what it defines stays looked at.
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
        let held: Vec<Held> = if few {
            values.into_iter().map(|value| Held::Parts(value.parts)).collect()
        } else {
            vec![Held::Unknown]
        };
        for value in held {
            let before = std::mem::replace(&mut self.scope.certainty, Certainty::Certain);
            self.scope.set(variable, value);
            self.scope.certainty = before;
            self.perhaps(body, input);
        }
    }

    /// Functions that nothing called: whatever would call them later runs them.
    pub(super) fn uncalled(&mut self) {
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

/// An argument as it stands in a finding.
pub(crate) fn shorten(text: &str) -> String {
    const MOST: usize = 256;
    match text.char_indices().nth(MOST) {
        Some((at, _)) => format!("{}…", text.get(..at).unwrap_or_default()),
        None => text.to_owned(),
    }
}
