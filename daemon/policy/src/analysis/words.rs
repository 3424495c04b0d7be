//! Expands words to the fields that a program would receive, as far as the text shows.

use super::{
    field::{Field, FieldOrigin, Part},
    form::{Operation, Piece, Quoting, Word},
    scope::{MOST_TEXT, VariableValue},
    walk::Walk,
};
use palisade_protocol::Span;

/// The largest number of fields that one word expands to.
const MOST_FIELDS: usize = 1024;

/// A field under construction.
struct FieldBuilder {
    done: Vec<Field>,
    parts: Vec<Part>,
    /// True if the field exists, even if it is empty.
    started: bool,
    origin: FieldOrigin,
    span: Span,
}

impl FieldBuilder {
    fn push(&mut self, part: Part) {
        self.started = true;
        match (self.parts.last_mut(), part) {
            (Some(Part::Known(old)), Part::Known(new)) => {
                if old.len() + new.len() > MOST_TEXT {
                    self.parts.push(Part::Unknown("…".to_owned()));
                } else {
                    old.push_str(&new);
                }
            }
            (_, part) => self.parts.push(part),
        }
    }

    fn mark(&mut self, origin: FieldOrigin) {
        let joined = !self.parts.is_empty() && origin != FieldOrigin::Literal;
        let origin = match origin {
            FieldOrigin::Variable if joined => FieldOrigin::Assembled,
            FieldOrigin::Literal
            | FieldOrigin::Variable
            | FieldOrigin::Split
            | FieldOrigin::Assembled
            | FieldOrigin::Printed => origin,
        };
        self.origin = self.origin.max(origin);
    }

    fn end(&mut self) {
        if self.started && self.done.len() < MOST_FIELDS {
            let parts = std::mem::take(&mut self.parts);
            self.done.push(Field { parts, origin: self.origin, span: self.span });
        }
        self.parts.clear();
        self.started = false;
        self.origin = FieldOrigin::Literal;
    }

    /// Adds text of an expansion. Unquoted text is split at blanks.
    fn text(&mut self, text: &str, quoting: Quoting, origin: FieldOrigin) {
        if quoting == Quoting::Quoted {
            self.mark(origin);
            self.push(Part::Known(text.to_owned()));
            return;
        }
        let blank = |c: char| c == ' ' || c == '\t' || c == '\n';
        let mut pieces = text.split(blank).peekable();
        let several = text.split(blank).filter(|piece| !piece.is_empty()).count() > 1;
        while let Some(piece) = pieces.next() {
            if !piece.is_empty() {
                self.mark(if several { origin.max(FieldOrigin::Split) } else { origin });
                self.push(Part::Known(piece.to_owned()));
            }
            if pieces.peek().is_some() {
                self.end();
            }
        }
    }
}

