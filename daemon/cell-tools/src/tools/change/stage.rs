//! A change while it is planned: what is where, what will be where, and the steps between the two.
//! Planning has no visible effect. Runs in the cell.

use super::{
    delete::TreeSummary,
    evidence::{LostEntry, NameEvidence},
    fresh::{ContentFacts, FileAttributes, TemporaryFile},
    keep::UndoRecord,
    omitted::NotRestored,
    settle::staging::Staging,
    spot::{Dir, EntryLocation, LinkHandling},
    step::Step,
};
use crate::tools::{failure, invalid, refused, shown, split};
use palisade_plan::{
    Path,
    cell::{FileError, FileErrorKind, LOOK_BYTES},
    change::{Act, Before, Change, Conflict, Effect, EffectKind, Keep, Print, State},
    names::Kind,
};
use palisade_workspace::{EntryMetadata, View, kind_of};
use rustix::{fs::FileType, io::Errno};
use sha2::{Digest as _, Sha256};
use std::{
    collections::{HashMap, HashSet},
    fs::File,
    os::unix::ffi::OsStrExt as _,
    rc::Rc,
};

/// The number of files that are held open. New content beyond that has a name while it waits.
pub(super) const MOST_OPEN: usize = 128;

/// The maximum number of directories held open. Others of the workspace are opened from its top
/// each time.
const MOST_DIRECTORIES: usize = 256;

/// The maximum number of files in deleted directories that are listed one by one.
const MOST_LISTED: usize = 65_536;

/// The state of a spot after the steps planned so far.
#[derive(Debug, Clone, Copy)]
pub(super) enum PlannedState {
    /// Nothing.
    Absent,
    /// The entry that is there now.
    There(EntryMetadata),
    /// An entry of this type, which a step puts there.
    Planned(FileType),
}

/// A change that is being planned.
#[derive(Debug)]
pub(super) struct Stage<'a> {
    pub(super) change: &'a Change,
    pub(super) view: &'a View,
    pub(super) workspace: &'a std::path::Path,
    dirs: HashMap<Vec<u8>, Rc<Dir>>,
    pub(super) planned: HashMap<Vec<u8>, Option<FileType>>,
    /// The paths that are deleted, though a directory with other contents may take the place.
    pub(super) emptied: HashSet<Vec<u8>>,
    /// The entries that are renamed: the present place of each, by its new path.
    pub(super) moved: HashMap<Vec<u8>, (EntryLocation, EntryMetadata)>,
    /// The entry found at each spot when it was first examined.
    pub(super) found: Vec<(EntryLocation, Option<EntryMetadata>)>,
    pub(super) steps: Vec<Step>,
    /// The staging directories of a transaction's commit, one for each directory that it changes.
    pub(super) stagings: Vec<Rc<Staging>>,
    pub(super) effects: Vec<Effect>,
    /// The number of occurrences of texts that edits replace.
    pub(super) replacements: u64,
    pub(super) kept: UndoRecord,
    pub(super) hash: Sha256,
    pub(super) diff: String,
    pub(super) diff_complete: bool,
    /// The paths that were also changed from outside the transaction.
    pub(super) conflicts: Vec<Conflict>,
    pub(super) open: usize,
    /// The entries that will no longer be at their paths as they are.
    pub(super) lost: Vec<LostEntry>,
    /// The number of those that were listed as part of a deleted directory.
    listed: usize,
    /// Names in new directories that are evidence by themselves.
    pub(super) noticed: NameEvidence,
    /// The entries of an undo record that are not restored.
    pub(super) not_restored: NotRestored,
}

impl<'a> Stage<'a> {
    pub(super) fn new(change: &'a Change, view: &'a View) -> Self {
        Self {
            change,
            view,
            workspace: &view.workspace,
            dirs: HashMap::new(),
            planned: HashMap::new(),
            emptied: HashSet::new(),
            moved: HashMap::new(),
            found: Vec::new(),
            steps: Vec::new(),
            stagings: Vec::new(),
            effects: Vec::new(),
            replacements: 0,
            kept: UndoRecord::new(change.keep),
            hash: Sha256::new(),
            diff: String::new(),
            diff_complete: true,
            conflicts: Vec::new(),
            open: 0,
            lost: Vec::new(),
            listed: 0,
            noticed: NameEvidence::default(),
            not_restored: NotRestored::default(),
        }
    }

