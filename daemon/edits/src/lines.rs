//! The lines of a file, and where given lines stand among them. Pure; the work of all hunks of a
//! file is bounded.

use crate::{
    error::Problem,
    hunk::{Line, Newline},
    text::{bare, chomp},
};
use std::collections::HashMap;

/// The most lines that are compared for one file.
const MOST_WORK: usize = 100_000_000;

/// How a file's lines are compared with a patch's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Manner {
    pub(crate) endings: Ends,
    pub(crate) last: Last,
}

/// What the lines of the file and of the patch have at their ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ends {
    /// The same.
    Exact,
    /// The file has CRLF throughout, the patch LF.
    CrlfInFile,
}

/// Whether a newline at the end of the file counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Last {
    /// The patch says whether there is one.
    Said,
    /// The patch can not say it.
    Kept,
}

/// What two lines that are the same have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Key<'a> {
    pub(crate) text: &'a [u8],
    pub(crate) newline: Newline,
}

/// The lines of a file, to be found.
pub(crate) struct File<'a> {
    pub(crate) text: &'a [u8],
    /// Where each line begins, and the end.
    starts: Vec<u32>,
    pub(crate) manner: Manner,
    index: Option<Index<'a>>,
    work: usize,
}

/// Where each line stands.
struct Index<'a> {
    /// Same lines have the same number.
    numbers: HashMap<Key<'a>, u32>,
    lines: Vec<u32>,
    /// The places of number `n` are at `first[n]..first[n + 1]`.
    first: Vec<u32>,
    places: Vec<u32>,
}

/// How many places are looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted {
    First,
    All,
}

impl<'a> File<'a> {
    /// The lines of a text of less than 4 GiB.
    pub(crate) fn new(text: &'a [u8], manner: Manner) -> Self {
        let after = |at: usize| u32::try_from(at + 1).unwrap_or(u32::MAX);
        let mut starts = vec![0];
        starts.extend(memchr::memchr_iter(b'\n', text).map(after));
        let end = u32::try_from(text.len()).unwrap_or(u32::MAX);
        if starts.last() != Some(&end) {
            starts.push(end);
        }
        Self { text, starts, manner, index: None, work: 0 }
    }

    /// How many lines there are.
    pub(crate) fn len(&self) -> usize {
        self.starts.len() - 1
    }

    /// The bytes of some lines.
    pub(crate) fn bytes(&self, from: usize, to: usize) -> &'a [u8] {
        &self.text[self.starts[from] as usize..self.starts[to] as usize]
    }

    fn key(&self, at: usize) -> Key<'a> {
        let line = self.bytes(at, at + 1);
        let text = match self.manner.endings {
            Ends::Exact => bare(line),
            Ends::CrlfInFile => chomp(line),
        };
        let newline = match self.manner.last {
            Last::Said if !line.ends_with(b"\n") => Newline::Absent,
            Last::Said | Last::Kept => Newline::Present,
        };
        Key { text, newline }
    }

    /// Whether lines stand at a place.
    pub(crate) fn stands(&self, old: &[Key<'_>], at: usize) -> bool {
        at + old.len() <= self.len()
            && old.iter().enumerate().all(|(index, key)| self.key(at + index) == *key)
    }

    /// Counts lines that are compared.
    pub(crate) fn spend(&mut self, lines: usize) -> Result<(), Problem> {
        self.work = self.work.saturating_add(lines);
        if self.work <= MOST_WORK { Ok(()) } else { Err(Problem::Work) }
    }

    /// The places of lines at or after a line: those of the rarest of them, looked at.
    pub(crate) fn places(
        &mut self,
        old: &[Key<'_>],
        from: usize,
        wanted: Wanted,
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
                if wanted == Wanted::First {
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

/// What lines of a hunk are looked for by.
pub(crate) fn keys<'a>(lines: impl Iterator<Item = Line<'a>>) -> Vec<Key<'a>> {
    lines.map(|line| Key { text: line.text, newline: line.newline }).collect()
}
