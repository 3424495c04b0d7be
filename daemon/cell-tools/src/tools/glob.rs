//! The `glob` tool: finds files by name, the newest first. Runs in the cell.

use super::{
    NeededMode, Stop, checked,
    choose::Chooser,
    failure, look, not_opened, open, shown,
    walk::{FileVisitor, FoundFile, TreeWalk},
    watch::CallWatch,
};
use palisade_channel::Channel;
use palisade_plan::{
    Path,
    cell::{FileError, FileErrorKind, FileReply},
    search::{AgedFile, Glob, GlobResult},
};
use palisade_workspace::View;
use rustix::{
    fs::{AtFlags, CWD, OFlags},
    io::Errno,
};
use std::{cmp::Reverse, collections::BinaryHeap, os::fd::OwnedFd};

/// The maximum size of a reply in bytes. Written out in full twice, it must fit into one result.
const MOST_ANSWERED: usize = 1024 * 1024;

/// The bytes that a file takes in a reply in addition to its path.
const OVERHEAD: usize = 40;

/// Finds files.
pub(crate) fn glob(channel: &Channel, request: &Glob, view: &View) -> Result<FileReply, Stop> {
    let mut chooser = Chooser::new(&request.choice, view)?;
    let watch = CallWatch::new(channel);
    let root = open_directory(&request.path)?;
    look::show(&root, &request.path, "search", view)?;
    let real = look::real(&root).unwrap_or_else(|| request.path.clone());
    chooser.begin(&real.0);
    let scope = chooser.scope();
    let tree = TreeWalk { root, scope, chooser: &chooser, watch: &watch };
    let (visitors, missed) = tree.walk(|| NewestFiles {
        limit: request.limit,
        total: 0,
        held: 0,
        files: BinaryHeap::new(),
    })?;
    let total = visitors.iter().map(|newest| newest.total).sum();
    let mut files: Vec<Age> = visitors.into_iter().flat_map(|newest| newest.files).collect();
    files.sort_unstable();
    let mut room = MOST_ANSWERED;
    let fits = |file: &AgedFile| {
        let left = room.checked_sub(file.path.0.len() + OVERHEAD);
        room = left.unwrap_or(0);
        left.is_some()
    };
    let limit = usize::try_from(request.limit).unwrap_or(usize::MAX);
    let files = files.into_iter().take(limit).map(Age::into_file).take_while(fits).collect();
    let more = missed.more || missed.unreadable > 0;
    Ok(FileReply::Globbed(Box::new(GlobResult { real, files, total, more })))
}

fn open_directory(path: &Path) -> Result<OwnedFd, FileError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NONBLOCK;
    open(CWD, checked(path)?, flags).map_err(|error| match error {
        Errno::NOTDIR => {
            let message = format!("{} is not a directory", shown(path));
            failure(FileErrorKind::Invalid, Some(error), message)
        }
        _ => not_opened("search", path, error, NeededMode::Read),
    })
}

/// A file in the order of the reply: the newest is the smallest.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Age {
    mtime: Reverse<(i64, u32)>,
    path: Vec<u8>,
    size: u64,
}

impl Age {
    fn into_file(self) -> AgedFile {
        AgedFile { path: Path(self.path), mtime: self.mtime.0, size: self.size }
    }
}

/// The newest files that one thread found.
struct NewestFiles {
    limit: u64,
    total: u64,
    held: usize,
    files: BinaryHeap<Age>,
}

impl FileVisitor for NewestFiles {
    fn visit(&mut self, found: &FoundFile<'_>) -> Result<(), Stop> {
        // It was deleted meanwhile.
        let Ok(stat) = rustix::fs::statat(found.dir, found.name, AtFlags::SYMLINK_NOFOLLOW) else {
            return Ok(());
        };
        self.total += 1;
        let (mtime, path) = (Reverse(palisade_workspace::modified(&stat)), found.path.to_vec());
        let size = u64::try_from(stat.st_size).unwrap_or(0);
        self.held += path.len() + OVERHEAD;
        self.files.push(Age { mtime, path, size });
        while self.files.len() as u64 > self.limit || self.held > MOST_ANSWERED {
            let Some(oldest) = self.files.pop() else { break };
            self.held -= oldest.path.len() + OVERHEAD;
        }
        Ok(())
    }
}
