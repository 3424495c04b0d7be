//! Analyses scripts of `sed` for commands that run programs or write files.

use super::{
    field::Field,
    finding::Kind,
    schema::Effect,
    walk::{Call, Walk},
};

/// An action of a script other than printing.
#[derive(Debug, PartialEq, Eq)]
enum SedAction {
    Runs,
    Writes(String),
}

impl Walk<'_> {
    /// Reports what a script runs and writes.
    pub(crate) fn sed(&mut self, script: &str, call: &Call) {
        for act in acts(script) {
            match act {
                SedAction::Runs => {
                    let why = "the `e` of sed runs a command";
                    self.report(Kind::Hidden, None, call, why, Vec::new());
                }
                SedAction::Writes(path) => {
                    let field = Field::known(path, call.span);
                    self.write(call, &[field], Effect::Overwrite, "the `w` of sed writes a file");
                }
            }
        }
    }
}

/// Returns `true` if a script is proven to print only. It may contain addresses, substitutions and
/// known one-letter commands.
pub(crate) fn reads_only(script: &str) -> bool {
    let mut rest = script;
    loop {
        rest = rest.trim_start_matches([' ', '\t', '\n', ';', '{', '}']);
        if rest.is_empty() {
            return true;
        }
        let Some(behind) = behind_address(rest) else { return false };
        rest = behind.strip_prefix(',').map_or(Some(behind), behind_address).unwrap_or_default();
        rest = rest.trim_start_matches([' ', '!']);
        if rest.starts_with('{') {
            continue;
        }
        let mut letters = rest.chars();
        rest = match letters.next() {
            Some(
                'p' | 'd' | 'q' | 'Q' | '=' | 'n' | 'N' | 'D' | 'P' | 'g' | 'G' | 'h' | 'H' | 'x',
            ) => letters.as_str().trim_start_matches(|c: char| c.is_ascii_digit()),
            Some('s') => {
                let Some(rest) = behind_parts(letters.as_str()) else { return false };
                let flags = |c: char| c.is_ascii_digit() || matches!(c, 'g' | 'p' | 'i' | 'I');
                rest.trim_start_matches(flags)
            }
            Some(_) | None => return false,
        };
        if !rest.is_empty() && !rest.starts_with([' ', '\t', '\n', ';', '}']) {
            return false;
        }
    }
}

/// Returns the text after an address, if there is one; `None` if the address is not terminated.
fn behind_address(text: &str) -> Option<&str> {
    match text.chars().next()? {
        '/' => behind(text.get(1..)?, '/').map(|rest| rest.trim_start_matches('I')),
        '$' => text.get(1..),
        _ => Some(text.trim_start_matches(|c: char| c.is_ascii_digit() || matches!(c, '~' | '+'))),
    }
}

/// Returns the text after the two parts of a substitution.
fn behind_parts(text: &str) -> Option<&str> {
    let delimiter = text.chars().next().filter(char::is_ascii_punctuation)?;
    let pattern = behind(text.get(1..)?, delimiter).filter(|_| delimiter != '\\')?;
    behind(pattern, delimiter)
}

/// Returns the text after the next unescaped delimiter on the same line.
fn behind(text: &str, delimiter: char) -> Option<&str> {
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        match c {
            '\n' => return None,
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == delimiter => return text.get(at + c.len_utf8()..),
            _ => {}
        }
    }
    None
}

fn acts(script: &str) -> Vec<SedAction> {
    let mut acts = Vec::new();
    let mut rest = script;
    while let Some(command) = next_command(&mut rest) {
        match command {
            'e' => {
                acts.push(SedAction::Runs);
                skip_line(&mut rest);
            }
            'w' | 'W' => acts.push(SedAction::Writes(skip_line(&mut rest).trim().to_owned())),
            's' | 'y' => {
                let flags = substitution(&mut rest);
                let (flags, file) = match flags.split_once('w') {
                    Some((flags, file)) => (flags, Some(file)),
                    None => (flags, None),
                };
                if command == 's' && flags.contains('e') {
                    acts.push(SedAction::Runs);
                }
                if let Some(file) = file {
                    acts.push(SedAction::Writes(file.trim().to_owned()));
                }
            }
            'a' | 'i' | 'c' | 'r' | 'R' | 'b' | 't' | 'T' | ':' | '#' => {
                skip_line(&mut rest);
            }
            _ => {}
        }
    }
    acts
}

