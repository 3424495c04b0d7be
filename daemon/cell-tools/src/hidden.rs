//! Finds the names in a workspace that the profile hides. Every directory is read once, and again
//! after it changed. Runs in the cell.

mod kept;

pub(crate) use kept::{found, keep};

use palisade_plan::names::{Kind, Matcher};
use palisade_workspace::{View, kind_of};
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

/// The time after one change in which another may leave the directory's times unchanged.
const GRAIN: Duration = Duration::from_millis(50);

/// The value of `GRAIN` for file systems that store times in whole seconds.
const COARSE: Duration = Duration::from_millis(2500);

/// The maximum number of directories that are searched. A directory beyond that is hidden as a
/// whole.
const MOST: u64 = 2_000_000;

/// The maximum length of a path that the kernel accepts.
const LONGEST: usize = 4095;

const BUFFER: usize = 32 * 1024;

/// The inode number and times of a directory, which show whether it changed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
struct Stamp {
    ino: u64,
    mtime: (i64, u32),
    ctime: (i64, u32),
}

/// A directory as it was last read.
#[derive(Debug, Default)]
pub(crate) struct ScannedDirectory {
    name: Vec<u8>,
    stamp: Stamp,
    /// True if the directory was read long enough after its last change that another change must
    /// show in its times.
    settled: bool,
    below: Vec<Self>,
    /// The hidden names in this directory.
    hits: Vec<Vec<u8>>,
}

/// The hidden names of a workspace, and the directories that were read to find them.
#[derive(Debug, Default)]
pub(crate) struct Scan {
    root: ScannedDirectory,
    /// Random hash keys, so that a generation number can not be predicted.
    keys: RandomState,
}

/// The counts of one refresh.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ScanCounts {
    /// Hidden names found.
    pub(crate) found: u64,
    /// Directories read.
    pub(crate) read: u64,
    /// Directories visited.
    directories: u64,
}

struct ScanWalk<'a> {
    workspace: BorrowedFd<'a>,
    hidden: &'a Matcher,
    now: Duration,
    /// The path of the directory being visited.
    path: Vec<u8>,
    counts: ScanCounts,
}

/// The result of visiting a directory.
enum VisitResult {
    There,
    Gone,
    /// The directory can be entered but not listed, so hidden names in it can not be found.
    Closed,
}

