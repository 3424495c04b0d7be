//! Where in a file the old lines of a hunk stand. Pure; the work of all hunks of a file is bounded.

use crate::{
    error::{PatchError, Problem},
    hunk::{At, End, Hunk, Newline},
    lines::{File, Key, Last, Wanted, keys},
    near::{Cause, Places},
    nearest,
    text::{bare, block, shown},
};

/// How an anchor may differ from its line.
#[derive(Clone, Copy)]
enum Loose {
    Indentation,
    Beginning,
}

impl File<'_> {
    /// The place of a hunk, at or after a line; `drift` is how far the hunk before was from where
    /// it said to be.
    pub(crate) fn find(
        &mut self,
        hunk: &Hunk,
        from: usize,
        drift: isize,
    ) -> Result<usize, PatchError> {
        let fail = |problem| PatchError { line: hunk.line as usize, problem };
        match &hunk.at {
            At::After(after) => self.by_number(hunk, *after as usize, from, drift).map_err(fail),
            At::Anchors { lines, end } => {
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
        if said >= from && self.stands(&old, said) {
            return Ok(said);
        }
        let places = self.places(&old, from, Wanted::All)?;
        match places.as_slice() {
            [] => Err(self.missing(hunk, &old, from)?),
            [one] => Ok(*one),
            [_, _, ..] => {
                Err(Problem::Ambiguous { places: listed(&places), better: "right line numbers" })
            }
        }
    }

    fn by_anchors(
        &mut self,
        hunk: &Hunk,
        anchors: &[&[u8]],
        end: End,
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
        if end == End::OfFile {
            let place = self.len().checked_sub(old.len()).filter(|place| *place >= from);
            let place = place.filter(|place| anchored.is_none_or(|line| *place >= line));
            return match place.filter(|place| self.stands(&old, *place)) {
                Some(place) => Ok(place),
                None => Err(self.no_match(hunk)),
            };
        }
        if old.is_empty() {
            return match anchored {
                Some(line) => Ok(line + 1),
                None if self.len() == from && from == 0 => Ok(0),
                None => Err(Problem::Nowhere),
            };
        }
        // The line of the anchor itself may be repeated as context.
        let wanted = if anchored.is_some() { Wanted::First } else { Wanted::All };
        let places = self.places(&old, anchored.unwrap_or(from).max(from), wanted)?;
        match places.as_slice() {
            [] => Err(self.missing(hunk, &old, from)?),
            [one] => Ok(*one),
            [_, _, ..] => {
                let better = "an `@@` line with a line above it";
                Err(Problem::Ambiguous { places: listed(&places), better })
            }
        }
    }

    /// The line of an anchor: the whole line, or without its indentation, or its beginning. The
    /// first anchor of a hunk must be clear; one inside of another is the next.
    fn anchor(
        &mut self,
        anchor: &[u8],
        start: usize,
        inside: Option<usize>,
    ) -> Result<usize, Problem> {
        let key = Key { text: anchor, newline: Newline::Present };
        let wanted = if inside.is_some() { Wanted::First } else { Wanted::All };
        let mut found = self.places(&[key], start, wanted)?;
        let trimmed = anchor.trim_ascii();
        for loose in [Loose::Indentation, Loose::Beginning] {
            if !found.is_empty() {
                break;
            }
            self.spend(self.len() - start.min(self.len()))?;
            let is = |at: &usize| {
                let line = self.bytes(*at, *at + 1).trim_ascii();
                match loose {
                    Loose::Indentation => line == trimmed,
                    Loose::Beginning => line.starts_with(trimmed),
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

    /// Why lines are nowhere at or after a line.
    fn missing(&mut self, hunk: &Hunk, old: &[Key<'_>], from: usize) -> Result<Problem, Problem> {
        let before = self.places(old, 0, Wanted::All)?;
        Ok(match before.is_empty() || from == 0 {
            true => self.no_match(hunk),
            false => Problem::Order { places: listed(&before) },
        })
    }

    /// The error that a hunk's old lines do not stand where they must.
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
        let cause = match same(bare(self.text)) && self.manner.last == Last::Said {
            true => Some(Cause::LastNewline),
            false => cause,
        };
        Problem::NoMatch { expected: block(hunk.old().map(|line| line.text)), cause, near }
    }
}

fn listed(places: &[usize]) -> Places {
    let mut list = Places::default();
    places.iter().for_each(|place| list.push(place + 1));
    list
}
