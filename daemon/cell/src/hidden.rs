//! Finds the hidden names of a workspace: every directory is read once, and again when it changed.
//! Room: the cell.

mod kept;

pub(crate) use kept::{found, keep, known};

use crate::view::View;
use palisade_plan::names::{Kind, Matcher};
use rustix::{
    fs::{Access, AtFlags, FileType, Mode, OFlags, RawDir, ResolveFlags, Statx, StatxFlags},
    io::Errno,
};
use std::{
    collections::HashMap,
    hash::{BuildHasher as _, DefaultHasher, Hash as _, Hasher, RandomState},
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// A change that comes so soon after another may leave a directory with the same times.
const GRAIN: Duration = Duration::from_millis(50);

/// The same where times have whole seconds only.
const COARSE: Duration = Duration::from_millis(2500);

/// The most directories; what is below more is not shown at all.
const MOST: u64 = 2_000_000;

/// The longest path that the kernel takes.
const LONGEST: usize = 4095;

const BUFFER: usize = 32 * 1024;

/// What there is of a directory: by these it is known whether it was changed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
struct Stamp {
    ino: u64,
    mtime: (i64, u32),
    ctime: (i64, u32),
}

/// A directory as it was read.
#[derive(Debug, Default)]
pub(crate) struct Node {
    name: Vec<u8>,
    stamp: Stamp,
    /// It was read so long after its last change that the next one has another time.
    settled: bool,
    below: Vec<Self>,
    /// What in it is hidden.
    hits: Vec<Vec<u8>>,
}

/// What is known of a workspace.
#[derive(Debug, Default)]
pub(crate) struct Scan {
    root: Node,
    /// For numbers that nobody can foresee.
    keys: RandomState,
}

/// What a look at all of it came to.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Hidden names.
    pub(crate) found: u64,
    /// Directories that were read.
    pub(crate) read: u64,
    /// Directories in all.
    directories: u64,
}

struct Looking<'a> {
    workspace: BorrowedFd<'a>,
    hidden: &'a Matcher,
    now: Duration,
    /// The path of the directory that is looked at.
    path: Vec<u8>,
    counts: Counts,
}

/// What became of a directory.
enum Seen {
    There,
    Gone,
    /// It can be entered and not be listed, so what in it is hidden can not be found.
    Closed,
}

impl Scan {
    /// Brings it up to date.
    pub(crate) fn refresh(&mut self, view: &View) -> Result<Counts, Errno> {
        if view.veil.hidden.is_empty() {
            return Ok(Counts::default());
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let workspace = rustix::fs::open(&view.workspace, flags, Mode::empty())?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut looking = Looking {
            workspace: workspace.as_fd(),
            hidden: &view.veil.hidden,
            now,
            path: Vec::new(),
            counts: Counts::default(),
        };
        match looking.directory(&mut self.root)? {
            Seen::There => Ok(looking.counts),
            Seen::Gone => Err(Errno::NOENT),
            Seen::Closed => Err(Errno::ACCESS),
        }
    }

    /// The paths of all that is hidden, relative to the workspace.
    pub(crate) fn hits(&self) -> Vec<Vec<u8>> {
        let mut all = Vec::new();
        gather(&self.root, &mut Vec::new(), &mut all);
        all
    }
}

impl Scan {
    /// A number for what is hidden, and for the directories that lead there, whose modes and times
    /// are seen where it is hidden.
    pub(crate) fn generation(&self) -> u64 {
        let mut hash = self.keys.build_hasher();
        leading(&self.root, &mut hash);
        hash.finish()
    }
}

/// Takes in a directory, if something in it or below is hidden.
fn leading(node: &Node, hash: &mut impl Hasher) -> bool {
    let mut below = Vec::new();
    for one in &node.below {
        let mut own = DefaultHasher::new();
        if leading(one, &mut own) {
            below.push((&one.name, one.stamp, own.finish()));
        }
    }
    if node.hits.is_empty() && below.is_empty() {
        return false;
    }
    node.hits.hash(hash);
    below.hash(hash);
    true
}

fn gather(node: &Node, path: &mut Vec<u8>, all: &mut Vec<Vec<u8>>) {
    all.extend(node.hits.iter().map(|name| [path.as_slice(), name].concat()));
    for below in &node.below {
        let length = path.len();
        path.extend_from_slice(&below.name);
        path.push(b'/');
        gather(below, path, all);
        path.truncate(length);
    }
}

impl Looking<'_> {
    fn directory(&mut self, node: &mut Node) -> Result<Seen, Errno> {
        self.counts.directories += 1;
        let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
        let wanted = StatxFlags::TYPE | StatxFlags::INO | StatxFlags::MTIME | StatxFlags::CTIME;
        let stat = match rustix::fs::statx(self.workspace, self.here(), flags, wanted) {
            Ok(stat) => stat,
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(Seen::Gone),
            // What is above it can not be entered.
            Err(Errno::ACCESS) => return Ok(Seen::Gone),
            Err(error) => return Err(error),
        };
        if FileType::from_raw_mode(stat.stx_mode.into()) != FileType::Directory {
            return Ok(Seen::Gone);
        }
        let stamp = stamp(&stat);
        if !node.settled || node.stamp != stamp {
            match self.read(node)? {
                Seen::There => {}
                other @ (Seen::Gone | Seen::Closed) => return Ok(other),
            }
            node.settled = self.is_settled(stamp.mtime) && self.is_settled(stamp.ctime);
            node.stamp = stamp;
        }
        self.counts.found += node.hits.len() as u64;
        self.below(node)?;
        Ok(Seen::There)
    }

