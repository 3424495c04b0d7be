//! Makes the output of an interactive shell safe for a terminal. Unlike the filter for lines, it lets
//! programs use the whole screen.

use crate::stream::escape;

/// The maximum length of a control sequence that is passed on.
const LONGEST: usize = 64;

/// The operating system command that a shell prints before each prompt. Terminals with shell
/// integration know it.
const PROMPT: &str = "133;A";

/// The private modes that a program may set: cursor keys, origin, wrapping, reverse video, the
/// cursor's visibility, the alternate screen, reports of mouse and focus, bracketed paste, updates in
/// one step. [`Terminal::reset`](crate::approve::terminal::Terminal::reset) resets them all.
const MODES: [&str; 17] = [
    "1", "5", "6", "7", "12", "25", "47", "1000", "1002", "1003", "1004", "1006", "1047", "1048",
    "1049", "2004", "2026",
];

/// The filter for the output of an interactive shell, fed piece by piece. It removes what makes a
/// terminal answer, and what changes more than the screen: titles, the clipboard, links, key bindings.
/// A terminal's answer would be typed into the program that reads the terminal next.
#[derive(Debug, Default)]
pub(super) struct ScreenFilter {
    state: StartedSequence,
}

/// The filtered form of one piece of output.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ScreenOutput {
    /// The text to write.
    pub(super) text: String,
    /// True if the shell is about to print a prompt.
    pub(super) has_prompt: bool,
}

/// The control sequence that has begun, with the characters so far.
#[derive(Debug, Default)]
enum StartedSequence {
    #[default]
    None,
    /// Behind `ESC`.
    Escape(String),
    /// Behind `ESC [`.
    Control(String),
    /// Behind `ESC ]`, up to BEL or `ESC \`.
    Command(String),
    /// In a string of another kind, which ends in the same way.
    Ignored,
}

impl ScreenFilter {
    pub(super) fn push(&mut self, output: &str) -> ScreenOutput {
        let mut filtered = ScreenOutput::default();
        for c in output.chars() {
            self.state = self.take(c, &mut filtered);
        }
        if filtered.text.contains('\x1b') {
            escape::set_cursor_moved();
        }
        filtered
    }

    /// Takes one character; returns the state after it.
    fn take(&mut self, c: char, out: &mut ScreenOutput) -> StartedSequence {
        let state = std::mem::take(&mut self.state);
        if let StartedSequence::Command(command) = &state
            && matches!(c, '\x07' | '\x1b' | '\u{9c}')
        {
            out.has_prompt |= command == PROMPT;
        }
        match (state, c) {
            (_, '\x1b') => StartedSequence::Escape(String::new()),
            (StartedSequence::Escape(part), ' '..='~') => escaped(part, c, out),
            (StartedSequence::Control(part), ' '..='?') => {
                StartedSequence::Control(longer(part, c))
            }
            (StartedSequence::Control(part), '@'..='~') => {
                if part.len() < LONGEST && is_harmless(&part, c) {
                    out.text.extend(["\x1b[", &part]);
                    out.text.push(c);
                }
                StartedSequence::None
            }
            // Cancelled, or ended.
            (
                StartedSequence::Command(_) | StartedSequence::Ignored,
                '\x07' | '\x18' | '\x1a' | '\u{9c}',
            ) => StartedSequence::None,
            (StartedSequence::Command(part), c) => StartedSequence::Command(longer(part, c)),
            (StartedSequence::Ignored, _) => StartedSequence::Ignored,
            // A sequence that breaks off is dropped.
            (
                StartedSequence::None | StartedSequence::Escape(_) | StartedSequence::Control(_),
                c,
            ) => {
                let is_text = matches!(c, '\n' | '\r' | '\t' | '\x07' | '\x08' | '\x0e' | '\x0f');
                if is_text || !c.is_control() {
                    out.text.push(c);
                }
                StartedSequence::None
            }
        }
    }
}

/// Adds a character to a sequence, unless that is too long to be passed on anyway.
fn longer(mut part: String, c: char) -> String {
    if part.len() < LONGEST {
        part.push(c);
    }
    part
}

/// Takes a character behind `ESC`.
fn escaped(part: String, c: char, out: &mut ScreenOutput) -> StartedSequence {
    match (part.as_str(), c) {
        ("", '[') => return StartedSequence::Control(String::new()),
        ("", ']') => return StartedSequence::Command(String::new()),
        ("", 'P' | 'X' | '^' | '_') => return StartedSequence::Ignored,
        (_, ' '..='/') => return StartedSequence::Escape(longer(part, c)),
        // The cursor's position, scrolling, the keypad, a reset; character sets.
        ("", '7' | '8' | 'D' | 'E' | 'H' | 'M' | '=' | '>' | 'c')
        | ("(" | ")" | "*" | "+", '0' | 'A' | 'B') => {
            out.text.push('\x1b');
            out.text.push_str(&part);
            out.text.push(c);
        }
        _ => {}
    }
    StartedSequence::None
}

