//! From what is kept of calls to what puts it back: the newest first, each call in reverse, all of
//! it in one change. Broker, pure but for reading the pieces.

use super::{error::UndoError, record::Record};
use palisade_plan::{
    Path,
    change::{Before, Past, Print, Restoration, State},
    parts::{Listed as _, MOST_EFFECTS, MOST_TOLD},
};
use palisade_protocol::CallId;
use std::{
    collections::{HashMap, HashSet},
    fs::File,
    io,
    os::unix::fs::FileExt as _,
    sync::Arc,
};

/// The most bytes of entries that are put back at once.
const MOST: usize = MOST_TOLD;
/// The most entries that are put back at once.
const MOST_ENTRIES: usize = 2 * MOST_EFFECTS;

/// What puts calls back.
#[derive(Debug, Default)]
pub(crate) struct Restore {
    pub(crate) entries: Vec<Restoration>,
    /// The contents, in the order of the entries.
    pub(crate) pieces: Vec<Piece>,
    /// The calls, the newest first.
    pub(crate) calls: Vec<CallId>,
    /// The session that made them.
    pub(crate) sessions: HashSet<String>,
}

/// A piece of a file's contents.
#[derive(Debug, Clone)]
pub(crate) struct Piece {
    file: Arc<File>,
    at: u64,
    length: u32,
    /// The last of its file.
    pub(crate) end: bool,
}

impl Piece {
    /// Its bytes.
    pub(crate) fn read(&self) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; self.length as usize];
        self.file.read_exact_at(&mut bytes, self.at)?;
        Ok(bytes)
    }
}

/// Whether it is done even where something has changed since.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Force {
    /// Then it is refused.
    Careful,
    /// It is.
    Forced,
}

/// Puts records together, the newest first.
pub(crate) fn assemble(records: &[Record], force: Force) -> Result<Restore, UndoError> {
    let mut restore = Restore::default();
    let (mut steps, mut now) = (Steps::default(), Now::default());
    for record in records {
        let left = match (&record.left, force) {
            (Some(left), _) => left.iter().map(|(path, print)| (path, print)).collect(),
            (None, Force::Forced) => Left::new(),
            (None, Force::Careful) => {
                return Err(UndoError::Unfinished(record.head.call_id.clone()));
            }
        };
        let left = &left;
        now.check(record, left, force)?;
        for kept in record.entries.iter().rev() {
            match &kept.before {
                Before::State { path, state } => {
                    let (path, state) = (path.clone(), state.clone());
                    let contents = match state {
                        State::File { .. } => pieces(record, &kept.pieces),
                        State::Absent
                        | State::Directory { .. }
                        | State::Symlink { .. }
                        | State::Other => Vec::new(),
                    };
                    let expect = now.expected(&path, left);
                    let put = Restoration::Put { path: path.clone(), expect, state };
                    steps.put(path, put, contents)
                }
                Before::Moved { from, to } => {
                    steps.rename(to.clone(), from.clone(), now.expected(to, left))
                }
                Before::Same { path, was, .. } => {
                    steps.revert(path.clone(), now.expected(path, left), *was)
                }
            }
            .map_err(|path| UndoError::Entangled {
                path: String::from_utf8_lossy(&path.0).into_owned(),
                call: record.head.call_id.clone(),
            })?;
        }
        steps.settle();
        now.learn(record, left);
        restore.calls.push(record.head.call_id.clone());
        restore.sessions.insert(record.head.session.to_string());
    }
    let mut size = 0;
    for (entry, contents) in steps.all.into_iter().flatten() {
        size += entry.told();
        restore.entries.push(entry);
        restore.pieces.extend(contents);
    }
    let too_much = size > MOST || restore.entries.len() > MOST_ENTRIES;
    if too_much { Err(UndoError::TooMuch) } else { Ok(restore) }
}

/// One step for each path of several calls: what the oldest found there is what counts.
#[derive(Debug, Default)]
struct Steps {
    all: Vec<Option<(Restoration, Vec<Piece>)>>,
    /// Which of them is about a path, of those of newer calls.
    newer: HashMap<Path, usize>,
    /// Which of them moves something to a path.
    arrives: HashMap<Path, usize>,
}

