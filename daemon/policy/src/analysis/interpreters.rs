//! Programs that run code: finds the code, and analyses what can be known of it.

use super::{
    field::Field,
    finding::Kind,
    invoke::{Shell, code_text},
    options::{Arguments, GivenOption},
    schema::{Interpreter, PathRole, Style, VerbRole},
    walk::{Call, Input, Walk},
};

impl Walk<'_> {
    /// Analyses the code that an interpreter is given.
    pub(crate) fn interpret(&mut self, entry: &Interpreter, call: &Call) {
        let fields = call.argv.get(1..).unwrap_or_default();
        let anywhere = entry.operand.is_some() || is_client(entry);
        let style = if anywhere { Style::Gnu } else { Style::Posix };
        let arguments = Arguments::read(fields, &entry.takes, style);
        if arguments.find(&entry.none).is_some() {
            return;
        }
        if entry.language == "shell" {
            return self.shell(entry, &arguments, call);
        }
        let given = |given: &&GivenOption| entry.code.iter().any(|name| given.is(name));
        let code: Vec<Field> =
            arguments.options.iter().filter(given).filter_map(|g| g.value.clone()).collect();
        for text in &code {
            self.code_field(entry, text, call);
        }
        if let Some(file) = arguments.find(&entry.file) {
            let shown = file.value.as_ref().map(Field::shown).unwrap_or_default();
            self.file(entry, &shown, call);
        }
        if let Some(module) = arguments.find(&entry.module) {
            let shown = module.value.as_ref().map(Field::shown).unwrap_or_default();
            if !entry.harmless.contains(&shown) {
                self.file(entry, &shown, call);
            }
            return;
        }
        if !code.is_empty() || arguments.find(&entry.file).is_some() {
            return;
        }
        if let Some(at) = entry.operand {
            let operands = arguments.operands.iter().skip(at);
            let several = if at == 0 { 1 } else { usize::MAX };
            let code: Vec<Field> = operands.take(several).cloned().collect();
            if !code.is_empty() {
                return code.iter().for_each(|text| self.code_field(entry, text, call));
            }
        }
        self.script(entry, &arguments, call);
    }

    /// Analyses a script file, or standard input.
    fn script(&mut self, entry: &Interpreter, arguments: &Arguments, call: &Call) {
        let operands = arguments.operands.as_slice();
        match operands.first() {
            Some(script) if entry.operand.is_none() && script.text().as_deref() != Some("-") => {
                if is_client(entry) {
                    return self.input(entry, call);
                }
                if let Some(output) = script.process() {
                    return self.printed(entry, output.cloned(), call);
                }
                self.file(entry, &script.shown(), call);
                for word in operands.iter().skip(1).take(3).filter_map(Field::text) {
                    let mut pieces = word.split([':', '-', '_', '.']);
                    let verb = pieces.find_map(|piece| self.tables.verb(VerbRole::Script, piece));
                    if let Some(verb) = verb {
                        let why = format!("`{word}`: {verb}");
                        self.report(Kind::Suspected, None, call, &why, Vec::new());
                        break;
                    }
                }
            }
            Some(_) | None => self.input(entry, call),
        }
    }

    fn input(&mut self, entry: &Interpreter, call: &Call) {
        if !entry.stdin {
            return;
        }
        match &call.input {
            Input::Inherited => {}
            Input::Known(text) => self.printed(entry, Some(text.clone()), call),
            Input::File(path) => self.file(entry, path, call),
            Input::Unknown => self.printed(entry, None, call),
        }
    }

    fn printed(&mut self, entry: &Interpreter, output: Option<String>, call: &Call) {
        match output {
            Some(text) => self.code(entry, &text, call),
            None => {
                let why = "runs the output of another command as code";
                self.report(Kind::Hidden, None, call, why, Vec::new());
            }
        }
    }

    fn file(&mut self, entry: &Interpreter, path: &str, call: &Call) {
        let scratch = self.tables.path(PathRole::Scratch, path).is_some();
        let (kind, why) = if is_client(entry) {
            (Kind::Hidden, "statements from a file, which the command does not show")
        } else if scratch {
            (Kind::Hidden, "code from a directory that any program may write to")
        } else {
            (Kind::WorkspaceCode, entry.why.as_str())
        };
        self.report(kind, None, call, why, Vec::new());
    }

    fn code_field(&mut self, entry: &Interpreter, text: &Field, call: &Call) {
        match code_text(text) {
            Some(text) => self.code(entry, &text, call),
            // An unknown part that is only a value in awk or sed does not hide what their scripts
            // do.
            None if entry.operand == Some(0) => self.code(entry, &text.shown(), call),
            None => {
                // The known part may show enough.
                self.code(entry, &text.shown(), call);
                if entry.language != "sql" {
                    let why = "the code that an interpreter is given is not known before it runs";
                    self.report(Kind::Hidden, None, call, why, Vec::new());
                }
            }
        }
    }

    fn shell(&mut self, entry: &Interpreter, arguments: &Arguments, call: &Call) {
        let operands = arguments.operands.as_slice();
        let (from_input, rest) = (["-s".to_owned()], operands.get(2..).unwrap_or_default());
        if arguments.find(&entry.code).is_some() {
            let Some(code) = operands.first() else { return };
            let why = "code in an argument; all of it was analysed";
            self.report(Kind::NestedCode, None, call, why, Vec::new());
            self.run_text(code, Some(rest.to_vec()), Shell::Another, call);
            return;
        }
        match operands.first() {
            Some(script) if arguments.find(&from_input).is_none() && !is_dash(script) => {
                match script.process() {
                    Some(output) => self.shell_text(output.cloned(), call),
                    None => self.file(entry, &script.shown(), call),
                }
            }
            Some(_) | None => match &call.input {
                Input::Inherited => {}
                Input::File(path) => self.file(entry, path, call),
                Input::Known(text) => self.shell_text(Some(text.clone()), call),
                Input::Unknown => self.shell_text(None, call),
            },
        }
    }

    pub(crate) fn shell_text(&mut self, text: Option<String>, call: &Call) {
        let Some(text) = text else {
            let why = "a shell runs the output of another command";
            return self.report(Kind::Hidden, None, call, why, Vec::new());
        };
        let why = "code from standard input or a process; all of it was analysed";
        self.report(Kind::NestedCode, None, call, why, Vec::new());
        let field = Field::known(text, call.span);
        let inner = Call { input: Input::Inherited, ..call.clone() };
        self.run_text(&field, Some(Vec::new()), Shell::Another, &inner);
    }
}

/// Returns `true` if the interpreter is a database client: its operands name a database, not a
/// script file.
fn is_client(entry: &Interpreter) -> bool {
    matches!(entry.language.as_str(), "sql" | "mongo" | "redis")
}

/// Returns `true` if a script operand names standard input.
fn is_dash(script: &Field) -> bool {
    script.text().is_some_and(|text| text == "-" || text == "/dev/stdin")
}