impl Walk<'_> {
    /// Expands words to fields, and analyses what the expansion itself runs.
    pub(crate) fn fields(&mut self, words: &[Word]) -> Vec<Field> {
        words.iter().flat_map(|word| self.expand(word)).collect()
    }

    /// Expands a word to fields.
    pub(crate) fn expand(&mut self, word: &Word) -> Vec<Field> {
        let span = self.place(word.span);
        let mut making = FieldBuilder {
            done: Vec::new(),
            parts: Vec::new(),
            started: false,
            origin: FieldOrigin::Literal,
            span,
        };
        for piece in &word.pieces {
            self.piece(piece, &mut making);
        }
        making.end();
        making.done
    }

    /// Expands a word of an assignment or a redirection to one field.
    pub(crate) fn expand_whole(&mut self, word: &Word) -> Field {
        let quoted: Vec<Piece> = word.pieces.iter().map(quoted).collect();
        let whole = Word { pieces: quoted, text: word.text.clone(), span: word.span };
        let span = self.place(word.span);
        let mut fields = self.expand(&whole).into_iter();
        let first = fields.next().unwrap_or_else(|| Field::known("", span));
        fields.fold(first, |mut whole, next| {
            whole.parts.push(Part::Known(" ".to_owned()));
            whole.parts.extend(next.parts);
            whole
        })
    }

    fn piece(&mut self, piece: &Piece, making: &mut FieldBuilder) {
        match piece {
            Piece::Text(text, _) => making.push(Part::Known(text.clone())),
            Piece::Glob(text) => making.push(Part::Glob(text.clone())),
            Piece::Tilde(text) => making.push(Part::Home(text.clone())),
            Piece::Unknown(text) => making.push(Part::Unknown(text.clone())),
            Piece::Parameter { name, operation, quoting } => {
                self.parameter(name, operation, *quoting, making);
            }
            Piece::Command(body, quoting) => {
                let output = body.as_ref().and_then(|body| self.substitute(body));
                match output {
                    Some(text) => {
                        making.text(text.trim_end_matches('\n'), *quoting, FieldOrigin::Printed);
                    }
                    None => {
                        making.mark(FieldOrigin::Printed);
                        making.push(Part::Unknown("$(…)".to_owned()));
                    }
                }
                if body.is_none() {
                    self.hidden(making.span, "a command substitution can not be parsed");
                }
            }
            Piece::Process(body) => {
                let output = body.as_ref().and_then(|body| self.substitute(body));
                making.push(Part::Process(output));
                if body.is_none() {
                    self.hidden(making.span, "a process substitution can not be parsed");
                }
            }
            Piece::Arithmetic(pieces, text) => {
                self.only_run(pieces, making.span);
                self.arithmetic(text, making.span);
                making.push(Part::Unknown("$((…))".to_owned()));
            }
        }
    }

    /// Expands pieces only to analyse what they run.
    fn only_run(&mut self, pieces: &[Piece], span: Span) -> Vec<Field> {
        let origin = FieldOrigin::Literal;
        let mut inner =
            FieldBuilder { done: Vec::new(), parts: Vec::new(), started: false, origin, span };
        for piece in pieces {
            self.piece(piece, &mut inner);
        }
        inner.end();
        inner.done
    }

    fn parameter(
        &mut self,
        name: &str,
        operation: &Operation,
        quoting: Quoting,
        making: &mut FieldBuilder,
    ) {
        let shown = format!("${name}");
        let unknown = |making: &mut FieldBuilder| {
            making.mark(FieldOrigin::Variable);
            making.push(Part::Unknown(shown.clone()));
        };
        match operation {
            Operation::Plain | Operation::All => {}
            Operation::Default(pieces) => {
                let default = self.only_run(pieces, making.span);
                if self.scope.get(name).is_none() && !is_positional(name) {
                    // The variable may be set outside the script, so the default is a guess. That
                    // is good enough for a path, but not for a program.
                    return match default.as_slice() {
                        [one] if !making.parts.is_empty() => {
                            making.parts.extend(one.parts.clone());
                        }
                        _ => unknown(making),
                    };
                }
            }
            Operation::Alternative(pieces) | Operation::Other(pieces) => {
                self.only_run(pieces, making.span);
                return unknown(making);
            }
        }
        if name == "IFS" && self.scope.get(name).is_none() {
            return making.text(" \t\n", quoting, FieldOrigin::Variable);
        }
        if name == "HOME" && self.scope.get(name).is_none() {
            making.started = true;
            return making.parts.push(Part::Home("$HOME".to_owned()));
        }
        match self.value(name) {
            VariableValue::Parts(parts) => {
                if parts.is_empty() && quoting == Quoting::Quoted {
                    making.started = true;
                }
                for part in parts {
                    match part {
                        // The places of the splits depend on IFS.
                        Part::Known(text)
                            if quoting == Quoting::Bare
                                && self.scope.get("IFS").is_some()
                                && text.contains(|c: char| !c.is_ascii_alphanumeric()) =>
                        {
                            unknown(making);
                        }
                        Part::Known(text) => making.text(&text, quoting, FieldOrigin::Variable),
                        other @ (Part::Glob(_)
                        | Part::Home(_)
                        | Part::Unknown(_)
                        | Part::Process(_)) => {
                            making.mark(FieldOrigin::Variable);
                            making.push(other);
                        }
                    }
                }
            }
            VariableValue::List(fields) => {
                let several = *operation == Operation::All || is_positional(name);
                let count = if several { fields.len() } else { 1 };
                for (index, field) in fields.into_iter().take(count).enumerate() {
                    if index > 0 {
                        making.end();
                    }
                    making.mark(FieldOrigin::Variable);
                    for part in field.parts {
                        making.push(part);
                    }
                    making.started = true;
                }
            }
            VariableValue::Unknown => unknown(making),
        }
    }

    fn value(&self, name: &str) -> VariableValue {
        if !is_positional(name) {
            return self.scope.get(name).cloned().unwrap_or(VariableValue::Unknown);
        }
        let Some(arguments) = &self.scope.arguments else {
            return VariableValue::Unknown;
        };
        match name.parse::<usize>() {
            Err(_) => VariableValue::List(arguments.clone()),
            Ok(0) => VariableValue::Unknown,
            Ok(number) => match arguments.get(number - 1) {
                Some(field) => VariableValue::Parts(field.parts.clone()),
                None => VariableValue::Parts(Vec::new()),
            },
        }
    }
}

fn is_positional(name: &str) -> bool {
    name == "@" || name == "*" || name.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns a piece in a form that is not split.
fn quoted(piece: &Piece) -> Piece {
    match piece {
        Piece::Text(text, _) => Piece::Text(text.clone(), Quoting::Quoted),
        Piece::Parameter { name, operation, .. } => Piece::Parameter {
            name: name.clone(),
            operation: operation.clone(),
            quoting: Quoting::Quoted,
        },
        Piece::Command(body, _) => Piece::Command(body.clone(), Quoting::Quoted),
        Piece::Glob(_)
        | Piece::Tilde(_)
        | Piece::Process(_)
        | Piece::Arithmetic(..)
        | Piece::Unknown(_) => piece.clone(),
    }
}