    /// Returns the spot of a path, which must have a last name. Directories that are missing on the
    /// way are those to be made.
    pub(super) fn spot(
        &mut self,
        path: &Path,
        way: LinkHandling,
    ) -> Result<EntryLocation, FileError> {
        let refuse = |error| refused("open the directory of", path, error);
        let (mut above, name) = split(&path.0);
        if way == LinkHandling::Straight && self.dirs.len() >= MOST_DIRECTORIES {
            let top = self.workspace.as_os_str().as_bytes();
            let rest = above.strip_prefix(top).filter(|rest| rest.is_empty() || rest[0] == b'/');
            if let Some(rest) = rest.filter(|_| !self.dirs.contains_key(above)) {
                let base = self.dir(top, way).map_err(refuse)?;
                let way = rest.strip_prefix(b"/").unwrap_or(rest).to_vec();
                return Ok(EntryLocation { base, way, name: name.to_vec() });
            }
        }
        let mut missing: Vec<&[u8]> = Vec::new();
        let base = loop {
            match self.dir(above, way) {
                Ok(base) => break base,
                Err(Errno::NOENT) if above != b"/" => {}
                Err(Errno::NOTDIR) if self.becomes_directory(above) => {}
                Err(error) => return Err(refuse(error)),
            }
            let (upper, part) = split(above);
            if matches!(part, b"." | b"..") {
                return Err(refuse(Errno::NOENT));
            }
            if !part.is_empty() {
                missing.push(part);
            }
            above = upper;
        };
        missing.reverse();
        Ok(EntryLocation { base, way: missing.join(&b'/'), name: name.to_vec() })
    }

    fn becomes_directory(&self, path: &[u8]) -> bool {
        let mut path = path;
        while path.len() > 1 {
            if self.planned.get(path) == Some(&Some(FileType::Directory)) {
                return true;
            }
            path = split(path).0;
        }
        false
    }

    fn dir(&mut self, path: &[u8], way: LinkHandling) -> Result<Rc<Dir>, Errno> {
        // A path that a step makes or deletes does not have its present directory.
        if self.planned.contains_key(path) {
            return Err(Errno::NOENT);
        }
        if let Some(dir) = self.dirs.get(path) {
            return Ok(Rc::clone(dir));
        }
        let dir = Rc::new(Dir::open(path, way)?);
        if self.dirs.len() > MOST_DIRECTORIES {
            return Err(Errno::MFILE);
        }
        self.dirs.insert(path.to_vec(), Rc::clone(&dir));
        Ok(dir)
    }

    /// Adds a directory that was reached through a link.
    pub(super) fn adopt(&mut self, dir: Dir) -> Rc<Dir> {
        let dir = Rc::new(dir);
        Rc::clone(self.dirs.entry(dir.real.clone()).or_insert(dir))
    }

    /// Returns the directories that are held open.
    pub(super) fn directories(&self) -> impl Iterator<Item = &Rc<Dir>> {
        self.dirs.values()
    }

    /// Returns what is at a spot after the steps planned so far.
    pub(super) fn look(&mut self, spot: &EntryLocation) -> Result<PlannedState, FileError> {
        let path = spot.path();
        if let Some(planned) = self.planned.get(&path.0) {
            return Ok(planned.map_or(PlannedState::Absent, PlannedState::Planned));
        }
        if self.view.hides(&path, Kind::Either) && self.is_hidden(spot) {
            return Ok(PlannedState::Absent);
        }
        let mut above = split(&path.0).0;
        // The parent of the root is the root.
        while above.len() > spot.base.real.len().max(1) {
            if self.emptied.contains(above) {
                return Ok(PlannedState::Absent);
            }
            above = split(above).0;
        }
        let found = match spot.look() {
            // A component of the path is not a directory yet.
            Err(Errno::NOTDIR) if !spot.way.is_empty() => None,
            // A component of the path is a symbolic link, usually a dangling one.
            Err(Errno::LOOP) if !spot.way.is_empty() => {
                return Err(refused("open the directory of", &path, Errno::NOTDIR));
            }
            found => found.map_err(|e| refused("look at", &path, e))?,
        };
        self.found.push((spot.clone(), found));
        Ok(found.map_or(PlannedState::Absent, PlannedState::There))
    }

    /// Returns `true` if the entry at a spot is hidden, which may depend on its type.
    fn is_hidden(&self, spot: &EntryLocation) -> bool {
        let found = spot.look().ok().flatten();
        let kind = found.map_or(Kind::Either, |seen| kind_of(seen.kind()));
        self.view.hides(&spot.path(), kind)
    }

