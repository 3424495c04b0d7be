//! Programs that run other programs: finds the inner command, with the help of the tables.

use super::{
    builtins::join,
    field::{Field, fits},
    finding::Kind,
    invoke::{Lookup, Shell},
    options::Arguments,
    rules::behind_sub,
    schema::{Inner, Style, Wrapper},
    scope::VariableValue,
    walk::{Call, Input, Walk},
};

impl Walk<'_> {
    /// Analyses the command that a wrapper runs.
    pub(crate) fn unwrap(&mut self, wrapper: &Wrapper, call: &Call) {
        let fields = call.argv.get(1..).unwrap_or_default();
        let style = wrapper.style.unwrap_or(Style::Posix);
        let arguments = Arguments::read(fields, &wrapper.takes, style);
        let Some(operands) = behind_sub(&wrapper.sub, &arguments.operands) else {
            return;
        };
        let wanted = wrapper.any.is_empty() || arguments.find(&wrapper.any).is_some();
        if !wanted || arguments.find(&wrapper.none).is_some() {
            return;
        }
        let mut inner = match wrapper.inner {
            Inner::None => Vec::new(),
            Inner::Dashes => match arguments.dashes {
                Some(at) => fields.get(at + 1..).unwrap_or_default().to_vec(),
                None => operands.get(wrapper.skip..).unwrap_or_default().to_vec(),
            },
            Inner::Argv | Inner::Shell => self.behind_assignments(operands, wrapper.skip, call),
        };
        // The wrapper's own options may also follow a subcommand.
        if !wrapper.sub.is_empty() && wrapper.inner != Inner::Dashes {
            let again = Arguments::read(operands, &wrapper.takes, Style::Posix);
            inner = again.operands.get(wrapper.skip..).unwrap_or_default().to_vec();
        }
        for option in &wrapper.code {
            for text in arguments.values(option).cloned().collect::<Vec<_>>() {
                self.report(Kind::NestedCode, None, call, &wrapper.why, Vec::new());
                self.run_text(&text, None, Shell::Another, call);
            }
        }
        if let Some(kind) = wrapper.kind {
            self.report(kind, None, call, &wrapper.why, Vec::new());
        }
        if let [option, code, ..] = inner.as_slice()
            && option.text().is_some_and(|option| wrapper.code.contains(&option))
        {
            self.run_text(code, None, Shell::Another, call);
            return;
        }
        if inner.is_empty() {
            return self.read_commands(wrapper, call);
        }
        if wrapper.appends {
            inner = self.with_more(wrapper, &arguments, inner, call);
        }
        let (input, span) = (call.input.clone(), call.span);
        if wrapper.inner == Inner::Shell {
            let text = join(inner.iter(), span);
            self.run_text(&text, None, Shell::Another, call);
        } else {
            let lookup = match call.argv.first().and_then(Field::text).as_deref() {
                Some("time" | "coproc") => Lookup::Everything,
                Some(_) | None => Lookup::ProgramsOnly,
            };
            self.invoke_as(Call { argv: inner, input, span }, lookup);
        }
    }

    /// Analyses the input of a wrapper that has no command and reads commands instead.
    fn read_commands(&mut self, wrapper: &Wrapper, call: &Call) {
        match &call.input {
            _ if !wrapper.stdin => {}
            Input::Inherited => {}
            Input::Known(text) => self.shell_text(Some(text.clone()), call),
            Input::File(_) | Input::Unknown => self.shell_text(None, call),
        }
    }

    /// Returns the operands after skipped ones and `NAME=value` assignments.
    fn behind_assignments(&mut self, operands: &[Field], skip: usize, call: &Call) -> Vec<Field> {
        let rest = operands.get(skip..).unwrap_or_default();
        let mut from = 0;
        for field in rest {
            let prefix = field.prefix();
            let Some((name, _)) = prefix.split_once('=') else { break };
            let is_name = |name: &str| {
                !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
            };
            if !is_name(name) {
                break;
            }
            let held = VariableValue::Parts(field.behind(name.len() + 1).parts);
            self.variable(name, &held, call.span);
            from += 1;
        }
        rest.get(from..).unwrap_or_default().to_vec()
    }

    /// Returns a command with the arguments that it will read from elsewhere.
    fn with_more(
        &self,
        wrapper: &Wrapper,
        arguments: &Arguments,
        inner: Vec<Field>,
        call: &Call,
    ) -> Vec<Field> {
        let given = arguments.find(&wrapper.mark);
        let mark = given.map(|g| g.value.as_ref().map_or("{}".to_owned(), Field::shown));
        let mut argv: Vec<Field> =
            inner.into_iter().take_while(|field| !fits(":::*", &field.shown())).collect();
        let marked = mark.clone().unwrap_or_else(|| "{}".to_owned());
        let has_mark = argv.iter().any(|field| field.shown().contains(&marked));
        if has_mark && (mark.is_some() || wrapper.mark.is_empty()) {
            argv = argv.iter().map(|field| field.with_unknown(&marked)).collect();
        }
        if !(has_mark && mark.is_some()) {
            argv.push(Field::unknown("…", call.span));
        }
        argv
    }

    /// Analyses the commands that `find` runs for each file.
    pub(crate) fn find(&mut self, call: &Call) {
        let runs = ["-exec", "-execdir", "-ok", "-okdir"];
        let mut fields = call.argv.iter().skip(1);
        while let Some(field) = fields.next() {
            if !field.text().is_some_and(|text| runs.contains(&text.as_str())) {
                continue;
            }
            let ends =
                |field: &&Field| !field.text().is_some_and(|text| text == ";" || text == "+");
            let argv: Vec<Field> =
                fields.by_ref().take_while(ends).map(|f| f.with_unknown("{}")).collect();
            let (input, span) = (call.input.clone(), call.span);
            self.invoke_as(Call { argv, input, span }, Lookup::ProgramsOnly);
        }
    }
}
