//! Analyses one command: identifies the program, and applies everything that is known about it.

use super::{
    field::{Field, FieldOrigin, Part},
    finding::{AnalysedCommand, Kind},
    form::Node,
    options::Arguments,
    schema::{PathRole, Style},
    scope::VariableValue,
    walk::{Call, Input, Walk, shorten},
};
use palisade_protocol::Span;

/// The kinds of commands that are looked up: functions and aliases too, or programs only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lookup {
    Everything,
    ProgramsOnly,
}

/// The shell that runs a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shell {
    This,
    Another,
}

impl Walk<'_> {
    /// Analyses a command, and returns its output, if known.
    pub(crate) fn invoke(&mut self, call: Call) -> Option<String> {
        self.invoke_as(call, Lookup::Everything)
    }

    pub(crate) fn invoke_as(&mut self, call: Call, lookup: Lookup) -> Option<String> {
        self.depth += 1;
        let printed = if self.step(call.span) { self.look_at(call, lookup) } else { None };
        self.depth -= 1;
        printed
    }

    fn look_at(&mut self, call: Call, lookup: Lookup) -> Option<String> {
        let first = call.argv.first()?;
        let argv = call.argv.iter().map(|field| shorten(&field.shown())).collect();
        self.commands.push(AnalysedCommand { argv, span: call.span });
        match first.origin {
            FieldOrigin::Literal | FieldOrigin::Variable => {}
            FieldOrigin::Split => {
                let why = "a variable's text is split into a command and its arguments";
                self.report(Kind::Hidden, None, &call, why, Vec::new());
            }
            FieldOrigin::Assembled => {
                let why = "the program's name is assembled from pieces";
                self.report(Kind::Hidden, None, &call, why, Vec::new());
            }
            FieldOrigin::Printed => {
                let why = "runs the output of another command as a command";
                self.report(Kind::Hidden, None, &call, why, Vec::new());
            }
        }
        let Some(name) = program(first) else {
            let why = "which program this runs is not known before it runs";
            self.report(Kind::Hidden, None, &call, why, Vec::new());
            return None;
        };
        if lookup == Lookup::Everything {
            if let Some(text) = self.scope.aliases.get(&name).cloned()
                && !self.calling.contains(&name)
            {
                return self.alias(&name, &text, call);
            }
            if self.scope.functions.contains_key(&name) {
                return self.function(&name, call);
            }
        }
        match name.rsplit_once('/') {
            None => self.named(&name, &call),
            Some((directory, base)) => {
                self.by_path(directory, base, &call);
                self.named(base, &call)
            }
        }
    }

    fn by_path(&mut self, directory: &str, base: &str, call: &Call) {
        if self.tables.path(PathRole::Programs, directory).is_some() {
            return;
        }
        if self.tables.path(PathRole::Scratch, &format!("{directory}/{base}")).is_some() {
            let why = "runs a program from a directory that any program may have written to";
            return self.report(Kind::Hidden, None, call, why, Vec::new());
        }
        let why = "runs a program of the workspace by its path";
        self.report(Kind::WorkspaceCode, None, call, why, Vec::new());
    }

    /// Analyses a program that is identified by its name alone.
    fn named(&mut self, name: &str, call: &Call) -> Option<String> {
        if let Some(printed) = self.builtin(name, call) {
            return printed;
        }
        let entries = self.tables.entries(name);
        if entries.is_empty() {
            self.unknown(call);
            return None;
        }
        let tables = self.tables;
        for program in entries.programs.iter().filter_map(|at| tables.program(*at)) {
            self.rules(program, call);
        }
        for wrapper in entries.wrappers.iter().filter_map(|at| tables.wrappers.get(*at)) {
            self.unwrap(wrapper, call);
        }
        for entry in entries.interpreters.iter().filter_map(|at| tables.interpreters.get(*at)) {
            self.interpret(entry, call);
        }
        if matches!(name, "find" | "gfind" | "bfs") {
            self.find(call);
        }
        super::printed::by(name, call)
    }

    fn unknown(&mut self, call: &Call) {
        let fields = call.argv.get(1..).unwrap_or_default();
        let arguments = Arguments::read(fields, &[], Style::Gnu);
        let before = self.found.len();
        if !self.is_dry(&arguments) {
            self.verbs(call, &arguments);
        }
        if self.found.len() == before {
            let why = "this program is not known";
            self.report(Kind::UnknownProgram, None, call, why, Vec::new());
        }
    }

    fn alias(&mut self, name: &str, text: &str, call: Call) -> Option<String> {
        self.calling.push(name.to_owned());
        let before = self.inside.replace(call.span);
        let printed = match self.parser.parse(text) {
            Err(error) => {
                self.hidden(call.span, &format!("the alias {name} is opaque: {error}"));
                None
            }
            Ok(body) => match body.as_slice() {
                [Node::Simple(simple)] => {
                    let mut argv = self.fields(&simple.words);
                    argv.extend(call.argv.into_iter().skip(1));
                    self.invoke(Call { argv, input: call.input, span: call.span })
                }
                nodes => self.body(nodes, &call.input),
            },
        };
        self.inside = before;
        self.calling.pop();
        printed
    }

    fn function(&mut self, name: &str, call: Call) -> Option<String> {
        self.called.insert(name.to_owned());
        if self.calling.iter().any(|outer| outer == name) {
            let why = "a function calls itself, so what it runs can not be bounded";
            self.report(Kind::Hidden, None, &call, why, Vec::new());
            return None;
        }
        let body = self.scope.functions.get(name)?.clone();
        self.calling.push(name.to_owned());
        let arguments = call.argv.into_iter().skip(1).collect();
        let before = self.scope.arguments.replace(arguments);
        let printed = self.body(&body, &call.input);
        self.scope.arguments = before;
        self.calling.pop();
        printed
    }

    /// Analyses a text as a shell would run it.
    pub(crate) fn run_text(
        &mut self,
        text: &Field,
        arguments: Option<Vec<Field>>,
        shell: Shell,
        call: &Call,
    ) -> Option<String> {
        let Some(text) = code_text(text) else {
            let why = "the code that a shell is given is not known before it runs";
            self.report(Kind::Hidden, None, call, why, Vec::new());
            return None;
        };
        let body = match self.parser.parse(&text) {
            Ok(body) => body,
            Err(error) => {
                let why = format!("the code that a shell is given can not be analysed: {error}");
                self.report(Kind::Hidden, None, call, &why, Vec::new());
                return None;
            }
        };
        let inside = self.inside.replace(call.span);
        let before = self.scope.clone();
        if let Some(arguments) = arguments {
            self.scope.arguments = Some(arguments);
        }
        let printed = self.body(&body, &call.input);
        match shell {
            Shell::Another => self.scope = before,
            Shell::This => self.scope.arguments = before.arguments,
        }
        self.inside = inside;
        printed
    }

    /// Reports the effect of a variable on the programs that see it.
    pub(crate) fn variable(&mut self, name: &str, held: &VariableValue, span: Span) {
        let text = super::simple::value_text(held);
        let argv = vec![Field::known(format!("{name}={text}"), span)];
        let call = Call { argv, input: Input::Inherited, span };
        if name == "PATH" {
            let relative = |part: &str| !part.starts_with(['/', '~', '$']);
            if text.split(':').any(relative) {
                let why = "programs would be searched in a directory of the workspace";
                self.report(Kind::Hidden, None, &call, why, Vec::new());
            }
            return;
        }
        let tables = self.tables;
        if let Some(known) = tables.variable(name, &text) {
            self.report(known.kind, None, &call, &known.why, Vec::new());
        }
    }
}

/// Returns the program that a field names, with as much of its path as is known.
fn program(field: &Field) -> Option<String> {
    if let Some(text) = field.text() {
        return Some(text);
    }
    if field.parts.iter().any(|part| matches!(part, Part::Glob(_) | Part::Process(_))) {
        return None;
    }
    // For `$HOME/bin/x` and `$dir/x`, the directory is unknown but the name is not.
    let suffix = field.suffix();
    suffix.contains('/').then(|| format!("?{suffix}"))
}

/// Returns the text of code. A home directory in it is allowed, because it does not change the
/// code.
pub(crate) fn code_text(field: &Field) -> Option<String> {
    let harmless = |part: &Part| matches!(part, Part::Known(_) | Part::Home(_));
    field.parts.iter().all(harmless).then(|| field.shown())
}