impl Steps {
    /// Makes a path what it was. An error is a path for which that can not be said in one step.
    fn put(&mut self, path: Path, put: Restoration, contents: Vec<Piece>) -> Result<(), Path> {
        let before = self.newer.get(&path).or_else(|| self.arrives.get(&path));
        if let Some(slot) = before.and_then(|at| self.all.get_mut(*at)) {
            *slot = match slot.take() {
                // A newer call's step for the same path goes.
                None | Some((Restoration::Put { .. } | Restoration::Revert { .. }, _)) => None,
                // It would come back and be something else then: it goes where it is instead.
                Some((Restoration::Rename { from, to, expect }, _))
                    if to == path && expect != Print::Directory =>
                {
                    let gone = Restoration::Put { path: from, expect, state: State::Absent };
                    Some((gone, Vec::new()))
                }
                Some((Restoration::Rename { .. }, _)) => return Err(path),
            };
        }
        self.all.push(Some((put, contents)));
        Ok(())
    }

    /// Makes a file what it was, which stays the same file.
    fn revert(&mut self, path: Path, expect: Print, was: Past) -> Result<(), Path> {
        if self.arrives.contains_key(&path) {
            return Err(path);
        }
        let step = match self.newer.get(&path).and_then(|at| self.all.get_mut(*at)) {
            None => (Restoration::Revert { path, expect, was }, Vec::new()),
            Some(slot) => match slot.take() {
                Some((Restoration::Revert { path, expect, .. }, _)) => {
                    (Restoration::Revert { path, expect, was }, Vec::new())
                }
                // What a newer call replaced comes back, as it was before this one.
                Some((
                    Restoration::Put { path, expect, state: State::File { size, .. } },
                    kept,
                )) if was.size <= size => {
                    let Past { mode, size, mtime } = was;
                    let state = State::File { mode, size, mtime };
                    (Restoration::Put { path, expect, state }, cut(kept, size))
                }
                Some(_) | None => return Err(path),
            },
        };
        self.all.push(Some(step));
        Ok(())
    }

    /// Gives something its old name back.
    fn rename(&mut self, from: Path, to: Path, expect: Print) -> Result<(), Path> {
        if self.newer.contains_key(&to) {
            return Err(to);
        }
        let step = match self.newer.get(&from).and_then(|at| self.all.get_mut(*at)) {
            None => Restoration::Rename { from, to, expect },
            // Moved twice: back in one step.
            Some(slot) => match slot.take() {
                Some((Restoration::Rename { from: first, to: via, expect }, _)) if via == from => {
                    Restoration::Rename { from: first, to, expect }
                }
                Some(_) | None => return Err(from),
            },
        };
        if let Restoration::Rename { to, .. } = &step {
            self.arrives.insert(to.clone(), self.all.len());
        }
        self.all.push(Some((step, Vec::new())));
        Ok(())
    }

    /// A call is through: the next ones are older.
    fn settle(&mut self) {
        let steps = (0..).zip(&self.all).filter_map(|(at, slot)| Some((at, &slot.as_ref()?.0)));
        self.newer = steps
            .flat_map(|(at, step)| match step {
                Restoration::Put { path, .. } | Restoration::Revert { path, .. } => {
                    vec![(path.clone(), at)]
                }
                Restoration::Rename { from, to, .. } => vec![(from.clone(), at), (to.clone(), at)],
            })
            .collect();
    }
}

/// An empty file has one piece too: its end.
fn pieces(record: &Record, spans: &[(u64, u32)]) -> Vec<Piece> {
    let file = || Arc::clone(&record.file);
    let mut pieces: Vec<Piece> = spans
        .iter()
        .map(|(at, length)| Piece { file: file(), at: *at, length: *length, end: false })
        .collect();
    match pieces.last_mut() {
        Some(last) => last.end = true,
        None => pieces.push(Piece { file: file(), at: 0, length: 0, end: true }),
    }
    pieces
}

/// The first bytes of some pieces.
fn cut(pieces: Vec<Piece>, size: u64) -> Vec<Piece> {
    let mut left = size;
    let mut first: Vec<Piece> = pieces
        .into_iter()
        .enumerate()
        .map_while(|(number, piece)| {
            let length = u32::try_from(left).unwrap_or(u32::MAX).min(piece.length);
            left -= u64::from(length);
            (length > 0 || number == 0).then_some(Piece { length, end: false, ..piece })
        })
        .collect();
    first.iter_mut().next_back().into_iter().for_each(|last| last.end = true);
    first
}

