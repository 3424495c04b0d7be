//! Finds SQL statements that lose data, and ignores words in strings and comments.

use super::{
    finding::Kind,
    schema::VerbRole,
    walk::{Call, Walk},
};

impl Walk<'_> {
    /// Reports statements that lose data, and client commands that run a program or use a file.
    pub(crate) fn sql(&mut self, text: &str, call: &Call) {
        let escapes = |line: &str| {
            let line = line.trim_start();
            [r"\!", r"\copy", ".shell", ".system", "system ", r"\o", ".output", r"\i", ".read"]
                .iter()
                .any(|start| line.starts_with(start))
        };
        if text.lines().any(escapes) {
            let why = "a command of the client that uses a program or a file";
            self.report(Kind::Hidden, None, call, why, Vec::new());
        }
        for words in statements(text) {
            let Some(first) = words.first() else { continue };
            // `WITH … DELETE` and `EXPLAIN ANALYZE DELETE` begin with another word.
            let all = matches!(first.as_str(), "with" | "explain" | "begin" | "do" | "prepare");
            let looked = if all { words.len() } else { 1 };
            let verb = words
                .iter()
                .take(looked)
                .find_map(|word| Some((word, self.tables.verb(VerbRole::Sql, word)?)));
            if let Some((word, verb)) = verb {
                let why = format!("the statement {}: {verb}", word.to_uppercase());
                self.report(Kind::Destructive, None, call, &why, Vec::new());
            }
        }
    }
}

/// Returns the words of each statement, in lower case, without strings and comments.
fn statements(text: &str) -> Vec<Vec<String>> {
    let mut statements = vec![Vec::new()];
    let mut word = String::new();
    let mut rest = text.chars().peekable();
    let end_word = |word: &mut String, statements: &mut Vec<Vec<String>>| {
        if !word.is_empty()
            && let Some(last) = statements.last_mut()
        {
            last.push(std::mem::take(word));
        }
    };
    while let Some(c) = rest.next() {
        if c.is_alphanumeric() || c == '_' {
            word.extend(c.to_lowercase());
            continue;
        }
        end_word(&mut word, &mut statements);
        match c {
            '\'' | '"' | '`' => {
                for inner in rest.by_ref() {
                    if inner == c {
                        break;
                    }
                }
            }
            '-' if rest.peek() == Some(&'-') => {
                for inner in rest.by_ref() {
                    if inner == '\n' {
                        break;
                    }
                }
            }
            '/' if rest.peek() == Some(&'*') => {
                rest.next();
                // MySQL executes the contents of `/*! … */`.
                if rest.peek() == Some(&'!') {
                    rest.next();
                    while rest.next_if(char::is_ascii_digit).is_some() {}
                    continue;
                }
                let mut before = ' ';
                for inner in rest.by_ref() {
                    if before == '*' && inner == '/' {
                        break;
                    }
                    before = inner;
                }
            }
            ';' => statements.push(Vec::new()),
            _ => {}
        }
    }
    end_word(&mut word, &mut statements);
    statements
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_statements() {
        let of = |text: &str| -> Vec<String> {
            statements(text).into_iter().map(|words| words.join(" ")).collect()
        };
        assert_eq!(of("SELECT 1; DROP TABLE x"), ["select 1", "drop table x"]);
        assert_eq!(of("select 'drop table x'"), ["select"]);
        assert_eq!(of("-- drop\nselect 1"), ["select 1"]);
        assert_eq!(of("/* drop */ select 1"), ["select 1"]);
        assert_eq!(of("/*!50000 DROP */ table x"), ["drop table x"]);
        assert_eq!(of("'unterminated"), [""]);
    }
}
