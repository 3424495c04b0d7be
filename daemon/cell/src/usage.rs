//! How much a directory tree takes on the disk, as far as it can be seen: what bounds a layer that
//! no file system bounds. Room: the cell.

use crate::tools::open_with;
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

/// What an entry takes beside its blocks.
const ENTRY: u64 = 256;

/// The soonest that it is looked again.
const SOONEST: Duration = Duration::from_millis(200);

/// The part of the time that looking takes, at most: one in so many.
const PART: u32 = 20;

/// A look at a tree every now and then, more seldom the longer it takes.
#[derive(Debug)]
pub(crate) struct Watch<'a> {
    tree: &'a OwnedFd,
    most: u64,
    next: Instant,
}

impl<'a> Watch<'a> {
    pub(crate) fn new(tree: &'a OwnedFd, most: u64) -> Self {
        Self { tree, most, next: Instant::now() + SOONEST }
    }

    /// How long it is until the next look.
    pub(crate) fn patience(&self) -> Duration {
        self.next.saturating_duration_since(Instant::now())
    }

    /// Looks if it is time; says whether there is more than there may be.
    pub(crate) fn is_over(&mut self) -> bool {
        let begun = Instant::now();
        if begun < self.next {
            return false;
        }
        let over = match is_over(self.tree, self.most) {
            Ok(over) => over,
            // So deep that it can not be looked at, nor be committed.
            Err(Errno::NAMETOOLONG) => true,
            // What is changed while it is looked at is seen the next time.
            Err(_) => false,
        };
        self.next = Instant::now() + SOONEST.max(begun.elapsed() * PART);
        over
    }
}

/// Whether a tree takes more than so many bytes.
pub(crate) fn is_over(tree: &OwnedFd, most: u64) -> Result<bool, Errno> {
    let (mut bytes, mut known) = (0_u64, HashSet::new());
    let mut waiting = vec![b".".to_vec()];
    while let Some(way) = waiting.pop() {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
        let dir = match open_with(tree, &way, flags, resolve) {
            // Gone by now; or closed by the program: it is counted when it is settled.
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
        let mut watch = Watch::new(&tree, 1024);
        assert!(!watch.is_over());
        std::thread::sleep(watch.patience());
        assert!(watch.is_over());
        assert!(!watch.is_over() && watch.patience() > Duration::ZERO);
    }
}
