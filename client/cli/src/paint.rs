//! Colours. They are used on a terminal only, and not if `NO_COLOR` is set.

use std::io::IsTerminal as _;

/// The use of colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Paint {
    Colours,
    Plain,
}

/// A style and the escape sequence that begins it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Style {
    Error,
    Warning,
    Hint,
    Good,
    Strong,
}

impl Style {
    const fn code(self) -> &'static str {
        match self {
            Self::Error => "\x1b[1;31m",
            Self::Warning => "\x1b[1;33m",
            Self::Hint => "\x1b[1;36m",
            Self::Good => "\x1b[32m",
            Self::Strong => "\x1b[1m",
        }
    }
}

impl Paint {
    /// Returns the text in a style.
    pub(crate) fn apply(self, style: Style, text: &str) -> String {
        match self {
            Self::Colours => format!("{}{text}\x1b[0m", style.code()),
            Self::Plain => text.to_owned(),
        }
    }
}

fn choose(terminal: bool) -> Paint {
    let wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    if terminal && wanted { Paint::Colours } else { Paint::Plain }
}

/// Returns whether to use colours on standard output.
pub(crate) fn stdout() -> Paint {
    choose(std::io::stdout().is_terminal())
}

/// Returns whether to use colours on the controlling terminal.
pub(crate) fn terminal() -> Paint {
    choose(true)
}

/// Returns whether to use colours on standard error.
pub(crate) fn stderr() -> Paint {
    choose(std::io::stderr().is_terminal())
}

/// Makes foreign text safe to print: one line without control characters.
pub(crate) fn harmless(text: &str) -> String {
    let plain = |c: char| if palisade_text::is_control(c) { '\u{fffd}' } else { c };
    text.lines()
        .map(|line| line.chars().map(plain).collect::<String>())
        .collect::<Vec<_>>()
        .join(" ")
}

/// Formats a name and its value in columns.
pub(crate) fn field(name: &str, value: &str, paint: Paint) -> String {
    format!("{} {}", paint.apply(Style::Strong, &format!("{name:<9}")), harmless(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_text_has_no_escapes() {
        assert_eq!(Paint::Plain.apply(Style::Error, "no"), "no");
        assert_eq!(Paint::Colours.apply(Style::Error, "no"), "\x1b[1;31mno\x1b[0m");
    }

    #[test]
    fn what_others_wrote_can_not_steer_the_terminal() {
        assert_eq!(harmless("a\nb"), "a b");
        assert_eq!(harmless("\x1b]0;title\x07"), "\u{fffd}]0;title\u{fffd}");
    }
}
