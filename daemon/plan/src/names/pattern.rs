//! One pattern: `*`, `?` and `[a-z]` stay in one name, `**` goes over any number of names. Pure.

/// What an entry is, as far as a pattern asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A directory.
    Directory,
    /// Anything else.
    Other,
    /// It is not known: what is true of either is true of it.
    Either,
}

/// The longest pattern.
const LONGEST: usize = 1024;

/// Why a text is no pattern.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{pattern:?} {why}")]
pub struct PatternError {
    /// The text.
    pub pattern: String,
    /// What is wrong with it.
    pub why: &'static str,
}

/// A pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    exception: bool,
    directories: bool,
    /// From the workspace down; the last is about the name itself.
    parts: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    /// Any number of names.
    Any,
    One(Name),
}

/// A pattern for one name: the usual ones in a form that is quick to compare.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Name {
    Is(Vec<u8>),
    Begins(Vec<u8>),
    Ends(Vec<u8>),
    Has(Vec<u8>),
    Glob(Vec<Token>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Byte(u8),
    One,
    Many,
    Set { inverted: bool, ranges: Vec<(u8, u8)> },
}

impl Pattern {
    /// Reads one.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Self, PatternError> {
        let wrong = |why| PatternError { pattern: text.to_owned(), why };
        let (exception, rest) = match text.strip_prefix('!') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (directories, rest) = match rest.strip_suffix('/') {
            Some(rest) => (true, rest),
            None => (false, rest),
        };
        let anchored = rest.contains('/');
        let rest = rest.strip_prefix('/').unwrap_or(rest);
        if rest.is_empty() {
            return Err(wrong("names nothing"));
        }
        if rest.len() > LONGEST {
            return Err(wrong("is longer than 1024 bytes"));
        }
        if rest.contains('\0') || rest.starts_with('$') {
            return Err(wrong("is not relative to the workspace: it has a variable or a NUL"));
        }
        let mut parts = if anchored { Vec::new() } else { vec![Part::Any] };
        for part in rest.split('/') {
            match part {
                "" | "." | ".." => return Err(wrong("has an empty name, a `.` or a `..` in it")),
                // Two in a row say no more than one.
                "**" if parts.last() == Some(&Part::Any) => {}
                "**" => parts.push(Part::Any),
                name => parts.push(Part::One(Name::parse(name).map_err(wrong)?)),
            }
        }
        let open = |part: &Part| match part {
            Part::Any => true,
            Part::One(Name::Glob(tokens)) => tokens.iter().all(|token| *token == Token::Many),
            Part::One(Name::Begins(text) | Name::Ends(text) | Name::Has(text)) => text.is_empty(),
            Part::One(Name::Is(_)) => false,
        };
        if parts.iter().all(open) && !exception {
            return Err(wrong("would be everything"));
        }
        Ok(Self { exception, directories, parts })
    }

    /// Whether it takes back what patterns before it mean.
    #[must_use]
    pub const fn is_exception(&self) -> bool {
        self.exception
    }

    /// The name, if it means exactly one, in every directory.
    #[must_use]
    pub fn literal(&self) -> Option<&[u8]> {
        match self.parts.as_slice() {
            [Part::Any, Part::One(Name::Is(name))] if !self.exception => Some(name),
            _ => None,
        }
    }

    /// Whether it matches a name in a directory.
    pub(super) fn matches(&self, directory: &[u8], name: &[u8], kind: Kind) -> bool {
        if self.directories && kind == Kind::Other {
            return false;
        }
        match self.parts.as_slice() {
            [Part::Any, Part::One(one)] => one.matches(name),
            // The name first: it seldom matches, and then nothing has to be taken apart.
            [.., Part::One(last)] if !last.matches(name) => false,
            parts => {
                let mut path: Vec<&[u8]> = Vec::new();
                if !directory.is_empty() {
                    path.extend(directory.split(|byte| *byte == b'/'));
                }
                // What ends in `**` means what is in a directory, not the directory.
                let inside = parts.last() == Some(&Part::Any);
                path.push(name);
                all(parts, &path, inside)
            }
        }
    }
}