    fn here(&self) -> &[u8] {
        if self.path.is_empty() { b"." } else { &self.path }
    }

    fn below(&mut self, node: &mut Node) -> Result<(), Errno> {
        let mut closed = Vec::new();
        for below in &mut node.below {
            let length = self.path.len();
            if length > 0 {
                self.path.push(b'/');
            }
            self.path.extend_from_slice(&below.name);
            let too_much = self.path.len() > LONGEST || self.counts.directories >= MOST;
            let seen = if too_much { Seen::Closed } else { self.directory(below)? };
            self.path.truncate(length);
            if matches!(seen, Seen::Closed) {
                closed.push(below.name.clone());
            }
        }
        if !closed.is_empty() {
            self.counts.found += closed.len() as u64;
            node.below.retain(|below| !closed.contains(&below.name));
            node.hits.append(&mut closed);
            // Whether it is still closed is seen by looking.
            node.settled = false;
        }
        Ok(())
    }

    fn is_settled(&self, (seconds, nanoseconds): (i64, u32)) -> bool {
        let grain = if nanoseconds == 0 { COARSE } else { GRAIN };
        let changed = Duration::new(u64::try_from(seconds).unwrap_or(0), nanoseconds);
        changed + grain < self.now
    }

    /// Reads a directory; what is known of those in it stays known.
    fn read(&mut self, node: &mut Node) -> Result<Seen, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let way = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        let here = self.here().to_vec();
        let opened = rustix::fs::openat2(self.workspace, &here[..], flags, Mode::empty(), way);
        let dir = match opened {
            Ok(dir) => dir,
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(Seen::Gone),
            Err(Errno::ACCESS) => {
                let enter = rustix::fs::accessat(
                    self.workspace,
                    &here[..],
                    Access::EXEC_OK,
                    AtFlags::EACCESS,
                );
                return Ok(if enter.is_ok() { Seen::Closed } else { Seen::Gone });
            }
            Err(error) => return Err(error),
        };
        self.counts.read += 1;
        let known = std::mem::take(&mut node.below);
        let mut known: HashMap<Vec<u8>, Node> =
            known.into_iter().map(|below| (below.name.clone(), below)).collect();
        node.hits.clear();
        let mut buffer = Vec::with_capacity(BUFFER);
        let mut entries = RawDir::new(&dir, buffer.spare_capacity_mut());
        while let Some(entry) = entries.next() {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if matches!(name, b"." | b"..") {
                continue;
            }
            let kind = kind(&dir, name, entry.file_type());
            if self.hidden.entry(&self.path, name, kind).is_some() {
                node.hits.push(name.to_vec());
            } else if kind == Kind::Directory {
                let new = || Node { name: name.to_vec(), ..Node::default() };
                node.below.push(known.remove(name).unwrap_or_else(new));
            }
        }
        Ok(Seen::There)
    }
}

fn stamp(stat: &Statx) -> Stamp {
    Stamp {
        ino: stat.stx_ino,
        mtime: (stat.stx_mtime.tv_sec, stat.stx_mtime.tv_nsec),
        ctime: (stat.stx_ctime.tv_sec, stat.stx_ctime.tv_nsec),
    }
}

/// What an entry is. What can not be told is whatever a pattern asks for.
pub(crate) fn kind(dir: &OwnedFd, name: &[u8], told: FileType) -> Kind {
    if told != FileType::Unknown {
        return kind_of(told);
    }
    let stat = rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW);
    stat.map_or(Kind::Either, |stat| kind_of(FileType::from_raw_mode(stat.st_mode)))
}

/// What a file is, as far as a pattern asks.
pub(crate) const fn kind_of(kind: FileType) -> Kind {
    match kind {
        FileType::Directory => Kind::Directory,
        FileType::RegularFile
        | FileType::Symlink
        | FileType::Fifo
        | FileType::Socket
        | FileType::CharacterDevice
        | FileType::BlockDevice => Kind::Other,
        FileType::Unknown => Kind::Either,
    }
}

#[cfg(test)]
mod tests;
