//! Prepares simple commands before they are run: assignments, redirections and input.

use super::{
    field::{Field, Part},
    form::{Assign, Assignment, Redirect, RedirectKind, Simple, Value},
    schema::Effect,
    scope::VariableValue,
    walk::{Call, Input, Walk, writes},
};

impl Walk<'_> {
    pub(crate) fn simple(&mut self, simple: &Simple, input: &Input) -> Option<String> {
        let span = self.place(simple.span);
        if !self.step(span) {
            return None;
        }
        let argv = self.fields(&simple.words);
        let input = self.redirects(&simple.redirects, input);
        let assigned: Vec<(String, VariableValue)> =
            simple.assignments.iter().map(|one| (one.name.clone(), self.assigned(one))).collect();
        for ((name, held), one) in assigned.iter().zip(&simple.assignments) {
            self.variable(name, held, self.place(one.span));
        }
        let printed = if argv.is_empty() {
            for (name, held) in assigned {
                self.scope.set(&name, held);
            }
            Some(String::new())
        } else {
            // The assignments are visible inside a function, `eval` and the like.
            let before = (!assigned.is_empty()).then(|| self.scope.clone());
            for (name, held) in assigned {
                self.scope.set(&name, held);
            }
            let printed = self.invoke(Call { argv, input, span });
            if let Some(before) = before {
                let functions = std::mem::take(&mut self.scope.functions);
                self.scope = before;
                self.scope.functions.extend(functions);
            }
            printed
        };
        printed.filter(|_| !simple.redirects.iter().any(writes))
    }

    fn assigned(&mut self, assignment: &Assignment) -> VariableValue {
        let new = match &assignment.value {
            Value::Scalar(word) => VariableValue::Parts(self.expand_whole(word).parts),
            Value::Array(words) => VariableValue::List(self.fields(words)),
        };
        let old = self.scope.get(&assignment.name).cloned();
        match (assignment.mode, old, new) {
            (Assign::Replace, _, new) => new,
            (Assign::Append, Some(VariableValue::Parts(mut old)), VariableValue::Parts(new)) => {
                old.extend(new);
                VariableValue::Parts(old)
            }
            (Assign::Append, Some(VariableValue::List(mut old)), VariableValue::List(new)) => {
                old.extend(new);
                VariableValue::List(old)
            }
            (Assign::Append | Assign::Element, _, _) => VariableValue::Unknown,
        }
    }

    /// Analyses redirections, and returns the input of the command.
    pub(crate) fn redirects(&mut self, redirects: &[Redirect], input: &Input) -> Input {
        let mut input = input.clone();
        for redirect in redirects {
            let field = self.expand_whole(&redirect.word);
            let span = self.place(redirect.word.span);
            let operator = match redirect.kind {
                RedirectKind::Append => ">>",
                RedirectKind::Truncate
                | RedirectKind::Read
                | RedirectKind::ReadWrite
                | RedirectKind::Duplicate
                | RedirectKind::Text => ">",
            };
            let argv = vec![Field::known(operator, span), field.clone()];
            let call = Call { argv, input: Input::Inherited, span };
            match redirect.kind {
                RedirectKind::Truncate => {
                    let why = "the redirection truncates the file";
                    self.write(&call, &[field], Effect::Overwrite, why);
                }
                RedirectKind::Append | RedirectKind::ReadWrite => {
                    let why = "the redirection appends to the file";
                    self.write(&call, &[field], Effect::Append, why);
                }
                RedirectKind::Read => {
                    input = match (field.process(), field.text()) {
                        (Some(output), _) => output.cloned().map_or(Input::Unknown, Input::Known),
                        (None, Some(path)) => Input::File(path),
                        (None, None) => Input::Unknown,
                    };
                }
                RedirectKind::Text => {
                    input = field.text().map_or(Input::Unknown, |text| Input::Known(text + "\n"));
                }
                RedirectKind::Duplicate => {}
            }
        }
        input
    }
}

/// Returns the known text of a value.
pub(crate) fn value_text(held: &VariableValue) -> String {
    match held {
        VariableValue::Parts(parts) => parts.iter().map(part_text).collect(),
        VariableValue::List(fields) => {
            fields.iter().map(Field::shown).collect::<Vec<_>>().join(" ")
        }
        VariableValue::Unknown => "$…".to_owned(),
    }
}

fn part_text(part: &Part) -> String {
    match part {
        Part::Known(text) | Part::Glob(text) | Part::Home(text) | Part::Unknown(text) => {
            text.clone()
        }
        Part::Process(_) => "/dev/fd/…".to_owned(),
    }
}
