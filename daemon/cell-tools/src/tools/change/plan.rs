//! Plans the steps of a change. Each goes into the undo record and the digest, and the steps after
//! it see its result. Runs in the cell.

use super::{
    act::DeletedContents,
    evidence::LostEntry,
    fresh::{ContentFacts, TemporaryFile},
    settle::content,
    spot::EntryLocation,
    stage::{MOST_OPEN, PlannedState, Stage, changed_twice},
    step::Step,
};
use crate::tools::{failure, refused, refused_io};
use palisade_plan::{
    Path,
    cell::{FileError, FileErrorKind},
    change::{Act, Before, EffectKind, Print, State},
    names::Kind,
};
use palisade_workspace::{EntryMetadata, kind_of};
use rustix::{fs::FileType, io::Errno};

/// The maximum number of steps.
const MOST_STEPS: usize = 200_000;

/// The entry whose mode changes.
#[derive(Debug, Clone, Copy)]
pub(super) enum ModeTarget {
    /// A regular file, with the digest of its content if it could be read.
    Content(Option<[u8; 32]>),
    /// A directory.
    Directory,
}

impl Stage<'_> {
    /// Plans to put a file at a spot. It may replace anything but a directory.
    pub(super) fn put(
        &mut self,
        spot: &EntryLocation,
        node: PlannedState,
        mut fresh: TemporaryFile,
        facts: ContentFacts,
    ) -> Result<(), FileError> {
        let path = spot.path();
        self.note(b"put", &path, Some(facts));
        let replaced = match node {
            PlannedState::There(old) => Some(old),
            PlannedState::Absent | PlannedState::Planned(_) => None,
        };
        if let Some(old) = replaced.filter(|old| old.kind() == FileType::RegularFile) {
            self.keep_attributes(spot, &old, &fresh)?;
        }
        if self.open > MOST_OPEN {
            fresh.close().map_err(|e| refused_io("write", &path, &e))?;
        }
        let step = match node {
            PlannedState::There(old) if old.kind() == FileType::RegularFile => {
                self.note_old(&old);
                self.keep_seen(spot, &old)?;
                self.lose(spot, &old);
                Step::Replace { spot: spot.clone(), fresh, old }
            }
            PlannedState::There(_) => {
                self.remove(spot, node, DeletedContents::Nothing)?;
                self.keep(Before::State { path: path.clone(), state: State::Absent })?;
                Step::Put { spot: spot.clone(), fresh }
            }
            PlannedState::Absent => {
                self.keep(Before::State { path: path.clone(), state: State::Absent })?;
                Step::Put { spot: spot.clone(), fresh }
            }
            PlannedState::Planned(_) => return Err(changed_twice(&path)),
        };
        self.plan(path, Some(FileType::RegularFile), step)
    }

    /// Plans a directory, and adds the effect.
    pub(super) fn make_dir(
        &mut self,
        spot: &EntryLocation,
        mode: Option<u32>,
    ) -> Result<(), FileError> {
        let path = spot.path();
        self.note(b"directory", &path, None);
        sha2::Digest::update(&mut self.hash, mode.unwrap_or(u32::MAX).to_le_bytes());
        self.keep(Before::State { path: path.clone(), state: State::Absent })?;
        self.effect(path.clone(), EffectKind::Created, (0, 0), Print::Directory, None);
        let step = Step::MakeDir { spot: spot.clone(), mode };
        self.plan(path, Some(FileType::Directory), step)
    }

    /// Plans a symbolic link at a free name.
    pub(super) fn link(&mut self, spot: &EntryLocation, target: &Path) -> Result<(), FileError> {
        let path = spot.path();
        self.note(b"link", &path, None);
        self.note_part(&target.0);
        self.keep(Before::State { path: path.clone(), state: State::Absent })?;
        let step = Step::Link { spot: spot.clone(), target: target.0.clone() };
        self.plan(path, Some(FileType::Symlink), step)
    }

    /// Plans to delete an entry. For a directory with contents, the caller adds those to the undo
    /// record.
    pub(super) fn remove(
        &mut self,
        spot: &EntryLocation,
        node: PlannedState,
        below: DeletedContents,
    ) -> Result<(), FileError> {
        let path = spot.path();
        let PlannedState::There(old) = node else { return Err(changed_twice(&path)) };
        self.refuse_workspace(&path, &old)?;
        self.note(b"remove", &path, None);
        self.note_old(&old);
        if let DeletedContents::Tree(print) = below {
            sha2::Digest::update(&mut self.hash, print);
        } else {
            self.keep_seen(spot, &old)?;
            self.lose(spot, &old);
        }
        self.emptied.insert(path.0.clone());
        let step = Step::Remove { spot: spot.clone(), old, below };
        self.plan(path, None, step)
    }

    /// Plans to rename an entry. What has the new name is lost.
    pub(super) fn rename(
        &mut self,
        from: &EntryLocation,
        node: PlannedState,
        to: &EntryLocation,
        over: PlannedState,
    ) -> Result<(), FileError> {
        let (old_path, path) = (from.path(), to.path());
        let (old, kind) = match node {
            PlannedState::There(old) => (Some(old), old.kind()),
            PlannedState::Planned(kind) => (None, kind),
            PlannedState::Absent => return Err(refused("move", &old_path, Errno::NOENT)),
        };
        if let Some(old) = &old {
            self.refuse_workspace(&old_path, old)?;
        }
        self.view.refuse(&old_path, kind_of(kind))?;
        self.refuse_repository(&old_path, None)?;
        self.note(b"from", &old_path, None);
        self.note(b"to", &path, None);
        if let Some(old) = &old {
            self.note_old(old);
        }
        let step = match (over, old) {
            (PlannedState::Absent, old) => Step::Move { from: from.clone(), to: to.clone(), old },
            (PlannedState::There(over), Some(old)) => {
                self.note_old(&over);
                self.keep_seen(to, &over)?;
                self.lose(to, &over);
                Step::MoveOver { from: from.clone(), to: to.clone(), old, over }
            }
            (PlannedState::There(_) | PlannedState::Planned(_), _) => {
                return Err(changed_twice(&path));
            }
        };
        self.keep(Before::Moved { from: old_path.clone(), to: path.clone() })?;
        self.planned.insert(old_path.0, None);
        if let Some(old) = old {
            self.lost
                .push(LostEntry { moved_to: Some(path.clone()), ..LostEntry::new(from, &old) });
            self.moved.insert(path.0.clone(), (from.clone(), old));
        }
        self.plan(path, Some(kind), step)
    }

    /// Adds a file that stays the same file to the undo record.
    pub(super) fn keep_same(
        &mut self,
        spot: &EntryLocation,
        old: &EntryMetadata,
        known: ModeTarget,
    ) -> Result<(), FileError> {
        match known {
            ModeTarget::Content(digest) => {
                self.keep(Before::Same { path: spot.path(), was: old.inode_state(), digest })
            }
            ModeTarget::Directory => self.keep_seen(spot, old),
        }
    }

    /// Plans to change the mode of a file or directory.
    pub(super) fn mode(
        &mut self,
        spot: &EntryLocation,
        old: EntryMetadata,
        mode: u32,
        known: ModeTarget,
    ) -> Result<(), FileError> {
        let path = spot.path();
        self.note(b"mode", &path, None);
        sha2::Digest::update(&mut self.hash, mode.to_le_bytes());
        self.note_old(&old);
        self.keep_same(spot, &old, known)?;
        self.plan(path, Some(old.kind()), Step::Mode { spot: spot.clone(), old, mode })
    }

    pub(super) fn plan(
        &mut self,
        path: Path,
        becomes: Option<FileType>,
        step: Step,
    ) -> Result<(), FileError> {
        let kinds = [step.replaced(), becomes].map(|kind| kind.map(kind_of));
        match kinds {
            [None, None] => self.view.refuse(&path, Kind::Either)?,
            kinds => kinds.into_iter().flatten().try_for_each(|k| self.view.refuse(&path, k))?,
        }
        self.refuse_repository(&path, becomes)?;
        if self.steps.len() == MOST_STEPS {
            let message = format!("a change has at most {MOST_STEPS} steps, and this has more");
            return Err(failure(FileErrorKind::TooLarge, None, message));
        }
        self.planned.insert(path.0, becomes);
        self.steps.push(step);
        Ok(())
    }

    /// Plans new content for a file that an earlier step renames.
    pub(super) fn replace_moved(
        &mut self,
        from: &EntryLocation,
        to: &EntryLocation,
        old: EntryMetadata,
        fresh: TemporaryFile,
        facts: ContentFacts,
    ) -> Result<(), FileError> {
        let path = to.path();
        self.note(b"put", &path, Some(facts));
        self.keep_attributes(from, &old, &fresh)?;
        self.kept.at(&path, from, &old)?;
        // Its bytes are not at its new name, so the rename does not preserve them.
        self.lost.retain(|lost| lost.moved_to.as_ref() != Some(&path));
        self.lose(from, &old);
        self.plan(path, Some(FileType::RegularFile), Step::Replace { spot: to.clone(), fresh, old })
    }

    /// Gives new content the extended attributes of the file that it replaces. What is restored has
    /// its own.
    fn keep_attributes(
        &mut self,
        spot: &EntryLocation,
        old: &EntryMetadata,
        fresh: &TemporaryFile,
    ) -> Result<(), FileError> {
        if matches!(self.change.act, Act::Restore { .. }) {
            return Ok(());
        }
        let file = spot.dir().and_then(|dir| content::open_file(&dir, &spot.name, old));
        let attributes = match file.and_then(|file| content::attributes(&file)) {
            Ok(attributes) => attributes,
            // Who may not read a file does not see its attributes either. That it is still the same
            // file is checked when it is replaced.
            Err(Errno::ACCESS | Errno::STALE | Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {
                return Ok(());
            }
            Err(error) => return Err(refused("read the attributes of", &spot.path(), error)),
        };
        if attributes.iter().any(content::names_others) {
            self.lost.push(LostEntry { attributes: true, ..LostEntry::new(spot, old) });
        }
        fresh.set_attributes(&attributes).map_err(|e| refused_io("write", &spot.path(), &e))
    }
}
