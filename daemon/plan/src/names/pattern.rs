//! One pattern: `*`, `?` and `[a-z]` match inside one name, `**` matches any number of names. Pure:
//! no I/O.

/// The kind of an entry, as far as patterns distinguish it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A directory.
    Directory,
    /// Anything else.
    Other,
    /// Unknown: a match for either kind is a match.
    Either,
}

/// Most bytes of a pattern.
const LONGEST: usize = 1024;

/// The reason that a text is not a valid pattern.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{pattern:?} {why}")]
pub struct PatternError {
    /// The text of the pattern.
    pub pattern: String,
    /// The reason why it is invalid.
    pub why: &'static str,
}

/// A parsed pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    exception: bool,
    directories: bool,
    /// The parts from the workspace down. The last matches the name itself.
    parts: Vec<PatternPart>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum PatternPart {
    /// Any number of names.
    Any,
    One(Name),
}

/// A pattern for one name; the common forms are kept in a form that is fast to compare.
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
    /// Parses a pattern.
    ///
    /// # Errors
    /// Returns what is wrong with the pattern.
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
        let mut parts = if anchored { Vec::new() } else { vec![PatternPart::Any] };
        for part in rest.split('/') {
            match part {
                "" | "." | ".." => return Err(wrong("has an empty name, a `.` or a `..` in it")),
                // Two `**` in a row mean the same as one.
                "**" if parts.last() == Some(&PatternPart::Any) => {}
                "**" => parts.push(PatternPart::Any),
                name => parts.push(PatternPart::One(Name::parse(name).map_err(wrong)?)),
            }
        }
        let open = |part: &PatternPart| match part {
            PatternPart::Any => true,
            PatternPart::One(Name::Glob(tokens)) => {
                tokens.iter().all(|token| *token == Token::Many)
            }
            PatternPart::One(Name::Begins(text) | Name::Ends(text) | Name::Has(text)) => {
                text.is_empty()
            }
            PatternPart::One(Name::Is(_)) => false,
        };
        if parts.iter().all(open) && !exception {
            return Err(wrong("would match everything"));
        }
        Ok(Self { exception, directories, parts })
    }

    /// Returns `true` if the pattern is an exception to the patterns before it.
    #[must_use]
    pub const fn is_exception(&self) -> bool {
        self.exception
    }

    /// Returns the name, if the pattern matches exactly one name in every directory.
    #[must_use]
    pub fn literal(&self) -> Option<&[u8]> {
        match self.parts.as_slice() {
            [PatternPart::Any, PatternPart::One(Name::Is(name))] if !self.exception => Some(name),
            _ => None,
        }
    }

    /// Returns `true` if the pattern matches a name in a directory.
    pub(super) fn matches(&self, directory: &[u8], name: &[u8], kind: Kind) -> bool {
        if self.directories && kind == Kind::Other {
            return false;
        }
        match self.parts.as_slice() {
            [PatternPart::Any, PatternPart::One(one)] => one.matches(name),
            // Compares the name first. It seldom matches, and then the path need not be split.
            [.., PatternPart::One(last)] if !last.matches(name) => false,
            parts => {
                let mut path: Vec<&[u8]> = Vec::new();
                if !directory.is_empty() {
                    path.extend(directory.split(|byte| *byte == b'/'));
                }
                // A pattern that ends in `**` matches the contents of a directory, not the
                // directory.
                let inside = parts.last() == Some(&PatternPart::Any);
                path.push(name);
                all(parts, &path, inside)
            }
        }
    }
}

/// Returns `true` if `parts` match `names`. Backtracks only to the last `**`. With `inside`, a `**`
/// at the end matches at least one name.
fn all(parts: &[PatternPart], names: &[&[u8]], inside: bool) -> bool {
    let (mut p, mut n, mut back) = (0, 0, None);
    while let Some(name) = names.get(n) {
        match parts.get(p) {
            Some(PatternPart::Any) => {
                if inside && p + 1 == parts.len() {
                    return true;
                }
                back = Some((p, n));
                p += 1;
            }
            Some(PatternPart::One(one)) if one.matches(name) => (p, n) = (p + 1, n + 1),
            Some(PatternPart::One(_)) | None => match back {
                Some((star, from)) => {
                    back = Some((star, from + 1));
                    (p, n) = (star + 1, from + 1);
                }
                None => return false,
            },
        }
    }
    !inside && parts.get(p..).unwrap_or_default().iter().all(|part| *part == PatternPart::Any)
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
                None => return Err("ends in a backslash, which must precede a character"),
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
    // A closing bracket that comes first is an ordinary character.
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

/// Matches a name against tokens. Backtracks only to the last `*`, so the time is at most
/// proportional to the product of the two lengths.
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
