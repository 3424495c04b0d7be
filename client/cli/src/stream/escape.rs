//! What a program prints, as a terminal may have it: text, colours and cursor movement pass, and
//! every other control sequence is shown instead of obeyed.

use std::{
    io::IsTerminal as _,
    sync::atomic::{AtomicBool, Ordering},
};

/// The longest sequence that is passed on; a longer one is shown.
const LONGEST: usize = 48;

const ESCAPE: u8 = 0x1b;

/// A program has moved the cursor, or done more with `--raw`, since the last approval request.
static STEERED: AtomicBool = AtomicBool::new(false);

/// What happens to the control sequences of a program's output on a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Controls {
    /// All but colours and cursor movement are shown as text.
    Shown,
    /// All are passed on.
    Passed,
}

impl Controls {
    /// `--raw` as a choice.
    pub(crate) const fn of(raw: bool) -> Self {
        if raw { Self::Passed } else { Self::Shown }
    }
}

/// Whether a program has moved the cursor since this was last asked.
pub(crate) fn take_steered() -> bool {
    STEERED.swap(false, Ordering::Relaxed)
}

/// The bytes of one stream of a program, piece by piece. What is cut between two pieces is held
/// back until it is whole, so that nothing half-written is ever before another's text.
#[derive(Debug)]
pub(crate) struct Escaper {
    mode: Mode,
    /// A sequence or a character that is not whole yet.
    held: Vec<u8>,
    /// Something was passed that lasts: a colour.
    coloured: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// A file or a pipe: byte for byte.
    Exact,
    /// A terminal, with `--raw`.
    Raw,
    /// A terminal.
    Terminal,
}

/// What the held bytes are.
enum Held {
    /// The beginning of something.
    Part,
    /// A sequence that may pass, and whether it only colours.
    Passes { colour: bool },
    /// Nothing that may pass.
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
            (false, _) => Mode::Exact,
            (true, Controls::Passed) => Mode::Raw,
            (true, Controls::Shown) => Mode::Terminal,
        };
        Self { mode, held: Vec::new(), coloured: false }
    }

    /// What to write of the next piece.
    pub(crate) fn push(&mut self, data: &[u8]) -> Vec<u8> {
        match self.mode {
            Mode::Exact => data.to_vec(),
            Mode::Raw => {
                if data.iter().any(|byte| !(b' '..=b'~').contains(byte) && *byte != b'\n') {
                    STEERED.store(true, Ordering::Relaxed);
                }
                data.to_vec()
            }
            Mode::Terminal => {
                let mut out = Vec::with_capacity(data.len() + 16);
                for byte in data {
                    self.take(*byte, &mut out);
                }
                out
            }
        }
    }

    /// What to write when nothing more comes: what was held back, and the end of its colours.
    pub(crate) fn finish(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        self.show_held(&mut out);
        if std::mem::take(&mut self.coloured) {
            out.extend(b"\x1b[0m");
        }
        out
    }

    fn take(&mut self, byte: u8, out: &mut Vec<u8>) {
        if self.held.is_empty() && (b' '..=b'~').contains(&byte) {
            return out.push(byte);
        }
        if !self.held.is_empty() && !self.continues(byte) {
            self.show_held(out);
        }
        self.held.push(byte);
        match self.judge() {
            Held::Part => {}
            Held::Passes { colour } => {
                self.coloured |= colour;
                if !colour && self.held.first() == Some(&ESCAPE) {
                    STEERED.store(true, Ordering::Relaxed);
                }
                out.append(&mut self.held);
            }
            Held::Shown => self.show_held(out),
        }
    }

    /// Whether a byte can belong to what is held.
    fn continues(&self, byte: u8) -> bool {
        match self.held.first() {
            Some(&ESCAPE) => (b' '..=b'~').contains(&byte),
            _ => (0x80..0xc0).contains(&byte),
        }
    }

    fn judge(&self) -> Held {
        match self.held.as_slice() {
            [b'\n' | b'\r' | b'\t' | 0x08] => Held::Passes { colour: false },
            [byte] if (b' '..=b'~').contains(byte) => Held::Passes { colour: false },
            [ESCAPE] | [ESCAPE, b'['] => Held::Part,
            // The cursor's place is kept, and gone back to.
            [ESCAPE, b'7' | b'8'] => Held::Passes { colour: false },
            [ESCAPE, b'[', parameters @ .., last] => sequence(parameters, *last),
            [ESCAPE, ..] => Held::Shown,
            bytes => character(bytes),
        }
    }

    /// Writes what is held as text.
    fn show_held(&mut self, out: &mut Vec<u8>) {
        let held = std::mem::take(&mut self.held);
        match (std::str::from_utf8(&held), held.as_slice()) {
            (Ok(text), [first, ..]) if *first >= 0xc2 => {
                for c in text.chars() {
                    out.extend(format!("<U+{:04X}>", u32::from(c)).bytes());
                }
            }
            _ => held.iter().for_each(|byte| show(*byte, out)),
        }
    }
}

/// A byte as text.
fn show(byte: u8, out: &mut Vec<u8>) {
    match byte {
        b' '..=b'~' => out.push(byte),
        // The pictures of the control characters.
        0..b' ' => out.extend([0xe2, 0x90, 0x80 + byte]),
        0x7f => out.extend("\u{2421}".bytes()),
        0x80.. => out.extend(format!("<{byte:02X}>").bytes()),
    }
}

/// What follows `ESC [`, as far as it has come.
fn sequence(parameters: &[u8], last: u8) -> Held {
    let plain = parameters.iter().all(|byte| matches!(byte, b'0'..=b'9' | b';' | b':'));
    if !plain || parameters.len() > LONGEST {
        return Held::Shown;
    }
    match last {
        b'0'..=b'9' | b';' | b':' => Held::Part,
        b'm' => Held::Passes { colour: true },
        // Up, down, right, left, to a line or a column, to the end of a line.
        b'A'..=b'H' | b'a' | b'd' | b'e' | b'f' | b'`' | b'K' => Held::Passes { colour: false },
        // Below the cursor; above it is what others wrote.
        b'J' if matches!(parameters, [] | [b'0']) => Held::Passes { colour: false },
        b's' | b'u' if parameters.is_empty() => Held::Passes { colour: false },
        _ => Held::Shown,
    }
}

/// A character of several bytes, as far as it has come.
fn character(bytes: &[u8]) -> Held {
    match std::str::from_utf8(bytes) {
        // C1: what `ESC` begins, in one character.
        Ok(text) if text.chars().all(|c| c.is_control()) => Held::Shown,
        Ok(_) => Held::Passes { colour: false },
        Err(error) if error.error_len().is_none() => Held::Part,
        Err(_) => Held::Shown,
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
        // What is not whole is not written: another's text may come in between.
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
