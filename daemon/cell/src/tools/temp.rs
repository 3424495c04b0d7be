//! A file that is written aside and put in place whole. Room: the cell.
//!
//! While it is written it has no name, where the file system can do that (`O_TMPFILE`): a process
//! that is killed leaves nothing behind. A new file gets its name by one link. One that replaces
//! another has the name `.palisade-XXXXXXXX.tmp` for the moment between a link and a rename; on
//! other file systems, it has it all the time that it is written.

use rustix::{
    fs::{AtFlags, CWD, Gid, Mode, OFlags, RenameFlags, Stat, Uid},
    io::Errno,
    rand::GetRandomFlags,
};
use std::{
    fs::File,
    io::{self, Seek},
    os::fd::{AsRawFd, BorrowedFd},
};

/// How often another random name is tried.
const TRIES: usize = 16;

/// A file written aside. It goes when this is dropped before it was put in place.
#[derive(Debug)]
pub(super) struct Temp<'a> {
    dir: BorrowedFd<'a>,
    file: File,
    name: Option<String>,
    like: Option<Stat>,
}

impl<'a> Temp<'a> {
    /// Begins a file in `dir`, which will get mode and owner of `like`, or else what a new file
    /// gets.
    pub(super) fn new(dir: BorrowedFd<'a>, like: Option<Stat>) -> Result<Self, Errno> {
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        match rustix::fs::openat(dir, ".", flags, first_mode(like)) {
            Ok(file) => Ok(Self { dir, file: file.into(), name: None, like }),
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::NOENT | Errno::INVAL | Errno::NOSYS) => {
                Self::named(dir, like)
            }
            Err(error) => Err(error),
        }
    }

    /// The same with a name from the start.
    pub(super) fn named(dir: BorrowedFd<'a>, like: Option<Stat>) -> Result<Self, Errno> {
        let flags =
            OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::RDWR | OFlags::CLOEXEC;
        let (file, name) =
            with_free_name(|name| rustix::fs::openat(dir, name, flags, first_mode(like)))?;
        Ok(Self { dir, file: File::from(file), name: Some(name), like })
    }

    /// For its content.
    pub(super) const fn file(&self) -> &File {
        &self.file
    }

    /// Puts it where nothing is.
    pub(super) fn place_new(&mut self, name: &[u8]) -> io::Result<()> {
        self.keep_attributes()?;
        if self.name.is_none() {
            match self.link(name) {
                Err(error) if can_not_link(error) => self.take_name()?,
                done => return Ok(done?),
            }
        }
        self.rename(name, RenameFlags::NOREPLACE)
    }

    /// Puts it in the place of what is there.
    pub(super) fn place_over(&mut self, name: &[u8]) -> io::Result<()> {
        self.keep_attributes()?;
        if self.name.is_none() {
            match with_free_name(|free| self.link(free.as_bytes())) {
                Ok(((), free)) => self.name = Some(free),
                Err(error) if can_not_link(error) => self.take_name()?,
                Err(error) => return Err(error.into()),
            }
        }
        self.rename(name, RenameFlags::empty())
    }

    fn rename(&mut self, to: &[u8], flags: RenameFlags) -> io::Result<()> {
        if let Some(name) = &self.name {
            // Not synced first: what is promised is that no reader, and no killed process, leaves
            // or sees a half of it. What a power cut leaves is the file system's promise.
            rustix::fs::renameat_with(self.dir, name.as_str(), self.dir, to, flags)?;
            self.name = None;
        }
        Ok(())
    }

    fn link(&self, name: &[u8]) -> Result<(), Errno> {
        match rustix::fs::linkat(&self.file, "", self.dir, name, AtFlags::EMPTY_PATH) {
            // So says a kernel before 6.10 to who has no privilege.
            Err(Errno::NOENT) => {
                let own = format!("/proc/self/fd/{}", self.file.as_raw_fd());
                rustix::fs::linkat(CWD, own, self.dir, name, AtFlags::SYMLINK_FOLLOW)
            }
            done => done,
        }
    }

    /// Becomes a copy of itself with a name.
    pub(super) fn take_name(&mut self) -> io::Result<()> {
        let mut named = Self::named(self.dir, self.like)?;
        self.file.rewind()?;
        io::copy(&mut self.file, &mut named.file)?;
        named.keep_attributes()?;
        std::mem::swap(self, &mut named);
        Ok(())
    }

    fn keep_attributes(&self) -> Result<(), Errno> {
        let Some(like) = &self.like else { return Ok(()) };
        let own = rustix::fs::fstat(&self.file)?;
        if (own.st_uid, own.st_gid) != (like.st_uid, like.st_gid) {
            let owner = (Uid::from_raw(like.st_uid), Gid::from_raw(like.st_gid));
            match rustix::fs::fchown(&self.file, Some(owner.0), Some(owner.1)) {
                // Only a privileged process gives files away: it is then the session's own.
                Ok(()) | Err(Errno::PERM | Errno::INVAL) => {}
                Err(error) => return Err(error),
            }
        }
        // Never set-uid, set-gid or sticky: the content is not what was trusted with that.
        rustix::fs::fchmod(&self.file, Mode::from_raw_mode(like.st_mode & 0o777))
    }
}

impl Drop for Temp<'_> {
    fn drop(&mut self) {
        if let Some(name) = self.name.take() {
            // There is nobody to tell, and the name says what it is.
            rustix::fs::unlinkat(self.dir, name.as_str(), AtFlags::empty()).ok();
        }
    }
}

/// A replacement is for nobody else to read until it has the mode of what it replaces; a new file
/// gets the mode that the kernel makes of this with the umask.
fn first_mode(like: Option<Stat>) -> Mode {
    Mode::from_raw_mode(if like.is_some() { 0o600 } else { 0o666 })
}

fn can_not_link(error: Errno) -> bool {
    matches!(error, Errno::NOENT | Errno::OPNOTSUPP | Errno::PERM)
}

/// Does something with a random name that is not taken.
fn with_free_name<T>(mut act: impl FnMut(&str) -> Result<T, Errno>) -> Result<(T, String), Errno> {
    for _try in 0..TRIES {
        let mut random = [0; 4];
        rustix::rand::getrandom(&mut random, GetRandomFlags::empty())?;
        let name = format!(".palisade-{:08x}.tmp", u32::from_ne_bytes(random));
        match act(&name) {
            Err(Errno::EXIST) => {}
            done => return done.map(|done| (done, name)),
        }
    }
    Err(Errno::EXIST)
}
