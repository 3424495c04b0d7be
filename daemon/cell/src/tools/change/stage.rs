//! A change while it is worked out: what is where, what will be where, and the steps from one to
//! the other. Nothing that anybody sees is changed by it. Room: the cell.

use super::{
    fresh::{Facts, Fresh, Like},
    keep::Kept,
    seen::Seen,
    settle::staging::Staging,
    spot::{Dir, Spot, Way},
    step::Step,
};
use crate::{
    hidden::kind_of,
    tools::{failure, invalid, refused, shown, split},
    view::View,
};
use palisade_plan::{
    Path,
    cell::{FileError, FileErrorKind, LOOK_BYTES},
    change::{Act, Before, Change, Conflict, Effect, EffectKind, Keep, Print, State, Version},
    names::Kind,
};
use rustix::{fs::FileType, io::Errno};
use sha2::{Digest as _, Sha256};
use std::{
    collections::{HashMap, HashSet},
    fs::File,
    os::unix::ffi::OsStrExt as _,
    rc::Rc,
};

/// How many files are held open; the content of more has a name while it waits.
pub(super) const MOST_OPEN: usize = 128;

/// The most directories that are held open; others of the workspace are opened from its top each time.
const MOST_DIRECTORIES: usize = 256;

/// The most files that are told of with their directories.
const MOST_BELOW: usize = 16_384;

/// What is at a spot when the steps so far are done.
#[derive(Debug, Clone, Copy)]
pub(super) enum Node {
    /// Nothing.
    Absent,
    /// What is there now.
    There(Seen),
    /// What a step puts there.
    Planned(FileType),
}

