//! Checks the nesting of a text before it is parsed. The parser takes seconds for a few dozen open
//! brackets, and its stack is limited.

/// The largest nesting depth of brackets.
const MOST_DEPTH: usize = 48;

/// The largest number of brackets that may stay open.
const MOST_OPEN: usize = 6;

/// Returns `true` if the nesting of a text is shallow enough for the parser.
pub(crate) fn is_shallow(text: &str) -> bool {
    let mut open: Vec<char> = Vec::new();
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        let quoted = open.last() == Some(&'"');
        match c {
            '\\' => {
                rest.next();
            }
            '\'' if !quoted => {
                for inner in rest.by_ref() {
                    if inner == '\'' {
                        break;
                    }
                }
            }
            '"' if quoted => {
                open.pop();
            }
            '"' => open.push('"'),
            '`' if open.contains(&'`') => while open.pop().is_some_and(|inner| inner != '`') {},
            '`' => open.push('`'),
            '$' if matches!(rest.peek(), Some('(' | '{')) => open.extend(rest.next()),
            '(' | '{' | '[' if !quoted => open.push(c),
            ')' if !quoted => close(&mut open, '('),
            '}' if !quoted => close(&mut open, '{'),
            ']' if !quoted => close(&mut open, '['),
            _ => {}
        }
        if open.len() > MOST_DEPTH {
            return false;
        }
    }
    open.iter().filter(|c| matches!(c, '(' | '{')).count() <= MOST_OPEN
}

fn close(open: &mut Vec<char>, bracket: char) {
    if open.last() == Some(&bracket) {
        open.pop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shallow() {
        for text in
            ["ls", "(a; (b; (c)))", "echo \"$(ls $(pwd))\"", "echo ')))'", "a[1]=2", "'(((((((('"]
        {
            assert!(is_shallow(text), "{text}");
        }
        for text in ["(".repeat(26), "$(".repeat(60), "{ ".repeat(50), "(".repeat(100_000)] {
            assert!(!is_shallow(&text), "{text}");
        }
        let closed = format!("{}{}", "(".repeat(60), ")".repeat(60));
        assert!(!is_shallow(&closed));
    }
}