/// What is known of the paths of later calls: what they left there, and what was there before.
#[derive(Default)]
struct Now {
    left: HashMap<Path, Print>,
    before: HashMap<Path, (Option<Print>, CallId)>,
    moved: HashMap<Path, CallId>,
}

impl Now {
    /// What is to be there now: what the last call about it left.
    fn expected(&self, path: &Path, left: &Left<'_>) -> Print {
        self.left.get(path).cloned().unwrap_or_else(|| last(left, path))
    }

    /// Holds what a call left against what the next one about it found.
    fn check(&self, record: &Record, left: &Left<'_>, force: Force) -> Result<(), UndoError> {
        let call = &record.head.call_id;
        for path in paths(record) {
            if let Some((directory, moving)) = self.moved_above(path) {
                let directory = String::from_utf8_lossy(&directory.0).into_owned();
                let (moving, below) = (moving.clone(), call.clone());
                return Err(UndoError::Moved { moving, directory, below });
            }
            let Some((found, after)) = self.before.get(path) else { continue };
            let same = found.as_ref().is_none_or(|found| *found == last(left, path));
            if !same && force == Force::Careful {
                let path = String::from_utf8_lossy(&path.0).into_owned();
                let (before, after) = (call.clone(), after.clone());
                return Err(UndoError::Between { path, before, after });
            }
        }
        Ok(())
    }

    /// The directory above a path that a later call moved.
    fn moved_above(&self, path: &Path) -> Option<(&Path, &CallId)> {
        let mut above = path.0.as_slice();
        while let Some(slash) = above.iter().rposition(|byte| *byte == b'/') {
            above = above.get(..slash)?;
            // Without a later call's move there is nothing to look for.
            if self.moved.is_empty() {
                return None;
            }
            if let Some(found) = self.moved.get_key_value(&Path(above.to_vec())) {
                return Some(found);
            }
        }
        None
    }

    fn learn(&mut self, record: &Record, left: &Left<'_>) {
        let call = &record.head.call_id;
        for path in paths(record) {
            self.left.entry(path.clone()).or_insert_with(|| last(left, path));
        }
        for kept in &record.entries {
            match &kept.before {
                Before::State { path, state } => {
                    let found = print(state, kept.digest);
                    self.before.insert(path.clone(), (found, call.clone()));
                }
                Before::Same { path, was, digest } => {
                    let found = digest.map(|digest| Print::File { mode: was.mode, digest });
                    self.before.insert(path.clone(), (found, call.clone()));
                }
                Before::Moved { from, to } => {
                    // What was moved was the same, and only its new name has a print.
                    self.before.insert(from.clone(), (Some(last(left, to)), call.clone()));
                    self.before.entry(to.clone()).or_insert((Some(Print::Absent), call.clone()));
                    self.moved.entry(from.clone()).or_insert_with(|| call.clone());
                }
            }
        }
    }
}

fn paths(record: &Record) -> impl Iterator<Item = &Path> {
    record.entries.iter().flat_map(|kept| match &kept.before {
        Before::State { path, .. } | Before::Same { path, .. } => vec![path],
        Before::Moved { from, to } => vec![from, to],
    })
}

/// What the last effect with a path left there.
type Left<'a> = HashMap<&'a Path, &'a Print>;

/// The print of the last effect with a path; nothing is there where there is none.
fn last(left: &Left<'_>, path: &Path) -> Print {
    left.get(path).map_or(Print::Absent, |print| (*print).clone())
}

/// What a state would have been known by; none if that can not be told.
fn print(state: &State, digest: [u8; 32]) -> Option<Print> {
    match state {
        State::Absent => Some(Print::Absent),
        State::File { mode, .. } => Some(Print::File { mode: *mode, digest }),
        State::Directory { .. } => Some(Print::Directory),
        State::Symlink { target } => Some(Print::Symlink { target: target.clone() }),
        State::Other => None,
    }
}

#[cfg(test)]
mod tests;