/// A change that is being worked out.
#[derive(Debug)]
pub(super) struct Stage<'a> {
    pub(super) change: &'a Change,
    pub(super) view: &'a View,
    pub(super) workspace: &'a std::path::Path,
    dirs: HashMap<Vec<u8>, Rc<Dir>>,
    pub(super) planned: HashMap<Vec<u8>, Option<FileType>>,
    /// What is taken away, perhaps for a directory with other things in it.
    pub(super) emptied: HashSet<Vec<u8>>,
    /// What gets another name: where it is now.
    pub(super) moved: HashMap<Vec<u8>, (Spot, Seen)>,
    /// What was found where, at the first look.
    pub(super) found: Vec<(Spot, Option<Seen>)>,
    pub(super) steps: Vec<Step>,
    /// Where a transaction's commit works.
    pub(super) staging: Option<Rc<Staging>>,
    pub(super) effects: Vec<Effect>,
    pub(super) kept: Kept,
    pub(super) hash: Sha256,
    pub(super) diff: String,
    pub(super) diff_complete: bool,
    /// What somebody else changed as well.
    pub(super) conflicts: Vec<Conflict>,
    pub(super) open: usize,
    /// How many files are told of that go with their directories.
    below: usize,
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
            staging: None,
            effects: Vec::new(),
            kept: Kept::new(change.keep),
            hash: Sha256::new(),
            diff: String::new(),
            diff_complete: true,
            conflicts: Vec::new(),
            open: 0,
            below: 0,
        }
    }

    /// The spot of a path's last name; `path` has one. Directories of it that are missing are
    /// those to be made.
    pub(super) fn spot(&mut self, path: &Path, way: Way) -> Result<Spot, FileError> {
        let refuse = |error| refused("open the directory of", path, error);
        let (mut above, name) = split(&path.0);
        if way == Way::Straight && self.dirs.len() >= MOST_DIRECTORIES {
            let top = self.workspace.as_os_str().as_bytes();
            let rest = above.strip_prefix(top).filter(|rest| rest.is_empty() || rest[0] == b'/');
            if let Some(rest) = rest.filter(|_| !self.dirs.contains_key(above)) {
                let base = self.dir(top, way).map_err(refuse)?;
                let way = rest.strip_prefix(b"/").unwrap_or(rest).to_vec();
                return Ok(Spot { base, way, name: name.to_vec() });
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
        Ok(Spot { base, way: missing.join(&b'/'), name: name.to_vec() })
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

    fn dir(&mut self, path: &[u8], way: Way) -> Result<Rc<Dir>, Errno> {
        // What a step makes or takes away is not what is there now.
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

    /// Takes a directory that a link led to.
    pub(super) fn adopt(&mut self, dir: Dir) -> Rc<Dir> {
        let dir = Rc::new(dir);
        Rc::clone(self.dirs.entry(dir.real.clone()).or_insert(dir))
    }

    /// The directories that are held.
    pub(super) fn directories(&self) -> impl Iterator<Item = &Rc<Dir>> {
        self.dirs.values()
    }

    /// What is at a spot when the steps so far are done.
    pub(super) fn look(&mut self, spot: &Spot) -> Result<Node, FileError> {
        let path = spot.path();
        if let Some(planned) = self.planned.get(&path.0) {
            return Ok(planned.map_or(Node::Absent, Node::Planned));
        }
        if self.view.hides(&path, Kind::Either) && self.is_hidden(spot) {
            return Ok(Node::Absent);
        }
        let mut above = split(&path.0).0;
        // The root is above itself.
        while above.len() > spot.base.real.len().max(1) {
            if self.emptied.contains(above) {
                return Ok(Node::Absent);
            }
            above = split(above).0;
        }
        let found = match spot.look() {
            // On the way is something that is no directory yet.
            Err(Errno::NOTDIR) if !spot.way.is_empty() => None,
            // A link that leads nowhere.
            Err(Errno::LOOP) if !spot.way.is_empty() => {
                return Err(refused("open the directory of", &path, Errno::NOTDIR));
            }
            found => found.map_err(|e| refused("look at", &path, e))?,
        };
        self.found.push((spot.clone(), found));
        Ok(found.map_or(Node::Absent, Node::There))
    }

    /// Whether what is at a spot is hidden, which may depend on what it is.
    fn is_hidden(&self, spot: &Spot) -> bool {
        let found = spot.look().ok().flatten();
        let kind = found.map_or(Kind::Either, |seen| kind_of(seen.kind()));
        self.view.hides(&spot.path(), kind)
    }

    /// Makes the directories on the way to a spot that are not there yet.
    pub(super) fn parents(&mut self, spot: &Spot) -> Result<(), FileError> {
        let (mut way, mut rest) = (Vec::new(), spot.way.as_slice());
        while !rest.is_empty() {
            let end = rest.iter().position(|byte| *byte == b'/').unwrap_or(rest.len());
            let (name, tail) = rest.split_at(end);
            let dir = Spot { base: Rc::clone(&spot.base), way: way.clone(), name: name.to_vec() };
            let there = dir.look().ok().flatten().filter(|_| !self.is_removed(&dir.path()));
            if there.is_some_and(|there| there.kind() == FileType::Directory) {
                advance(&mut way, name);
                rest = tail.strip_prefix(b"/").unwrap_or(tail);
                continue;
            }
            match self.look(&dir)? {
                Node::Planned(FileType::Directory) => {}
                Node::Absent => self.make_dir(&dir, None)?,
                Node::There(_) | Node::Planned(_) => {
                    return Err(refused("make the directory of", &spot.path(), Errno::NOTDIR));
                }
            }
            advance(&mut way, name);
            rest = tail.strip_prefix(b"/").unwrap_or(tail);
        }
        Ok(())
    }

    /// Begins the content of a file at a spot.
    pub(super) fn fresh(&mut self, spot: &Spot, like: Like) -> Result<Fresh, FileError> {
        let begin = if self.open < MOST_OPEN { Fresh::new } else { Fresh::named };
        self.open += 1;
        begin(&spot.base, like).map_err(|e| refused("write", &spot.path(), e))
    }

    /// Whether a name is taken away or made by a step so far.
    pub(super) fn is_removed(&self, path: &Path) -> bool {
        self.planned.get(&path.0) == Some(&None)
    }

    /// Says what happens to a path.
    pub(super) fn effect(
        &mut self,
        path: Path,
        kind: EffectKind,
        sizes: (u64, u64),
        print: Print,
        replaces: Option<&Seen>,
    ) {
        let (size_before, size_after) = sizes;
        let replaces = replaces.map(Seen::version);
        let below = None;
        self.effects.push(Effect { path, kind, size_before, size_after, print, replaces, below });
    }

    /// Says of the last effect which files went with it.
    pub(super) fn below(&mut self, files: Option<Vec<Version>>) {
        let told = self.below + files.as_ref().map_or(0, Vec::len);
        if let Some(last) = self.effects.last_mut().filter(|_| told <= MOST_BELOW) {
            last.below = files;
            self.below = told;
        }
    }

    /// Keeps what is at a spot, to be sent.
    pub(super) fn keep_seen(&mut self, spot: &Spot, seen: &Seen) -> Result<(), FileError> {
        let undone = matches!(self.change.act, Act::Restore { .. });
        if undone && seen.kind() == FileType::RegularFile && seen.is_closed() {
            // A call that is undone may have left what nobody can read, and so not be kept either.
            return self.keep(Before::State { path: spot.path(), state: State::Other });
        }
        self.kept.spot(spot, seen, None)
    }

    /// The same with a descriptor to read it from.
    pub(super) fn keep_open(&mut self, path: &Path, file: File) {
        self.kept.source(path, file);
    }

    pub(super) fn keep(&mut self, before: Before) -> Result<(), FileError> {
        self.kept.before(before)
    }

    pub(super) fn refuse_workspace(&self, path: &Path, seen: &Seen) -> Result<(), FileError> {
        let is_above = self.workspace.starts_with(path.as_path());
        // By inode: another way to the same directory has another text.
        let same = |above: &std::path::Path| {
            rustix::fs::stat(above).is_ok_and(|above| Seen::from(&above).id() == seen.id())
        };
        let holds = seen.kind() == FileType::Directory && self.workspace.ancestors().any(same);
        if is_above || holds {
            let why = "it is the workspace, or holds it, and that is never deleted or moved";
            return Err(invalid(path, why));
        }
        Ok(())
    }

    /// Adds the difference of two contents.
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

    /// Takes what is to be sent.
    pub(super) fn take_kept(&mut self) -> Kept {
        std::mem::replace(&mut self.kept, Kept::new(Keep::Nothing))
    }

    /// How much of a file is read for a diff; none if none is wanted.
    pub(super) const fn comparable(&self) -> Option<u64> {
        if self.change.diff == 0 { None } else { Some(LOOK_BYTES) }
    }

    /// Whether anything is to be kept.
    pub(super) const fn keeps(&self) -> bool {
        matches!(self.change.keep, Keep::Sent { .. })
    }

    /// The digest over all of it.
    pub(super) fn digest(&self) -> [u8; 32] {
        self.hash.clone().finalize().into()
    }

    pub(super) fn note(&mut self, what: &[u8], path: &Path, facts: Option<Facts>) {
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

    pub(super) fn note_old(&mut self, old: &Seen) {
        self.hash.update(old.bytes());
    }
}

/// Adds a name to a way.
fn advance(way: &mut Vec<u8>, name: &[u8]) {
    if !way.is_empty() {
        way.push(b'/');
    }
    way.extend_from_slice(name);
}

/// The error for a path that a change would change twice.
pub(super) fn twice(path: &Path) -> FileError {
    let message = format!("{} is changed twice by one call: make two of it", shown(path));
    failure(FileErrorKind::Invalid, None, message)
}
