//! The matching lines that a search finds: the first ones are kept, the others only counted. Runs
//! in the cell.

use grep_matcher::Matcher as _;
use grep_regex::RegexMatcher;
use grep_searcher::{Searcher, Sink, SinkContext, SinkContextKind, SinkFinish, SinkMatch};
use palisade_plan::{
    Path,
    search::{Hits, Line, SearchReport},
};
use std::{collections::BTreeMap, io};

/// The maximum number of bytes of a line that are kept.
const LONGEST: usize = 500;

/// The number of bytes of a long line that are kept before its match.
const LEAD: usize = 100;

/// The bytes that a line or file takes in a reply in addition to its text.
const OVERHEAD: usize = 48;

/// The maximum size of a reply in bytes. Written out in full twice, it must fit into one result.
pub(super) const MOST_ANSWERED: usize = 1024 * 1024;

/// The matches in one file, while it is searched.
pub(super) struct MatchCollector<'a> {
    matcher: &'a RegexMatcher,
    wanted: SearchReport,
    limit: u64,
    /// The number of matching lines.
    pub(super) count: u64,
    kept: u64,
    held: usize,
    lines: Vec<Line>,
    /// The number of lines at the end that are context for a match to come.
    ahead: usize,
    full: bool,
    /// True if the file turned out not to be text.
    pub(super) binary: bool,
}

impl<'a> MatchCollector<'a> {
    pub(super) const fn new(matcher: &'a RegexMatcher, wanted: SearchReport, limit: u64) -> Self {
        Self {
            matcher,
            wanted,
            limit,
            count: 0,
            kept: 0,
            held: 0,
            lines: Vec::new(),
            ahead: 0,
            full: false,
            binary: false,
        }
    }

    pub(super) fn into_hits(self, path: &[u8]) -> Hits {
        Hits { path: Path(path.to_vec()), count: self.count, lines: self.lines }
    }

    fn push(&mut self, number: u64, bytes: &[u8], column: Option<usize>, matches: bool) {
        let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        let bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
        let from = match column {
            Some(column) if column + LEAD > LONGEST => column - LEAD,
            Some(_) | None => 0,
        };
        let text = &bytes[from.min(bytes.len())..];
        let text = &text[..text.len().min(LONGEST)];
        let after = bytes.len().saturating_sub(from + text.len());
        self.held += text.len() + OVERHEAD;
        self.lines.push(Line {
            number,
            matches,
            column: column.map(|column| column as u64 + 1),
            before: from as u64,
            text: text.to_vec(),
            after: after as u64,
        });
    }
}

impl Sink for MatchCollector<'_> {
    type Error = io::Error;

    fn matched(&mut self, _searcher: &Searcher, found: &SinkMatch<'_>) -> Result<bool, io::Error> {
        let lines = found.lines().count() as u64;
        self.count += lines;
        match self.wanted {
            SearchReport::Files => return Ok(false),
            SearchReport::Counts => return Ok(true),
            SearchReport::Lines { .. } => {}
        }
        if self.full || self.kept >= self.limit || self.held >= MOST_ANSWERED {
            if !self.full {
                self.lines.truncate(self.lines.len() - self.ahead);
                self.full = true;
            }
            return Ok(true);
        }
        self.ahead = 0;
        let first = self.matcher.find(found.bytes()).ok().flatten().map(|first| first.start());
        let (mut start, mut number) = (0, found.line_number().unwrap_or(0));
        for line in found.lines() {
            let here = start..start + line.len();
            let column = first.filter(|first| here.contains(first)).map(|first| first - start);
            self.push(number, line, column, true);
            start += line.len();
            number += 1;
        }
        self.kept += lines;
        Ok(true)
    }

    fn context(
        &mut self,
        _searcher: &Searcher,
        found: &SinkContext<'_>,
    ) -> Result<bool, io::Error> {
        if !self.full {
            match found.kind() {
                SinkContextKind::Before => self.ahead += 1,
                SinkContextKind::After | SinkContextKind::Other => {}
            }
            self.push(found.line_number().unwrap_or(0), found.bytes(), None, false);
        }
        Ok(true)
    }

    fn binary_data(&mut self, _searcher: &Searcher, _offset: u64) -> Result<bool, io::Error> {
        self.binary = true;
        Ok(false)
    }

    fn finish(&mut self, _searcher: &Searcher, found: &SinkFinish) -> Result<(), io::Error> {
        self.binary |= found.binary_byte_offset().is_some();
        Ok(())
    }
}

