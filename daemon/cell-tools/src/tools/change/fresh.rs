//! New content of a file, written before it is put in place. Runs in the cell.
//!
//! It has no name where the file system supports that (`O_TMPFILE`), so that a killed process
//! leaves nothing behind. It is named `.palisade-XXXXXXXX.tmp` for the moment between a link and a
//! rename. On other file systems, and in a change with very many files, it has that name all the
//! time.

use super::{
    names::{rename_new, with_free_name},
    settle::content,
    spot::{Dir, DirHandle},
};
use palisade_plan::change::Attribute;
use palisade_workspace::EntryMetadata;
use rustix::{
    fs::{AtFlags, CWD, Gid, Mode, OFlags, Timespec, Timestamps, Uid},
    io::Errno,
};
use sha2::{Digest as _, Sha256};
use std::{
    fs::File,
    io::{self, Read as _, Seek as _, Write as _},
    os::fd::{AsFd, AsRawFd as _},
    rc::Rc,
};

/// The mode, owner and times that a new file is to have.
#[derive(Debug, Clone, Copy)]
pub(super) enum FileAttributes {
    /// The defaults of a new file.
    New,
    /// The mode and owner of the file that it replaces.
    Old(EntryMetadata),
    /// The mode and time that it once had.
    Past { mode: u32, mtime: (i64, u32) },
}

/// A temporary file with new content. It is deleted if this is dropped before it was put in place.
#[derive(Debug)]
pub(super) struct TemporaryFile {
    dir: Rc<Dir>,
    file: Option<File>,
    name: Option<String>,
    hash: Sha256,
    size: u64,
}

/// The size, mode and digest of complete content.
#[derive(Debug, Clone, Copy)]
pub(super) struct ContentFacts {
    pub(super) size: u64,
    pub(super) mode: u32,
    pub(super) digest: [u8; 32],
}

