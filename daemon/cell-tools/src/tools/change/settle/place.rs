//! Plans the single changes that the program made. Runs in the cell.

use super::{
    super::{
        act::DeletedContents,
        delete::{gather, gone},
        evidence::{LostEntry, NameEvidence},
        fresh::ContentFacts,
        names::random_name,
        plan::ModeTarget,
        print,
        spot::EntryLocation,
        stage::PlannedState,
        step::Step,
        target::{may_change, refuse_ours},
    },
    compare::{Attributes, compare, contested},
    content::{self, ContentComparison},
    copy::CommitSource,
    earlier::changed_outside,
    emit::CommitPlanner,
    found::{LayerChange, is_special},
    whole,
};
use crate::tools::{Stop, go_on, refused};
use palisade_plan::{
    Path,
    cell::FileError,
    change::{Before, EffectKind, Print, State},
};
use palisade_workspace::{EntryMetadata, kind_of};
use rustix::{
    fs::{AtFlags, FileType},
    io::Errno,
};
use std::{
    os::{fd::OwnedFd, unix::ffi::OsStrExt as _},
    rc::Rc,
};

/// The mode bits that the owner of a directory needs to read its contents.
const READABLE: u32 = 0o500;

/// The maximum number of FIFOs and devices in a new directory that are reported one by one.
const MOST_SPECIALS: usize = 64;

/// An entry that the program left, with its print and size.
struct PlannedEntry {
    print: Print,
    bytes: u64,
    source: CommitSource,
}

impl CommitPlanner<'_, '_> {
    /// Refuses to replace an entry that was changed from outside while the program ran, or reports
    /// a conflict.
    fn unchanged(
        &mut self,
        path: &Path,
        old: &EntryMetadata,
        new: Option<&EntryMetadata>,
    ) -> Result<(), FileError> {
        if !changed_outside(self.layers, path, old) {
            return Ok(());
        }
        contested(self.stage, path, Some(old), new)
    }

    /// Opens the directory of a spot in the upper layer.
    fn upper(&self, spot: &EntryLocation) -> Result<OwnedFd, FileError> {
        self.upper.directory(&spot.way).map_err(|e| refused("read", &spot.path(), e))
    }

    /// Adds an effect that is only reported, not committed.
    pub(super) fn special(&mut self, path: Path) {
        self.stage.note(b"special", &path, None);
        self.stage.effect(path, EffectKind::Special, (0, 0), Print::Absent, None);
    }

    /// Plans a new file, link, or directory with everything in it.
    pub(super) fn new_one(
        &mut self,
        spot: &EntryLocation,
        new: &EntryMetadata,
    ) -> Result<(), Stop> {
        self.stage.found.push((spot.clone(), None));
        let made = self.made(spot, new, None)?;
        self.put(spot, new, made, None)
    }

    /// Plans an entry at a name whose old entry, if any, is in the undo record already.
    fn put(
        &mut self,
        spot: &EntryLocation,
        new: &EntryMetadata,
        made: PlannedEntry,
        old: Option<(EntryMetadata, DeletedContents)>,
    ) -> Result<(), Stop> {
        let path = spot.path();
        self.stage.keep(Before::State { path: path.clone(), state: State::Absent })?;
        let sizes = (0, made.bytes);
        self.stage.effect(path, EffectKind::Created, sizes, made.print, None);
        Ok(self.place(spot, new.kind(), made.source, old)?)
    }

    fn place(
        &mut self,
        spot: &EntryLocation,
        kind: FileType,
        source: CommitSource,
        old: Option<(EntryMetadata, DeletedContents)>,
    ) -> Result<(), FileError> {
        may_change(&spot.path(), "write", spot)?;
        let (source, staging) = (Box::new(source), Rc::clone(&self.staging));
        let step = Step::Place { spot: spot.clone(), source, staging, old };
        self.stage.plan(spot.path(), Some(kind), step)
    }