/// Whether parts match names. Steps back only to the last `**`. With `inside`, a `**` at the end
/// stands for one name at least.
fn all(parts: &[Part], names: &[&[u8]], inside: bool) -> bool {
    let (mut p, mut n, mut back) = (0, 0, None);
    while let Some(name) = names.get(n) {
        match parts.get(p) {
            Some(Part::Any) => {
                if inside && p + 1 == parts.len() {
                    return true;
                }
                back = Some((p, n));
                p += 1;
            }
            Some(Part::One(one)) if one.matches(name) => (p, n) = (p + 1, n + 1),
            Some(Part::One(_)) | None => match back {
                Some((star, from)) => {
                    back = Some((star, from + 1));
                    (p, n) = (star + 1, from + 1);
                }
                None => return false,
            },
        }
    }
    !inside && parts.get(p..).unwrap_or_default().iter().all(|part| *part == Part::Any)
}

impl Name {
    fn parse(text: &str) -> Result<Self, &'static str> {
        let tokens = tokens(text)?;
        let bytes = |tokens: &[Token]| -> Option<Vec<u8>> {
            let byte = |token: &Token| match token {
                Token::Byte(byte) => Some(*byte),
                Token::One | Token::Many | Token::Set { .. } => None,
            };
            tokens.iter().map(byte).collect()
        };
        let simple = match tokens.as_slice() {
            [Token::Many, middle @ .., Token::Many] => bytes(middle).map(Self::Has),
            [Token::Many, rest @ ..] => bytes(rest).map(Self::Ends),
            [rest @ .., Token::Many] => bytes(rest).map(Self::Begins),
            all => bytes(all).map(Self::Is),
        };
        Ok(simple.unwrap_or(Self::Glob(tokens)))
    }

    fn matches(&self, name: &[u8]) -> bool {
        match self {
            Self::Is(text) => name == text.as_slice(),
            Self::Begins(text) => name.starts_with(text),
            Self::Ends(text) => name.ends_with(text),
            Self::Has(text) if text.is_empty() => true,
            Self::Has(text) => name.windows(text.len()).any(|part| part == text.as_slice()),
            Self::Glob(tokens) => glob(tokens, name),
        }
    }
}

fn tokens(text: &str) -> Result<Vec<Token>, &'static str> {
    let mut tokens = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        rest = tail;
        match first {
            b'\\' => match tail.split_first() {
                Some((byte, tail)) => {
                    tokens.push(Token::Byte(*byte));
                    rest = tail;
                }
                None => return Err("ends in a backslash, which stands before a character"),
            },
            b'*' if tokens.last() == Some(&Token::Many) => {}
            b'*' => tokens.push(Token::Many),
            b'?' => tokens.push(Token::One),
            b'[' => {
                let (token, tail) = set(tail)?;
                tokens.push(token);
                rest = tail;
            }
            byte => tokens.push(Token::Byte(*byte)),
        }
    }
    Ok(tokens)
}

fn set(text: &[u8]) -> Result<(Token, &[u8]), &'static str> {
    const OPEN: &str = "has a `[` without its `]`";
    let (inverted, text) = match text.split_first() {
        Some((b'!' | b'^', rest)) => (true, rest),
        Some(_) | None => (false, text),
    };
    // A bracket that comes first is one of the characters.
    let close = text.iter().skip(1).position(|byte| *byte == b']').ok_or(OPEN)? + 1;
    let (inner, rest) = (text.get(..close).unwrap_or_default(), text.get(close + 1..));
    let mut ranges = Vec::new();
    let mut inner = inner;
    while let Some((first, tail)) = inner.split_first() {
        match tail {
            [b'-', last, after @ ..] => {
                if last < first {
                    return Err("has a range that goes backwards");
                }
                ranges.push((*first, *last));
                inner = after;
            }
            after => {
                ranges.push((*first, *first));
                inner = after;
            }
        }
    }
    Ok((Token::Set { inverted, ranges }, rest.unwrap_or_default()))
}

/// Steps back only to the last `*`: linear in the product of the two lengths.
fn glob(tokens: &[Token], name: &[u8]) -> bool {
    let (mut t, mut n, mut back) = (0, 0, None);
    while let Some(byte) = name.get(n) {
        let fits = match tokens.get(t) {
            Some(Token::Many) => {
                back = Some((t, n));
                t += 1;
                continue;
            }
            Some(Token::Byte(expected)) => expected == byte,
            Some(Token::One) => true,
            Some(Token::Set { inverted, ranges }) => {
                ranges.iter().any(|(low, high)| (low..=high).contains(&byte)) != *inverted
            }
            None => false,
        };
        if fits {
            (t, n) = (t + 1, n + 1);
        } else if let Some((star, from)) = back {
            back = Some((star, from + 1));
            (t, n) = (star + 1, from + 1);
        } else {
            return false;
        }
    }
    tokens.get(t..).unwrap_or_default().iter().all(|token| *token == Token::Many)
}