impl TemporaryFile {
    /// Creates a file in a directory of the file system that it is for.
    pub(super) fn new(dir: &Rc<Dir>, like: FileAttributes) -> Result<Self, Errno> {
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        match rustix::fs::openat(dir, ".", flags, first_mode(like)) {
            Ok(file) => Ok(Self::of(dir, file.into(), None)),
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::NOENT | Errno::INVAL | Errno::NOSYS) => {
                Self::named(dir, like)
            }
            Err(error) => Err(error),
        }
    }

    /// Creates a file that has a name from the start.
    pub(super) fn named(dir: &Rc<Dir>, like: FileAttributes) -> Result<Self, Errno> {
        let (file, name) = create(dir, first_mode(like))?;
        Ok(Self::of(dir, file, Some(name)))
    }

    fn of(dir: &Rc<Dir>, file: File, name: Option<String>) -> Self {
        Self { dir: Rc::clone(dir), file: Some(file), name, hash: Sha256::new(), size: 0 }
    }

    /// Returns the number of bytes written so far.
    pub(super) const fn size(&self) -> u64 {
        self.size
    }

    /// Appends to the content.
    pub(super) fn write(&mut self, data: &[u8]) -> io::Result<()> {
        self.file()?.write_all(data)?;
        self.hash.update(data);
        self.size += data.len() as u64;
        Ok(())
    }

    /// Reads the whole content; `None` if it is larger than `most`.
    pub(super) fn content(&self, most: u64) -> io::Result<Option<Vec<u8>>> {
        if self.size > most {
            return Ok(None);
        }
        let mut file = self.file()?;
        file.rewind()?;
        let mut content = Vec::with_capacity(usize::try_from(self.size).unwrap_or(0));
        file.read_to_end(&mut content)?;
        Ok(Some(content))
    }

    /// Returns the file, positioned at its beginning.
    pub(super) fn read_again(&self) -> io::Result<File> {
        let mut file = match (&self.file, &self.name) {
            (Some(file), _) => file.try_clone()?,
            (None, Some(name)) => {
                let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                rustix::fs::openat(&self.dir, name.as_str(), flags, Mode::empty())?.into()
            }
            (None, None) => return Err(io::Error::other("it is closed")),
        };
        file.rewind()?;
        Ok(file)
    }

    /// Completes the content: sets the mode, the owner and the time.
    pub(super) fn complete(&self, like: FileAttributes) -> io::Result<ContentFacts> {
        let file = self.file()?;
        let own = EntryMetadata::from(&rustix::fs::fstat(file)?);
        let mode = match like {
            FileAttributes::New => own.mode(),
            // Never set-uid, set-gid or sticky: those were granted to the old content, not to this.
            FileAttributes::Old(old) => old.mode(),
            FileAttributes::Past { mode, .. } => mode & 0o777,
        };
        if let FileAttributes::Old(old) = like
            && own.owner != old.owner
        {
            let owner = (Uid::from_raw(old.owner.0), Gid::from_raw(old.owner.1));
            match rustix::fs::fchown(file, Some(owner.0), Some(owner.1)) {
                // Only a privileged process can give files away. Otherwise the file stays the
                // session's own.
                Ok(()) | Err(Errno::PERM | Errno::INVAL) => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.set_mode(own.mode(), mode)?;
        if let FileAttributes::Past { mtime, .. } = like {
            let last = Timespec { tv_sec: mtime.0, tv_nsec: mtime.1.into() };
            let now = Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_OMIT };
            rustix::fs::futimens(file, &Timestamps { last_access: now, last_modification: last })?;
        }
        Ok(ContentFacts { size: self.size, mode, digest: self.hash.clone().finalize().into() })
    }

    /// Sets extended attributes.
    pub(super) fn set_attributes(&self, attributes: &[Attribute]) -> io::Result<()> {
        if attributes.is_empty() {
            return Ok(());
        }
        let file = self.file()?;
        let mode = EntryMetadata::from(&rustix::fs::fstat(file)?).mode();
        // Only who may write a file may set its attributes.
        self.set_mode(mode, mode | 0o200)?;
        content::set_attributes(file, attributes)?;
        self.set_mode(mode | 0o200, mode)
    }

    /// Changes the mode, if it differs from `has`.
    pub(super) fn set_mode(&self, has: u32, mode: u32) -> io::Result<()> {
        if has != mode {
            rustix::fs::fchmod(self.file()?, Mode::from_raw_mode(mode))?;
        }
        Ok(())
    }

    /// Closes the descriptor. The file has a name from then on.
    pub(super) fn close(&mut self) -> io::Result<()> {
        if self.name.is_none() {
            let dir = Rc::clone(&self.dir);
            self.take_name(&dir)?;
        }
        self.file = None;
        Ok(())
    }

    /// Puts the file at a name that is free.
    pub(super) fn put(&mut self, dir: &DirHandle<'_>, name: &[u8]) -> io::Result<()> {
        if self.name.is_none() {
            match self.link(dir, name) {
                Err(error) if can_not_link(error) => self.copy(dir, name)?,
                done => done?,
            }
            return Ok(());
        }
        let Some(own) = &self.name else { return Ok(()) };
        rename_new((&self.dir, own.as_bytes()), (dir, name))?;
        self.name = None;
        Ok(())
    }

    /// Gives the file a name in the directory of the one that it will replace. The caller then owns
    /// the name.
    pub(super) fn give_name(&mut self, dir: &DirHandle<'_>) -> io::Result<String> {
        let Some(own) = self.name.clone() else {
            self.take_name(dir)?;
            return self.name.take().ok_or_else(|| io::Error::other("it has no name"));
        };
        let name = match dir {
            DirHandle::Base(_) => own,
            DirHandle::Below(below) => {
                let renamed = with_free_name(|free| {
                    rename_new((&self.dir, own.as_bytes()), (below, free.as_bytes()))
                });
                renamed?.1
            }
        };
        self.name = None;
        Ok(name)
    }

    /// Returns the present state of the file.
    pub(super) fn version(&self) -> Option<EntryMetadata> {
        let file = self.file.as_ref()?;
        rustix::fs::fstat(file).ok().map(|stat| EntryMetadata::from(&stat))
    }

    fn file(&self) -> io::Result<&File> {
        self.file.as_ref().ok_or_else(|| io::Error::other("it is closed"))
    }

    fn take_name(&mut self, dir: impl AsFd) -> io::Result<()> {
        let linked = with_free_name(|free| self.link(&dir, free.as_bytes()));
        match linked {
            Ok(((), free)) => self.name = Some(free),
            Err(error) if can_not_link(error) => self.name = Some(self.copy_aside(dir)?),
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    fn link(&self, dir: impl AsFd, name: &[u8]) -> Result<(), Errno> {
        let Some(file) = &self.file else { return Err(Errno::BADF) };
        match rustix::fs::linkat(file, "", &dir, name, AtFlags::EMPTY_PATH) {
            // Kernels before 6.10 return this to a process without privilege.
            Err(Errno::NOENT) => {
                let own = format!("/proc/self/fd/{}", file.as_raw_fd());
                rustix::fs::linkat(CWD, own, &dir, name, AtFlags::SYMLINK_FOLLOW)
            }
            done => done,
        }
    }

    /// Puts a copy of the file at a name that is free, where it can not be linked.
    fn copy(&mut self, dir: &DirHandle<'_>, name: &[u8]) -> io::Result<()> {
        let aside = self.copy_aside(dir)?;
        let done = rename_new((dir, aside.as_bytes()), (dir, name));
        if done.is_err() {
            unlink(dir, &aside);
        }
        Ok(done?)
    }

    /// Replaces the file by a copy of it that has a name.
    fn copy_aside(&mut self, dir: impl AsFd) -> io::Result<String> {
        let mut old = self.file.take().ok_or_else(|| io::Error::other("it is closed"))?;
        let own = rustix::fs::fstat(&old)?;
        let (mut file, name) = create(&dir, Mode::from_raw_mode(0o600))?;
        let copied = old.rewind().and_then(|()| io::copy(&mut old, &mut file)).and_then(|_| {
            let times = Timestamps {
                last_access: Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_OMIT },
                last_modification: Timespec {
                    tv_sec: own.st_mtime,
                    tv_nsec: i64::try_from(own.st_mtime_nsec).unwrap_or(0),
                },
            };
            rustix::fs::futimens(&file, &times)?;
            Ok(rustix::fs::fchmod(&file, Mode::from_raw_mode(own.st_mode & 0o777))?)
        });
        if let Err(error) = copied {
            unlink(&dir, &name);
            return Err(error);
        }
        self.file = Some(file);
        Ok(name)
    }
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        if let Some(name) = self.name.take() {
            unlink(&self.dir, &name);
        }
    }
}

/// Deletes a temporary file. Errors are ignored: there is nobody to tell, and the name says what it
/// is.
fn unlink(dir: impl AsFd, name: &str) {
    rustix::fs::unlinkat(dir, name, AtFlags::empty()).ok();
}

/// Returns the mode at creation. A replacement is private until it has the mode of what it
/// replaces. A new file gets 0666 as the umask permits.
const fn first_mode(like: FileAttributes) -> Mode {
    Mode::from_raw_mode(match like {
        FileAttributes::New => 0o666,
        FileAttributes::Old(_) | FileAttributes::Past { .. } => 0o600,
    })
}

fn create(dir: impl AsFd, mode: Mode) -> Result<(File, String), Errno> {
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::RDWR | OFlags::CLOEXEC;
    let (file, name) = with_free_name(|name| rustix::fs::openat(&dir, name, flags, mode))?;
    Ok((file.into(), name))
}

const fn can_not_link(error: Errno) -> bool {
    matches!(error, Errno::NOENT | Errno::OPNOTSUPP | Errno::PERM | Errno::XDEV)
}