    /// Plans the missing directories above a spot.
    pub(super) fn parents(&mut self, spot: &EntryLocation) -> Result<(), FileError> {
        let (mut way, mut rest) = (Vec::new(), spot.way.as_slice());
        while !rest.is_empty() {
            let end = rest.iter().position(|byte| *byte == b'/').unwrap_or(rest.len());
            let (name, tail) = rest.split_at(end);
            let dir = EntryLocation {
                base: Rc::clone(&spot.base),
                way: way.clone(),
                name: name.to_vec(),
            };
            let there = dir.look().ok().flatten().filter(|_| !self.is_removed(&dir.path()));
            if there.is_some_and(|there| there.kind() == FileType::Directory) {
                advance(&mut way, name);
                rest = tail.strip_prefix(b"/").unwrap_or(tail);
                continue;
            }
            match self.look(&dir)? {
                PlannedState::Planned(FileType::Directory) => {}
                PlannedState::Absent => self.make_dir(&dir, None)?,
                PlannedState::There(_) | PlannedState::Planned(_) => {
                    return Err(refused("make the directory of", &spot.path(), Errno::NOTDIR));
                }
            }
            advance(&mut way, name);
            rest = tail.strip_prefix(b"/").unwrap_or(tail);
        }
        Ok(())
    }

    /// Creates a temporary file for the content of a file at a spot.
    pub(super) fn fresh(
        &mut self,
        spot: &EntryLocation,
        like: FileAttributes,
    ) -> Result<TemporaryFile, FileError> {
        let begin = if self.open < MOST_OPEN { TemporaryFile::new } else { TemporaryFile::named };
        self.open += 1;
        begin(&spot.base, like).map_err(|e| refused("write", &spot.path(), e))
    }

    /// Returns `true` if the steps so far delete a path.
    pub(super) fn is_removed(&self, path: &Path) -> bool {
        self.planned.get(&path.0) == Some(&None)
    }

    /// Adds an effect on a path.
    pub(super) fn effect(
        &mut self,
        path: Path,
        kind: EffectKind,
        sizes: (u64, u64),
        print: Print,
        replaces: Option<&EntryMetadata>,
    ) {
        let (size_before, size_after) = sizes;
        let replaces = replaces.map(EntryMetadata::version);
        self.effects.push(Effect { path, kind, size_before, size_after, print, replaces });
    }

    /// Adds an entry that will no longer be at its path as it is.
    pub(super) fn lose(&mut self, spot: &EntryLocation, seen: &EntryMetadata) {
        if seen.kind() != FileType::Directory {
            self.lost.push(LostEntry::new(spot, seen));
        }
    }

    /// Adds all contents of a directory that will be deleted.
    pub(super) fn lose_tree(
        &mut self,
        spot: &EntryLocation,
        seen: &EntryMetadata,
        gathered: &mut TreeSummary,
    ) {
        let listed = gathered.files.take().filter(|files| self.listed + files.len() <= MOST_LISTED);
        match listed {
            Some(files) => {
                self.listed += files.len();
                self.lost.extend(files);
            }
            None => {
                let entries = Some(gathered.entries);
                self.lost.push(LostEntry { entries, ..LostEntry::new(spot, seen) });
            }
        }
    }

    /// Adds the entry at a spot to the undo record.
    pub(super) fn keep_seen(
        &mut self,
        spot: &EntryLocation,
        seen: &EntryMetadata,
    ) -> Result<(), FileError> {
        let undone = matches!(self.change.act, Act::Restore { .. });
        if undone && seen.kind() == FileType::RegularFile && seen.is_closed() {
            // A call that is undone may have left a file that nobody can read, so it can not be
            // recorded either.
            return self.keep(Before::State { path: spot.path(), state: State::Other });
        }
        self.kept.spot(spot, seen, None)
    }

    /// Stores an open descriptor of a file, from which the undo record reads it.
    pub(super) fn keep_open(&mut self, path: &Path, file: File) {
        self.kept.source(path, file);
    }

    pub(super) fn keep(&mut self, before: Before) -> Result<(), FileError> {
        self.kept.before(before)
    }

