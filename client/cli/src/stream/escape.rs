//! Makes a program's output safe for a terminal. Text, colours and cursor movement pass; every
//! other control sequence is shown as text instead of obeyed.

use std::{
    io::IsTerminal as _,
    sync::atomic::{AtomicBool, Ordering},
};

/// The maximum length of a sequence that is passed on; a longer one is shown.
const LONGEST: usize = 48;

const ESCAPE: u8 = 0x1b;

/// True if a program has moved the cursor, or done more with `--raw`, since the last approval
/// request.
static CURSOR_MOVED: AtomicBool = AtomicBool::new(false);

/// The handling of control sequences in a program's output on a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Controls {
    /// All but colours and cursor movement are shown as text.
    Shown,
    /// All are passed on.
    Passed,
}

impl Controls {
    /// Returns the choice that `--raw` makes.
    pub(crate) const fn of(raw: bool) -> Self {
        if raw { Self::Passed } else { Self::Shown }
    }
}

/// Remembers that a program has moved the cursor.
pub(crate) fn set_cursor_moved() {
    CURSOR_MOVED.store(true, Ordering::Relaxed);
}

/// Returns whether a program has moved the cursor since the last call of this function.
pub(crate) fn take_cursor_moved() -> bool {
    CURSOR_MOVED.swap(false, Ordering::Relaxed)
}

/// The filter for one stream of a program, fed piece by piece. A sequence that is cut between two
/// pieces is held back until it is complete. So no incomplete sequence ever precedes other text.
#[derive(Debug)]
pub(crate) struct Escaper {
    mode: EscapeMode,
    /// A sequence or a character that is not complete yet.
    pending: Vec<u8>,
    /// True if a colour was passed on, which lasts until it is reset.
    coloured: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EscapeMode {
    /// A file or a pipe: every byte passes.
    Exact,
    /// A terminal with `--raw`.
    Raw,
    /// A terminal without `--raw`.
    Terminal,
}

/// The meaning of the bytes that are held back.
enum SequenceState {
    /// The beginning of a sequence or character.
    Part,
    /// A sequence that may pass, and whether it only sets colours.
    Passes { colour: bool },
    /// Bytes that may not pass.
    Shown,
}

impl Escaper {
    pub(crate) fn stdout(controls: Controls) -> Self {
        Self::new(std::io::stdout().is_terminal(), controls)
    }

    pub(crate) fn stderr(controls: Controls) -> Self {
        Self::new(std::io::stderr().is_terminal(), controls)
    }

    fn new(terminal: bool, controls: Controls) -> Self {
        let mode = match (terminal, controls) {
            (false, _) => EscapeMode::Exact,
            (true, Controls::Passed) => EscapeMode::Raw,
            (true, Controls::Shown) => EscapeMode::Terminal,
        };
        Self { mode, pending: Vec::new(), coloured: false }
    }

    /// Filters the next piece and returns the bytes to write.
    pub(crate) fn push(&mut self, data: &[u8]) -> Vec<u8> {
        match self.mode {
            EscapeMode::Exact => data.to_vec(),
            EscapeMode::Raw => {
                if data.iter().any(|byte| !(b' '..=b'~').contains(byte) && *byte != b'\n') {
                    set_cursor_moved();
                }
                data.to_vec()
            }
            EscapeMode::Terminal => {
                let mut out = Vec::with_capacity(data.len() + 16);
                for byte in data {
                    self.take(*byte, &mut out);
                }
                out
            }
        }
    }

    /// Ends the stream. Returns the bytes that were held back, as text, and a reset of the colours.
    pub(crate) fn finish(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        self.show_pending(&mut out);
        if std::mem::take(&mut self.coloured) {
            out.extend(b"\x1b[0m");
        }
        out
    }

    fn take(&mut self, byte: u8, out: &mut Vec<u8>) {
        if self.pending.is_empty() && (b' '..=b'~').contains(&byte) {
            return out.push(byte);
        }
        if !self.pending.is_empty() && !self.continues(byte) {
            self.show_pending(out);
        }
        self.pending.push(byte);
        match self.judge() {
            SequenceState::Part => {}
            SequenceState::Passes { colour } => {
                self.coloured |= colour;
                if !colour && self.pending.first() == Some(&ESCAPE) {
                    set_cursor_moved();
                }
                out.append(&mut self.pending);
            }
            SequenceState::Shown => self.show_pending(out),
        }
    }