/// Returns the letter of the next command, after its address.
fn next_command(rest: &mut &str) -> Option<char> {
    loop {
        let c = rest.chars().next()?;
        *rest = rest.get(c.len_utf8()..)?;
        match c {
            '/' => until(rest, '/'),
            '\\' => {
                let delimiter = rest.chars().next()?;
                *rest = rest.get(delimiter.len_utf8()..)?;
                until(rest, delimiter);
            }
            // Addresses, blanks, separators, and the flags of a pattern address.
            '0'..='9'
            | ' '
            | '\t'
            | '\n'
            | ';'
            | ','
            | '$'
            | '~'
            | '+'
            | '!'
            | '{'
            | '}'
            | 'I'
            | 'M' => {}
            command => return Some(command),
        }
    }
}

/// Skips to after the next unescaped delimiter.
fn until(rest: &mut &str, delimiter: char) {
    let mut escaped = false;
    for (at, c) in rest.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == delimiter => {
                *rest = rest.get(at + c.len_utf8()..).unwrap_or_default();
                return;
            }
            _ => {}
        }
    }
    *rest = "";
}

/// Skips a substitution, and returns its flags.
fn substitution<'a>(rest: &mut &'a str) -> &'a str {
    let Some(delimiter) = rest.chars().next() else {
        return "";
    };
    *rest = rest.get(delimiter.len_utf8()..).unwrap_or_default();
    until(rest, delimiter);
    until(rest, delimiter);
    let whole = *rest;
    // A file name extends to the end of the line, other flags to the next separator.
    let end = whole.find(['\n', ';', '}']).unwrap_or(whole.len());
    let end = match whole.get(..end).and_then(|flags| flags.find('w')) {
        Some(_) => whole.find('\n').unwrap_or(whole.len()),
        None => end,
    };
    *rest = whole.get(end..).unwrap_or_default();
    whole.get(..end).unwrap_or_default()
}

fn skip_line<'a>(rest: &mut &'a str) -> &'a str {
    let end = rest.find('\n').unwrap_or(rest.len());
    let line = rest.get(..end).unwrap_or_default();
    *rest = rest.get(end..).unwrap_or_default();
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_proven_to_print() {
        for script in [
            "1,10p",
            "/delete/p",
            "s/rm/ls/g",
            "s/e/w/;p",
            "$!d",
            "/a/,/b/{s/x/y/;p}",
            "5q",
            "2,+3p",
        ] {
            assert!(reads_only(script), "{script}");
        }
        for script in [
            "1e touch x",
            "s/a/b/e",
            "s/a/b/w f",
            "w f",
            "r f",
            "a text",
            "s/a",
            "/a",
            "s/a/b/gw f",
            "1,/x",
            "{p;w f\n}",
            "s/a/b/\ne id",
            ":a;ba",
            "y/a/b/",
            "s\nanb\n",
            "1,5!e id",
        ] {
            assert!(!reads_only(script), "{script}");
        }
    }

    #[test]
    fn what_scripts_do() {
        for script in ["1,10p", "/delete/p", "s/rm/ls/", "s/e/w/g;p", "$!d", "/a/,/b/{s/x/y/;p}"] {
            assert_eq!(acts(script), [], "{script}");
        }
        assert_eq!(acts("1e touch x"), [SedAction::Runs]);
        assert_eq!(acts("s/test/touch x/e"), [SedAction::Runs]);
        assert_eq!(acts("s|a|b|gw out"), [SedAction::Writes("out".into())]);
        assert_eq!(acts("/x/w out\np"), [SedAction::Writes("out".into())]);
        assert_eq!(acts(r"s/a\/e/b/ge"), [SedAction::Runs]);
        assert_eq!(acts("s"), []);
    }
}
