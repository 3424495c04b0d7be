//! Makes a unified diff, bounded in size and in work, for approvers and dry runs. Pure: no I/O.

use crate::path::quote;
use similar::{Algorithm, DiffOp, DiffTag, capture_diff_slices, group_diff_ops};
use std::{collections::HashMap, ops::Range};

/// Lines of context around a change.
const CONTEXT: usize = 3;
/// Most lines, old and new together, for which every pair is compared.
const MOST_LINES: usize = 4_000;

/// A unified diff.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diff {
    /// The text; empty if there is no difference. [`crate::parse`] can parse it if it is complete.
    pub text: String,
    /// True if the diff is complete, and false if it was cut or one side is not text.
    pub complete: bool,
}

/// Makes a diff of two texts, of at most `limit` bytes. Names that would break a line are quoted.
///
/// Large texts are split at the lines that occur exactly once in each. A part between these that is
/// still large is shown as replaced as a whole.
#[must_use]
pub fn unified(old: &[u8], new: &[u8], old_name: &str, new_name: &str, limit: usize) -> Diff {
    if old == new {
        return Diff { text: String::new(), complete: true };
    }
    let (old_name, new_name) = (quote(old_name), quote(new_name));
    let Some((old, new)) = readable(old).zip(readable(new)) else {
        let text = format!("Binary files {old_name} and {new_name} differ\n");
        return Diff { text: cut(text, limit), complete: false };
    };
    let old: Vec<&str> = old.split_inclusive('\n').collect();
    let new: Vec<&str> = new.split_inclusive('\n').collect();
    let mut diff = Diff { text: format!("--- {old_name}\n+++ {new_name}\n"), complete: true };
    for group in group_diff_ops(operations(&old, &new), CONTEXT) {
        write_hunk(&mut diff, &group, &old, &new, limit);
        if diff.text.len() > limit {
            break;
        }
    }
    diff.complete = diff.text.len() <= limit;
    diff.text = cut(diff.text, limit);
    diff
}

fn readable(text: &[u8]) -> Option<&str> {
    std::str::from_utf8(text).ok().filter(|text| !text.contains('\0'))
}

fn cut(mut text: String, limit: usize) -> String {
    if text.len() > limit {
        text.truncate(text.floor_char_boundary(limit));
    }
    text
}

fn write_hunk(diff: &mut Diff, group: &[DiffOp], old: &[&str], new: &[&str], limit: usize) {
    let (Some(first), Some(last)) = (group.first(), group.last()) else { return };
    let olds = first.old_range().start..last.old_range().end;
    let news = first.new_range().start..last.new_range().end;
    diff.text.push_str(&format!("@@ -{} +{} @@\n", range(&olds), range(&news)));
    for op in group {
        let (before, after) = match op.tag() {
            DiffTag::Equal => {
                write_lines(diff, ' ', &old[op.old_range()], limit);
                continue;
            }
            DiffTag::Delete | DiffTag::Insert | DiffTag::Replace => {
                (&old[op.old_range()], &new[op.new_range()])
            }
        };
        write_lines(diff, '-', before, limit);
        write_lines(diff, '+', after, limit);
    }
}

fn write_lines(diff: &mut Diff, mark: char, lines: &[&str], limit: usize) {
    for line in lines {
        if diff.text.len() > limit {
            return;
        }
        diff.text.push(mark);
        diff.text.push_str(line);
        if !line.ends_with('\n') {
            diff.text.push_str("\n\\ No newline at end of file\n");
        }
    }
}

/// Formats a range of lines for a hunk header. An empty range is named by the line before it.
fn range(lines: &Range<usize>) -> String {
    match lines.len() {
        0 => format!("{},0", lines.start),
        1 => format!("{}", lines.start + 1),
        count => format!("{},{count}", lines.start + 1),
    }
}

/// Computes the operations that turn the old lines into the new ones.
fn operations(old: &[&str], new: &[&str]) -> Vec<DiffOp> {
    let (old, new) = numbered(old, new);
    let head = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let rest = old.len().min(new.len()) - head;
    let tail =
        old.iter().rev().zip(new.iter().rev()).take(rest).take_while(|(a, b)| a == b).count();
    let mut list = Operations::default();
    list.equal(head);
    let (olds, news) = (&old[head..old.len() - tail], &new[head..new.len() - tail]);
    match olds.len() + news.len() <= MOST_LINES {
        true => list.compare(olds, news),
        false => between_anchors(&mut list, olds, news),
    }
    list.equal(tail);
    list.done
}

