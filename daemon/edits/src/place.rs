//! Finds the place of a hunk's old lines in a file. The work for all hunks of a file is bounded.
//! Pure: no I/O.

use crate::{
    error::{PatchError, Problem},
    hunk::{Hunk, HunkEnd, HunkPosition, Newline},
    lines::{File, FinalNewline, Key, MatchCount, keys},
    near::{Cause, Occurrences},
    nearest,
    text::{bare, block, shown},
};

/// The difference that is accepted between an anchor and its line.
#[derive(Clone, Copy)]
enum AnchorTolerance {
    Indentation,
    Beginning,
}

impl File<'_> {
    /// Finds the place of a hunk at or after line `from`. `drift` is the distance of the previous
    /// hunk from its stated line.
    pub(crate) fn find(
        &mut self,
        hunk: &Hunk,
        from: usize,
        drift: isize,
    ) -> Result<usize, PatchError> {
        let fail = |problem| PatchError { line: hunk.line as usize, problem };
        match &hunk.at {
            HunkPosition::After(after) => {
                self.by_number(hunk, *after as usize, from, drift).map_err(fail)
            }
            HunkPosition::Anchors { lines, end } => {
                let anchors: Vec<&[u8]> = hunk.anchors(lines).collect();
                self.by_anchors(hunk, &anchors, *end, from).map_err(fail)
            }
        }
    }

    fn by_number(
        &mut self,
        hunk: &Hunk,
        after: usize,
        from: usize,
        drift: isize,
    ) -> Result<usize, Problem> {
        let said = after.saturating_add_signed(drift);
        let old: Vec<Key<'_>> = keys(hunk.old());
        if old.is_empty() {
            return match (from..=self.len()).contains(&said) {
                true => Ok(said),
                false => Err(Problem::Beyond { at: said, lines: self.len() }),
            };
        }
        if said >= from && self.has_lines_at(&old, said) {
            return Ok(said);
        }
        let places = self.places(&old, from, MatchCount::All)?;
        match places.as_slice() {
            [] => match self.loosely(&old, from)? {
                Some(place) => Ok(place),
                None => Err(self.missing(hunk, &old, from)?),
            },
            [one] => Ok(*one),
            [_, _, ..] => {
                Err(Problem::Ambiguous { places: listed(&places), better: "correct line numbers" })
            }
        }
    }

    fn by_anchors(
        &mut self,
        hunk: &Hunk,
        anchors: &[&[u8]],
        end: HunkEnd,
        from: usize,
    ) -> Result<usize, Problem> {
        let mut start = from;
        let mut anchored = None;
        for anchor in anchors {
            let line = self.anchor(anchor, start, anchored)?;
            anchored = Some(line);
            start = line + 1;
        }
        let old: Vec<Key<'_>> = keys(hunk.old());
        if end == HunkEnd::OfFile {
            let place = self.len().checked_sub(old.len()).filter(|place| *place >= from);
            let place = place.filter(|place| anchored.is_none_or(|line| *place >= line));
            let alike = |place: usize| {
                (place..).zip(&old).all(|(at, key)| self.matches_ignoring_trailing_blanks(key, at))
            };
            return match place.filter(|place| alike(*place)) {
                Some(place) => Ok(place),
                None => Err(self.no_match(hunk)),
            };
        }
        if old.is_empty() {
            return match anchored {
                Some(line) => Ok(line + 1),
                // The format says so: lines without a place go to the end.
                None => Ok(self.len()),
            };
        }
        // The anchor's own line may be repeated as context.
        let wanted = if anchored.is_some() { MatchCount::First } else { MatchCount::All };
        let start = anchored.unwrap_or(from).max(from);
        let places = self.places(&old, start, wanted)?;
        match places.as_slice() {
            [] => match self.loosely(&old, start)? {
                Some(place) => Ok(place),
                None => Err(self.missing(hunk, &old, from)?),
            },
            [one] => Ok(*one),
            [_, _, ..] => {
                let better = "an `@@` line with a line above it";
                Err(Problem::Ambiguous { places: listed(&places), better })
            }
        }
    }

    /// Finds the line of an anchor. It must equal the whole line, the line without its indentation,
    /// or the start of the line. The first anchor of a hunk must be unambiguous; a further one is
    /// searched for after it.
    fn anchor(
        &mut self,
        anchor: &[u8],
        start: usize,
        inside: Option<usize>,
    ) -> Result<usize, Problem> {
        let key = Key { text: anchor, newline: Newline::Present };
        let wanted = if inside.is_some() { MatchCount::First } else { MatchCount::All };
        let mut found = self.places(&[key], start, wanted)?;
        let trimmed = anchor.trim_ascii();
        for loose in [AnchorTolerance::Indentation, AnchorTolerance::Beginning] {
            if !found.is_empty() {
                break;
            }
            self.spend(self.len() - start.min(self.len()))?;
            let is = |at: &usize| {
                let line = self.bytes(*at, *at + 1).trim_ascii();
                match loose {
                    AnchorTolerance::Indentation => line == trimmed,
                    AnchorTolerance::Beginning => line.starts_with(trimmed),
                }
            };
            found = (start..self.len()).filter(is).collect();
        }
        match found.as_slice() {
            [] => {
                let near = nearest::find(self.text, anchor).1;
                Err(Problem::NoAnchor { anchor: shown(anchor), near })
            }
            [first, ..] if inside.is_some() || found.len() == 1 => Ok(*first),
            [_, ..] => {
                let (anchor, places) = (shown(anchor), listed(&found));
                Err(Problem::AnchorAmbiguous { anchor, places })
            }
        }
    }

    /// Finds the only place, at or after a line, where the old lines differ from the file's at most
    /// in white space at their ends. Models often lose that.
    fn loosely(&mut self, old: &[Key<'_>], from: usize) -> Result<Option<usize>, Problem> {
        let last = (self.len() + 1).saturating_sub(old.len());
        let mut found = None;
        for place in from..last {
            let same = (place..)
                .zip(old)
                .take_while(|(at, key)| self.matches_ignoring_trailing_blanks(key, *at))
                .count();
            self.spend(same + 1)?;
            if same == old.len() && found.replace(place).is_some() {
                return Ok(None);
            }
        }
        Ok(found)
    }

    /// Explains why lines were not found at or after a line.
    fn missing(&mut self, hunk: &Hunk, old: &[Key<'_>], from: usize) -> Result<Problem, Problem> {
        let before = self.places(old, 0, MatchCount::All)?;
        Ok(match before.is_empty() || from == 0 {
            true => self.no_match(hunk),
            false => Problem::Order { places: listed(&before) },
        })
    }

    /// Returns the error that a hunk's old lines were not found where they must be.
    pub(crate) fn no_match(&self, hunk: &Hunk) -> Problem {
        let mut wanted = Vec::new();
        for line in hunk.old() {
            wanted.extend_from_slice(line.text);
            if line.newline == Newline::Present {
                wanted.push(b'\n');
            }
        }
        let (cause, near) = nearest::find(self.text, &wanted);
        let same = |text: &[u8]| text.ends_with(bare(&wanted)) && !wanted.is_empty();
        let cause = match same(bare(self.text)) && self.manner.last == FinalNewline::Said {
            true => Some(Cause::LastNewline),
            false => cause,
        };
        Problem::NoMatch { expected: block(hunk.old().map(|line| line.text)), cause, near }
    }
}

fn listed(places: &[usize]) -> Occurrences {
    let mut list = Occurrences::default();
    places.iter().for_each(|place| list.push(place + 1));
    list
}