    /// Reads an entry that the program left, and adds all of it to the digest.
    fn made(
        &mut self,
        spot: &EntryLocation,
        new: &EntryMetadata,
        old: Option<&EntryMetadata>,
    ) -> Result<PlannedEntry, Stop> {
        let path = spot.path();
        refuse_ours(&path, spot)?;
        let dir = self.upper(spot)?;
        let (print, bytes) = match new.kind() {
            FileType::Directory => {
                let (channel, sizes) = (self.channel, &mut self.sizes);
                let (view, layer) = (self.stage.view, Rc::clone(&self.upper));
                let top = self.stage.workspace.as_os_str().as_bytes();
                let (mut specials, mut noticed) = (Vec::new(), NameEvidence::default());
                let measure =
                    whole::measure(&dir, &spot.name, &path, Some(&layer), |path, kind, size| {
                        go_on(channel)?;
                        view.refuse(path, kind_of(kind))?;
                        noticed.look(path, kind, top);
                        if is_special(kind) && specials.len() < MOST_SPECIALS {
                            specials.push(path.clone());
                        }
                        if kind == FileType::RegularFile {
                            sizes.add(size)?;
                        }
                        Ok::<_, Stop>(())
                    })?;
                self.stage.noticed.extend(noticed);
                specials.into_iter().for_each(|path| self.special(path));
                self.stage.note(b"tree", &path, None);
                self.stage.note_part(&measure.digest);
                self.stage.diff_complete &= self.stage.change.diff == 0 || measure.bytes == 0;
                (measure.print(), measure.bytes)
            }
            FileType::Symlink => {
                let target = link(&dir, &spot.name).map_err(|e| refused("read", &path, e))?;
                self.stage.note(b"link", &path, None);
                self.stage.note_part(&target);
                (Print::Symlink { target: Path(target) }, 0)
            }
            FileType::RegularFile
            | FileType::Fifo
            | FileType::Socket
            | FileType::CharacterDevice
            | FileType::BlockDevice
            | FileType::Unknown => {
                self.sizes.add(new.size)?;
                let compared = compare(self.stage, spot, (&dir, new), None)?;
                self.note_file(&path, new, compared.digest);
                (Print::File { mode: new.mode(), digest: compared.digest }, new.size)
            }
        };
        let source = self.source(spot, print.clone(), old);
        Ok(PlannedEntry { print, bytes, source })
    }

    pub(super) fn source(
        &self,
        spot: &EntryLocation,
        shown: Print,
        old: Option<&EntryMetadata>,
    ) -> CommitSource {
        let owner = old.filter(|old| old.kind() == FileType::RegularFile).map(|old| old.owner);
        let (layer, way) = (Rc::clone(&self.upper), spot.way.clone());
        let (name, aside) = (spot.name.clone(), self.staging.name());
        CommitSource { layer, way, name, path: spot.path(), shown, aside, owner, late: Vec::new() }
    }

    pub(super) fn note_file(&mut self, path: &Path, new: &EntryMetadata, digest: [u8; 32]) {
        let facts = ContentFacts { size: new.size, mode: new.mode(), digest };
        self.stage.note(b"put", path, Some(facts));
        self.stage.note_part(&new.mtime.0.to_le_bytes());
        self.stage.note_part(&new.mtime.1.to_le_bytes());
    }

    /// Plans an entry that replaces another one.
    pub(super) fn other(
        &mut self,
        spot: &EntryLocation,
        old: &EntryMetadata,
        new: &EntryMetadata,
    ) -> Result<(), Stop> {
        match (old.kind(), new.kind()) {
            (FileType::RegularFile, FileType::RegularFile) => Ok(self.file(spot, old, new)?),
            (FileType::Symlink, FileType::Symlink) => self.relink(spot, old, new),
            (_, _) => self.another(spot, old, new),
        }
    }

    /// Plans an entry that replaces one of another type.
    fn another(
        &mut self,
        spot: &EntryLocation,
        old: &EntryMetadata,
        new: &EntryMetadata,
    ) -> Result<(), Stop> {
        let path = spot.path();
        self.unchanged(&path, old, Some(new))?;
        self.stage.found.push((spot.clone(), Some(*old)));
        let below = self.losing(spot, old)?;
        let made = self.made(spot, new, Some(old))?;
        self.put(spot, new, made, Some((*old, below)))
    }

    /// Adds the entry at a spot to the undo record, and adds the effect of its loss.
    fn losing(
        &mut self,
        spot: &EntryLocation,
        old: &EntryMetadata,
    ) -> Result<DeletedContents, Stop> {
        let path = spot.path();
        self.stage.note(b"remove", &path, None);
        self.stage.note_old(old);
        if old.kind() != FileType::Directory {
            self.stage.keep_seen(spot, old)?;
            self.stage.lose(spot, old);
            gone(self.stage, spot, old, 1);
            return Ok(DeletedContents::Nothing);
        }
        let layers = self.layers;
        let is_changed = |path: &Path, seen: &EntryMetadata| changed_outside(layers, path, seen);
        let mut gathered = gather(self.stage, self.channel, spot, is_changed)?;
        if gathered.is_changed {
            contested(self.stage, &path, Some(old), None)?;
        }
        self.stage.note_part(&gathered.print);
        gone(self.stage, spot, old, gathered.entries);
        self.stage.lose_tree(spot, old, &mut gathered);
        Ok(DeletedContents::Tree(gathered.print))
    }