    pub(super) fn refuse_workspace(
        &self,
        path: &Path,
        seen: &EntryMetadata,
    ) -> Result<(), FileError> {
        let is_above = self.workspace.starts_with(path.as_path());
        // Compared by inode, because the same directory can have several paths.
        let same = |above: &std::path::Path| {
            rustix::fs::stat(above).is_ok_and(|above| EntryMetadata::from(&above).id() == seen.id())
        };
        let holds = seen.kind() == FileType::Directory && self.workspace.ancestors().any(same);
        if is_above || holds {
            let why = "it is or contains the workspace, which can not be deleted or moved";
            return Err(invalid(path, why));
        }
        Ok(())
    }

    /// Refuses to change the main repository of a linked worktree, except as git does in the
    /// worktree, or to undo that.
    pub(super) fn refuse_repository(
        &self,
        path: &Path,
        becomes: Option<FileType>,
    ) -> Result<(), FileError> {
        let Some(main) = &self.view.main else { return Ok(()) };
        let rest = if main.path == *path { Some(b"".as_slice()) } else { main.below(&path.0) };
        let Some(rest) = rest else { return Ok(()) };
        let is_made = matches!(self.change.act, Act::Settle { .. } | Act::Restore { .. });
        if is_made && main.may_change(rest, becomes == Some(FileType::Directory)) {
            return Ok(());
        }
        let what_to_do = match rest {
            b"config" | b"config.lock" => {
                "This command writes git's configuration there, so nothing of it is kept here. Do \
                 it without: `git push` without -u, `git switch` and `git branch` with --no-track. \
                 Set an upstream in a session in the main repository"
            }
            _ => {
                "From here only git commands can change its objects, references and logs, and the \
                 worktree's own files: open a session in the main repository"
            }
        };
        let message = format!(
            "{} belongs to the main repository of this worktree. {what_to_do}",
            shown(path)
        );
        let error = failure(FileErrorKind::Protected, None, message);
        Err(FileError { about: Some(path.clone()), ..error })
    }

    /// Adds the difference of two contents to the diff.
    pub(super) fn compare(&mut self, old: Option<(&Path, &[u8])>, new: Option<(&Path, &[u8])>) {
        let limit = usize::try_from(self.change.diff).unwrap_or(0);
        if limit == 0 {
            return;
        }
        let left = limit.saturating_sub(self.diff.len());
        let name = |side: &str, file: Option<(&Path, &[u8])>| match file {
            Some((path, _)) => format!("{side}{}", String::from_utf8_lossy(&path.0)),
            None => "/dev/null".to_owned(),
        };
        let made = palisade_edits::unified(
            old.map_or(&[], |(_, content)| content),
            new.map_or(&[], |(_, content)| content),
            &name("a", old),
            &name("b", new),
            left,
        );
        self.diff.push_str(&made.text);
        self.diff_complete &= made.complete;
    }

    /// Takes the undo record, to be sent.
    pub(super) fn take_kept(&mut self) -> UndoRecord {
        std::mem::replace(&mut self.kept, UndoRecord::new(Keep::Nothing))
    }

    /// Returns how many bytes of a file are read for a diff; `None` if no diff is wanted.
    pub(super) const fn comparable(&self) -> Option<u64> {
        if self.change.diff == 0 { None } else { Some(LOOK_BYTES) }
    }

    /// Returns `true` if an undo record is to be made.
    pub(super) const fn keeps(&self) -> bool {
        matches!(self.change.keep, Keep::Sent { .. })
    }

    /// Returns the digest of the planned change.
    pub(super) fn digest(&self) -> [u8; 32] {
        self.hash.clone().finalize().into()
    }

    pub(super) fn note(&mut self, what: &[u8], path: &Path, facts: Option<ContentFacts>) {
        self.note_part(what);
        self.note_part(&path.0);
        if let Some(facts) = facts {
            self.hash.update(facts.size.to_le_bytes());
            self.hash.update(facts.mode.to_le_bytes());
            self.hash.update(facts.digest);
        }
    }

    pub(super) fn note_part(&mut self, part: &[u8]) {
        self.hash.update((part.len() as u64).to_le_bytes());
        self.hash.update(part);
    }

    pub(super) fn note_old(&mut self, old: &EntryMetadata) {
        self.hash.update(old.bytes());
    }
}

/// Appends a name to a relative path.
fn advance(way: &mut Vec<u8>, name: &[u8]) {
    if !way.is_empty() {
        way.push(b'/');
    }
    way.extend_from_slice(name);
}

/// Returns the error for a path that a call would change twice.
pub(super) fn changed_twice(path: &Path) -> FileError {
    let message = format!("{} is changed twice by one call: use two calls", shown(path));
    failure(FileErrorKind::Invalid, None, message)
}