/// Numbers the lines, with the same number for equal lines.
fn numbered<'a>(old: &[&'a str], new: &[&'a str]) -> (Vec<u32>, Vec<u32>) {
    let mut numbers: HashMap<&'a str, u32> = HashMap::new();
    let mut number = |line: &&'a str| -> u32 {
        let next = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
        *numbers.entry(line).or_insert(next)
    };
    (old.iter().map(&mut number).collect(), new.iter().map(&mut number).collect())
}

/// Compares the parts between lines that occur once on each side and in the same order.
fn between_anchors(list: &mut Operations, old: &[u32], new: &[u32]) {
    let (mut at_old, mut at_new) = (0, 0);
    let mut budget = MOST_LINES * MOST_LINES * 4;
    let ends = std::iter::once((old.len(), new.len()));
    for (next_old, next_new) in anchors(old, new).into_iter().chain(ends) {
        let (olds, news) = (&old[at_old..next_old], &new[at_new..next_new]);
        let cost = (olds.len() + news.len()).saturating_pow(2);
        if cost <= budget {
            budget -= cost;
            list.compare(olds, news);
        } else {
            list.replace(olds.len(), news.len());
        }
        list.equal(usize::from(next_old < old.len()));
        (at_old, at_new) = (next_old + 1, next_new + 1);
    }
}

/// Finds the longest list of lines that occur once on each side and in the same order on both.
fn anchors(old: &[u32], new: &[u32]) -> Vec<(usize, usize)> {
    let mut seen: HashMap<u32, (LineFrequency, LineFrequency)> = HashMap::new();
    for (at, line) in old.iter().enumerate() {
        let (of_old, _) = seen.entry(*line).or_default();
        *of_old = of_old.again(at);
    }
    for (at, line) in new.iter().enumerate() {
        let (_, of_new) = seen.entry(*line).or_default();
        *of_new = of_new.again(at);
    }
    let mut pairs: Vec<(usize, usize)> = seen
        .into_values()
        .filter_map(|pair| match pair {
            (LineFrequency::Once(old), LineFrequency::Once(new)) => Some((old, new)),
            (LineFrequency::Never | LineFrequency::Once(_) | LineFrequency::Often, _) => None,
        })
        .collect();
    pairs.sort_unstable();
    rising(&pairs)
}

/// The number of times that a line was seen on one side.
#[derive(Debug, Clone, Copy, Default)]
enum LineFrequency {
    #[default]
    Never,
    Once(usize),
    Often,
}

impl LineFrequency {
    fn again(self, at: usize) -> Self {
        match self {
            Self::Never => Self::Once(at),
            Self::Once(_) | Self::Often => Self::Often,
        }
    }
}

/// Returns the longest sublist, of a list sorted by the first number, in which the second number
/// also increases.
fn rising(pairs: &[(usize, usize)]) -> Vec<(usize, usize)> {
    // `ends[n]` is the pair with the least second number that ends an increasing list of `n + 1`
    // pairs.
    let mut ends: Vec<usize> = Vec::new();
    let mut before: Vec<Option<usize>> = Vec::with_capacity(pairs.len());
    for (index, (_, new)) in pairs.iter().enumerate() {
        let length = ends.partition_point(|end| pairs[*end].1 < *new);
        before.push(length.checked_sub(1).map(|shorter| ends[shorter]));
        match ends.get_mut(length) {
            Some(end) => *end = index,
            None => ends.push(index),
        }
    }
    let mut list = Vec::with_capacity(ends.len());
    let mut next = ends.last().copied();
    while let Some(index) = next {
        list.push(pairs[index]);
        next = before[index];
    }
    list.reverse();
    list
}

/// A list of operations, in which adjacent equal ones are merged.
#[derive(Default)]
struct Operations {
    done: Vec<DiffOp>,
    old: usize,
    new: usize,
}

impl Operations {
    fn equal(&mut self, count: usize) {
        if let Some(DiffOp::Equal { len, .. }) = self.done.last_mut() {
            *len += count;
        } else if count > 0 {
            let (old_index, new_index) = (self.old, self.new);
            self.done.push(DiffOp::Equal { old_index, new_index, len: count });
        }
        self.old += count;
        self.new += count;
    }

    fn replace(&mut self, old_len: usize, new_len: usize) {
        let (old_index, new_index) = (self.old, self.new);
        if old_len > 0 || new_len > 0 {
            self.done.push(DiffOp::Replace { old_index, old_len, new_index, new_len });
        }
        self.old += old_len;
        self.new += new_len;
    }

    fn compare(&mut self, old: &[u32], new: &[u32]) {
        for op in capture_diff_slices(Algorithm::Myers, old, new) {
            match op.tag() {
                DiffTag::Equal => self.equal(op.old_range().len()),
                DiffTag::Delete | DiffTag::Insert | DiffTag::Replace => {
                    self.replace(op.old_range().len(), op.new_range().len());
                }
            }
        }
    }
}
