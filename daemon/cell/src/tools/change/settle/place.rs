//! Planning one thing that the program did. Room: the cell.

use super::{
    super::{
        act::Below,
        delete::{gather, gone},
        fresh::Facts,
        names::random_name,
        plan::Known,
        print,
        seen::Seen,
        spot::Spot,
        stage::Node,
        step::Step,
        target::{may_change, refuse_ours, too_large},
    },
    compare::{Attributes, compare, contested},
    content::{self, Likeness},
    copy::Source,
    earlier::changed_outside,
    emit::Emission,
    found::{Item, is_special},
    whole,
};
use crate::{
    hidden::kind_of,
    tools::{Stop, go_on, refused},
};
use palisade_plan::{
    Path,
    cell::FileError,
    change::{Before, EffectKind, Print, State},
};
use rustix::{
    fs::{AtFlags, FileType},
    io::Errno,
};
use std::{os::fd::OwnedFd, rc::Rc};

/// The most FIFOs and devices of a new directory that are told of one by one.
const MOST_SPECIALS: usize = 64;

/// Something that the program left, as it is to be.
struct Made {
    print: Print,
    bytes: u64,
    source: Source,
}

impl Emission<'_, '_> {
    /// Refuses to replace what somebody else changed while the program ran, or tells of it.
    fn unchanged(&mut self, path: &Path, old: &Seen, new: Option<&Seen>) -> Result<(), FileError> {
        if !changed_outside(self.layers, path, old) {
            return Ok(());
        }
        contested(self.stage, path, Some(old), new)
    }

    /// The directory of a spot in the upper layer.
    fn upper(&self, spot: &Spot) -> Result<OwnedFd, FileError> {
        self.upper.directory(&spot.way).map_err(|e| refused("read", &spot.path(), e))
    }

    /// What is told of and not done.
    pub(super) fn special(&mut self, path: Path) {
        self.stage.note(b"special", &path, None);
        self.stage.effect(path, EffectKind::Special, (0, 0), Print::Absent, None);
    }

    /// What is new: a file, a link, or a directory with all that is in it.
    pub(super) fn new_one(&mut self, spot: &Spot, new: &Seen) -> Result<(), Stop> {
        self.stage.found.push((spot.clone(), None));
        let made = self.made(spot, new, None)?;
        self.put(spot, new, made, None)
    }

    /// Plans what was made; what it replaces is kept already.
    fn put(
        &mut self,
        spot: &Spot,
        new: &Seen,
        made: Made,
        old: Option<(Seen, Below)>,
    ) -> Result<(), Stop> {
        let path = spot.path();
        self.stage.keep(Before::State { path: path.clone(), state: State::Absent })?;
        let sizes = (0, made.bytes);
        self.stage.effect(path, EffectKind::Created, sizes, made.print, None);
        Ok(self.place(spot, new.kind(), made.source, old)?)
    }

    fn place(
        &mut self,
        spot: &Spot,
        kind: FileType,
        source: Source,
        old: Option<(Seen, Below)>,
    ) -> Result<(), FileError> {
        may_change(&spot.path(), "write", spot)?;
        let (source, staging) = (Box::new(source), Rc::clone(&self.staging));
        let step = Step::Place { spot: spot.clone(), source, staging, old };
        self.stage.plan(spot.path(), Some(kind), step)
    }

    /// Looks at something that the program left, and notes all of it for the digest.
    fn made(&mut self, spot: &Spot, new: &Seen, old: Option<&Seen>) -> Result<Made, Stop> {
        let path = spot.path();
        refuse_ours(&path, spot)?;
        let dir = self.upper(spot)?;
        let (print, bytes) = match new.kind() {
            FileType::Directory => {
                let (channel, most) = (self.channel, self.stage.change.most);
                let (view, layer) = (self.stage.view, Rc::clone(&self.upper));
                let mut specials = Vec::new();
                let measure =
                    whole::measure(&dir, &spot.name, &path, Some(&layer), |path, kind, size| {
                        go_on(channel)?;
                        view.refuse(path, kind_of(kind))?;
                        if is_special(kind) && specials.len() < MOST_SPECIALS {
                            specials.push(path.clone());
                        }
                        if size > most {
                            return Err(Stop::from(too_large(path, size, most)));
                        }
                        Ok(())
                    })?;
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
                self.refuse_large(&path, new)?;
                let compared = compare(self.stage, spot, (&dir, new), None)?;
                self.note_file(&path, new, compared.digest);
                (Print::File { mode: new.mode(), digest: compared.digest }, new.size)
            }
        };
        let source = self.source(spot, print.clone(), old);
        Ok(Made { print, bytes, source })
    }

