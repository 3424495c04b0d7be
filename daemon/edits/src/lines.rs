//! The lines of a file, and a search for given lines among them. The work for all hunks of a file
//! is bounded. Pure: no I/O.

use crate::{
    error::Problem,
    hunk::{Line, Newline},
    text::{bare, chomp},
};
use std::collections::HashMap;

/// Most lines that are compared for one file.
const MOST_WORK: usize = 100_000_000;

/// The way in which a file's lines are compared with a patch's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LineComparison {
    pub(crate) endings: EndingComparison,
    pub(crate) last: FinalNewline,
}

/// The relation between the line endings of the file and of the patch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EndingComparison {
    /// Both have the same line endings.
    Exact,
    /// The file has CRLF throughout, the patch has LF.
    CrlfInFile,
}

/// The treatment of the newline at the end of the file: compared or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FinalNewline {
    /// Yes: the patch says whether there is one.
    Said,
    /// No: the patch can not say it, so the end stays as it is.
    Kept,
}

/// The part of a line that is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Key<'a> {
    pub(crate) text: &'a [u8],
    pub(crate) newline: Newline,
}

/// The lines of a file, prepared for searching.
pub(crate) struct File<'a> {
    pub(crate) text: &'a [u8],
    /// The offset of each line, and the end of the text.
    starts: Vec<u32>,
    pub(crate) manner: LineComparison,
    index: Option<Index<'a>>,
    work: usize,
}

/// An index of the places of each line.
struct Index<'a> {
    /// A number for each distinct line.
    numbers: HashMap<Key<'a>, u32>,
    lines: Vec<u32>,
    /// The places of the line with number `n` are `places[first[n]..first[n + 1]]`.
    first: Vec<u32>,
    places: Vec<u32>,
}

/// The number of places to find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MatchCount {
    First,
    All,
}

impl<'a> File<'a> {
    /// Splits a text of less than 4 GiB into lines.
    pub(crate) fn new(text: &'a [u8], manner: LineComparison) -> Self {
        let after = |at: usize| u32::try_from(at + 1).unwrap_or(u32::MAX);
        let mut starts = vec![0];
        starts.extend(memchr::memchr_iter(b'\n', text).map(after));
        let end = u32::try_from(text.len()).unwrap_or(u32::MAX);
        if starts.last() != Some(&end) {
            starts.push(end);
        }
        Self { text, starts, manner, index: None, work: 0 }
    }

    /// Returns the number of lines.
    pub(crate) fn len(&self) -> usize {
        self.starts.len() - 1
    }

    /// Returns the bytes of a range of lines.
    pub(crate) fn bytes(&self, from: usize, to: usize) -> &'a [u8] {
        &self.text[self.starts[from] as usize..self.starts[to] as usize]
    }

    fn key(&self, at: usize) -> Key<'a> {
        let line = self.bytes(at, at + 1);
        let text = match self.manner.endings {
            EndingComparison::Exact => bare(line),
            EndingComparison::CrlfInFile => chomp(line),
        };
        let newline = match self.manner.last {
            FinalNewline::Said if !line.ends_with(b"\n") => Newline::Absent,
            FinalNewline::Said | FinalNewline::Kept => Newline::Present,
        };
        Key { text, newline }
    }

    /// Returns `true` if the file has these lines from line `at` on.
    pub(crate) fn has_lines_at(&self, old: &[Key<'_>], at: usize) -> bool {
        at + old.len() <= self.len()
            && old.iter().enumerate().all(|(index, key)| self.key(at + index) == *key)
    }

    /// Returns `true` if a line differs from a key at most in blanks at its end.
    pub(crate) fn matches_ignoring_trailing_blanks(&self, key: &Key<'_>, at: usize) -> bool {
        let own = self.key(at);
        own.newline == key.newline && without_blanks(own.text) == without_blanks(key.text)
    }

    /// Counts compared lines, and fails if there are too many.
    pub(crate) fn spend(&mut self, lines: usize) -> Result<(), Problem> {
        self.work = self.work.saturating_add(lines);
        if self.work <= MOST_WORK { Ok(()) } else { Err(Problem::Work) }
    }

    /// Finds the places of lines at or after a line. Only the places of the rarest of the lines are
    /// checked.
    pub(crate) fn places(
        &mut self,
        old: &[Key<'_>],
        from: usize,
        wanted: MatchCount,
    ) -> Result<Vec<usize>, Problem> {
        if self.index.is_none() {
            self.index = Some(Index::new(self));
        }
        let Some(index) = &self.index else { return Ok(Vec::new()) };
        let numbers: Option<Vec<u32>> =
            old.iter().map(|key| index.numbers.get(key).copied()).collect();
        let Some(numbers) = numbers else { return Ok(Vec::new()) };
        let rarest = numbers.iter().enumerate().min_by_key(|(_, n)| index.of(**n).len());
        let Some((offset, number)) = rarest else { return Ok(Vec::new()) };
        let all = index.of(*number);
        let skip = all.partition_point(|place| (*place as usize) < from + offset);
        let (mut found, mut work) = (Vec::new(), 0);
        for place in &all[skip..] {
            let start = *place as usize - offset;
            let here = index.lines.get(start..start + numbers.len()).unwrap_or_default();
            let same = here.iter().zip(&numbers).take_while(|(a, b)| a == b).count();
            work += same + 1;
            if same == numbers.len() {
                found.push(start);
                if wanted == MatchCount::First {
                    break;
                }
            }
            if self.work.saturating_add(work) > MOST_WORK {
                break;
            }
        }
        self.spend(work)?;
        Ok(found)
    }
}

impl<'a> Index<'a> {
    fn new(file: &File<'a>) -> Self {
        let mut numbers: HashMap<Key<'a>, u32> = HashMap::new();
        let mut lines = Vec::with_capacity(file.len());
        let mut first = vec![0_u32];
        for at in 0..file.len() {
            let next = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
            let number = *numbers.entry(file.key(at)).or_insert(next);
            lines.push(number);
            if number == next {
                first.push(0);
            }
            first[number as usize + 1] += 1;
        }
        for number in 1..first.len() {
            first[number] += first[number - 1];
        }
        let mut next = first.clone();
        let mut places = vec![0; lines.len()];
        for (at, number) in lines.iter().enumerate() {
            let place = &mut next[*number as usize];
            places[*place as usize] = u32::try_from(at).unwrap_or(u32::MAX);
            *place += 1;
        }
        Self { numbers, lines, first, places }
    }

    fn of(&self, number: u32) -> &[u32] {
        let (start, end) = (self.first[number as usize], self.first[number as usize + 1]);
        &self.places[start as usize..end as usize]
    }
}

/// Returns a line without the spaces and tabs at its end. A carriage return is a line ending.
fn without_blanks(line: &[u8]) -> &[u8] {
    let end = line.iter().rposition(|byte| !b" \t".contains(byte));
    end.map_or(&[], |end| &line[..=end])
}

/// Returns the keys by which a hunk's lines are searched for.
pub(crate) fn keys<'a>(lines: impl Iterator<Item = Line<'a>>) -> Vec<Key<'a>> {
    lines.map(|line| Key { text: line.text, newline: line.newline }).collect()
}
