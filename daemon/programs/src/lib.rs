//! Finds the programs of Palisade, and keeps them open. An open program can still be started when
//! its directory can no longer be entered. Runs in every room, and in the client.

mod search;
mod who;

pub use search::{INSTALLED, NotFound, Obstacle, Search, SearchedPath};
pub use who::{Person, closed_directory};

use rustix::{
    fs::{FileType, MemfdFlags, Mode, OFlags, SealFlags},
    io::Errno,
};
use std::{
    fs::File,
    io,
    os::fd::{AsRawFd, OwnedFd},
    path::{Path, PathBuf},
    sync::Arc,
};

/// The descriptors of this process. Opening an entry opens the file behind the descriptor again.
const DESCRIPTORS: &str = "/proc/self/fd";

/// A program file that is held open. Exactly this file is run, even after this process changes its
/// user.
#[derive(Debug, Clone)]
pub struct Program {
    path: PathBuf,
    file: Arc<OwnedFd>,
}

impl Program {
    /// Opens the program at a path. Whether it may be executed is not checked here.
    ///
    /// # Errors
    /// If there is no such file, or it can not be reached.
    pub fn at(path: &Path) -> io::Result<Self> {
        let file = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        if FileType::from_raw_mode(rustix::fs::fstat(&file)?.st_mode) != FileType::RegularFile {
            return Err(io::Error::other("not a regular file"));
        }
        Ok(Self { path: path.to_owned(), file: Arc::new(file) })
    }

    /// Opens the program that this process runs.
    ///
    /// # Errors
    /// If `/proc` is missing.
    pub fn own() -> io::Result<Self> {
        let opened = Self::at(Path::new("/proc/self/exe"))?;
        Ok(Self { path: std::env::current_exe()?, ..opened })
    }

    /// Returns the path where the program was found, for messages.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns a path by which this process and its children can start the program, as long as this
    /// value lives.
    #[must_use]
    pub fn entry(&self) -> PathBuf {
        entry(&self.file)
    }

    /// Returns the same program for a user whom its mode may lock out, as after a build with umask
    /// 077. In that case the result is a sealed copy in memory. The caller has to be able to read
    /// the program.
    ///
    /// # Errors
    /// If the program can not be read or copied.
    pub fn for_user(self, uid: u32, gid: u32) -> io::Result<Self> {
        let found = rustix::fs::fstat(&self.file)?;
        let shift = match (found.st_uid == uid, found.st_gid == gid) {
            (true, _) => 6,
            (false, true) => 3,
            (false, false) => 0,
        };
        // The permissions to read and to execute.
        if (found.st_mode >> shift) & 0o5 == 0o5 {
            return Ok(self);
        }
        let mut from = File::open(self.entry())?;
        let mut copy = File::from(anonymous_file(&self.path)?);
        io::copy(&mut from, &mut copy)?;
        let seals = SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL;
        rustix::fs::fcntl_add_seals(&copy, seals)?;
        // The kernel refuses to execute a file while a descriptor is open for writing.
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let file = rustix::fs::open(entry(&copy), flags, Mode::empty())?;
        Ok(Self { path: self.path, file: Arc::new(file) })
    }
}

/// Returns a path by which this process and its children reach the file behind a descriptor, as
/// long as the descriptor is open.
#[must_use]
pub fn entry(descriptor: &impl AsRawFd) -> PathBuf {
    Path::new(DESCRIPTORS).join(descriptor.as_raw_fd().to_string())
}

fn anonymous_file(path: &Path) -> io::Result<OwnedFd> {
    let name = path.file_name().unwrap_or_default();
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    match rustix::fs::memfd_create(name, flags | MemfdFlags::EXEC) {
        // Kernels before 6.3 do not have the flag, and can execute any memfd.
        Err(Errno::INVAL) => Ok(rustix::fs::memfd_create(name, flags)?),
        made => Ok(made?),
    }
}

/// Returns a path as people know it. A path that begins with a descriptor of this process is
/// replaced by the path that the descriptor refers to.
#[must_use]
pub fn named(path: &Path) -> PathBuf {
    let Ok(rest) = path.strip_prefix(DESCRIPTORS) else { return path.to_owned() };
    let mut parts = rest.components();
    let target = parts.next().map(|number| Path::new(DESCRIPTORS).join(number));
    match target.and_then(|entry| entry.read_link().ok()) {
        Some(target) if parts.as_path().as_os_str().is_empty() => target,
        Some(target) => target.join(parts.as_path()),
        None => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, os::unix::fs::PermissionsExt as _};

    #[test]
    fn a_program_outlives_its_name() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("true");
        fs::copy("/bin/true", &path).unwrap();
        let program = Program::at(&path).unwrap();
        fs::remove_file(&path).unwrap();
        assert!(Program::at(&path).is_err());
        assert_eq!(fs::read(program.entry()).unwrap(), fs::read("/bin/true").unwrap());
        assert_eq!(program.path(), path);
        assert!(Program::at(directory.path()).unwrap_err().to_string().contains("not a regular"));
    }

    #[test]
    fn a_descriptor_is_told_by_where_it_leads() {
        let directory = tempfile::tempdir().unwrap();
        let opened = fs::File::open(directory.path()).unwrap();
        let entry = entry(&opened);
        assert_eq!(named(&entry), directory.path());
        assert_eq!(named(&entry.join("a/b")), directory.path().join("a/b"));
        assert_eq!(named(Path::new("/a/b")), Path::new("/a/b"));
        drop(opened);
    }

    #[test]
    fn a_program_that_a_user_may_not_run_is_copied_and_no_other_is() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("true");
        fs::copy("/bin/true", &path).unwrap();
        let set = |mode| fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        let for_user = |uid| {
            let program = Program::at(&path).unwrap().for_user(uid, uid).unwrap();
            fs::read_link(program.entry()).unwrap()
        };
        let (own, other) = (rustix::process::geteuid().as_raw(), 4_000_000);
        set(0o755);
        assert_eq!(for_user(other), path);
        set(0o700);
        assert_eq!(for_user(own), path);
        let copy = Program::at(&path).unwrap().for_user(other, other).unwrap();
        let link = fs::read_link(copy.entry()).unwrap();
        assert_eq!(link, Path::new("/memfd:true (deleted)"));
        assert_eq!(fs::read(copy.entry()).unwrap(), fs::read(&path).unwrap());
        assert_eq!(fs::metadata(copy.entry()).unwrap().permissions().mode() & 0o005, 0o005);
        let changed = fs::OpenOptions::new().write(true).open(copy.entry());
        let changed = changed.and_then(|mut file| io::Write::write_all(&mut file, b"x"));
        assert_eq!(changed.unwrap_err().raw_os_error(), Some(1));
    }
}
