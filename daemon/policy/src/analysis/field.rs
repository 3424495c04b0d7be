//! A field: one argument as a program would receive it, as far as the text shows.

use palisade_protocol::Span;

/// A part of a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Part {
    /// This exact text.
    Known(String),
    /// The file names that this pattern matches.
    Glob(String),
    /// A home directory.
    Home(String),
    /// Unknown text, as it was written.
    Unknown(String),
    /// The path of a pipe to or from a process, and the output of the process, if known.
    Process(Option<String>),
}

/// The origin of a field's text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum FieldOrigin {
    /// The text is literal.
    Literal,
    /// A variable whose value is known.
    Variable,
    /// A variable whose value was split into several fields.
    Split,
    /// Several expansions joined.
    Assembled,
    /// The output of a command.
    Printed,
}

/// One argument of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Field {
    pub(crate) parts: Vec<Part>,
    pub(crate) origin: FieldOrigin,
    pub(crate) span: Span,
}

impl Field {
    pub(crate) fn known(text: impl Into<String>, span: Span) -> Self {
        Self { parts: vec![Part::Known(text.into())], origin: FieldOrigin::Literal, span }
    }

    pub(crate) fn unknown(shown: impl Into<String>, span: Span) -> Self {
        Self { parts: vec![Part::Unknown(shown.into())], origin: FieldOrigin::Literal, span }
    }

    /// Returns the whole text, if it is known.
    pub(crate) fn text(&self) -> Option<String> {
        let mut whole = String::new();
        for part in &self.parts {
            match part {
                Part::Known(text) => whole.push_str(text),
                Part::Glob(_) | Part::Home(_) | Part::Unknown(_) | Part::Process(_) => return None,
            }
        }
        Some(whole)
    }

    /// Returns the known text at the beginning.
    pub(crate) fn prefix(&self) -> String {
        let mut whole = String::new();
        for part in &self.parts {
            match part {
                Part::Known(text) => whole.push_str(text),
                Part::Glob(_) | Part::Home(_) | Part::Unknown(_) | Part::Process(_) => break,
            }
        }
        whole
    }

    /// Returns the known text at the end.
    pub(crate) fn suffix(&self) -> String {
        let mut whole = String::new();
        for part in self.parts.iter().rev() {
            match part {
                Part::Known(text) => whole.insert_str(0, text),
                Part::Glob(_) | Part::Home(_) | Part::Unknown(_) | Part::Process(_) => break,
            }
        }
        whole
    }

    /// Returns the text for people and for pattern matching. Unknown parts are shown as they were
    /// written.
    pub(crate) fn shown(&self) -> String {
        self.parts
            .iter()
            .map(|part| match part {
                Part::Known(text) | Part::Glob(text) | Part::Home(text) | Part::Unknown(text) => {
                    text.as_str()
                }
                Part::Process(_) => "/dev/fd/…",
            })
            .collect()
    }

    /// Returns the field without its first `bytes` bytes, all of which must be known.
    pub(crate) fn behind(&self, bytes: usize) -> Self {
        let mut left = bytes;
        let mut parts = Vec::new();
        for part in &self.parts {
            match part {
                Part::Known(text) if left >= text.len() => left -= text.len(),
                Part::Known(text) if left > 0 => {
                    parts.push(Part::Known(text.get(left..).unwrap_or_default().to_owned()));
                    left = 0;
                }
                Part::Known(_)
                | Part::Glob(_)
                | Part::Home(_)
                | Part::Unknown(_)
                | Part::Process(_) => parts.push(part.clone()),
            }
        }
        Self { parts, origin: self.origin, span: self.span }
    }

    /// Returns `true` if nothing about the field is known.
    pub(crate) fn is_opaque(&self) -> bool {
        !self.parts.is_empty() && self.parts.iter().all(|part| matches!(part, Part::Unknown(_)))
    }

    /// Returns the output of the process whose pipe this is; `None` if the field is not such a
    /// pipe.
    pub(crate) fn process(&self) -> Option<Option<&String>> {
        match self.parts.as_slice() {
            [Part::Process(output)] => Some(output.as_ref()),
            _ => None,
        }
    }

    /// Replaces every `mark` by an unknown part, as `xargs -I` does.
    pub(crate) fn with_unknown(&self, mark: &str) -> Self {
        let mut parts = Vec::new();
        for part in &self.parts {
            match part {
                Part::Known(text) if !mark.is_empty() && text.contains(mark) => {
                    for (index, piece) in text.split(mark).enumerate() {
                        if index > 0 {
                            parts.push(Part::Unknown(mark.to_owned()));
                        }
                        if !piece.is_empty() {
                            parts.push(Part::Known(piece.to_owned()));
                        }
                    }
                }
                Part::Known(_)
                | Part::Glob(_)
                | Part::Home(_)
                | Part::Unknown(_)
                | Part::Process(_) => parts.push(part.clone()),
            }
        }
        Self { parts, origin: self.origin, span: self.span }
    }
}

/// Returns `true` if `text` matches `pattern`: `*` matches anything, `|` separates alternatives,
/// and case is ignored.
pub(crate) fn fits(pattern: &str, text: &str) -> bool {
    pattern.split('|').any(|one| fits_one(one.as_bytes(), text.as_bytes()))
}

fn fits_one(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        if pattern.get(p) == Some(&b'*') {
            star = Some((p, t));
            p += 1;
        } else if pattern.get(p).is_some_and(|c| c.eq_ignore_ascii_case(&text[t])) {
            p += 1;
            t += 1;
        } else if let Some((at, from)) = star {
            star = Some((at, from + 1));
            p = at + 1;
            t = from + 1;
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|c| *c == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        for (pattern, text, expected) in [
            ("abc", "ABC", true),
            ("abc", "abcd", false),
            ("a*c", "abbbc", true),
            ("*", "", true),
            ("x|y*", "yes", true),
            ("x|y*", "no", false),
            ("*.*", "a.b.c", true),
            ("a*b*c", "aXbYbZ", false),
        ] {
            assert_eq!(fits(pattern, text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn a_field_without_its_beginning() {
        let span = Span { start: 0, end: 0 };
        let field = Field {
            parts: vec![Part::Known("--output=a".into()), Part::Unknown("$x".into())],
            origin: FieldOrigin::Literal,
            span,
        };
        assert_eq!(field.prefix(), "--output=a");
        assert_eq!(field.behind(9).shown(), "a$x");
        assert_eq!(field.text(), None);
        assert_eq!(Field::known("a{}b", span).with_unknown("{}").text(), None);
    }
}
