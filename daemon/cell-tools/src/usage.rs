//! Measures how much disk space a directory tree takes, as far as it can be read. This bounds an
//! upper layer that has no file system of its own. Runs in the cell.

use palisade_workspace::open_with;
use rustix::{
    fs::{AtFlags, FileType, OFlags, RawDir, ResolveFlags},
    io::Errno,
};
use std::{
    collections::HashSet,
    os::fd::OwnedFd,
    time::{Duration, Instant},
};

const BUFFER: usize = 32 * 1024;

/// The bytes counted for an entry in addition to its blocks.
const ENTRY: u64 = 256;

/// The minimum time between two measurements.
const SOONEST: Duration = Duration::from_millis(200);

/// Measuring takes at most one part in so many of the time.
const PART: u32 = 20;

/// Measures a tree from time to time, less often the longer that takes.
#[derive(Debug)]
pub struct UsageWatch<'a> {
    tree: &'a OwnedFd,
    most: u64,
    next: Instant,
}

impl<'a> UsageWatch<'a> {
    /// Begins to watch a tree that may take `most` bytes.
    #[must_use]
    pub fn new(tree: &'a OwnedFd, most: u64) -> Self {
        Self { tree, most, next: Instant::now() + SOONEST }
    }

    /// Returns the time until the next measurement.
    #[must_use]
    pub fn patience(&self) -> Duration {
        self.next.saturating_duration_since(Instant::now())
    }

    /// Measures the tree if it is time, and returns whether it is too large.
    pub fn is_over(&mut self) -> bool {
        let begun = Instant::now();
        if begun < self.next {
            return false;
        }
        let over = match is_over(self.tree, self.most) {
            Ok(over) => over,
            // Too deep to be measured, and so to be committed.
            Err(Errno::NAMETOOLONG) => true,
            // Changes made during the measurement are seen the next time.
            Err(_) => false,
        };
        self.next = Instant::now() + SOONEST.max(begun.elapsed() * PART);
        over
    }
}

/// Returns `true` if a tree takes more than `most` bytes.
pub(crate) fn is_over(tree: &OwnedFd, most: u64) -> Result<bool, Errno> {
    let (mut bytes, mut known) = (0_u64, HashSet::new());
    let mut waiting = vec![b".".to_vec()];
    while let Some(way) = waiting.pop() {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
        let dir = match open_with(tree, &way, flags, resolve) {
            // It was deleted meanwhile, or the program closed it. A closed directory is counted at
            // the commit.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::ACCESS | Errno::LOOP) => continue,
            dir => dir?,
        };
        let mut buffer = Vec::with_capacity(BUFFER);
        let mut entries = RawDir::new(&dir, buffer.spare_capacity_mut());
        while let Some(entry) = entries.next() {
            let entry = entry?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            let stat = match rustix::fs::statat(&dir, name, AtFlags::SYMLINK_NOFOLLOW) {
                Err(Errno::NOENT) => continue,
                stat => stat?,
            };
            bytes = bytes.saturating_add(ENTRY);
            if stat.st_nlink < 2 || known.insert(stat.st_ino) {
                let blocks = u64::try_from(stat.st_blocks).unwrap_or(0);
                bytes = bytes.saturating_add(blocks.saturating_mul(512));
            }
            if bytes > most {
                return Ok(true);
            }
            if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
                waiting.push([&way, b"/".as_slice(), name.to_bytes()].concat());
            }
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn what_takes_space_counts_once_and_what_does_not_does_not() {
        let temp = tempfile::tempdir().unwrap();
        let at = temp.path();
        let tree = OwnedFd::from(fs::File::open(at).unwrap());
        let sparse = fs::File::create(at.join("sparse")).unwrap();
        sparse.set_len(1 << 31).unwrap();
        assert_eq!(is_over(&tree, 64 * 1024), Ok(false));
        fs::create_dir_all(at.join("a/b")).unwrap();
        fs::write(at.join("a/b/file"), vec![7; 256 * 1024]).unwrap();
        for name in 0..20 {
            fs::hard_link(at.join("a/b/file"), at.join(format!("a/link-{name}"))).unwrap();
        }
        assert_eq!(is_over(&tree, 512 * 1024), Ok(false));
        assert_eq!(is_over(&tree, 128 * 1024), Ok(true));
    }

    #[test]
    fn it_is_not_looked_all_the_time() {
        let temp = tempfile::tempdir().unwrap();
        let tree = OwnedFd::from(fs::File::open(temp.path()).unwrap());
        fs::write(temp.path().join("file"), vec![7; 64 * 1024]).unwrap();
        let mut watch = UsageWatch::new(&tree, 1024);
        assert!(!watch.is_over());
        std::thread::sleep(watch.patience());
        assert!(watch.is_over());
        assert!(!watch.is_over() && watch.patience() > Duration::ZERO);
    }
}
