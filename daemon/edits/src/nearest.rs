//! Finds the lines of a file that are most similar to a text that it does not contain, and the
//! difference if there is only one. Takes roughly linear time in the size of the file. Pure: no
//! I/O.

use crate::{
    near::{Cause, NearestLines},
    text::{block, chomp, lines, to_lf},
};
use std::collections::HashMap;

/// Most bytes of the file that are examined.
const MOST_BYTES: usize = 16 * 1024 * 1024;
/// Most lines of the file that are compared.
const MOST_LINES: usize = 200_000;
/// Most lines of the text that are compared.
const MOST_WANTED: usize = 200;
/// Most places of one line in the text that are followed.
const MOST_SAME: usize = 4;
/// Most bytes of a line that are compared if no line is equal.
const MOST_LINE: usize = 256;
/// The weight below which equal lines, such as closing braces, mean little.
const LIGHT: usize = 4;

/// The number, of 1000 pairs of adjacent bytes, that two lines must share to be similar.
const ALIKE: usize = 500;

/// Finds what is nearest to a text in a file that does not contain it.
pub(crate) fn find(file: &[u8], wanted: &[u8]) -> (Option<Cause>, Option<NearestLines>) {
    let file = &file[..file.len().min(MOST_BYTES)];
    if let Some((start, end)) = squeezed(file, wanted, CaseSensitivity::Exact) {
        return (Some(differs(file, start, end, wanted)), Some(near_bytes(file, start, wanted)));
    }
    if let Some((start, end)) = squeezed(file, wanted, CaseSensitivity::AnyCase) {
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
enum CaseSensitivity {
    Exact,
    AnyCase,
}

/// Finds a text if white space is ignored.
fn squeezed(file: &[u8], wanted: &[u8], letters: CaseSensitivity) -> Option<(usize, usize)> {
    let squeeze = |text: &[u8]| -> Vec<u8> {
        let dark = text.iter().copied().filter(|byte| !byte.is_ascii_whitespace());
        match letters {
            CaseSensitivity::Exact => dark.collect(),
            CaseSensitivity::AnyCase => dark.map(|byte| byte.to_ascii_lowercase()).collect(),
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

/// Determines which kind of white space differs between a part of the file and the text.
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

/// Returns a line with every run of blanks replaced by one space.
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

/// Finds the place where most of the text's lines occur at their distance from each other, and
/// their weight.
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

/// Finds the line that shares the most pairs of adjacent bytes with the longest of the text's first
/// lines.
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

fn near(file: &[&[u8]], start: usize, count: usize) -> NearestLines {
    NearestLines {
        line: start + 1,
        text: block(file.iter().skip(start).take(count.max(1)).copied()),
    }
}

fn near_bytes(file: &[u8], start: usize, wanted: &[u8]) -> NearestLines {
    let line = memchr::memrchr(b'\n', &file[..start]).map_or(0, |at| at + 1);
    NearestLines {
        line: memchr::memchr_iter(b'\n', &file[..start]).count() + 1,
        text: block(lines(&file[line..]).take(lines(wanted).count().max(1))),
    }
}
