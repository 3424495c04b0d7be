//! Deleting, moving, and making directories. Room: the cell.

use super::{
    keep::Kept,
    seen::Seen,
    spot::Spot,
    stage::{Node, Stage},
    step::Below,
    target::{self, Slash, Use, open_old, read_all, refuse_ours, trimmed},
    tree::{Fingerprint, Met, Visitor, walk},
};
use crate::{
    channel::Channel,
    tools::{LONGEST_PATH, Stop, failure, go_on, invalid, kind_name, open, refused, shown},
};
use palisade_plan::{
    Path,
    cell::{FileError, FileErrorKind, LOOK_BYTES},
    change::{EffectKind, Print},
};
use rustix::{
    fs::{Access, AtFlags, CWD, FileType, OFlags},
    io::Errno,
};
use sha2::{Digest as _, Sha256};
use std::{fs::File, io::Read as _, os::fd::AsFd as _, rc::Rc};

/// How much is read at once.
const PIECE: usize = 64 * 1024;

/// How many entries of a tree are looked at between two looks at the channel.
const BETWEEN_LOOKS: u64 = 64;

/// Plans to remove what the path names; a link itself, not its target.
pub(super) fn delete(
    stage: &mut Stage<'_>,
    channel: &Channel,
    path: &Path,
    reach: crate::tools::Reach,
) -> Result<(), Stop> {
    let (trimmed, slash) = trimmed(path)?;
    if stage.workspace.starts_with(trimmed.as_path()) {
        let why = "it is the workspace, or holds it, and that is never deleted or moved";
        return Err(invalid(path, why).into());
    }
    let (spot, node) = target::entry(stage, &trimmed)?;
    let seen = match node {
        Node::There(seen) => seen,
        Node::Absent | Node::Planned(_) => return Err(refused("delete", path, Errno::NOENT).into()),
    };
    if seen.kind() == FileType::Directory {
        stage.refuse_workspace(path, &seen)?;
        if reach == crate::tools::Reach::One {
            let message =
                format!("{} is a directory: set recursive to delete it whole", shown(path));
            return Err(failure(FileErrorKind::NotRegular, Some(Errno::ISDIR), message).into());
        }
        return tree(stage, channel, &spot, node);
    }
    if slash == Slash::AtEnd {
        return Err(invalid(
            path,
            &format!("it ends in a slash, and is {}", kind_name(seen.kind())),
        )
        .into());
    }
    may_change(path, "delete", &spot)?;
    if seen.kind() == FileType::RegularFile && stage.comparable().is_some_and(|m| seen.size <= m) {
        match open_old(path, &spot, &seen, Use::Content) {
            Ok((file, _)) => {
                let old = read_all(path, &file, seen.size)?;
                stage.compare(Some((&spot.path(), &old)), None);
            }
            Err(_) => stage.diff_complete = false,
        }
    } else {
        stage.diff_complete &= stage.change.diff == 0;
    }
    stage.remove(&spot, node, Below::Nothing)?;
    gone(stage, &spot, &seen, 1);
    Ok(())
}

fn gone(stage: &mut Stage<'_>, spot: &Spot, seen: &Seen, entries: u64) {
    let kind = EffectKind::Deleted { entries };
    stage.effect(spot.path(), kind, (file_size(seen), 0), Print::Absent, Some(seen));
}

fn file_size(seen: &Seen) -> u64 {
    if seen.kind() == FileType::RegularFile { seen.size } else { 0 }
}

/// Plans to remove a directory with all that is in it.
pub(super) fn tree(
    stage: &mut Stage<'_>,
    channel: &Channel,
    spot: &Spot,
    node: Node,
) -> Result<(), Stop> {
    let path = spot.path();
    let Node::There(seen) = node else {
        return Err(refused("delete", &path, Errno::NOENT).into());
    };
    may_change(&path, "delete", spot)?;
    let dir = spot.dir().map_err(|e| refused("delete", &path, e))?;
    let mut gathering = Gathering {
        channel,
        top: spot,
        kept: &mut stage.kept,
        print: Fingerprint::default(),
        entries: 0,
    };
    walk(dir.as_fd(), &spot.name, &mut gathering).map_err(|halt| match halt {
        Halt::Stop(stop) => stop,
        Halt::Kernel(errno) => whole(&path, errno).into(),
    })?;
    let (print, entries) = (gathering.print.done(), gathering.entries);
    stage.diff_complete &= stage.change.diff == 0;
    stage.remove(spot, node, Below::Tree(print))?;
    gone(stage, spot, &seen, entries);
    Ok(())
}

