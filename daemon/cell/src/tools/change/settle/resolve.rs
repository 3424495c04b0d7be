//! Taking back commits that were cut off: what they replaced is in the directory in which they
//! worked, with a journal that says where it was. Room: the cell.
//!
//! Each step is taken back if it was done and what it left is there as it was left; what somebody
//! changed since stays as it is, and what it replaced is kept under a name that says so. It can be
//! cut off itself, and be begun again.

use super::{
    super::{
        act::{exchange, set_mode, set_time},
        incoming::Incoming,
        names::{is_ours, rename_new},
        seen::Seen,
        spot::{Dir, Handle, Spot, Way, look},
        told::{self, refuse_many},
        tree,
    },
    append, journal,
    staging::{JOURNAL, is_in, open},
};
use crate::{
    hidden::kind_of,
    tools::{Stop, refused, shown},
    view::View,
};
use palisade_plan::{
    Path,
    cell::FileError,
    change::{Changed, Effect, EffectKind, Prepared, Print},
    journal::{Entry, Node},
    names::Kind,
};
use rustix::{
    fs::{AtFlags, FlockOperation},
    io::Errno,
};
use sha2::{Digest as _, Sha256};
use std::{
    os::fd::{AsFd, OwnedFd},
    rc::Rc,
};

/// How many names of the workspace are looked at.
const NAMES: usize = 1_000_000;

/// A commit that was cut off, and that nobody else takes back now.
struct Cut<'a> {
    view: &'a View,
    base: Rc<Dir>,
    name: Vec<u8>,
    dir: OwnedFd,
    digest: [u8; 32],
    entries: Vec<Entry>,
}

/// How far a step had come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// It was not done, or is taken back already.
    Before,
    /// It was done.
    After,
    /// It was done, and somebody has changed something since.
    Foreign,
}

/// Says which commits were cut off, of those that were begun, and takes them back if that is the
/// answer.
pub(in super::super) fn resolve(
    incoming: &Incoming<'_>,
    view: &View,
    begun: Option<&[[u8; 32]]>,
) -> Result<(), Stop> {
    let mut cuts = find(view)?;
    cuts.retain(|cut| begun.is_none_or(|begun| begun.contains(&cut.digest)));
    let mut effects: Vec<Effect> = Vec::new();
    let mut hash = Sha256::new();
    for cut in &cuts {
        hash.update(cut.digest);
        effects.extend(cut.entries.iter().rev().filter_map(|entry| cut.effect(entry)));
    }
    let (diff, diff_complete) = (String::new(), true);
    let digest = hash.finalize().into();
    let conflicts = Vec::new();
    let prepared = Prepared { effects, digest, diff, diff_complete, conflicts };
    refuse_many(&prepared.effects, &[])?;
    incoming.channel.send_all(&told::prepared(prepared))?;
    incoming.decision()?;
    if begun.is_none() {
        cuts.retain(|cut| cut.entries.iter().all(|entry| cut.effect(entry).is_none()));
    }
    let mut changed = Changed::default();
    for cut in cuts {
        cut.take_back(&mut changed)?;
    }
    Ok(incoming.channel.send_all(&told::changed(changed))?)
}

fn find(view: &View) -> Result<Vec<Cut<'_>>, FileError> {
    let path = Path::from(&view.workspace);
    let fail = |errno| refused("look at", &path, errno);
    let base = Rc::new(Dir::open(&path.0, Way::Straight).map_err(fail)?);
    let top = open(&base, b".").map_err(fail)?;
    let mut cuts = Vec::new();
    for name in tree::entries(&top, NAMES).map_err(fail)? {
        if !is_ours(&name) {
            continue;
        }
        // What is no directory, or is in use, is none.
        let Ok(dir) = open(&base, &name) else { continue };
        if rustix::fs::flock(&dir, FlockOperation::NonBlockingLockExclusive).is_err() {
            continue;
        }
        // One that was done, or not begun, left nothing but this.
        if !is_in(&dir) {
            tree::remove(&base, &name).ok();
            continue;
        }
        if let Some((head, entries)) = journal::read(&dir) {
            let base = Rc::clone(&base);
            cuts.push(Cut { view, base, name, dir, digest: head.digest, entries });
        }
    }
    Ok(cuts)
}

fn ino(dir: impl AsFd, name: &[u8]) -> Option<u64> {
    look(dir, name).ok().flatten().map(|seen| seen.ino)
}

