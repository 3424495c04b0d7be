//! Planning the steps of a change: each is kept, noted for the digest, and seen by those after it.
//! Room: the cell.

use super::{
    act::Below,
    fresh::{Facts, Fresh},
    seen::Seen,
    spot::Spot,
    stage::{MOST_OPEN, Node, Stage, twice},
    step::Step,
};
use crate::{
    hidden::kind_of,
    tools::{failure, refused, refused_io},
};
use palisade_plan::{
    Path,
    cell::{FileError, FileErrorKind},
    change::{Before, EffectKind, Print, State},
    names::Kind,
};
use rustix::{fs::FileType, io::Errno};

/// The most steps.
const MOST_STEPS: usize = 200_000;

/// What gets another mode.
#[derive(Debug, Clone, Copy)]
pub(super) enum Known {
    /// A regular file with contents of this digest, if they could be read.
    Content(Option<[u8; 32]>),
    /// A directory.
    Directory,
}

impl Stage<'_> {
    /// Plans to put a file at a spot, whatever is there but a directory.
    pub(super) fn put(
        &mut self,
        spot: &Spot,
        node: Node,
        mut fresh: Fresh,
        facts: Facts,
    ) -> Result<(), FileError> {
        let path = spot.path();
        self.note(b"put", &path, Some(facts));
        if self.open > MOST_OPEN {
            fresh.close().map_err(|e| refused_io("write", &path, &e))?;
        }
        let step = match node {
            Node::There(old) if old.kind() == FileType::RegularFile => {
                self.note_old(&old);
                self.keep_seen(spot, &old)?;
                Step::Replace { spot: spot.clone(), fresh, old }
            }
            Node::There(_) => {
                self.remove(spot, node, Below::Nothing)?;
                self.keep(Before::State { path: path.clone(), state: State::Absent })?;
                Step::Put { spot: spot.clone(), fresh }
            }
            Node::Absent => {
                self.keep(Before::State { path: path.clone(), state: State::Absent })?;
                Step::Put { spot: spot.clone(), fresh }
            }
            Node::Planned(_) => return Err(twice(&path)),
        };
        self.plan(path, Some(FileType::RegularFile), step)
    }

    /// Plans a directory, and says so.
    pub(super) fn make_dir(&mut self, spot: &Spot, mode: Option<u32>) -> Result<(), FileError> {
        let path = spot.path();
        self.note(b"directory", &path, None);
        sha2::Digest::update(&mut self.hash, mode.unwrap_or(u32::MAX).to_le_bytes());
        self.keep(Before::State { path: path.clone(), state: State::Absent })?;
        self.effect(path.clone(), EffectKind::Created, (0, 0), Print::Directory, None);
        let step = Step::MakeDir { spot: spot.clone(), mode };
        self.plan(path, Some(FileType::Directory), step)
    }

    /// Plans a symbolic link where nothing is.
    pub(super) fn link(&mut self, spot: &Spot, target: &Path) -> Result<(), FileError> {
        let path = spot.path();
        self.note(b"link", &path, None);
        self.note_part(&target.0);
        self.keep(Before::State { path: path.clone(), state: State::Absent })?;
        let step = Step::Link { spot: spot.clone(), target: target.0.clone() };
        self.plan(path, Some(FileType::Symlink), step)
    }

    /// Plans to take something away. What is below a directory is kept by who looked at it.
    pub(super) fn remove(
        &mut self,
        spot: &Spot,
        node: Node,
        below: Below,
    ) -> Result<(), FileError> {
        let path = spot.path();
        let Node::There(old) = node else { return Err(twice(&path)) };
        self.refuse_workspace(&path, &old)?;
        self.note(b"remove", &path, None);
        self.note_old(&old);
        if let Below::Tree(print) = below {
            sha2::Digest::update(&mut self.hash, print);
        } else {
            self.keep_seen(spot, &old)?;
        }
        self.emptied.insert(path.0.clone());
        let step = Step::Remove { spot: spot.clone(), old, below };
        self.plan(path, None, step)
    }

    /// Plans to give something another name, that of what is there being lost.
    pub(super) fn rename(
        &mut self,
        from: &Spot,
        node: Node,
        to: &Spot,
        over: Node,
    ) -> Result<(), FileError> {
        let (old_path, path) = (from.path(), to.path());
        let (old, kind) = match node {
            Node::There(old) => (Some(old), old.kind()),
            Node::Planned(kind) => (None, kind),
            Node::Absent => return Err(refused("move", &old_path, Errno::NOENT)),
        };
        if let Some(old) = &old {
            self.refuse_workspace(&old_path, old)?;
        }
        self.view.refuse(&old_path, kind_of(kind))?;
        self.note(b"from", &old_path, None);
        self.note(b"to", &path, None);
        if let Some(old) = &old {
            self.note_old(old);
        }
        let step = match (over, old) {
            (Node::Absent, old) => Step::Move { from: from.clone(), to: to.clone(), old },
            (Node::There(over), Some(old)) => {
                self.note_old(&over);
                self.keep_seen(to, &over)?;
                Step::MoveOver { from: from.clone(), to: to.clone(), old, over }
            }
            (Node::There(_) | Node::Planned(_), _) => return Err(twice(&path)),
        };
        self.keep(Before::Moved { from: old_path.clone(), to: path.clone() })?;
        self.planned.insert(old_path.0, None);
        if let Some(old) = old {
            self.moved.insert(path.0.clone(), (from.clone(), old));
        }
        self.plan(path, Some(kind), step)
    }

    /// Keeps what stays the same one.
    pub(super) fn keep_same(
        &mut self,
        spot: &Spot,
        old: &Seen,
        known: Known,
    ) -> Result<(), FileError> {
        match known {
            Known::Content(digest) => {
                self.keep(Before::Same { path: spot.path(), was: old.past(), digest })
            }
            Known::Directory => self.keep_seen(spot, old),
        }
    }

    /// Plans another mode for a file or directory.
    pub(super) fn mode(
        &mut self,
        spot: &Spot,
        old: Seen,
        mode: u32,
        known: Known,
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
        if self.steps.len() == MOST_STEPS {
            let message = format!("a change has at most {MOST_STEPS} steps, and this has more");
            return Err(failure(FileErrorKind::TooLarge, None, message));
        }
        self.planned.insert(path.0, becomes);
        self.steps.push(step);
        Ok(())
    }

    /// Plans other content for what an earlier step gives its name.
    pub(super) fn replace_moved(
        &mut self,
        from: &Spot,
        to: &Spot,
        old: Seen,
        fresh: Fresh,
        facts: Facts,
    ) -> Result<(), FileError> {
        let path = to.path();
        self.note(b"put", &path, Some(facts));
        self.kept.at(&path, from, &old)?;
        self.plan(path, Some(FileType::RegularFile), Step::Replace { spot: to.clone(), fresh, old })
    }
}
