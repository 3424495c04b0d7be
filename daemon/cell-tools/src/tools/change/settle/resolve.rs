//! Rolls back commits that were interrupted. What they replaced is in their staging directory, with
//! a journal that says where it was. Runs in the cell.
//!
//! A step is rolled back if it was taken and its result is still as it left it. A path that
//! somebody changed since stays as it is, and what the step replaced is kept under a `.kept` name.
//! The rollback can be interrupted itself, and be started again.

use super::{
    super::{
        act::{exchange, set_time},
        incoming::MessageReceiver,
        names::{is_ours, rename_new},
        report::{self, refuse_many},
        spot::{Dir, DirHandle, EntryLocation, LinkHandling},
        tree,
    },
    append, journal,
    staging::{JOURNAL, is_in, open},
};
use crate::tools::{Stop, refused, shown};
use palisade_plan::{
    Path,
    cell::FileError,
    change::{Changed, Effect, EffectKind, Prepared, Print},
    evidence::Evidence,
    journal::{JournalEntry, Node},
    names::Kind,
};
use palisade_workspace::{EntryMetadata, View, kind_of, look, tree::set_mode};
use rustix::{
    fs::{AtFlags, FlockOperation},
    io::Errno,
};
use sha2::{Digest as _, Sha256};
use std::{
    os::fd::{AsFd, OwnedFd},
    rc::Rc,
};

/// The number of names of the workspace that are searched.
const NAMES: usize = 1_000_000;

/// An interrupted commit that no other process is rolling back.
struct InterruptedCommit<'a> {
    view: &'a View,
    base: Rc<Dir>,
    name: Vec<u8>,
    dir: OwnedFd,
    digest: [u8; 32],
    entries: Vec<JournalEntry>,
}

/// The progress of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StepProgress {
    /// It was not taken, or is rolled back already.
    Before,
    /// It was taken.
    After,
    /// It was taken, and the path was changed since.
    Foreign,
}

/// Reports which of the commits in `begun` were interrupted, and rolls them back if the broker says
/// so.
pub(in super::super) fn resolve(
    incoming: &MessageReceiver<'_>,
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
    let evidence = Box::<Evidence>::default();
    let prepared = Prepared { effects, digest, diff, diff_complete, conflicts, evidence };
    refuse_many(&prepared.effects, &[])?;
    incoming.channel.send_all(&report::prepared(prepared))?;
    incoming.decision()?;
    if begun.is_none() {
        cuts.retain(|cut| cut.entries.iter().all(|entry| cut.effect(entry).is_none()));
    }
    let mut changed = Changed::default();
    for cut in cuts {
        cut.roll_back(&mut changed)?;
    }
    Ok(incoming.channel.send_all(&report::changed(changed))?)
}

fn find(view: &View) -> Result<Vec<InterruptedCommit<'_>>, FileError> {
    let mut cuts = Vec::new();
    for path in view.main.iter().map(|main| &main.path).chain([&Path::from(&view.workspace)]) {
        cuts.extend(find_in(view, path)?);
    }
    Ok(cuts)
}

/// Finds the interrupted commits in one directory: the workspace, or the main repository of a linked
/// worktree.
fn find_in<'v>(view: &'v View, path: &Path) -> Result<Vec<InterruptedCommit<'v>>, FileError> {
    let fail = |errno| refused("look at", path, errno);
    let base = Rc::new(Dir::open(&path.0, LinkHandling::Straight).map_err(fail)?);
    let top = open(&base, b".").map_err(fail)?;
    let mut cuts = Vec::new();
    for name in tree::entries(&top, NAMES).map_err(fail)? {
        if !is_ours(&name) {
            continue;
        }
        // Not a directory, or in use: not an interrupted commit.
        let Ok(dir) = open(&base, &name) else { continue };
        if rustix::fs::flock(&dir, FlockOperation::NonBlockingLockExclusive).is_err() {
            continue;
        }
        // Without a journal the commit was complete, or had not begun.
        if !is_in(&dir) {
            tree::remove(&base, &name).ok();
            continue;
        }
        if let Some((head, entries)) = journal::read(&dir) {
            let base = Rc::clone(&base);
            cuts.push(InterruptedCommit { view, base, name, dir, digest: head.digest, entries });
        }
    }
    Ok(cuts)
}

fn ino(dir: impl AsFd, name: &[u8]) -> Option<u64> {
    look(dir, name).ok().flatten().map(|seen| seen.ino)
}