impl Cut<'_> {
    /// A spot of the workspace; none if a journal that somebody made up leads elsewhere, or to what
    /// no commit of the session's could have changed.
    fn spot(&self, way: &[u8]) -> Option<Spot> {
        let mut parts = way.split(|byte| *byte == b'/');
        if parts.any(|part| matches!(part, b"" | b"." | b"..")) {
            return None;
        }
        let (above, name) = match way.iter().rposition(|byte| *byte == b'/') {
            Some(slash) => (way.get(..slash)?, way.get(slash + 1..)?),
            None => (b"".as_slice(), way),
        };
        let spot = Spot { base: Rc::clone(&self.base), way: above.to_vec(), name: name.to_vec() };
        let kind = spot.look().ok().flatten().map_or(Kind::Either, |seen| kind_of(seen.kind()));
        self.view.refuse(&spot.path(), kind).is_ok().then_some(spot)
    }

    fn seen(&self, way: &[u8]) -> Option<Seen> {
        self.spot(way)?.look().ok().flatten()
    }

    /// What is in the staging directory under a name.
    fn aside(&self, name: &[u8]) -> Option<u64> {
        if name.contains(&b'/') { None } else { ino(&self.dir, name) }
    }

    /// The name under which something waits that was replaced or taken away.
    fn waits(&self, name: &[u8], old: u64) -> Option<Vec<u8>> {
        let second = [name, b".old"].concat();
        [name.to_vec(), second].into_iter().find(|name| self.aside(name) == Some(old))
    }

    fn standing(&self, entry: &Entry) -> Standing {
        match entry {
            Entry::Place { path, aside, new, old: Some(old), .. } => {
                match (self.waits(aside, *old), self.seen(path)) {
                    (None, _) => Standing::Before,
                    (Some(_), Some(now)) if is_left(&now, new) => Standing::After,
                    // Between two renames, where no file system exchanges two names.
                    (Some(name), None) if name != *aside => Standing::After,
                    (Some(_), _) => Standing::Foreign,
                }
            }
            Entry::Place { path, aside, new, old: None, .. } => {
                match (self.aside(aside), self.seen(path)) {
                    (Some(waiting), _) if waiting == new.ino => Standing::Before,
                    (_, Some(now)) if is_left(&now, new) => Standing::After,
                    (_, _) => Standing::Foreign,
                }
            }
            Entry::Take { path, kept, beside, old } => {
                match (
                    self.aside(kept) == Some(*old) || self.is_beside(path, beside, *old),
                    self.seen(path),
                ) {
                    (false, _) => Standing::Before,
                    (true, None) => Standing::After,
                    (true, Some(_)) => Standing::Foreign,
                }
            }
            Entry::Move { from, to, ino } => match (self.seen(from), self.seen(to)) {
                (Some(was), _) if was.ino == *ino => Standing::Before,
                (None, Some(now)) if now.ino == *ino => Standing::After,
                (_, _) => Standing::Foreign,
            },
            Entry::Mode { path, ino, old, new } => match self.seen(path) {
                Some(now) if now.ino == *ino && now.mode() == *old => Standing::Before,
                Some(now) if now.ino == *ino && now.mode() == *new => Standing::After,
                Some(_) | None => Standing::Foreign,
            },
            Entry::Touch { path, ino, old, new } => match self.seen(path) {
                Some(now) if now.ino == *ino && now.mtime == *old => Standing::Before,
                Some(now) if now.ino == *ino && now.mtime == *new => Standing::After,
                Some(_) | None => Standing::Foreign,
            },
            Entry::Append { path, aside, ino, old, new } => match self.spot(path) {
                Some(spot) if !aside.contains(&b'/') => {
                    append::standing(&spot, (&self.dir, aside), *ino, (old, new))
                }
                Some(_) | None => Standing::Foreign,
            },
        }
    }

    /// Whether something was taken away by another name in its own directory.
    fn is_beside(&self, path: &[u8], beside: &[u8], old: u64) -> bool {
        let Some(spot) = self.spot(path).filter(|_| is_ours(beside)) else { return false };
        spot.dir().is_ok_and(|dir| ino(&dir, beside) == Some(old))
    }

    /// What taking a step back does; none if there is nothing to take back.
    fn effect(&self, entry: &Entry) -> Option<Effect> {
        if self.standing(entry) != Standing::After {
            return None;
        }
        let (way, kind) = match entry {
            Entry::Place { path, old: Some(_), .. } | Entry::Append { path, .. } => {
                (path, EffectKind::Replaced)
            }
            Entry::Place { path, old: None, .. } => (path, EffectKind::Deleted { entries: 1 }),
            Entry::Take { path, .. } => (path, EffectKind::Created),
            Entry::Move { from, to, .. } => {
                (from, EffectKind::Moved { from: self.spot(to)?.path() })
            }
            Entry::Mode { path, .. } => (path, EffectKind::Mode),
            Entry::Touch { path, .. } => (path, EffectKind::Touched),
        };
        let now = self.seen(way);
        let print = match (&kind, &now) {
            (EffectKind::Mode | EffectKind::Touched, Some(now)) => now.node(),
            (_, _) => Print::Absent,
        };
        let size_before = now.map_or(0, |now| now.file_size());
        let path = self.spot(way)?.path();
        Some(Effect { path, kind, size_before, size_after: 0, print, replaces: None, below: None })
    }

    /// Takes all of it back, the last step first.
    fn take_back(self, changed: &mut Changed) -> Result<(), FileError> {
        let mut foreign = Vec::new();
        for entry in self.entries.iter().rev() {
            let standing = self.standing(entry);
            let effect = self.effect(entry);
            let done = match standing {
                Standing::Before => continue,
                Standing::Foreign => Err(Errno::STALE),
                Standing::After => self.undo(entry),
            };
            match (done, effect) {
                (Ok(()), Some(effect)) => changed.effects.push(effect),
                (Ok(()), None) => {}
                (Err(_), _) => {
                    foreign.push(Path([&self.base.real, b"/".as_slice(), path_of(entry)].concat()));
                }
            }
        }
        changed.resolved.push(self.digest);
        self.finish(&foreign, changed)
    }

    fn undo(&self, entry: &Entry) -> Result<(), Errno> {
        let place = |way: &[u8]| self.spot(way).ok_or(Errno::INVAL);
        match entry {
            Entry::Place { path, aside, new, old, late } => {
                let spot = place(path)?;
                self.reopen(&spot, new, late);
                let dir = spot.dir()?;
                let there = journal::node(&dir, &spot.name)?;
                match (old.and_then(|old| self.waits(aside, old)), there) {
                    (None, Some(there)) if there == *new => {
                        rename_new((&dir, &spot.name), (&self.dir, aside))
                    }
                    (Some(kept), there) if there.as_ref().is_none_or(|there| there == new) => {
                        self.swap(&kept, aside, &dir, &spot.name)
                    }
                    (_, _) => Err(Errno::STALE),
                }
            }
            Entry::Take { path, kept, beside, old } => {
                let spot = place(path)?;
                let dir = spot.dir()?;
                if self.aside(kept) == Some(*old) {
                    return rename_new((&self.dir, kept), (&dir, &spot.name));
                }
                rename_new((&dir, beside), (&dir, &spot.name))
            }
            Entry::Move { from, to, .. } => {
                let (from, to) = (place(from)?, place(to)?);
                rename_new((to.dir()?, &to.name), (from.dir()?, &from.name))
            }
            Entry::Mode { path, old, .. } => set_mode(&place(path)?.handle()?, *old),
            Entry::Touch { path, old, .. } => set_time(&place(path)?.handle()?, *old),
            Entry::Append { path, old, .. } => {
                let spot = place(path)?;
                let now = spot.look()?.ok_or(Errno::STALE)?;
                append::cut(&spot, now.id(), now.size, *old)
            }
        }
    }

    /// Gives what was replaced its name back.
    fn swap(&self, kept: &[u8], aside: &[u8], dir: &Handle<'_>, name: &[u8]) -> Result<(), Errno> {
        if kept == aside {
            return exchange((&self.dir, aside), (dir, name));
        }
        match rename_new((dir, name), (&self.dir, aside)) {
            // Nothing had the name when it was cut off.
            Ok(()) | Err(Errno::NOENT) => rename_new((&self.dir, kept), (dir, name)),
            Err(error) => Err(error),
        }
    }

    /// Makes directories that have their mode by now ones that can be moved and emptied.
    fn reopen(&self, spot: &Spot, new: &Node, late: &[(Vec<u8>, u32)]) {
        if spot.look().ok().flatten().is_some_and(|now| now.ino == new.ino) {
            for (way, mode) in late {
                // If this fails, so does taking it back, and that is told.
                let below = spot.below(way);
                below.handle().and_then(|handle| set_mode(&handle, mode | 0o700)).ok();
            }
        }
    }

    /// Lets go of what is not needed any more; keeps what has no other place.
    fn finish(self, foreign: &[Path], changed: &mut Changed) -> Result<(), FileError> {
        let path = Path([&self.base.real, b"/".as_slice(), &self.name].concat());
        let fail = |errno| refused("finish", &path, errno);
        if foreign.is_empty() {
            rustix::fs::unlinkat(&self.dir, JOURNAL, AtFlags::empty()).map_err(fail)?;
            // What can not be removed has a name that says what it is.
            tree::remove(&self.base, &self.name).ok();
            return Ok(());
        }
        let kept = String::from_utf8_lossy(&self.name).replace(".tmp", ".kept");
        rename_new((&self.base, &self.name), (&self.base, kept.as_bytes())).map_err(fail)?;
        changed.notes.extend(foreign.iter().map(|path| {
            format!(
                "{} was changed after a commit was cut off, so it stays as it is; what the commit \
                 had replaced is in {kept}",
                shown(path)
            )
        }));
        Ok(())
    }
}

/// Whether something is as it was left, as far as one look tells.
fn is_left(now: &Seen, new: &Node) -> bool {
    (now.ino, now.file_size(), now.mtime) == (new.ino, new.size, new.mtime)
}

fn path_of(entry: &Entry) -> &[u8] {
    match entry {
        Entry::Place { path, .. }
        | Entry::Take { path, .. }
        | Entry::Mode { path, .. }
        | Entry::Touch { path, .. }
        | Entry::Append { path, .. } => path,
        Entry::Move { from, .. } => from,
    }
}
