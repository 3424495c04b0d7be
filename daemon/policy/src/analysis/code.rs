//! Code of other languages in an argument. It is not parsed, only searched for destructive
//! operations and for hidden ones.

use super::{
    finding::Kind,
    schema::Interpreter,
    walk::{Call, Walk},
};

impl Walk<'_> {
    /// Reports the patterns that are found in code.
    pub(crate) fn code(&mut self, entry: &Interpreter, text: &str, call: &Call) {
        match entry.language.as_str() {
            "sed" => return self.sed(text, call),
            "sql" => self.sql(text, call),
            _ => {}
        }
        let tables = self.tables;
        let Some(language) = tables.language(&entry.language) else {
            return;
        };
        let squeezed = remove_blanks(text);
        let find = |patterns: &[String]| {
            patterns.iter().find(|pattern| shows(&squeezed, pattern)).cloned()
        };
        if let Some(pattern) = find(&language.destructive) {
            let why = format!("the code contains `{pattern}`: it may delete or overwrite");
            self.report(Kind::Suspected, None, call, &why, Vec::new());
        } else if let Some(pattern) = find(&language.hidden) {
            let why = format!("the code contains `{pattern}`: what that runs is not known");
            self.report(Kind::Hidden, None, call, &why, Vec::new());
        } else if entry.operand.is_none() && language.name != "sql" {
            let why = "code in an argument; nothing in it is known to be destructive";
            self.report(Kind::NestedCode, None, call, why, Vec::new());
        }
    }
}

/// Removes blanks around dots, parentheses and commas: `os . remove ("f")` becomes
/// `os.remove("f")`.
fn remove_blanks(text: &str) -> String {
    let mut squeezed = String::with_capacity(text.len());
    let mut blank = false;
    for c in text.chars() {
        if c.is_whitespace() {
            blank = true;
            continue;
        }
        let joins = |c: char| matches!(c, '.' | '(' | ',');
        if blank && !joins(c) && !squeezed.ends_with(joins) && !squeezed.is_empty() {
            squeezed.push(' ');
        }
        blank = false;
        squeezed.push(c);
    }
    squeezed
}

/// Returns `true` if code contains a pattern. All parts that ` & ` separates must be present.
fn shows(code: &str, pattern: &str) -> bool {
    pattern.split(" & ").all(|part| contains_word(code, part))
}

/// Returns `true` if `text` contains `part` other than in the middle of a longer name.
pub(crate) fn contains_word(text: &str, part: &str) -> bool {
    let named = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    let (first, last) = (part.chars().next(), part.chars().next_back());
    text.match_indices(part).any(|(at, _)| {
        let before = text.get(..at).and_then(|text| text.chars().next_back());
        let after = text.get(at + part.len()..).and_then(|text| text.chars().next());
        let inside = named(first) && named(before) || named(last) && named(after);
        !inside
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_whole() {
        assert!(shows(&remove_blanks("os . remove ('f')"), "os.remove"));
        assert!(!shows("preremove_x", "remove") && shows("x.remove(1)", "remove"));
        assert!(shows("open('f','w')", "open( & 'w"));
        assert!(!shows("open('f')", "open( & 'w"));
    }
}
