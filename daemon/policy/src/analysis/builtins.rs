//! Shell builtins that change the meaning of later commands.

use super::{
    field::{Field, Part},
    finding::Kind,
    invoke::Shell,
    schema::PathRole,
    scope::VariableValue,
    walk::{Call, Input, Walk},
};
use palisade_protocol::Span;

impl Walk<'_> {
    /// Analyses a builtin. Returns `None` if the name is not a builtin; otherwise its output, if
    /// known.
    #[allow(
        clippy::option_option,
        reason = "whether it is a builtin, and whether its output is known"
    )]
    pub(crate) fn builtin(&mut self, name: &str, call: &Call) -> Option<Option<String>> {
        let operands = || call.argv.iter().skip(1);
        match name {
            "cd" | "pushd" => self.change_directory(call),
            "popd" => self.scope.go(None),
            "export" | "declare" | "typeset" | "local" | "readonly" => self.declare(call),
            "read" | "mapfile" | "readarray" | "getopts" | "wait" | "unset" => {
                if let Some(at) = call.argv.iter().position(|f| f.text().as_deref() == Some("-C"))
                    && let Some(callback) = call.argv.get(at + 1)
                {
                    let why = "runs code for every few lines";
                    self.report(Kind::NestedCode, None, call, why, Vec::new());
                    self.run_text(callback, None, Shell::This, call);
                }
                for field in operands() {
                    self.subscript(field, call);
                    if let Some(variable) = field.text() {
                        self.scope.set(&variable, VariableValue::Unknown);
                    }
                }
                self.scope.set("REPLY", VariableValue::Unknown);
                self.scope.set("MAPFILE", VariableValue::Unknown);
            }
            "set" => self.set(call),
            "shift" => {
                if let Some(arguments) = &mut self.scope.arguments
                    && !arguments.is_empty()
                {
                    arguments.remove(0);
                }
            }
            "alias" => {
                for text in operands().filter_map(Field::text) {
                    if let Some((name, value)) = text.split_once('=') {
                        self.scope.aliases.insert(name.to_owned(), value.to_owned());
                    }
                }
            }
            "eval" => return Some(self.eval(call)),
            "source" | "." => self.source(call),
            "trap" => self.trap(call),
            "let" => {
                for field in operands() {
                    self.subscript(field, call);
                    self.arithmetic(&field.shown(), call.span);
                }
            }
            "printf" => {
                if call.argv.get(1).and_then(Field::text).as_deref() == Some("-v")
                    && let Some(variable) = call.argv.get(2)
                {
                    self.subscript(variable, call);
                    self.scope.set(&variable.shown(), VariableValue::Unknown);
                }
                return None;
            }
            "test" | "[" => operands().for_each(|field| self.subscript(field, call)),
            _ => return None,
        }
        Some(Some(String::new()))
    }

    fn change_directory(&mut self, call: &Call) {
        let target = call.argv.iter().skip(1).find(|field| !field.prefix().starts_with('-'));
        match target {
            Some(field) => match (field.text(), self.path(field)) {
                (Some(text), _) => self.scope.go(Some(&text)),
                (None, Some(path)) => self.scope.go(path.starts_with('/').then_some(&path)),
                (None, None) => self.scope.go(None),
            },
            None => self.scope.go(None),
        }
    }

    fn declare(&mut self, call: &Call) {
        let options = call.argv.iter().skip(1).map(Field::prefix);
        let integer = options.clone().any(|o| o.starts_with('-') && o.contains('i'));
        // With a name reference or a case conversion, the value is not what is written here.
        let changed =
            options.clone().any(|o| o.starts_with('-') && o.contains(['n', 'l', 'u', 'c']));
        for field in call.argv.iter().skip(1) {
            let prefix = field.prefix();
            self.subscript(field, call);
            let Some((name, _)) = prefix.split_once('=') else {
                continue;
            };
            let value = field.behind(name.len() + 1);
            if integer {
                self.arithmetic(&value.shown(), call.span);
            }
            let name = name.trim_end_matches('+').to_owned();
            let held = VariableValue::Parts(value.parts);
            self.variable(&name, &held, call.span);
            self.scope.set(&name, if changed { VariableValue::Unknown } else { held });
        }
    }

    fn set(&mut self, call: &Call) {
        let words: Vec<Option<String>> = call.argv.iter().map(Field::text).collect();
        let dashes = words.iter().position(|word| word.as_deref() == Some("--"));
        let first = words
            .iter()
            .skip(1)
            .position(|word| word.as_deref().is_none_or(|word| !word.starts_with(['-', '+'])));
        let from = dashes.map(|at| at + 1).or(first.map(|at| at + 1));
        if let Some(from) = from {
            self.scope.arguments = Some(call.argv.iter().skip(from).cloned().collect());
        }
    }

    fn eval(&mut self, call: &Call) -> Option<String> {
        let mut fields = call.argv.iter().skip(1).peekable();
        if fields.peek().is_some_and(|f| f.text().as_deref() == Some("--")) {
            fields.next();
        }
        let whole = join(fields, call.span);
        self.run_text(&whole, None, Shell::This, call)
    }

    fn source(&mut self, call: &Call) {
        let Some(script) = call.argv.get(1) else { return };
        if let Some(output) = script.process() {
            return match output {
                Some(text) => {
                    let text = Field::known(text.clone(), call.span);
                    self.run_text(&text, None, Shell::This, call);
                }
                None => {
                    let why = "this shell runs the output of another command";
                    self.report(Kind::Hidden, None, call, why, Vec::new());
                }
            };
        }
        let shown = script.shown();
        if let Some(why) = self.tables.path(PathRole::Settings, &shown) {
            let why = format!("runs a script in this shell: {why}");
            return self.report(Kind::WorkspaceCode, None, call, &why, Vec::new());
        }
        if let (Input::Known(text), true) = (&call.input, shown == "/dev/stdin" || shown == "-") {
            let text = Field::known(text.clone(), call.span);
            self.run_text(&text, None, Shell::This, call);
            return;
        }
        let why = "runs a script in this shell, and the command does not show what it does";
        self.report(Kind::Hidden, None, call, why, Vec::new());
    }

    fn trap(&mut self, call: &Call) {
        let mut operands = call.argv.iter().skip(1).filter(|f| f.text().as_deref() != Some("--"));
        let Some(code) = operands.next() else { return };
        let text = code.text().unwrap_or_default();
        let resets = text == "-" || text.is_empty() && code.text().is_some();
        if resets || text.starts_with('-') || operands.next().is_none() {
            return;
        }
        let why = "stores code that runs later";
        self.report(Kind::NestedCode, None, call, why, Vec::new());
        self.run_text(code, None, Shell::This, call);
    }

    /// Reports a subscript that runs a command. Builtins that take a variable name evaluate even a
    /// quoted subscript.
    fn subscript(&mut self, field: &Field, call: &Call) {
        let text = field.shown();
        if text.contains('[') && runs_something(&text) {
            let why = "the shell evaluates the subscript, which runs a command";
            self.report(Kind::Hidden, None, call, why, Vec::new());
        }
    }

    /// Reports arithmetic that runs a command: it evaluates the text of the variables that it
    /// names.
    pub(crate) fn arithmetic(&mut self, text: &str, span: Span) {
        let names = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
        let evaluated = names.filter_map(|name| self.scope.get(name)).any(|held| match held {
            VariableValue::Parts(parts) => parts.iter().any(|part| match part {
                Part::Known(text) => runs_something(text),
                Part::Glob(_) | Part::Home(_) | Part::Unknown(_) | Part::Process(_) => false,
            }),
            VariableValue::List(_) | VariableValue::Unknown => false,
        });
        if evaluated || text.contains('[') && runs_something(text) {
            self.hidden(span, "arithmetic evaluates a text, which runs a command");
        }
    }
}

fn runs_something(text: &str) -> bool {
    text.contains("$(") || text.contains('`')
}

/// Joins fields with blanks, as `eval` and `ssh` do.
pub(crate) fn join<'a>(fields: impl Iterator<Item = &'a Field>, span: Span) -> Field {
    let mut whole = Field { parts: Vec::new(), origin: super::field::FieldOrigin::Literal, span };
    for (index, field) in fields.enumerate() {
        if index > 0 {
            whole.parts.push(Part::Known(" ".to_owned()));
        }
        whole.parts.extend(field.parts.clone());
    }
    whole
}
