//! Turns undo records into one change that restores the earlier state: newest call first, each call
//! in reverse. Runs in the broker. Pure except for reading contents.

use super::{error::UndoError, record::StoredUndoRecord};
use palisade_plan::{
    Path,
    change::{Before, InodeState, Print, Restoration, State},
    parts::{ListEntry as _, MOST_EFFECTS, MOST_REPORT_BYTES},
};
use palisade_protocol::CallId;
use std::{
    collections::{HashMap, HashSet},
    fs::File,
    io,
    os::unix::fs::FileExt as _,
    sync::Arc,
};

/// The most bytes of entries that are restored at once.
const MOST: usize = MOST_REPORT_BYTES;
/// The most entries that are restored at once.
const MOST_ENTRIES: usize = 2 * MOST_EFFECTS;

/// A change that undoes calls.
#[derive(Debug, Default)]
pub(crate) struct Restore {
    pub(crate) entries: Vec<Restoration>,
    /// The contents, in the order of the entries.
    pub(crate) pieces: Vec<ContentPiece>,
    /// The calls, newest first.
    pub(crate) calls: Vec<CallId>,
    /// The sessions that made the calls.
    pub(crate) sessions: HashSet<String>,
}

/// A piece of a file's contents.
#[derive(Debug, Clone)]
pub(crate) struct ContentPiece {
    file: Arc<File>,
    at: u64,
    length: u32,
    /// True if this is the last piece of its file.
    pub(crate) end: bool,
}

impl ContentPiece {
    /// Reads the bytes of the piece.
    pub(crate) fn read(&self) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; self.length as usize];
        self.file.read_exact_at(&mut bytes, self.at)?;
        Ok(bytes)
    }
}

/// The choice to undo even if something has changed since.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Force {
    /// Refuse if something has changed since.
    Careful,
    /// Undo in any case.
    Forced,
}