fn whole(path: &Path, errno: Errno) -> FileError {
    let mut error = match errno {
        Errno::TOOBIG => {
            let message = format!("{} has too many entries, or is too deep", shown(path));
            failure(FileErrorKind::TooLarge, Some(errno), message)
        }
        Errno::XDEV => {
            let message = format!("a part of {} is a mount, which is not deleted", shown(path));
            failure(FileErrorKind::OutsidePolicy, Some(errno), message)
        }
        errno => refused("delete all of", path, errno),
    };
    error.message += ". Nothing was deleted";
    error
}

enum Halt {
    Stop(Stop),
    Kernel(Errno),
}

impl From<Errno> for Halt {
    fn from(errno: Errno) -> Self {
        Self::Kernel(errno)
    }
}

/// Keeps what is in a tree.
struct Gathering<'a> {
    channel: &'a Channel,
    top: &'a Spot,
    kept: &'a mut Kept,
    print: Fingerprint,
    entries: u64,
}

impl Visitor for Gathering<'_> {
    type Stop = Halt;

    fn entry(&mut self, met: &Met<'_>) -> Result<(), Halt> {
        self.entries += 1;
        if self.entries.is_multiple_of(BETWEEN_LOOKS) {
            go_on(self.channel).map_err(Halt::Stop)?;
        }
        self.print.take(met);
        if !self.kept.wants() {
            return Ok(());
        }
        let mut way = self.top.way.clone();
        if !way.is_empty() && !met.above.is_empty() {
            way.push(b'/');
        }
        way.extend_from_slice(met.above);
        let spot = Spot { base: Rc::clone(&self.top.base), way, name: met.name.to_vec() };
        if spot.path().0.len() > LONGEST_PATH {
            return Err(Errno::TOOBIG.into());
        }
        let link = match met.seen.kind() {
            FileType::Symlink => {
                Some(rustix::fs::readlinkat(met.dir, met.name, Vec::new())?.into_bytes())
            }
            FileType::RegularFile
            | FileType::Directory
            | FileType::Fifo
            | FileType::Socket
            | FileType::CharacterDevice
            | FileType::BlockDevice
            | FileType::Unknown => None,
        };
        self.kept.spot(&spot, met.seen, link).map_err(|error| Halt::Stop(error.into()))
    }
}

/// Refuses now what the kernel would refuse then: who asks for approval should not ask in vain.
pub(super) fn may_change(path: &Path, act: &str, spot: &Spot) -> Result<(), FileError> {
    if !spot.way.is_empty() {
        return Ok(());
    }
    let access = Access::WRITE_OK | Access::EXEC_OK;
    rustix::fs::accessat(&spot.base, ".", access, AtFlags::EACCESS)
        .map_err(|e| refused(act, path, e))
}

/// Plans to give something another name.
pub(super) fn rename(
    stage: &mut Stage<'_>,
    from: &Path,
    to: &Path,
    over: Over,
) -> Result<(), FileError> {
    let ((from, slash), (to, to_slash)) = (trimmed(from)?, trimmed(to)?);
    let (old, node) = target::entry(stage, &from)?;
    let seen = match node {
        Node::There(seen) => seen,
        Node::Absent | Node::Planned(_) => return Err(refused("move", &from, Errno::NOENT)),
    };
    let is_directory = seen.kind() == FileType::Directory;
    if (slash, to_slash) != (Slash::None, Slash::None) && !is_directory {
        let what = kind_name(seen.kind());
        return Err(invalid(&from, &format!("one of the names ends in a slash, and it is {what}")));
    }
    stage.refuse_workspace(&from, &seen)?;
    let (new, there) = target::entry(stage, &to)?;
    refuse_ours(&to, &new)?;
    let (old_path, path) = (old.path(), new.path());
    if old_path == path {
        return Err(invalid(&to, "it is the name that it has already"));
    }
    if is_directory && path.0.starts_with(&[old_path.0.as_slice(), b"/"].concat()) {
        return Err(invalid(&to, "it is below what is to be moved"));
    }
    if let Node::There(taken) = &there {
        free(&to, &seen, taken, over)?;
    }
    let base = rustix::fs::fstat(&new.base).map_err(|e| refused("look at", &to, e))?;
    if base.st_dev != seen.dev {
        return Err(elsewhere(&from, &to));
    }
    may_change(&from, "move", &old)?;
    may_change(&to, "move to", &new)?;
    let print = print(&old, &seen);
    stage.parents(&new)?;
    stage.rename(&old, node, &new, there)?;
    let replaced = match &there {
        Node::There(taken) => Some(taken),
        Node::Absent | Node::Planned(_) => None,
    };
    let size = file_size(&seen);
    stage.effect(path, EffectKind::Moved { from: old_path }, (size, size), print, replaced);
    Ok(())
}