impl InterruptedCommit<'_> {
    /// Returns a spot of the workspace. `None` if the path of a forged journal leads elsewhere, or
    /// to something that no commit of the session could have changed.
    fn spot(&self, way: &[u8]) -> Option<EntryLocation> {
        let mut parts = way.split(|byte| *byte == b'/');
        if parts.any(|part| matches!(part, b"" | b"." | b"..")) {
            return None;
        }
        let (above, name) = match way.iter().rposition(|byte| *byte == b'/') {
            Some(slash) => (way.get(..slash)?, way.get(slash + 1..)?),
            None => (b"".as_slice(), way),
        };
        let spot =
            EntryLocation { base: Rc::clone(&self.base), way: above.to_vec(), name: name.to_vec() };
        let kind = spot.look().ok().flatten().map_or(Kind::Either, |seen| kind_of(seen.kind()));
        self.view.refuse(&spot.path(), kind).is_ok().then_some(spot)
    }

    fn seen(&self, way: &[u8]) -> Option<EntryMetadata> {
        self.spot(way)?.look().ok().flatten()
    }

    /// Returns the inode of a name in the staging directory.
    fn staged_inode(&self, name: &[u8]) -> Option<u64> {
        if name.contains(&b'/') { None } else { ino(&self.dir, name) }
    }

    /// Returns the name in the staging directory of an entry that was replaced or deleted.
    fn staged_name(&self, name: &[u8], old: u64) -> Option<Vec<u8>> {
        let second = [name, b".old"].concat();
        [name.to_vec(), second].into_iter().find(|name| self.staged_inode(name) == Some(old))
    }

    fn progress(&self, entry: &JournalEntry) -> StepProgress {
        match entry {
            JournalEntry::Place { path, aside, new, old: Some(old), .. } => {
                match (self.staged_name(aside, *old), self.seen(path)) {
                    (None, _) => StepProgress::Before,
                    (Some(_), Some(now)) if is_left(&now, new) => StepProgress::After,
                    // Interrupted between two renames, on a file system that can not exchange two
                    // names.
                    (Some(name), None) if name != *aside => StepProgress::After,
                    (Some(_), _) => StepProgress::Foreign,
                }
            }
            JournalEntry::Place { path, aside, new, old: None, .. } => {
                match (self.staged_inode(aside), self.seen(path)) {
                    (Some(waiting), _) if waiting == new.ino => StepProgress::Before,
                    (_, Some(now)) if is_left(&now, new) => StepProgress::After,
                    (_, _) => StepProgress::Foreign,
                }
            }
            JournalEntry::Take { path, kept, beside, old } => {
                match (
                    self.staged_inode(kept) == Some(*old) || self.is_beside(path, beside, *old),
                    self.seen(path),
                ) {
                    (false, _) => StepProgress::Before,
                    (true, None) => StepProgress::After,
                    (true, Some(_)) => StepProgress::Foreign,
                }
            }
            JournalEntry::Move { from, to, ino } => match (self.seen(from), self.seen(to)) {
                (Some(was), _) if was.ino == *ino => StepProgress::Before,
                (None, Some(now)) if now.ino == *ino => StepProgress::After,
                (_, _) => StepProgress::Foreign,
            },
            JournalEntry::Mode { path, ino, old, new } => match self.seen(path) {
                Some(now) if now.ino == *ino && now.mode() == *old => StepProgress::Before,
                Some(now) if now.ino == *ino && now.mode() == *new => StepProgress::After,
                Some(_) | None => StepProgress::Foreign,
            },
            JournalEntry::Touch { path, ino, old, new } => match self.seen(path) {
                Some(now) if now.ino == *ino && now.mtime == *old => StepProgress::Before,
                Some(now) if now.ino == *ino && now.mtime == *new => StepProgress::After,
                Some(_) | None => StepProgress::Foreign,
            },
            JournalEntry::Append { path, aside, ino, old, new } => match self.spot(path) {
                Some(spot) if !aside.contains(&b'/') => {
                    append::standing(&spot, (&self.dir, aside), *ino, (old, new))
                }
                Some(_) | None => StepProgress::Foreign,
            },
        }
    }

    /// Returns `true` if an entry was deleted by renaming it in its own directory.
    fn is_beside(&self, path: &[u8], beside: &[u8], old: u64) -> bool {
        let Some(spot) = self.spot(path).filter(|_| is_ours(beside)) else { return false };
        spot.dir().is_ok_and(|dir| ino(&dir, beside) == Some(old))
    }

    /// Returns the effect of rolling a step back; `None` if there is nothing to roll back.
    fn effect(&self, entry: &JournalEntry) -> Option<Effect> {
        if self.progress(entry) != StepProgress::After {
            return None;
        }
        let (way, kind) = match entry {
            JournalEntry::Place { path, old: Some(_), .. } | JournalEntry::Append { path, .. } => {
                (path, EffectKind::Replaced)
            }
            JournalEntry::Place { path, old: None, .. } => {
                (path, EffectKind::Deleted { entries: 1 })
            }
            JournalEntry::Take { path, .. } => (path, EffectKind::Created),
            JournalEntry::Move { from, to, .. } => {
                (from, EffectKind::Moved { from: self.spot(to)?.path() })
            }
            JournalEntry::Mode { path, .. } => (path, EffectKind::Mode),
            JournalEntry::Touch { path, .. } => (path, EffectKind::Touched),
        };
        let now = self.seen(way);
        let print = match (&kind, &now) {
            (EffectKind::Mode | EffectKind::Touched, Some(now)) => now.node(),
            (_, _) => Print::Absent,
        };
        let size_before = now.map_or(0, |now| now.file_size());
        let path = self.spot(way)?.path();
        Some(Effect { path, kind, size_before, size_after: 0, print, replaces: None })
    }

    /// Rolls all steps back, last one first.
    fn roll_back(self, changed: &mut Changed) -> Result<(), FileError> {
        let mut foreign = Vec::new();
        for entry in self.entries.iter().rev() {
            let standing = self.progress(entry);
            let effect = self.effect(entry);
            let done = match standing {
                StepProgress::Before => continue,
                StepProgress::Foreign => Err(Errno::STALE),
                StepProgress::After => self.undo(entry),
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

    fn undo(&self, entry: &JournalEntry) -> Result<(), Errno> {
        let place = |way: &[u8]| self.spot(way).ok_or(Errno::INVAL);
        match entry {
            JournalEntry::Place { path, aside, new, old, late } => {
                let spot = place(path)?;
                self.reopen(&spot, new, late);
                let dir = spot.dir()?;
                let there = journal::node(&dir, &spot.name)?;
                match (old.and_then(|old| self.staged_name(aside, old)), there) {
                    (None, Some(there)) if there == *new => {
                        rename_new((&dir, &spot.name), (&self.dir, aside))
                    }
                    (Some(kept), there) if there.as_ref().is_none_or(|there| there == new) => {
                        self.swap(&kept, aside, &dir, &spot.name)
                    }
                    (_, _) => Err(Errno::STALE),
                }
            }
            JournalEntry::Take { path, kept, beside, old } => {
                let spot = place(path)?;
                let dir = spot.dir()?;
                if self.staged_inode(kept) == Some(*old) {
                    return rename_new((&self.dir, kept), (&dir, &spot.name));
                }
                rename_new((&dir, beside), (&dir, &spot.name))
            }
            JournalEntry::Move { from, to, .. } => {
                let (from, to) = (place(from)?, place(to)?);
                rename_new((to.dir()?, &to.name), (from.dir()?, &from.name))
            }
            JournalEntry::Mode { path, old, .. } => set_mode(&place(path)?.handle()?, *old),
            JournalEntry::Touch { path, old, .. } => set_time(&place(path)?.handle()?, *old),
            JournalEntry::Append { path, old, .. } => {
                let spot = place(path)?;
                let now = spot.look()?.ok_or(Errno::STALE)?;
                append::cut(&spot, now.id(), now.size, *old)
            }
        }
    }

    /// Puts a replaced entry back at its name.
    fn swap(
        &self,
        kept: &[u8],
        aside: &[u8],
        dir: &DirHandle<'_>,
        name: &[u8],
    ) -> Result<(), Errno> {
        if kept == aside {
            return exchange((&self.dir, aside), (dir, name));
        }
        match rename_new((dir, name), (&self.dir, aside)) {
            // The name was free when the commit was interrupted.
            Ok(()) | Err(Errno::NOENT) => rename_new((&self.dir, kept), (dir, name)),
            Err(error) => Err(error),
        }
    }

    /// Makes directories that already have their final mode writable again, so that they can be
    /// moved and emptied.
    fn reopen(&self, spot: &EntryLocation, new: &Node, late: &[(Vec<u8>, u32)]) {
        if spot.look().ok().flatten().is_some_and(|now| now.ino == new.ino) {
            for (way, mode) in late {
                // If this fails, so does the rollback, and that is reported.
                let below = spot.below(way);
                below.handle().and_then(|handle| set_mode(&handle, mode | 0o700)).ok();
            }
        }
    }

    /// Deletes the staging directory, or keeps it if it holds the only copy of something.
    fn finish(self, foreign: &[Path], changed: &mut Changed) -> Result<(), FileError> {
        let path = Path([&self.base.real, b"/".as_slice(), &self.name].concat());
        let fail = |errno| refused("finish", &path, errno);
        if foreign.is_empty() {
            rustix::fs::unlinkat(&self.dir, JOURNAL, AtFlags::empty()).map_err(fail)?;
            // If it can not be deleted, its name says what it is.
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

/// Returns `true` if an entry is as the step left it, judged by its metadata.
fn is_left(now: &EntryMetadata, new: &Node) -> bool {
    (now.ino, now.file_size(), now.mtime) == (new.ino, new.size, new.mtime)
}

fn path_of(entry: &JournalEntry) -> &[u8] {
    match entry {
        JournalEntry::Place { path, .. }
        | JournalEntry::Take { path, .. }
        | JournalEntry::Mode { path, .. }
        | JournalEntry::Touch { path, .. }
        | JournalEntry::Append { path, .. } => path,
        JournalEntry::Move { from, .. } => from,
    }
}
