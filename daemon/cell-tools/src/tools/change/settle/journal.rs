//! The journal of a commit: written before its first step, deleted after its last. If one exists in
//! a directory whose lock nobody holds, a commit was interrupted. Runs in the cell.

use super::{
    super::{spot::EntryLocation, stage::Stage, step::Step},
    staging::{JOURNAL, Staging},
    sync::SyncSet,
};
use crate::tools::{refused, refused_io};
use palisade_plan::{
    Path,
    cell::FileError,
    codec,
    journal::{Head, JournalEntry, Node, VERSION},
};
use palisade_workspace::{
    EntryMetadata, look,
    tree::{TreeVisitor, VisitedEntry, walk},
};
use rustix::{
    fs::{AtFlags, FileType, Mode, OFlags},
    io::Errno,
};
use sha2::{Digest as _, Sha256};
use std::{
    fs::File,
    io::{self, BufWriter, Read as _},
    os::fd::AsFd,
    rc::Rc,
};

/// The name of a journal that is not complete yet.
const UNFINISHED: &str = "journal.new";

/// The maximum size of one part of a journal.
const MOST_PART: usize = 1 << 20;

/// A journal that has been written.
#[derive(Debug)]
pub(in super::super) struct Journal {
    staging: Rc<Staging>,
    syncing: SyncSet,
}

impl Journal {
    /// Writes down the steps that are about to be taken. Everything they need is in the staging
    /// directory by now.
    pub(in super::super) fn begin(
        stage: &Stage<'_>,
        staging: &Rc<Staging>,
    ) -> Result<Self, FileError> {
        let syncing = SyncSet::of(stage, staging)?;
        let whole = Path(staging.base().real.clone());
        let fail = |error: &io::Error| refused_io("write the journal in", &whole, error);
        write(stage, staging, &syncing).map_err(|error| fail(&error))?;
        Ok(Self { staging: Rc::clone(staging), syncing })
    }

    /// Deletes the journal once all steps are taken. The replaced entries are not needed any more.
    pub(in super::super) fn end(self) -> Result<(), FileError> {
        let whole = Path(self.staging.base().real.clone());
        let fail = |errno| refused("end the journal in", &whole, errno);
        self.syncing.directories()?;
        let dir = self.staging.dir().map_err(fail)?;
        rustix::fs::unlinkat(dir, JOURNAL, AtFlags::empty()).map_err(fail)
    }
}

fn write(stage: &Stage<'_>, staging: &Staging, syncing: &SyncSet) -> io::Result<()> {
    let dir = staging.dir()?;
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::WRONLY | OFlags::CLOEXEC;
    let file = rustix::fs::openat(dir, UNFINISHED, flags, Mode::RUSR | Mode::WUSR)?;
    let mut to = BufWriter::new(File::from(file));
    let own = || stage.steps.iter().filter(|step| staging.has(step));
    let steps = own().count() as u64;
    part(&mut to, &Head { version: VERSION, digest: stage.digest(), steps })?;
    for step in own() {
        part(&mut to, &entry(step, staging)?)?;
    }
    let file = to.into_inner().map_err(io::IntoInnerError::into_error)?;
    syncing.file(&file)?;
    rustix::fs::renameat(dir, UNFINISHED, dir, JOURNAL)?;
    syncing.staging(dir)
}

fn part<T: codec::Encode>(to: &mut impl io::Write, part: &T) -> io::Result<()> {
    let bytes = codec::encode(part).map_err(io::Error::other)?;
    let length = u32::try_from(bytes.len()).map_err(io::Error::other)?;
    to.write_all(&length.to_le_bytes())?;
    to.write_all(&bytes)
}

/// Reads the journal of a directory; `None` if there is none, or it has another format.
pub(super) fn read(dir: impl AsFd) -> Option<(Head, Vec<JournalEntry>)> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = rustix::fs::openat(dir, JOURNAL, flags, Mode::empty()).ok()?;
    let mut from = io::BufReader::new(File::from(file));
    let mut next = || -> Option<Vec<u8>> {
        let mut length = [0; 4];
        from.read_exact(&mut length).ok()?;
        let length = usize::try_from(u32::from_le_bytes(length)).ok()?;
        let mut bytes = vec![0; Some(length).filter(|length| *length <= MOST_PART)?];
        from.read_exact(&mut bytes).ok()?;
        Some(bytes)
    };
    let head: Head = codec::decode(&next()?).ok()?;
    if head.version != VERSION {
        return None;
    }
    let mut entries = Vec::new();
    for _step in 0..head.steps {
        entries.push(codec::decode(&next()?).ok()?);
    }
    Some((head, entries))
}