/// Builds the change that undoes the records, given newest first.
pub(crate) fn assemble(records: &[StoredUndoRecord], force: Force) -> Result<Restore, UndoError> {
    let mut restore = Restore::default();
    let (mut steps, mut now) = (Steps::default(), LaterState::default());
    for record in records {
        let left = match (&record.left, force) {
            (Some(left), _) => left.iter().map(|(path, print)| (path, print)).collect(),
            (None, Force::Forced) => LastPrints::new(),
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
                    let attributes = kept.attributes.clone();
                    let put = Restoration::Put { path: path.clone(), expect, state, attributes };
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
        size += entry.max_encoded_len();
        restore.entries.push(entry);
        restore.pieces.extend(contents);
    }
    let too_much = size > MOST || restore.entries.len() > MOST_ENTRIES;
    if too_much { Err(UndoError::TooMuch) } else { Ok(restore) }
}

/// The steps of the change, one for each path: the state before the oldest call is restored.
#[derive(Debug, Default)]
struct Steps {
    all: Vec<Option<(Restoration, Vec<ContentPiece>)>>,
    /// The steps of newer calls, by path.
    newer: HashMap<Path, usize>,
    /// The steps that move something to a path, by that path.
    arrives: HashMap<Path, usize>,
}

impl Steps {
    /// Restores the state of a path. Returns the path as an error if one step is not enough.
    fn put(
        &mut self,
        path: Path,
        put: Restoration,
        contents: Vec<ContentPiece>,
    ) -> Result<(), Path> {
        let is_other = matches!(put, Restoration::Put { state: State::Other, .. });
        let before = self.newer.get(&path).or_else(|| self.arrives.get(&path));
        if let Some(slot) = before.and_then(|at| self.all.get_mut(*at)) {
            *slot = match slot.take() {
                // The state between the calls can not be restored, so the path is left empty.
                Some((Restoration::Put { path, expect, state, .. }, _))
                    if is_other && state != State::Other =>
                {
                    let (state, attributes) = (State::Absent, Vec::new());
                    Some((Restoration::Put { path, expect, state, attributes }, Vec::new()))
                }
                // The newer call's step for the same path is dropped.
                None | Some((Restoration::Put { .. } | Restoration::Revert { .. }, _)) => None,
                // It would be moved back and then replaced, so it is deleted where it is now.
                Some((Restoration::Rename { from, to, expect }, _))
                    if to == path && expect != Print::Directory =>
                {
                    let (state, attributes) = (State::Absent, Vec::new());
                    let gone = Restoration::Put { path: from, expect, state, attributes };
                    Some((gone, Vec::new()))
                }
                Some((Restoration::Rename { .. }, _)) => return Err(path),
            };
        }
        self.all.push(Some((put, contents)));
        Ok(())
    }

    /// Restores a file in place: it stays the same file.
    fn revert(&mut self, path: Path, expect: Print, was: InodeState) -> Result<(), Path> {
        if self.arrives.contains_key(&path) {
            return Err(path);
        }
        let step = match self.newer.get(&path).and_then(|at| self.all.get_mut(*at)) {
            None => (Restoration::Revert { path, expect, was }, Vec::new()),
            Some(slot) => match slot.take() {
                Some((Restoration::Revert { path, expect, .. }, _)) => {
                    (Restoration::Revert { path, expect, was }, Vec::new())
                }
                // The content that a newer call replaced is restored, as it was before this call.
                Some((
                    Restoration::Put { path, expect, state: State::File { size, .. }, attributes },
                    kept,
                )) if was.size <= size => {
                    let InodeState { mode, size, mtime } = was;
                    let state = State::File { mode, size, mtime };
                    (Restoration::Put { path, expect, state, attributes }, cut(kept, size))
                }
                Some(_) | None => return Err(path),
            },
        };
        self.all.push(Some(step));
        Ok(())
    }

    /// Moves something back to its old name.
    fn rename(&mut self, from: Path, to: Path, expect: Print) -> Result<(), Path> {
        if self.newer.contains_key(&to) {
            return Err(to);
        }
        let step = match self.newer.get(&from).and_then(|at| self.all.get_mut(*at)) {
            None => Restoration::Rename { from, to, expect },
            // It was moved twice: move it back in one step.
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

    /// Ends the steps of a call: those that follow belong to older calls.
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

/// Returns the pieces of a file's contents. An empty file also has one piece, which marks its end.
fn pieces(record: &StoredUndoRecord, spans: &[(u64, u32)]) -> Vec<ContentPiece> {
    let file = || Arc::clone(&record.file);
    let mut pieces: Vec<ContentPiece> = spans
        .iter()
        .map(|(at, length)| ContentPiece { file: file(), at: *at, length: *length, end: false })
        .collect();
    match pieces.last_mut() {
        Some(last) => last.end = true,
        None => pieces.push(ContentPiece { file: file(), at: 0, length: 0, end: true }),
    }
    pieces
}

/// Returns the first `size` bytes of the pieces.
fn cut(pieces: Vec<ContentPiece>, size: u64) -> Vec<ContentPiece> {
    let mut left = size;
    let mut first: Vec<ContentPiece> = pieces
        .into_iter()
        .enumerate()
        .map_while(|(number, piece)| {
            let length = u32::try_from(left).unwrap_or(u32::MAX).min(piece.length);
            left -= u64::from(length);
            (length > 0 || number == 0).then_some(ContentPiece { length, end: false, ..piece })
        })
        .collect();
    first.iter_mut().next_back().into_iter().for_each(|last| last.end = true);
    first
}

/// The states that later calls left at their paths, and those that they found there.
#[derive(Default)]
struct LaterState {
    left: HashMap<Path, Print>,
    before: HashMap<Path, (Option<Print>, CallId)>,
    moved: HashMap<Path, CallId>,
}

impl LaterState {
    /// Returns what should be at a path now: what the last call that changed it left.
    fn expected(&self, path: &Path, left: &LastPrints<'_>) -> Print {
        self.left.get(path).cloned().unwrap_or_else(|| last(left, path))
    }

    /// Checks that what a call left is what the next call found.
    fn check(
        &self,
        record: &StoredUndoRecord,
        left: &LastPrints<'_>,
        force: Force,
    ) -> Result<(), UndoError> {
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

    /// Returns the directory above a path that a later call moved.
    fn moved_above(&self, path: &Path) -> Option<(&Path, &CallId)> {
        let mut above = path.0.as_slice();
        while let Some(slash) = above.iter().rposition(|byte| *byte == b'/') {
            above = above.get(..slash)?;
            // If no later call moved anything, there is nothing to look up.
            if self.moved.is_empty() {
                return None;
            }
            if let Some(found) = self.moved.get_key_value(&Path(above.to_vec())) {
                return Some(found);
            }
        }
        None
    }

    fn learn(&mut self, record: &StoredUndoRecord, left: &LastPrints<'_>) {
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
                    // Moving does not change the content, and only the new name has a print.
                    self.before.insert(from.clone(), (Some(last(left, to)), call.clone()));
                    self.before.entry(to.clone()).or_insert((Some(Print::Absent), call.clone()));
                    self.moved.entry(from.clone()).or_insert_with(|| call.clone());
                }
            }
        }
    }
}

fn paths(record: &StoredUndoRecord) -> impl Iterator<Item = &Path> {
    record.entries.iter().flat_map(|kept| match &kept.before {
        Before::State { path, .. } | Before::Same { path, .. } => vec![path],
        Before::Moved { from, to } => vec![from, to],
    })
}

/// The print that the last effect on each path left there.
type LastPrints<'a> = HashMap<&'a Path, &'a Print>;

/// Returns the print that the last effect on a path left; absent if there is none.
fn last(left: &LastPrints<'_>, path: &Path) -> Print {
    left.get(path).map_or(Print::Absent, |print| (*print).clone())
}

/// Returns the print of an earlier state; `None` if it can not be determined.
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
