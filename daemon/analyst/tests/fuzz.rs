//! Runs the analysis on random and mutated text: it never panics, and its spans are within the
//! text. The parser runs in this process, so text that is known to crash it is left out.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

use palisade_analyst::analyse_here;
use palisade_policy::analysis::{Nowhere, settle};
use std::{
    thread,
    time::{Duration, Instant},
};

/// The duration of each test.
const TIME: Duration = Duration::from_secs(3);

/// A deterministic random number generator.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % u64::try_from(below.max(1)).unwrap()).unwrap()
    }
}

/// Returns `true` if a here-document may have an empty delimiter, on which the parser never
/// finishes. The supervisor's test covers that.
fn may_have_empty_delimiter(text: &str) -> bool {
    text.match_indices("<<").any(|(at, _)| {
        let before = text[..at].chars().rev().take_while(|c| *c == '<').count();
        let rest = text[at..].trim_start_matches('<');
        let run = before + text.len() - at - rest.len();
        let word = rest.strip_prefix('-').unwrap_or(rest).trim_start_matches([' ', '\t']);
        run > 3 || (run == 2 && !word.starts_with(|c: char| c.is_ascii_alphanumeric()))
    })
}

fn look_at(text: &str) {
    if may_have_empty_delimiter(text) {
        return;
    }
    let found = analyse_here(text).unwrap().found;
    for one in &found {
        let (start, end) = (one.span.start as usize, one.span.end as usize);
        assert!(start <= end && end <= text.len(), "{text:?}: {:?}", one.span);
        assert!(text.is_char_boundary(start) && text.is_char_boundary(end), "{text:?}");
        assert!(!one.why.is_empty());
    }
    let count = found.len();
    assert!(settle(found, &Nowhere).len() <= count);
}

/// Runs a test on a stack of the analyst's size.
fn on_a_large_stack(test: impl FnOnce() + Send + 'static) {
    thread::Builder::new().stack_size(64 * 1024 * 1024).spawn(test).unwrap().join().unwrap();
}

#[test]
fn only_here_documents_that_may_have_no_delimiter_are_left_out() {
    for tried in ["cat <<E\nx\nE", "cat <<-E\nE", "cat << E", "cat <<< x", "cat <<<$(ls)", "a < b"]
    {
        assert!(!may_have_empty_delimiter(tried), "{tried}");
    }
    for left_out in ["$<<\"\" ", "cat <<'' ", "cat <<", "a<<<<b", "cat <<E <<''"] {
        assert!(may_have_empty_delimiter(left_out), "{left_out}");
    }
}

#[test]
fn here_documents() {
    on_a_large_stack(|| {
        let pieces = [
            "cat <<E\n",
            "cat <<-E\n",
            "cat <<E; ls\n",
            "cat <<<",
            "<<A <<B\n",
            "E\n",
            "\tE\n",
            "A\n",
            "B\n",
            "$(rm -r x)\n",
            "${a:-`id`}",
            "'",
            "\"",
            "\\",
            "\n",
            " ",
            "x",
            "é",
            "(",
            ")",
            ";",
        ];
        let mut numbers = Numbers(0x1234_5678_9abc_def1);
        let begun = Instant::now();
        let mut tried = 0;
        while begun.elapsed() < TIME {
            let count = 1 + numbers.next(12);
            let text: String = (0..count).map(|_| pieces[numbers.next(pieces.len())]).collect();
            look_at(&text);
            tried += 1;
        }
        println!("{tried} texts");
        assert!(tried > 100);
    });
}

#[test]
fn arbitrary_bytes() {
    on_a_large_stack(|| {
        let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
        let shell: Vec<char> =
            "<>(){}[]$`'\"\\;&|\n \t#!*?=-:~^%@,.ax1éß\u{202e}".chars().collect();
        let begun = Instant::now();
        let mut tried = 0;
        while begun.elapsed() < TIME {
            let length = numbers.next(40);
            let bytes: Vec<u8> =
                (0..length).map(|_| u8::try_from(numbers.next(256)).unwrap()).collect();
            look_at(&String::from_utf8_lossy(&bytes));
            let text: String = (0..length).map(|_| shell[numbers.next(shell.len())]).collect();
            look_at(&text);
            tried += 2;
        }
        println!("{tried} texts");
        assert!(tried > 100);
    });
}

#[test]
fn mutated_commands() {
    on_a_large_stack(|| {
        let lines: Vec<Vec<char>> = [include_str!("corpus.jsonl"), include_str!("more.jsonl")]
            .iter()
            .flat_map(|text| text.lines())
            .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
            .map(|line| line["cmd"].as_str().unwrap().chars().collect())
            .collect();
        let mut numbers = Numbers(0x2545_f491_4f6c_dd1d);
        let begun = Instant::now();
        let mut tried = 0;
        while begun.elapsed() < TIME {
            let mut text = lines[numbers.next(lines.len())].clone();
            for _ in 0..=numbers.next(4) {
                let other = &lines[numbers.next(lines.len())];
                let at = numbers.next(text.len() + 1);
                match numbers.next(4) {
                    0 if !text.is_empty() => drop(text.remove(at.min(text.len() - 1))),
                    1 => text.insert(at, other[numbers.next(other.len())]),
                    2 => text.truncate(at),
                    _ => drop(text.splice(at..at, other.iter().copied())),
                }
            }
            look_at(&text.into_iter().collect::<String>());
            tried += 1;
        }
        println!("{tried} texts");
        assert!(tried > 100);
    });
}
