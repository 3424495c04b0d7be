//! The columns that text takes on a terminal: none for combining characters, two for wide ones.

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// Returns the number of columns that a line takes.
pub(crate) fn columns(line: &str) -> usize {
    line.width()
}

/// Returns the longest beginning of a line that takes at most this many columns.
pub(crate) fn first_columns(line: &str, most: usize) -> &str {
    let mut taken = 0;
    let end = line.char_indices().find(|(_, c)| {
        taken += c.width().unwrap_or(0);
        taken > most
    });
    end.map_or(line, |(at, _)| line.split_at(at).0)
}

/// Returns the longest end of a line that takes at most this many columns.
pub(crate) fn last_columns(line: &str, most: usize) -> &str {
    let mut taken = 0;
    let last = line.char_indices().rev().find(|(_, c)| {
        taken += c.width().unwrap_or(0);
        taken > most
    });
    last.map_or(line, |(at, c)| line.split_at(at + c.len_utf8()).1)
}

/// Adds spaces to a line until it takes at least this many columns.
pub(crate) fn pad(line: &str, least: usize) -> String {
    format!("{line}{}", " ".repeat(least.saturating_sub(columns(line))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_and_combining_characters_take_the_columns_that_a_terminal_gives_them() {
        for (line, taken) in [("", 0), ("abc", 3), ("日本", 4), ("e\u{301}", 1), ("a日", 3)] {
            assert_eq!(columns(line), taken, "{line}");
        }
    }

    #[test]
    fn a_cut_line_never_takes_more() {
        assert_eq!(
            [0, 1, 2, 3, 9].map(|most| first_columns("a日b", most)),
            ["", "a", "a", "a日", "a日b"]
        );
        assert_eq!(
            [0, 1, 2, 3, 9].map(|most| last_columns("a日b", most)),
            ["", "b", "b", "日b", "a日b"]
        );
        assert_eq!(first_columns("e\u{301}x", 1), "e\u{301}");
    }

    #[test]
    fn padding_counts_columns() {
        assert_eq!(pad("日", 4), "日  ");
        assert_eq!(pad("abc", 2), "abc");
    }
}
