//! The columns that text takes on a terminal: none for combining characters, two for wide ones.

use rustix::termios::tcgetwinsize;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// The width of an output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Width {
    /// A terminal has this many columns.
    Columns(usize),
    /// Lines of a file or pipe may have any length.
    Unlimited,
}

impl Width {
    /// Returns the width of standard output.
    pub(crate) fn of_stdout() -> Self {
        let columns = tcgetwinsize(std::io::stdout()).map_or(0, |size| size.ws_col);
        if columns == 0 { Self::Unlimited } else { Self::Columns(columns.into()) }
    }

    /// Breaks a line so that it fits beside the text in front of it: `head` before the first piece,
    /// `next` before each other one. A piece has at least a few columns, however narrow this is.
    pub(crate) fn wrap(self, line: &str, head: &str, next: &str) -> Vec<String> {
        let Self::Columns(width) = self else { return vec![line.to_owned()] };
        let room = |before: &str| width.saturating_sub(columns(before)).max(LEAST);
        let (mut rest, mut most) = (line, room(head));
        let mut pieces = Vec::new();
        while columns(rest) > most {
            let (piece, after) = broken(rest, most);
            pieces.push(piece.to_owned());
            (rest, most) = (after, room(next));
        }
        pieces.push(rest.to_owned());
        pieces
    }
}

/// The least columns that a piece of a line gets.
const LEAST: usize = 8;

/// Breaks a line that is longer than this at its last space that fits, which is left out, or within
/// a word where there is none.
fn broken(line: &str, most: usize) -> (&str, &str) {
    let fits = first_columns(line, most);
    if let Some(rest) = line.strip_prefix(fits).and_then(|rest| rest.strip_prefix(' ')) {
        return (fits, rest);
    }
    match fits.rsplit_once(' ') {
        // A beginning of spaces alone is no place to break at.
        Some((piece, _)) if !piece.trim_start().is_empty() => {
            (piece, line.split_at(piece.len() + 1).1)
        }
        Some(_) | None => line.split_at(within_word(fits)),
    }
}

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

/// Returns where to break a word of which this much fits: after a directory's name, if there is one
/// in the second half.
fn within_word(fits: &str) -> usize {
    let after = fits.rfind('/').map(|slash| slash + 1);
    after.filter(|at| *at > fits.len() / 2).unwrap_or(fits.len())
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
    fn a_line_breaks_at_spaces_and_a_long_word_within() {
        let wrap = |line: &str, width: usize| Width::Columns(width).wrap(line, "  » ", "  … ");
        assert_eq!(wrap("rm -r build output", 14), ["rm -r", "build", "output"]);
        assert_eq!(wrap("rm -r build", 15), ["rm -r build"]);
        assert_eq!(wrap("rm -r builds", 15), ["rm -r", "builds"]);
        assert_eq!(wrap("0123456789abcdefghijk", 14), ["0123456789", "abcdefghij", "k"]);
        assert_eq!(wrap("/srv/abc/defghij", 14), ["/srv/abc/", "defghij"]);
        assert_eq!(wrap("/a/bcdefghijk", 14), ["/a/bcdefgh", "ijk"]);
        assert_eq!(wrap("    0123456789", 14), ["    012345", "6789"]);
        assert_eq!(wrap("日本語日本語", 12), ["日本語日", "本語"]);
        assert_eq!(wrap("", 14), [""]);
        // However narrow it is, it ends, and nothing but spaces at breaks is left out.
        for width in 0..40 {
            let text = "one  two   three-four-five-six 日本語 seven ";
            let whole: String = wrap(text, width).concat().replace(' ', "");
            assert_eq!(whole, text.replace(' ', ""), "{width}");
        }
        let long = "x ".repeat(100);
        assert_eq!(Width::Unlimited.wrap(&long, "", ""), [long]);
    }

    #[test]
    fn padding_counts_columns() {
        assert_eq!(pad("日", 4), "日  ");
        assert_eq!(pad("abc", 2), "abc");
    }
}