/// Whether what has a name may lose it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Over {
    Nothing,
    Files,
}

fn free(to: &Path, seen: &Seen, taken: &Seen, over: Over) -> Result<(), FileError> {
    let directory = FileType::Directory;
    let why = if over == Over::Nothing {
        "exists, and is not replaced without `overwrite`"
    } else if taken.kind() == directory {
        "is a directory, which is never replaced"
    } else if seen.kind() == directory {
        "exists, and a directory replaces nothing"
    } else {
        return Ok(());
    };
    let message = format!("{} {why}", shown(to));
    Err(failure(FileErrorKind::AlreadyExists, Some(Errno::EXIST), message))
}

/// The error for a move to another file system.
pub(super) fn elsewhere(from: &Path, to: &Path) -> FileError {
    let message = format!(
        "{} can not be moved to {}: it is on another file system. Copy it, and delete the old one",
        shown(from),
        shown(to)
    );
    failure(FileErrorKind::FileSystem, Some(Errno::XDEV), message)
}

/// To know again what is there.
pub(super) fn print(spot: &Spot, seen: &Seen) -> Print {
    match seen.kind() {
        FileType::Directory => Print::Directory,
        FileType::Symlink => match spot.link() {
            Ok(target) => Print::Symlink { target: Path(target) },
            Err(_) => seen.node(),
        },
        FileType::RegularFile => match digest(spot, seen, LOOK_BYTES) {
            Some(digest) => Print::File { mode: seen.mode(), digest },
            None => seen.node(),
        },
        FileType::Fifo
        | FileType::Socket
        | FileType::CharacterDevice
        | FileType::BlockDevice
        | FileType::Unknown => seen.node(),
    }
}

/// A regular file's digest, if it can be read and is not over `most`.
pub(super) fn digest(spot: &Spot, seen: &Seen, most: u64) -> Option<[u8; 32]> {
    if seen.size > most {
        return None;
    }
    let mut file = File::from(spot.open(OFlags::RDONLY).ok()?);
    let stat = rustix::fs::fstat(&file).ok()?;
    if Seen::from(&stat) != *seen {
        return None;
    }
    let (mut hash, mut piece) = (Sha256::new(), vec![0; PIECE]);
    loop {
        match file.read(&mut piece) {
            Ok(0) => return Some(hash.finalize().into()),
            Ok(read) => hash.update(piece.get(..read)?),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => return None,
        }
    }
}

/// Plans a directory, and those above it. One that is there is no error, and no effect.
pub(super) fn make_dir(stage: &mut Stage<'_>, path: &Path) -> Result<(), FileError> {
    let (trimmed, _) = trimmed(path)?;
    if open(CWD, &path.0, OFlags::PATH | OFlags::DIRECTORY).is_ok() {
        return Ok(());
    }
    let (spot, node) = target::entry(stage, &trimmed)?;
    match node {
        Node::Absent => {}
        Node::There(seen) => {
            let message = format!("{} exists, and is {}", shown(path), kind_name(seen.kind()));
            return Err(failure(FileErrorKind::AlreadyExists, Some(Errno::EXIST), message));
        }
        Node::Planned(_) => return Err(super::stage::twice(path)),
    }
    refuse_ours(path, &spot)?;
    let base = Spot { way: Vec::new(), ..spot.clone() };
    may_change(path, "make", &base)?;
    stage.parents(&spot)?;
    stage.make_dir(&spot, None)
}