impl Scan {
    /// Reads every directory that is new or has changed since the last refresh.
    pub(crate) fn refresh(&mut self, view: &View) -> Result<ScanCounts, Errno> {
        if view.matchers.hidden.is_empty() {
            return Ok(ScanCounts::default());
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let workspace = rustix::fs::open(&view.workspace, flags, Mode::empty())?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut looking = ScanWalk {
            workspace: workspace.as_fd(),
            hidden: &view.matchers.hidden,
            now,
            path: Vec::new(),
            counts: ScanCounts::default(),
        };
        match looking.directory(&mut self.root)? {
            VisitResult::There => Ok(looking.counts),
            VisitResult::Gone => Err(Errno::NOENT),
            VisitResult::Closed => Err(Errno::ACCESS),
        }
    }

    /// Returns the paths of all hidden names, relative to the workspace.
    pub(crate) fn hits(&self) -> Vec<Vec<u8>> {
        let mut all = Vec::new();
        gather(&self.root, &mut Vec::new(), &mut all);
        all
    }
}

impl Scan {
    /// Returns a number that identifies the hidden names and the directories that lead to them. The
    /// directories count because their modes and times are visible where the names are hidden.
    pub(crate) fn generation(&self) -> u64 {
        let mut hash = self.keys.build_hasher();
        leading(&self.root, &mut hash);
        hash.finish()
    }
}

/// Adds a directory to the hash if it, or a directory below it, has a hidden name.
fn leading(node: &ScannedDirectory, hash: &mut impl Hasher) -> bool {
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

fn gather(node: &ScannedDirectory, path: &mut Vec<u8>, all: &mut Vec<Vec<u8>>) {
    all.extend(node.hits.iter().map(|name| [path.as_slice(), name].concat()));
    for below in &node.below {
        let length = path.len();
        path.extend_from_slice(&below.name);
        path.push(b'/');
        gather(below, path, all);
        path.truncate(length);
    }
}

impl ScanWalk<'_> {
    fn directory(&mut self, node: &mut ScannedDirectory) -> Result<VisitResult, Errno> {
        self.counts.directories += 1;
        let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
        let wanted = StatxFlags::TYPE | StatxFlags::INO | StatxFlags::MTIME | StatxFlags::CTIME;
        let stat = match rustix::fs::statx(self.workspace, self.here(), flags, wanted) {
            Ok(stat) => stat,
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(VisitResult::Gone),
            // A directory above can not be entered.
            Err(Errno::ACCESS) => return Ok(VisitResult::Gone),
            Err(error) => return Err(error),
        };
        if FileType::from_raw_mode(stat.stx_mode.into()) != FileType::Directory {
            return Ok(VisitResult::Gone);
        }
        let stamp = stamp(&stat);
        if !node.settled || node.stamp != stamp {
            match self.read(node)? {
                VisitResult::There => {}
                other @ (VisitResult::Gone | VisitResult::Closed) => return Ok(other),
            }
            node.settled = self.is_settled(stamp.mtime) && self.is_settled(stamp.ctime);
            node.stamp = stamp;
        }
        self.counts.found += node.hits.len() as u64;
        self.below(node)?;
        Ok(VisitResult::There)
    }

    fn here(&self) -> &[u8] {
        if self.path.is_empty() { b"." } else { &self.path }
    }

    fn below(&mut self, node: &mut ScannedDirectory) -> Result<(), Errno> {
        let mut closed = Vec::new();
        for below in &mut node.below {
            let length = self.path.len();
            if length > 0 {
                self.path.push(b'/');
            }
            self.path.extend_from_slice(&below.name);
            let too_much = self.path.len() > LONGEST || self.counts.directories >= MOST;
            let seen = if too_much { VisitResult::Closed } else { self.directory(below)? };
            self.path.truncate(length);
            if matches!(seen, VisitResult::Closed) {
                closed.push(below.name.clone());
            }
        }
        if !closed.is_empty() {
            self.counts.found += closed.len() as u64;
            node.below.retain(|below| !closed.contains(&below.name));
            node.hits.append(&mut closed);
            // Read it again next time, to see whether the directory is still closed.
            node.settled = false;
        }
        Ok(())
    }

    fn is_settled(&self, (seconds, nanoseconds): (i64, u32)) -> bool {
        let grain = if nanoseconds == 0 { COARSE } else { GRAIN };
        let changed = Duration::new(u64::try_from(seconds).unwrap_or(0), nanoseconds);
        changed + grain < self.now
    }

    /// Reads a directory, and keeps the results for subdirectories that still exist.
    fn read(&mut self, node: &mut ScannedDirectory) -> Result<VisitResult, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let way = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        let here = self.here().to_vec();
        let opened = rustix::fs::openat2(self.workspace, &here[..], flags, Mode::empty(), way);
        let dir = match opened {
            Ok(dir) => dir,
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(VisitResult::Gone),
            Err(Errno::ACCESS) => {
                let enter = rustix::fs::accessat(
                    self.workspace,
                    &here[..],
                    Access::EXEC_OK,
                    AtFlags::EACCESS,
                );
                return Ok(if enter.is_ok() { VisitResult::Closed } else { VisitResult::Gone });
            }
            Err(error) => return Err(error),
        };
        self.counts.read += 1;
        let known = std::mem::take(&mut node.below);
        let mut known: HashMap<Vec<u8>, ScannedDirectory> =
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
                let new =
                    || ScannedDirectory { name: name.to_vec(), ..ScannedDirectory::default() };
                node.below.push(known.remove(name).unwrap_or_else(new));
            }
        }
        Ok(VisitResult::There)
    }
}

fn stamp(stat: &Statx) -> Stamp {
    Stamp {
        ino: stat.stx_ino,
        mtime: (stat.stx_mtime.tv_sec, stat.stx_mtime.tv_nsec),
        ctime: (stat.stx_ctime.tv_sec, stat.stx_ctime.tv_nsec),
    }
}

/// Returns the kind of a directory entry. An entry whose kind can not be found out matches patterns
/// of every kind.
pub(crate) fn kind(dir: &OwnedFd, name: &[u8], told: FileType) -> Kind {
    if told != FileType::Unknown {
        return kind_of(told);
    }
    let stat = rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW);
    stat.map_or(Kind::Either, |stat| kind_of(FileType::from_raw_mode(stat.st_mode)))
}

#[cfg(test)]
mod tests;
