//! Brace expansion with limits, because a few bytes can expand to more words than fit in memory.

use brush_parser::word::{BraceExpressionMember, BraceExpressionOrText};

/// The largest number of words that one word expands to.
const MOST_WORDS: usize = 256;

/// The largest total length of the words that one word expands to, in bytes.
const MOST_TEXT: usize = 16 * 1024;

/// Expands braces to words; `None` if there are too many.
pub(crate) fn expand(pieces: &[BraceExpressionOrText]) -> Option<Vec<String>> {
    let mut words = vec![String::new()];
    for piece in pieces {
        let choices = match piece {
            BraceExpressionOrText::Text(text) => vec![text.clone()],
            BraceExpressionOrText::Expr(members) => choices(members)?,
        };
        if words.len() * choices.len() > MOST_WORDS {
            return None;
        }
        let both = |word: &String| choices.iter().map(|c| format!("{word}{c}")).collect::<Vec<_>>();
        words = words.iter().flat_map(both).collect();
        if words.iter().map(String::len).sum::<usize>() > MOST_TEXT {
            return None;
        }
    }
    Some(words)
}

fn choices(members: &[BraceExpressionMember]) -> Option<Vec<String>> {
    let mut choices = Vec::new();
    for member in members {
        match member {
            BraceExpressionMember::Child(pieces) => choices.extend(expand(pieces)?),
            BraceExpressionMember::NumberSequence { start, end, increment } => {
                let numbers = steps(*start, *end, *increment)?;
                choices.extend(numbers.into_iter().map(|number| number.to_string()));
            }
            BraceExpressionMember::CharSequence { start, end, increment } => {
                let numbers =
                    steps(i64::from(u32::from(*start)), i64::from(u32::from(*end)), *increment)?;
                let letter = |number| u32::try_from(number).ok().and_then(char::from_u32);
                choices.extend(numbers.into_iter().filter_map(letter).map(String::from));
            }
        }
        if choices.len() > MOST_WORDS {
            return None;
        }
    }
    Some(choices)
}

fn steps(start: i64, end: i64, increment: i64) -> Option<Vec<i64>> {
    let step = increment.unsigned_abs().max(1);
    let count = start.abs_diff(end) / step;
    let count = usize::try_from(count).ok().filter(|count| *count < MOST_WORDS)?;
    let step = i64::try_from(step).ok()?;
    let step = if end < start { -step } else { step };
    (0..=count).map(|n| start.checked_add(i64::try_from(n).ok()?.checked_mul(step)?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::options;
    use brush_parser::word;

    fn words(text: &str) -> Option<Vec<String>> {
        expand(&word::parse_brace_expansions(text, &options()).unwrap().unwrap())
    }

    #[test]
    fn braces() {
        assert_eq!(words("{rm,-rf,d}").unwrap(), ["rm", "-rf", "d"]);
        assert_eq!(words("a{1..3}").unwrap(), ["a1", "a2", "a3"]);
        assert_eq!(words("{c..a}").unwrap(), ["c", "b", "a"]);
        assert_eq!(words("{1..1000000}"), None);
        assert_eq!(words(&"{a,b}".repeat(20)), None);
    }
}