/// The files that come first by path, as many as fit into a reply.
#[derive(Debug)]
pub(super) struct FirstFiles {
    wanted: SearchReport,
    limit: u64,
    files: BTreeMap<Vec<u8>, Hits>,
    units: u64,
    held: usize,
}

impl FirstFiles {
    pub(super) const fn new(wanted: SearchReport, limit: u64) -> Self {
        Self { wanted, limit, files: BTreeMap::new(), units: 0, held: 0 }
    }

    pub(super) fn add(&mut self, hits: Hits) {
        let full = self.units >= self.limit || self.held >= MOST_ANSWERED;
        if full && self.files.last_key_value().is_none_or(|(last, _)| *last < hits.path.0) {
            return;
        }
        self.units += units(self.wanted, &hits);
        self.held += cost(&hits);
        self.files.insert(hits.path.0.clone(), hits);
        while let Some(last) = self.files.last_entry() {
            let before = self.units - units(self.wanted, last.get());
            let room = self.held - cost(last.get());
            // It is dropped if the files before it are enough.
            if before < self.limit && room < MOST_ANSWERED {
                break;
            }
            last.remove();
            (self.units, self.held) = (before, room);
        }
    }

    /// Merges the results of several threads, and returns what fits into a reply.
    pub(super) fn merge(self, others: impl IntoIterator<Item = Self>) -> Vec<Hits> {
        let mut all = self;
        others.into_iter().flat_map(|one| one.files.into_values()).for_each(|hits| all.add(hits));
        let (mut left, mut room) = (all.limit, MOST_ANSWERED);
        let mut files = Vec::with_capacity(all.files.len());
        for mut hits in all.files.into_values() {
            if let SearchReport::Lines { after, .. } = all.wanted {
                hits.lines.truncate(fitting(&hits.lines, left, room, after as usize));
                if hits.lines.is_empty() {
                    break;
                }
            }
            left -= units(all.wanted, &hits).min(left);
            room = room.saturating_sub(cost(&hits));
            files.push(hits);
            if left == 0 || room == 0 {
                break;
            }
        }
        files
    }
}

/// Returns how many lines to keep: those up to the last match that fits, and the context after it.
fn fitting(lines: &[Line], most: u64, room: usize, after: usize) -> usize {
    let (mut matches, mut held, mut fits) = (0, 0, 0);
    for (place, line) in lines.iter().enumerate() {
        held += line.text.len() + OVERHEAD;
        matches += u64::from(line.matches);
        if matches > most || held > room {
            let next = |line: &&Line| !line.matches;
            let follow = lines[fits..place].iter().take_while(next).take(after).count();
            return if fits == 0 { 0 } else { fits + follow };
        }
        if line.matches {
            fits = place + 1;
        }
    }
    lines.len()
}

fn units(wanted: SearchReport, hits: &Hits) -> u64 {
    match wanted {
        SearchReport::Lines { .. } => hits.lines.iter().filter(|line| line.matches).count() as u64,
        SearchReport::Files | SearchReport::Counts => 1,
    }
}

fn cost(hits: &Hits) -> usize {
    let lines: usize = hits.lines.iter().map(|line| line.text.len() + OVERHEAD).sum();
    hits.path.0.len() + OVERHEAD + lines
}