/// Returns `true` if a control sequence changes nothing but the screen, its modes and colours.
fn is_harmless(part: &str, last: char) -> bool {
    let parameters = part.trim_start_matches(['<', '=', '>', '?']);
    let prefix = part.strip_suffix(parameters).unwrap_or_default();
    let numbers = parameters.trim_end_matches(|c| matches!(c, ' '..='/'));
    let suffix = parameters.strip_prefix(numbers).unwrap_or_default();
    if !numbers.chars().all(|c| matches!(c, '0'..='9' | ';' | ':')) {
        return false;
    }
    match (prefix, suffix, last) {
        // With several parameters it reports the mouse.
        ("", "", 'T') => !numbers.contains(';'),
        // Insert mode. Others lock the keyboard or change what keys send.
        ("", "", 'h' | 'l') => numbers == "4",
        ("?", "", 'h' | 'l') => numbers.split(';').all(|mode| MODES.contains(&mode)),
        (
            "",
            "",
            '@'..='M' | 'P' | 'S' | 'X' | 'Z' | '`' | 'a' | 'b' | 'd'..='g' | 'm' | 'r' | 's' | 'u',
        ) => true,
        // Erasing; encodings of keys; the cursor's shape; a soft reset.
        ("?", "", 'J' | 'K') | (">", "", 'm' | 'u') | ("<" | "=", "", 'u') | ("", " ", 'q') => true,
        ("", "!", 'p') => numbers.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filtered(text: &str) -> (String, bool) {
        let ScreenOutput { text, has_prompt } = ScreenFilter::default().push(text);
        (text, has_prompt)
    }

    #[test]
    fn programs_use_the_whole_screen() {
        for text in [
            "größe 日本語 🙂\r\n\tx\x08y\x07",
            "\x1b[?1049h\x1b[22;1H\x1b[2J\x1b[3;20r\x1b[1;31mred\x1b[m\x1b[K\x1b[4b\x1b[?25l",
            "\x1b7\x1b8\x1b(0lqk\x1b(B\x1b)0\x0e\x0f\x1b=\x1b>\x1bM\x1bc",
            "\x1b[?1000h\x1b[?1006;1004h\x1b[?2004h\x1b[?1l\x1b[4h\x1b[>4;2m\x1b[>1u\x1b[<u\x1b[2 q\x1b[!p",
            "\x1b[2T\x1b[S\x1b[10L\x1b[P\x1b[@",
        ] {
            assert_eq!(filtered(text), (text.to_owned(), false));
        }
    }

    #[test]
    fn what_makes_a_terminal_answer_or_remember_is_removed() {
        let long = format!("\x1b[{}m", "1;".repeat(40));
        for text in [
            "\x1b[6n",
            "\x1b[c",
            "\x1b[>c",
            "\x1b[=c",
            "\x1b[>q",
            "\x1b[?u",
            "\x1b[?6n",
            "\x1b[?1049$p",
            "\x1b[18t",
            "\x1b[22;0t",
            "\x1b[1;2;3;4;5T",
            "\x1b[x",
            "\x1b[5i",
            "\x1b[2h",
            "\x1b[12l",
            "\x1b[?2031h",
            "\x1b[?1000;2031h",
            "\x1b[?1049s",
            "\x1bZ",
            "\x1b#8",
            "\x1b%G",
            "\x1b]0;title\x07",
            "\x1b]52;c;Zm9v\x1b\\",
            "\x1b]11;?\x1b\\",
            "\x1b]8;;http://x\x07",
            "\x1bP$qm\x1b\\",
            "\x1b_Gf=24\x1b\\",
            "\x1b^pm\x1b\\",
            "\x1bXsos\x1b\\",
            "\x05",
            "\x00\x7f",
            "\u{9b}6n",
            "\u{9d}0;x\u{9c}",
            "\x1b[1\x18",
            &long,
        ] {
            let shown = filtered(&format!("a{text}b")).0;
            // A control character of 8 bits begins no sequence, so that its text is shown.
            let text = text.trim_start_matches(['\u{9b}', '\u{9d}']).trim_end_matches('\u{9c}');
            let left = if text.starts_with(|c: char| c.is_ascii_digit()) { text } else { "" };
            assert_eq!(shown, format!("a{left}b"), "{text:?}");
        }
    }

    #[test]
    fn a_prompt_is_told_by_its_mark() {
        assert_eq!(filtered("done\r\n\x1b]133;A\x07$ "), ("done\r\n$ ".to_owned(), true));
        assert_eq!(filtered("\x1b]133;A\x1b\\$ "), ("$ ".to_owned(), true));
        for other in ["\x1b]133;B\x07", "\x1b]133;A", "\x1b]133;A\x18", "133;A\x07"] {
            assert!(!filtered(other).1, "{other:?}");
        }
    }

    #[test]
    fn where_the_pieces_are_cut_makes_no_difference() {
        let all = "a\x1b[31mé🙂\x1b]133;A\x07\x1b[?25l\x1b]52;c;x\x1b\\\x1b(0\x1b[6nb\x1b";
        let whole = filtered(all);
        let cuts: Vec<usize> = (0..=all.len()).filter(|at| all.is_char_boundary(*at)).collect();
        for first in &cuts {
            for second in cuts.iter().filter(|second| *second >= first) {
                let mut filter = ScreenFilter::default();
                let (mut text, mut has_prompt) = (String::new(), false);
                for piece in [&all[..*first], &all[*first..*second], &all[*second..]] {
                    let output = filter.push(piece);
                    text.push_str(&output.text);
                    has_prompt |= output.has_prompt;
                }
                assert_eq!((text, has_prompt), whole, "{first} {second}");
            }
        }
    }
}