    pub(super) fn source(&self, spot: &Spot, shown: Print, old: Option<&Seen>) -> Source {
        let owner = old.filter(|old| old.kind() == FileType::RegularFile).map(|old| old.owner);
        let (layer, way) = (Rc::clone(&self.upper), spot.way.clone());
        let (name, aside) = (spot.name.clone(), self.staging.name());
        Source { layer, way, name, path: spot.path(), shown, aside, owner, late: Vec::new() }
    }

    fn refuse_large(&self, path: &Path, new: &Seen) -> Result<(), FileError> {
        let most = self.stage.change.most;
        if new.size > most { Err(too_large(path, new.size, most)) } else { Ok(()) }
    }

    pub(super) fn note_file(&mut self, path: &Path, new: &Seen, digest: [u8; 32]) {
        let facts = Facts { size: new.size, mode: new.mode(), digest };
        self.stage.note(b"put", path, Some(facts));
        self.stage.note_part(&new.mtime.0.to_le_bytes());
        self.stage.note_part(&new.mtime.1.to_le_bytes());
    }

    /// What was there and is something else.
    pub(super) fn other(&mut self, spot: &Spot, old: &Seen, new: &Seen) -> Result<(), Stop> {
        match (old.kind(), new.kind()) {
            (FileType::RegularFile, FileType::RegularFile) => Ok(self.file(spot, old, new)?),
            (FileType::Symlink, FileType::Symlink) => self.relink(spot, old, new),
            (_, _) => self.another(spot, old, new),
        }
    }

    /// Something of another kind than what was there.
    fn another(&mut self, spot: &Spot, old: &Seen, new: &Seen) -> Result<(), Stop> {
        let path = spot.path();
        self.unchanged(&path, old, Some(new))?;
        self.stage.found.push((spot.clone(), Some(*old)));
        let below = self.losing(spot, old)?;
        let made = self.made(spot, new, Some(old))?;
        self.put(spot, new, made, Some((*old, below)))
    }

    /// Keeps what is lost at a spot, and says so.
    fn losing(&mut self, spot: &Spot, old: &Seen) -> Result<Below, Stop> {
        let path = spot.path();
        self.stage.note(b"remove", &path, None);
        self.stage.note_old(old);
        if old.kind() != FileType::Directory {
            self.stage.keep_seen(spot, old)?;
            gone(self.stage, spot, old, 1);
            return Ok(Below::Nothing);
        }
        let layers = self.layers;
        let is_changed = |path: &Path, seen: &Seen| changed_outside(layers, path, seen);
        let gathered = gather(self.stage, self.channel, spot, is_changed)?;
        if gathered.is_changed {
            contested(self.stage, &path, Some(old), None)?;
        }
        self.stage.note_part(&gathered.print);
        gone(self.stage, spot, old, gathered.entries);
        self.stage.below(gathered.files);
        Ok(Below::Tree(gathered.print))
    }