    /// Plans a regular file that replaces a regular file.
    fn file(
        &mut self,
        spot: &EntryLocation,
        old: &EntryMetadata,
        new: &EntryMetadata,
    ) -> Result<(), FileError> {
        let path = spot.path();
        self.sizes.add(new.size)?;
        let dir = self.upper(spot)?;
        let compared = compare(self.stage, spot, (&dir, new), Some(old))?;
        let digest = compared.digest;
        let print = Print::File { mode: new.mode(), digest };
        let kind = match (compared.likeness, compared.attributes) {
            (ContentComparison::Same, Attributes::Same) => {
                return self.same(spot, old, new, digest);
            }
            // What nobody can read any more is lost, whatever else the program did to the file.
            _ if new.is_closed() && !old.is_closed() => EffectKind::Replaced,
            (ContentComparison::Same, Attributes::Other | Attributes::Lost) => EffectKind::Touched,
            (ContentComparison::Longer, _) => EffectKind::Appended,
            (ContentComparison::Other, _) => EffectKind::Replaced,
        };
        refuse_ours(&path, spot)?;
        let same = compared.attributes == Attributes::Same;
        if kind == EffectKind::Appended && same && self.can_append(spot, old, new) {
            return self.append(spot, old, new, &compared);
        }
        self.unchanged(&path, old, Some(new))?;
        self.stage.found.push((spot.clone(), Some(*old)));
        self.note_file(&path, new, digest);
        self.stage.note_old(old);
        self.stage.keep_seen(spot, old)?;
        if matches!(kind, EffectKind::Replaced | EffectKind::Appended) {
            self.stage.lose(spot, old);
        }
        if compared.attributes == Attributes::Lost || compared.bound_list {
            self.stage.lost.push(LostEntry { attributes: true, ..LostEntry::new(spot, old) });
        }
        let source = self.source(spot, print.clone(), Some(old));
        self.stage.effect(path, kind, (old.size, new.size), print, Some(old));
        self.place(spot, FileType::RegularFile, source, Some((*old, DeletedContents::Nothing)))
    }

    /// Plans a file whose content is unchanged.
    fn same(
        &mut self,
        spot: &EntryLocation,
        old: &EntryMetadata,
        new: &EntryMetadata,
        digest: [u8; 32],
    ) -> Result<(), FileError> {
        let sizes = (old.size, new.size);
        let path = spot.path();
        let print = match new.is_closed() {
            // Nobody can read it later, so its print does not use the content.
            true => Print::Node { dev: old.dev, ino: old.ino, size: old.size, mtime: new.mtime },
            false => Print::File { mode: new.mode(), digest },
        };
        let (mode, time) = (new.mode() != old.mode(), new.mtime != old.mtime);
        // Git rewrites its configuration as it was, for example when it deletes a branch.
        let is_fixed = || self.stage.refuse_repository(&path, Some(new.kind())).is_err();
        if !mode && (!time || is_fixed()) {
            return Ok(());
        }
        self.unchanged(&path, old, Some(new))?;
        self.stage.found.push((spot.clone(), Some(*old)));
        if mode {
            if new.is_closed() {
                self.stage.lose(spot, old);
            }
            self.stage.mode(spot, *old, new.mode(), ModeTarget::Content(Some(digest)))?;
            self.stage.effect(path.clone(), EffectKind::Mode, sizes, print.clone(), Some(old));
        }
        if time {
            if !mode {
                self.stage.effect(path.clone(), EffectKind::Touched, sizes, print, Some(old));
            }
            self.stage.note(b"time", &path, None);
            self.stage.note_part(&new.mtime.0.to_le_bytes());
            self.stage.note_part(&new.mtime.1.to_le_bytes());
            // Set last: another name of the same file may be deleted, or get another time.
            let step = Step::Touch { spot: spot.clone(), old: *old, mtime: new.mtime };
            self.times.insert(old.id(), (path, step));
        }
        Ok(())
    }

