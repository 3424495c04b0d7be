//! The lines of a file that look most like a text that is not in it, and what alone is different.
//! Pure, and about linear in the file.

use crate::{
    near::{Cause, Near},
    text::{block, chomp, lines, to_lf},
};
use std::collections::HashMap;

/// The most bytes of the file that are looked at.
const MOST_BYTES: usize = 16 * 1024 * 1024;
/// The most lines of the file that are compared.
const MOST_LINES: usize = 200_000;
/// The most lines of the text that are compared.
const MOST_WANTED: usize = 200;
/// The most places of one line in the text that are followed.
const MOST_SAME: usize = 4;
/// The most bytes of a line that are compared when no line is the same.
const MOST_LINE: usize = 256;
/// Equal lines that weigh less (closing braces) do not say much.
const LIGHT: usize = 4;

/// Of 1000 pairs of bytes in two lines, how many must be in both for them to be alike.
const ALIKE: usize = 500;

/// What is nearest to a text in a file that does not have it.
pub(crate) fn find(file: &[u8], wanted: &[u8]) -> (Option<Cause>, Option<Near>) {
    let file = &file[..file.len().min(MOST_BYTES)];
    if let Some((start, end)) = squeezed(file, wanted, Letters::Exact) {
        return (Some(differs(file, start, end, wanted)), Some(near_bytes(file, start, wanted)));
    }
    if let Some((start, end)) = squeezed(file, wanted, Letters::AnyCase) {
        let same = file[start..end].eq_ignore_ascii_case(wanted.trim_ascii());
        return (same.then_some(Cause::Case), Some(near_bytes(file, start, wanted)));
    }
    let file: Vec<&[u8]> = lines(file).take(MOST_LINES).collect();
    let wanted: Vec<&[u8]> = lines(wanted).take(MOST_WANTED).collect();
    let start = match voted(&file, &wanted) {
        Some((start, weight)) if weight >= LIGHT => Some(start),
        voted => alike(&file, &wanted).or(voted.map(|(start, _)| start)),
    };
    (None, start.map(|start| near(&file, start, wanted.len())))
}

#[derive(Clone, Copy)]
enum Letters {
    Exact,
    AnyCase,
}

/// Where a text stands if white space does not count.
fn squeezed(file: &[u8], wanted: &[u8], letters: Letters) -> Option<(usize, usize)> {
    let squeeze = |text: &[u8]| -> Vec<u8> {
        let dark = text.iter().copied().filter(|byte| !byte.is_ascii_whitespace());
        match letters {
            Letters::Exact => dark.collect(),
            Letters::AnyCase => dark.map(|byte| byte.to_ascii_lowercase()).collect(),
        }
    };
    let needle = squeeze(wanted);
    if needle.is_empty() {
        return None;
    }
    let at = memchr::memmem::find(&squeeze(file), &needle)?;
    let mut dark =
        file.iter().enumerate().filter(|(_, b)| !b.is_ascii_whitespace()).map(|(index, _)| index);
    let start = dark.nth(at)?;
    let end = if needle.len() == 1 { start } else { dark.nth(needle.len() - 2)? };
    Some((start, end + 1))
}

/// What kind of white space is different between a part of the file and the text.
fn differs(file: &[u8], start: usize, end: usize, wanted: &[u8]) -> Cause {
    if to_lf(&file[start..end]) == to_lf(wanted.trim_ascii()) && has_cr(&file[start..end], wanted) {
        return Cause::LineEndings;
    }
    let line = memchr::memrchr(b'\n', &file[..start]).map_or(0, |at| at + 1);
    let is_first = file[line..start].trim_ascii().is_empty();
    let stop = memchr::memchr(b'\n', &file[end..]).map_or(file.len(), |at| end + at);
    let is_last = file[end..stop].trim_ascii().is_empty();
    let found = &file[if is_first { line } else { start }..if is_last { stop } else { end }];
    let wanted = if is_first { wanted } else { wanted.trim_ascii_start() };
    let pairs: Vec<_> = lines(found).map(chomp).zip(lines(wanted).map(chomp)).collect();
    if lines(found).count() != lines(wanted).count() {
        return Cause::Whitespace;
    }
    if pairs.iter().all(|(a, b)| a.trim_ascii_end() == b.trim_ascii_end()) {
        return Cause::TrailingSpace;
    }
    let tabs = |line: &[u8]| line.contains(&b'\t');
    if pairs.iter().all(|(a, b)| spaced(a) == spaced(b))
        && pairs.iter().any(|(a, b)| tabs(a) != tabs(b))
    {
        return Cause::Tabs;
    }
    if pairs.iter().all(|(a, b)| a.trim_ascii() == b.trim_ascii()) {
        return Cause::Indentation;
    }
    Cause::Whitespace
}