    /// A file that is still one.
    fn file(&mut self, spot: &Spot, old: &Seen, new: &Seen) -> Result<(), FileError> {
        let path = spot.path();
        self.refuse_large(&path, new)?;
        let dir = self.upper(spot)?;
        let compared = compare(self.stage, spot, (&dir, new), Some(old))?;
        let digest = compared.digest;
        let print = Print::File { mode: new.mode(), digest };
        let kind = match (compared.likeness, compared.attributes) {
            (Likeness::Same, Attributes::Same) => return self.same(spot, old, new, digest),
            (Likeness::Same, Attributes::Other) => EffectKind::Touched,
            (Likeness::Longer, _) => EffectKind::Appended,
            (Likeness::Other, _) => EffectKind::Replaced,
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
        let source = self.source(spot, print.clone(), Some(old));
        self.stage.effect(path, kind, (old.size, new.size), print, Some(old));
        self.place(spot, FileType::RegularFile, source, Some((*old, Below::Nothing)))
    }

    /// A file with the content that it had.
    fn same(
        &mut self,
        spot: &Spot,
        old: &Seen,
        new: &Seen,
        digest: [u8; 32],
    ) -> Result<(), FileError> {
        let sizes = (old.size, new.size);
        let path = spot.path();
        let print = match new.is_closed() {
            // It is not read again to be known again.
            true => Print::Node { dev: old.dev, ino: old.ino, size: old.size, mtime: new.mtime },
            false => Print::File { mode: new.mode(), digest },
        };
        let (mode, time) = (new.mode() != old.mode(), new.mtime != old.mtime);
        if !mode && !time {
            return Ok(());
        }
        self.unchanged(&path, old, Some(new))?;
        self.stage.found.push((spot.clone(), Some(*old)));
        if mode {
            self.stage.mode(spot, *old, new.mode(), Known::Content(Some(digest)))?;
            self.stage.effect(path.clone(), EffectKind::Mode, sizes, print.clone(), Some(old));
        }
        if time {
            if !mode {
                self.stage.effect(path.clone(), EffectKind::Touched, sizes, print, Some(old));
            }
            self.stage.note(b"time", &path, None);
            self.stage.note_part(&new.mtime.0.to_le_bytes());
            self.stage.note_part(&new.mtime.1.to_le_bytes());
            // Another name of the same file may be about to go, or to have another time.
            let step = Step::Touch { spot: spot.clone(), old: *old, mtime: new.mtime };
            self.times.insert(old.id(), (path, step));
        }
        Ok(())
    }

    /// A link that is still one.
    fn relink(&mut self, spot: &Spot, old: &Seen, new: &Seen) -> Result<(), Stop> {
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
        self.stage.effect(path, EffectKind::Replaced, (0, 0), made.print, Some(old));
        Ok(self.place(spot, FileType::Symlink, made.source, Some((*old, Below::Nothing)))?)
    }

    /// A directory's mode.
    pub(super) fn mode(&mut self, spot: &Spot, old: &Seen, mode: u32) -> Result<(), FileError> {
        self.unchanged(&spot.path(), old, Some(old))?;
        self.stage.mode(spot, *old, mode, Known::Directory)?;
        self.stage.effect(spot.path(), EffectKind::Mode, (0, 0), Print::Directory, Some(old));
        Ok(())
    }

    /// Whether a file that is gone has what a new one has.
    pub(super) fn is_same(&self, was: &Item, is: &Item) -> bool {
        let (Some(old), Some(new)) = (&was.lower, &is.upper) else { return false };
        let Some(before) = print::digest(&was.spot, old, u64::MAX) else { return false };
        let now = self.upper(&is.spot).ok().and_then(|dir| {
            let file = content::open_file(&dir, &is.spot.name, new).ok()?;
            Some(content::digest(&file, new.size, None).ok()?.0.whole)
        });
        now == Some(before)
    }

    /// A file that has another name.
    pub(super) fn moved(&mut self, was: &Item, to: &Spot, new: &Seen) -> Result<(), Stop> {
        let Some(old) = &was.lower else { return self.new_one(to, new) };
        let (from, path) = (was.spot.path(), to.path());
        refuse_ours(&path, to)?;
        self.unchanged(&from, old, Some(new))?;
        may_change(&from, "move", &was.spot)?;
        may_change(&path, "move to", to)?;
        self.stage.found.push((was.spot.clone(), Some(*old)));
        self.stage.found.push((to.clone(), None));
        let print = print::print(&was.spot, old);
        self.stage.rename(&was.spot, Node::There(*old), to, Node::Absent)?;
        let kind = EffectKind::Moved { from };
        self.stage.effect(path, kind, (old.size, new.size), print, None);
        Ok(())
    }

    /// What is gone.
    pub(super) fn gone(&mut self, item: &Item) -> Result<(), Stop> {
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