    /// Plans a link that replaces a link.
    fn relink(
        &mut self,
        spot: &EntryLocation,
        old: &EntryMetadata,
        new: &EntryMetadata,
    ) -> Result<(), Stop> {
        let path = spot.path();
        let fail = |e| refused("read the link", &path, e);
        let was = spot.link().map_err(fail)?;
        if link(&self.upper(spot)?, &spot.name).map_err(fail)? == was {
            return Ok(());
        }
        self.unchanged(&path, old, Some(new))?;
        self.stage.found.push((spot.clone(), Some(*old)));
        let made = self.made(spot, new, None)?;
        self.stage.note_old(old);
        self.stage.keep_seen(spot, old)?;
        self.stage.lose(spot, old);
        self.stage.effect(path, EffectKind::Replaced, (0, 0), made.print, Some(old));
        Ok(self.place(
            spot,
            FileType::Symlink,
            made.source,
            Some((*old, DeletedContents::Nothing)),
        )?)
    }

    /// Plans the new mode of a directory.
    pub(super) fn mode(
        &mut self,
        spot: &EntryLocation,
        old: &EntryMetadata,
        mode: u32,
    ) -> Result<(), FileError> {
        self.unchanged(&spot.path(), old, Some(old))?;
        if old.mode() & READABLE == READABLE && mode & READABLE != READABLE {
            // Nobody can read its contents any more.
            self.stage.lost.push(LostEntry { entries: Some(1), ..LostEntry::new(spot, old) });
        }
        self.stage.mode(spot, *old, mode, ModeTarget::Directory)?;
        self.stage.effect(spot.path(), EffectKind::Mode, (0, 0), Print::Directory, Some(old));
        Ok(())
    }

    /// Returns `true` if a deleted file has the same content as a new one.
    pub(super) fn is_same(&self, was: &LayerChange, is: &LayerChange) -> bool {
        let (Some(old), Some(new)) = (&was.lower, &is.upper) else { return false };
        let Some(before) = print::digest(&was.spot, old, u64::MAX) else { return false };
        let now = self.upper(&is.spot).ok().and_then(|dir| {
            let file = content::open_file(&dir, &is.spot.name, new).ok()?;
            Some(content::digest(&file, new.size, None).ok()?.0.whole)
        });
        now == Some(before)
    }

    /// Plans a file that was moved.
    pub(super) fn moved(
        &mut self,
        was: &LayerChange,
        to: &EntryLocation,
        new: &EntryMetadata,
    ) -> Result<(), Stop> {
        let Some(old) = &was.lower else { return self.new_one(to, new) };
        let (from, path) = (was.spot.path(), to.path());
        refuse_ours(&path, to)?;
        self.unchanged(&from, old, Some(new))?;
        may_change(&from, "move", &was.spot)?;
        may_change(&path, "move to", to)?;
        self.stage.found.push((was.spot.clone(), Some(*old)));
        self.stage.found.push((to.clone(), None));
        let print = print::print(&was.spot, old);
        self.stage.rename(&was.spot, PlannedState::There(*old), to, PlannedState::Absent)?;
        let kind = EffectKind::Moved { from };
        self.stage.effect(path, kind, (old.size, new.size), print, None);
        Ok(())
    }

    /// Plans a deletion.
    pub(super) fn gone(&mut self, item: &LayerChange) -> Result<(), Stop> {
        let Some(old) = &item.lower else { return Ok(()) };
        let (spot, path) = (&item.spot, item.spot.path());
        if old.kind() != FileType::Directory {
            self.unchanged(&path, old, None)?;
        }
        may_change(&path, "delete", spot)?;
        self.stage.found.push((spot.clone(), Some(*old)));
        let below = self.losing(spot, old)?;
        let (staging, kept) = (Rc::clone(&self.staging), self.staging.name());
        let beside = random_name().map_err(|e| refused("delete", &path, e))?;
        let step = Step::Take { spot: spot.clone(), old: *old, below, staging, kept, beside };
        Ok(self.stage.plan(path, None, step)?)
    }
}

fn link(dir: &OwnedFd, name: &[u8]) -> Result<Vec<u8>, Errno> {
    let stat = rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::Symlink {
        return Err(Errno::STALE);
    }
    Ok(rustix::fs::readlinkat(dir, name, Vec::new())?.into_bytes())
}