    /// Returns `true` if a byte can continue what is held back.
    fn continues(&self, byte: u8) -> bool {
        match self.pending.first() {
            Some(&ESCAPE) => (b' '..=b'~').contains(&byte),
            _ => (0x80..0xc0).contains(&byte),
        }
    }

    fn judge(&self) -> SequenceState {
        match self.pending.as_slice() {
            [b'\n' | b'\r' | b'\t' | 0x08] => SequenceState::Passes { colour: false },
            [byte] if (b' '..=b'~').contains(byte) => SequenceState::Passes { colour: false },
            [ESCAPE] | [ESCAPE, b'['] => SequenceState::Part,
            // Save and restore the cursor position.
            [ESCAPE, b'7' | b'8'] => SequenceState::Passes { colour: false },
            [ESCAPE, b'[', parameters @ .., last] => sequence(parameters, *last),
            [ESCAPE, ..] => SequenceState::Shown,
            bytes => character(bytes),
        }
    }

    /// Writes the pending bytes as text.
    fn show_pending(&mut self, out: &mut Vec<u8>) {
        let pending = std::mem::take(&mut self.pending);
        match (std::str::from_utf8(&pending), pending.as_slice()) {
            (Ok(text), [first, ..]) if *first >= 0xc2 => {
                for c in text.chars() {
                    out.extend(format!("<U+{:04X}>", u32::from(c)).bytes());
                }
            }
            _ => pending.iter().for_each(|byte| show(*byte, out)),
        }
    }
}

/// Writes a byte as text.
fn show(byte: u8, out: &mut Vec<u8>) {
    match byte {
        b' '..=b'~' => out.push(byte),
        // The Unicode symbols for control characters.
        0..b' ' => out.extend([0xe2, 0x90, 0x80 + byte]),
        0x7f => out.extend("\u{2421}".bytes()),
        0x80.. => out.extend(format!("<{byte:02X}>").bytes()),
    }
}

/// Judges what follows `ESC [`, as far as it has arrived.
fn sequence(parameters: &[u8], last: u8) -> SequenceState {
    let plain = parameters.iter().all(|byte| matches!(byte, b'0'..=b'9' | b';' | b':'));
    if !plain || parameters.len() > LONGEST {
        return SequenceState::Shown;
    }
    match last {
        b'0'..=b'9' | b';' | b':' => SequenceState::Part,
        b'm' => SequenceState::Passes { colour: true },
        // Cursor movement: up, down, right, left, to a line or a column. Also erasing to the end of
        // a line.
        b'A'..=b'H' | b'a' | b'd' | b'e' | b'f' | b'`' | b'K' => {
            SequenceState::Passes { colour: false }
        }
        // Erasing below the cursor. Above it is text that others wrote.
        b'J' if matches!(parameters, [] | [b'0']) => SequenceState::Passes { colour: false },
        b's' | b'u' if parameters.is_empty() => SequenceState::Passes { colour: false },
        _ => SequenceState::Shown,
    }
}

/// Judges a character of several bytes, as far as it has arrived.
fn character(bytes: &[u8]) -> SequenceState {
    match std::str::from_utf8(bytes) {
        // C1 controls: one character with the meaning of an `ESC` sequence.
        Ok(text) if text.chars().all(|c| c.is_control()) => SequenceState::Shown,
        Ok(_) => SequenceState::Passes { colour: false },
        Err(error) if error.error_len().is_none() => SequenceState::Part,
        Err(_) => SequenceState::Shown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn escaped(pieces: &[&[u8]]) -> String {
        let mut escaper = Escaper::new(true, Controls::Shown);
        let mut out: Vec<u8> = pieces.iter().flat_map(|piece| escaper.push(piece)).collect();
        out.extend(escaper.finish());
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn text_colours_and_cursor_movement_pass() {
        for text in [
            "plain größe 日本語 🙂\r\n\tx\x08y",
            "\x1b7\x1b[2A\x1b[K\x1b[2K\x1b[10;20H\x1b[5C\x1b[J\x1b[0J\x1b[s\x1b[u\x1b8",
        ] {
            assert_eq!(escaped(&[text.as_bytes()]), text);
        }
        let colours = "\x1b[1;31mred\x1b[m \x1b[38;2;1;2;3mx\x1b[4:3my";
        assert_eq!(escaped(&[colours.as_bytes()]), format!("{colours}\x1b[0m"));
    }

    #[test]
    fn every_other_control_sequence_is_shown() {
        let long = format!("\x1b[{}m", "1;".repeat(40));
        let cases: [(&[u8], &str); 23] = [
            (b"\x1b]0;title\x07", "␛]0;title␇"),
            (b"\x1b]52;c;Zm9v\x1b\\", "␛]52;c;Zm9v␛\\"),
            (b"\x1b]8;;http://x\x07link\x1b]8;;\x07", "␛]8;;http://x␇link␛]8;;␇"),
            (b"\x1bP1$r0m\x1b\\", "␛P1$r0m␛\\"),
            (b"\x1b_Gf=24\x1b\\", "␛_Gf=24␛\\"),
            (b"\x1b^pm\x1b\\\x1bXsos\x1b\\", "␛^pm␛\\␛Xsos␛\\"),
            (b"\x1b[?1049h\x1b[?25l\x1b[?7l", "␛[?1049h␛[?25l␛[?7l"),
            (b"\x1b[3;5r\x1b[2J\x1b[3J", "␛[3;5r␛[2J␛[3J"),
            (b"\x1b[>4;2m\x1b[>1u", "␛[>4;2m␛[>1u"),
            (b"\x1b[6n\x1b[c\x1b[5i", "␛[6n␛[c␛[5i"),
            (b"\x1b[4h\x1b[!p\x1b[ q\x1b[22;0t", "␛[4h␛[!p␛[ q␛[22;0t"),
            (b"\x1b(0\x1bc\x1bM\x1b#8", "␛(0␛c␛M␛#8"),
            (b"\x1b[9999999b", "␛[9999999b"),
            (b"\x0e\x0f\x07\x00\x7f\x18\x0b\x0c\x05", "␎␏␇␀␡␘␋␌␅"),
            (b"\x9b2J\x90x\x9c", "<9B>2J<90>x<9C>"),
            ("\u{9b}2J\u{9d}0;x\u{9c}".as_bytes(), "<U+009B>2J<U+009D>0;x<U+009C>"),
            (b"\x1b\x1b[2J", "␛␛[2J"),
            (b"\x1b[3\x1b[2J", "␛[3␛[2J"),
            (b"\x1b[1\xc3\xa9m", "␛[1ém"),
            (b"\x1b[1\nm", "␛[1\nm"),
            (b"\xff\xc3(\xe2\x82", "<FF><C3>(<E2><82>"),
            (b"\x1b[1", "␛[1"),
            (long.as_bytes(), &long.replace('\x1b', "␛")),
        ];
        for (bytes, expected) in cases {
            assert_eq!(escaped(&[bytes]), expected, "{:?}", String::from_utf8_lossy(bytes));
        }
    }

    #[test]
    fn where_the_pieces_are_cut_makes_no_difference() {
        let all = "a\x1b[31mé🙂\x1b]0;t\x07\x1b[?25l\x1b[2A\u{9b}x\x1b[0m\x1b".as_bytes();
        let whole = escaped(&[all]);
        for first in 0..=all.len() {
            for second in first..=all.len() {
                let pieces = [&all[..first], &all[first..second], &all[second..]];
                assert_eq!(escaped(&pieces), whole, "{first} {second}");
            }
        }
        // An incomplete sequence is not written, because other text may come in between.
        let mut escaper = Escaper::new(true, Controls::Shown);
        assert_eq!(escaper.push(b"a\x1b[3"), b"a");
        assert_eq!(escaper.push(b"1m"), b"\x1b[31m");
    }

    #[test]
    fn a_pipe_has_every_byte_and_so_has_a_terminal_that_asks_for_it() {
        let all: Vec<u8> = (0..=255).collect();
        for (terminal, controls) in
            [(false, Controls::Shown), (false, Controls::Passed), (true, Controls::Passed)]
        {
            let mut escaper = Escaper::new(terminal, controls);
            assert_eq!(escaper.push(&all), all);
            assert_eq!(escaper.finish(), b"");
        }
    }
}