fn entry(step: &Step, staging: &Staging) -> io::Result<JournalEntry> {
    Ok(match step {
        Step::Place { spot, source, old, .. } => {
            let aside = source.aside.clone();
            let new = node(staging.dir()?, &aside)?.ok_or(Errno::NOENT)?;
            let old = old.as_ref().map(|(old, _)| old.ino);
            JournalEntry::Place {
                path: relative_path(spot),
                aside,
                new,
                old,
                late: source.late.clone(),
            }
        }
        Step::Take { spot, old, kept, beside, .. } => JournalEntry::Take {
            path: relative_path(spot),
            kept: kept.clone(),
            beside: beside.clone().into_bytes(),
            old: old.ino,
        },
        Step::Move { from, to, old } => {
            let ino = old.as_ref().map_or(0, |old| old.ino);
            JournalEntry::Move { from: relative_path(from), to: relative_path(to), ino }
        }
        Step::Mode { spot, old, mode } => JournalEntry::Mode {
            path: relative_path(spot),
            ino: old.ino,
            old: old.mode(),
            new: *mode,
        },
        Step::Touch { spot, old, mtime } => JournalEntry::Touch {
            path: relative_path(spot),
            ino: old.ino,
            old: old.mtime,
            new: *mtime,
        },
        Step::Append(append) => JournalEntry::Append {
            path: relative_path(&append.spot),
            aside: append.source.aside.clone(),
            ino: append.old.ino,
            old: append.old.inode_state(),
            new: append.new,
        },
        Step::MakeDir { .. }
        | Step::Cut(_)
        | Step::Link { .. }
        | Step::Put { .. }
        | Step::Replace { .. }
        | Step::Remove { .. }
        | Step::MoveOver { .. } => {
            return Err(io::Error::other("a step that no transaction has"));
        }
    })
}

/// Returns the path of a spot relative to the workspace.
fn relative_path(spot: &EntryLocation) -> Vec<u8> {
    if spot.way.is_empty() {
        return spot.name.clone();
    }
    [spot.way.as_slice(), b"/", &spot.name].concat()
}

/// Returns what identifies an entry after a crash.
pub(super) fn node(dir: impl AsFd, name: &[u8]) -> Result<Option<Node>, Errno> {
    let Some(seen) = look(&dir, name)? else { return Ok(None) };
    let below = match seen.kind() {
        FileType::Directory => {
            let mut all = TreeDigest(Sha256::new());
            walk(&dir, name, &mut all)?;
            Some(all.0.finalize().into())
        }
        FileType::RegularFile
        | FileType::Symlink
        | FileType::Fifo
        | FileType::Socket
        | FileType::CharacterDevice
        | FileType::BlockDevice
        | FileType::Unknown => None,
    };
    Ok(Some(Node { ino: seen.ino, size: seen.file_size(), mtime: seen.mtime, below }))
}

/// A digest over a tree that does not change when its top is renamed or a directory gets its mode.
struct TreeDigest(Sha256);

impl TreeVisitor for TreeDigest {
    type Stop = Errno;

    fn entry(&mut self, met: &VisitedEntry<'_>) -> Result<(), Errno> {
        let EntryMetadata { ino, mtime, .. } = met.seen;
        let is_directory = met.seen.kind() == FileType::Directory;
        let mode = if is_directory { 0 } else { met.seen.mode() };
        let name: &[u8] = if met.depth == 0 { b"" } else { met.name };
        self.0.update((met.depth as u64).to_le_bytes());
        self.0.update((name.len() as u64).to_le_bytes());
        self.0.update(name);
        self.0.update(ino.to_le_bytes());
        self.0.update((met.seen.kind().as_raw_mode() | mode).to_le_bytes());
        self.0.update(met.seen.file_size().to_le_bytes());
        self.0.update(mtime.0.to_le_bytes());
        self.0.update(mtime.1.to_le_bytes());
        Ok(())
    }
}