fn has_cr(found: &[u8], wanted: &[u8]) -> bool {
    found.contains(&b'\r') || wanted.contains(&b'\r')
}

/// A line with every run of blanks made one space.
fn spaced(line: &[u8]) -> Vec<u8> {
    let is_blank = |byte: &u8| *byte == b' ' || *byte == b'\t';
    let mut out: Vec<u8> = Vec::with_capacity(line.len());
    for byte in line.trim_ascii_end() {
        match is_blank(byte) {
            true if out.last() == Some(&b' ') => {}
            true => out.push(b' '),
            false => out.push(*byte),
        }
    }
    out
}

/// Where most of the text's lines stand at their distance from each other, and how much they weigh.
fn voted(file: &[&[u8]], wanted: &[&[u8]]) -> Option<(usize, usize)> {
    let mut places: HashMap<&[u8], Vec<usize>> = HashMap::new();
    for (index, line) in wanted.iter().enumerate().filter(|(_, l)| !l.trim_ascii().is_empty()) {
        let same = places.entry(line.trim_ascii()).or_default();
        if same.len() < MOST_SAME {
            same.push(index);
        }
    }
    let mut votes: HashMap<usize, usize> = HashMap::new();
    for (at, line) in file.iter().enumerate() {
        let line = line.trim_ascii();
        for index in places.get(line).into_iter().flatten() {
            *votes.entry(at.saturating_sub(*index)).or_default() += line.len().min(40);
        }
    }
    votes.into_iter().max_by_key(|(start, weight)| (*weight, std::cmp::Reverse(*start)))
}

/// Where a line stands that shares most pairs of bytes with the text's longest of the first.
fn alike(file: &[&[u8]], wanted: &[&[u8]]) -> Option<usize> {
    let cut = |line: &[u8]| -> usize { line.len().min(MOST_LINE) };
    let first = wanted.iter().take(5).map(|line| line.trim_ascii()).enumerate();
    let (index, key) = first.max_by_key(|(index, line)| (line.len(), std::cmp::Reverse(*index)))?;
    let key = &key[..cut(key)];
    let mut pairs = vec![0_u8; 1 << 16];
    let number = |pair: &[u8]| usize::from(pair[0]) << 8 | usize::from(pair[1]);
    for pair in key.windows(2) {
        pairs[number(pair)] = 1;
    }
    let score = |line: &[u8]| -> usize {
        let line = line.trim_ascii();
        let line = &line[..cut(line)];
        let shared: usize = line.windows(2).map(|pair| usize::from(pairs[number(pair)])).sum();
        2000 * shared.min(key.len()) / (line.len() + key.len()).saturating_sub(2).max(1)
    };
    let scored = file.iter().enumerate().map(|(at, line)| (score(line), std::cmp::Reverse(at)));
    let (best, std::cmp::Reverse(at)) = scored.max()?;
    (best >= ALIKE).then(|| at.saturating_sub(index))
}

fn near(file: &[&[u8]], start: usize, count: usize) -> Near {
    Near { line: start + 1, text: block(file.iter().skip(start).take(count.max(1)).copied()) }
}

fn near_bytes(file: &[u8], start: usize, wanted: &[u8]) -> Near {
    let line = memchr::memrchr(b'\n', &file[..start]).map_or(0, |at| at + 1);
    Near {
        line: memchr::memchr_iter(b'\n', &file[..start]).count() + 1,
        text: block(lines(&file[line..]).take(lines(wanted).count().max(1))),
    }
}
