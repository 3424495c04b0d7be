//! A layer over the workspace that takes all that a program writes there, and the two directories
//! below it that only this process reaches. Room: the cell, while it has privilege.
//!
//! The layer is in memory or on the workspace's own file system, mounted where the workspace is, and
//! hidden by what is mounted over both: no name leads to it. Its marks are `user.` attributes, which overlayfs keeps from programs and
//! this process can read when it has no privilege any more.

use crate::{
    borrowed::Borrowed,
    failure::StepFailure,
    moment::Moment,
    mounts::{self, NO_DEV, NO_SUID, READ_ONLY},
    store::override_modes,
    view::View,
    whiteouts,
};
use palisade_plan::{Access, Found, Identity, Overlay, OverlayFacts, Path, Transactions, Upper};
use rustix::{
    fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat},
    mount::{FsMountFlags, FsOpenFlags, MountAttrFlags},
};
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};

/// The two directories that the program sees as one.
#[derive(Debug)]
pub struct Layers {
    /// The workspace itself.
    pub lower: OwnedFd,
    /// What the program did.
    pub upper: OwnedFd,
    /// When the program was started.
    pub since: Moment,
    /// How many bytes the upper one may have.
    pub bytes: u64,
    /// Where the upper one is, and what is on the disk before it counts.
    pub kept: Transactions,
}

/// Lays the layer over the workspace.
pub(crate) fn lay(
    overlay: &Overlay,
    store: Option<OwnedFd>,
    view: &View,
    scanned: Option<&OwnedFd>,
) -> Result<Layers, StepFailure> {
    let path = &overlay.workspace;
    let lower = open_directory(path)?;
    refuse_mounts_below(path)?;
    let stat = rustix::fs::fstat(&lower).map_err(StepFailure::kernel("look at the workspace"))?;
    let (layer, kept) = match beside(store, &stat)? {
        Some(directory) => (directory, Upper::Disk),
        None => (in_memory(overlay.bytes)?, Upper::Memory),
    };
    attach(&layer, path)?;
    let writes = overlay.access == Access::Write;
    let upper = match writes {
        true => make_like(&layer, "upper", &stat)?,
        false => make(&layer, "upper", 0o700)?,
    };
    let hits = whiteouts::hits(view, scanned)?;
    let borrowed = Borrowed::take(overlay.identity)?;
    let merged = marks(&layer, &lower, view, hits.as_deref())
        .and_then(|marks| Ok((marks, make(&layer, "work", 0o700)?)));
    let merged = merged.and_then(|(marks, work)| {
        // Overlayfs works in a directory that nobody may enter, not even its owner. That is all
        // that it gets beyond what the session may: what a program may is asked of the program.
        override_modes()?;
        let lowers: Vec<_> = marks.iter().chain([&lower]).map(|fd| fd.as_fd()).collect();
        merge(&lowers, writes.then_some((upper.as_fd(), work.as_fd())), kept)
    });
    borrowed.give_back()?;
    attach(&merged?, path)?;
    let kept = Transactions { upper: kept, ..overlay.transactions };
    Ok(Layers { lower, upper, since: Moment::default(), bytes: overlay.bytes, kept })
}

/// The layer between: what is hidden is not there.
fn marks(
    layer: &OwnedFd,
    lower: &OwnedFd,
    view: &View,
    hits: Option<&[Vec<u8>]>,
) -> Result<Option<OwnedFd>, StepFailure> {
    let Some(hits) = hits else { return Ok(None) };
    let marks = make(layer, "marks", 0o700)?;
    whiteouts::make(&marks, lower, view, hits)?;
    Ok(Some(marks))
}

/// The directory for the layer, if it is on the workspace's file system.
fn beside(store: Option<OwnedFd>, workspace: &Stat) -> Result<Option<OwnedFd>, StepFailure> {
    let Some(directory) = store else { return Ok(None) };
    let stat = rustix::fs::fstat(&directory).map_err(StepFailure::kernel("look at the store"))?;
    Ok((stat.st_dev == workspace.st_dev).then_some(directory))
}

/// A file system for the layer.
fn in_memory(bytes: u64) -> Result<OwnedFd, StepFailure> {
    let options = [
        ("size", bytes.to_string()),
        // An inode costs about a kilobyte of kernel memory that `size` does not count.
        ("nr_inodes", (bytes / 1024).clamp(1024, 1_000_000).to_string()),
        // Whoever owns the workspace makes a directory here that is like it.
        ("mode", "0777".into()),
    ];
    mounts::new("tmpfs", &options, NO_SUID | NO_DEV)
        .map_err(StepFailure::kernel("file system of the layer"))
}

fn open_directory(path: &Path) -> Result<OwnedFd, StepFailure> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let resolve = rustix::fs::ResolveFlags::NO_SYMLINKS;
    rustix::fs::openat2(CWD, path.as_path(), flags, Mode::empty(), resolve)
        .map_err(StepFailure::kernel("open the workspace"))
}

/// Puts a mount over whatever is at the workspace's path now.
fn attach(mount: &OwnedFd, path: &Path) -> Result<(), StepFailure> {
    let at = mounts::resolve_without_links(path.as_path())
        .map_err(StepFailure::kernel("open the workspace"))?;
    mounts::attach(mount.as_fd(), at.as_fd(), std::path::Path::new(""))
        .map_err(StepFailure::kernel("mount over the workspace"))
}

/// The program would see what is under such a mount instead, and write it or see what is hidden.
pub(crate) fn refuse_mounts_below(workspace: &Path) -> Result<(), StepFailure> {
    let text = std::fs::read("/proc/self/mountinfo")
        .map_err(StepFailure::kernel("read /proc/self/mountinfo"))?;
    let below = [workspace.0.as_slice(), b"/"].concat();
    let points = text
        .split(|byte| *byte == b'\n')
        .filter_map(|line| line.split(|byte| *byte == b' ').nth(4).map(unescaped));
    match points.into_iter().find(|point| point.starts_with(&below)) {
        None => Ok(()),
        Some(point) => Err(StepFailure::Workspace {
            path: workspace.clone(),
            why: format!("{:?} is a mount in it, which a layer would hide", Path(point)),
        }),
    }
}

/// A name as `/proc` writes it: blanks and backslashes as three octal digits.
pub(crate) fn unescaped(text: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, tail)) = rest.split_first() {
        let digits = tail.get(..3).filter(|_| *first == b'\\');
        let octal = digits.and_then(|digits| {
            let digits = std::str::from_utf8(digits).ok()?;
            u8::from_str_radix(digits, 8).ok()
        });
        match octal {
            Some(byte) => {
                plain.push(byte);
                rest = tail.get(3..).unwrap_or_default();
            }
            None => {
                plain.push(*first);
                rest = tail;
            }
        }
    }
    plain
}

fn make(layer: &OwnedFd, name: &str, mode: u32) -> Result<OwnedFd, StepFailure> {
    rustix::fs::mkdirat(layer, name, Mode::from_raw_mode(mode))
        .map_err(StepFailure::kernel(format!("make the layer's {name}")))?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(layer, name, flags, Mode::empty())
        .map_err(StepFailure::kernel(format!("open the layer's {name}")))
}

/// A directory with the owner and mode of the workspace: what the program finds there is this one's.
fn make_like(layer: &OwnedFd, name: &str, like: &Stat) -> Result<OwnedFd, StepFailure> {
    let owner = Identity { uid: like.st_uid, gid: like.st_gid };
    // An ordinary user's process takes on nobody.
    let borrowed = match nix::unistd::geteuid().is_root() {
        true => Some(Borrowed::take(owner)?),
        false => None,
    };
    let made = override_modes().and_then(|()| make(layer, name, 0o700)).and_then(|dir| {
        rustix::fs::fchmod(&dir, Mode::from_raw_mode(like.st_mode & 0o7777))
            .map_err(StepFailure::kernel("mode of the layer"))?;
        Ok(dir)
    });
    if let Some(borrowed) = borrowed {
        borrowed.give_back()?;
    }
    let made = made?;
    let stat = rustix::fs::fstat(&made).map_err(StepFailure::kernel("look at the layer"))?;
    if (stat.st_uid, stat.st_gid, stat.st_mode) != (like.st_uid, like.st_gid, like.st_mode) {
        return Err(StepFailure::NotInForce(
            "the workspace belongs to somebody whom its layer can not belong to".into(),
        ));
    }
    Ok(made)
}

/// The overlay of directories, the first on top, not in place yet. What it does to them it does as
/// who calls this: with the session's identity it reaches nothing that the session could not.
/// Without one to write to and one to work in it is read-only.
fn merge(
    lowers: &[BorrowedFd<'_>],
    writing: Option<(BorrowedFd<'_>, BorrowedFd<'_>)>,
    kept: Upper,
) -> Result<OwnedFd, StepFailure> {
    let fail = |act: &'static str| StepFailure::kernel::<rustix::io::Errno>(act);
    let context = rustix::mount::fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC)
        .map_err(fail("open overlayfs"))?;
    let own = |fd: &BorrowedFd<'_>| format!("/proc/self/fd/{}", fd.as_raw_fd());
    let lowers: Vec<_> = lowers.iter().map(own).collect();
    let mut options = vec![("lowerdir", lowers.join(":")), ("xino", "off".into())];
    if let Some((upper, work)) = &writing {
        options.extend([("upperdir", own(upper)), ("workdir", own(work)), ("index", "off".into())]);
    }
    for (key, value) in &options {
        rustix::mount::fsconfig_set_string(context.as_fd(), *key, value.as_str())
            .map_err(StepFailure::kernel(format!("overlayfs {key}")))?;
    }
    // With these marks nothing is redirected, and no file is there in part only.
    rustix::mount::fsconfig_set_flag(context.as_fd(), "userxattr")
        .map_err(fail("overlayfs userxattr"))?;
    if kept == Upper::Disk && writing.is_some() {
        // What the layer has is worth nothing after a crash: nothing waits for the disk.
        rustix::mount::fsconfig_set_flag(context.as_fd(), "volatile")
            .map_err(fail("overlayfs volatile"))?;
    }
    rustix::mount::fsconfig_create(context.as_fd()).map_err(fail("overlayfs"))?;
    let read_only = if writing.is_none() { READ_ONLY } else { 0 };
    let attributes = u32::try_from(NO_SUID | NO_DEV | read_only).unwrap_or(u32::MAX);
    rustix::mount::fsmount(
        context.as_fd(),
        FsMountFlags::FSMOUNT_CLOEXEC,
        MountAttrFlags::from_bits_retain(attributes),
    )
    .map_err(fail("mount overlayfs"))
}

/// Tries all of it once, on file systems of its own, in a mount namespace of its own.
pub(crate) fn attempt() -> OverlayFacts {
    let found = |tried: Result<(), StepFailure>| match tried {
        Ok(()) => Found::Yes("overlayfs on tmpfs".into()),
        Err(error) => Found::No(error.to_string()),
    };
    OverlayFacts {
        read: found(Trial::new().and_then(reads)),
        write: found(Trial::new().and_then(writes)),
    }
}

/// What is tried on: a lower layer, and marks that hide a name of it.
struct Trial {
    under: OwnedFd,
    lower: OwnedFd,
    marks: OwnedFd,
}

impl Trial {
    fn new() -> Result<Self, StepFailure> {
        let fail = |act: &'static str| StepFailure::kernel::<rustix::io::Errno>(act);
        let under = mounts::new("tmpfs", &[("mode", "0700".into())], NO_SUID | NO_DEV)
            .map_err(StepFailure::kernel("mount tmpfs"))?;
        let root = rustix::fs::open("/", OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
            .map_err(fail("open /"))?;
        mounts::attach(under.as_fd(), root.as_fd(), std::path::Path::new(""))
            .map_err(StepFailure::kernel("attach tmpfs"))?;
        let (lower, marks) = (make(&under, "lower", 0o700)?, make(&under, "marks", 0o700)?);
        for name in ["there", "there/below", "hidden"] {
            rustix::fs::mkdirat(&lower, name, Mode::RWXU).map_err(fail("make a directory"))?;
        }
        rustix::fs::mknodat(&marks, "hidden", FileType::CharacterDevice, Mode::empty(), 0)
            .map_err(fail("mark what is hidden"))?;
        Ok(Self { under, lower, marks })
    }

    /// The marks over the lower layer: what is marked is not there, and the rest is.
    fn merge(
        &self,
        writing: Option<(BorrowedFd<'_>, BorrowedFd<'_>)>,
    ) -> Result<OwnedFd, StepFailure> {
        let merged = merge(&[self.marks.as_fd(), self.lower.as_fd()], writing, Upper::Memory)?;
        let look = |name| rustix::fs::statat(&merged, name, AtFlags::SYMLINK_NOFOLLOW).map(drop);
        if look("hidden") != Err(rustix::io::Errno::NOENT) {
            return Err(StepFailure::NotInForce("what is marked as hidden is there".into()));
        }
        look("there/below").map_err(StepFailure::kernel("look at what is not hidden"))?;
        Ok(merged)
    }
}

fn reads(trial: Trial) -> Result<(), StepFailure> {
    trial.merge(None).map(drop)
}

fn writes(trial: Trial) -> Result<(), StepFailure> {
    let fail = |act: &'static str| StepFailure::kernel::<rustix::io::Errno>(act);
    let (upper, work) = (make(&trial.under, "upper", 0o700)?, make(&trial.under, "work", 0o700)?);
    keeps_marks(&upper)?;
    let merged = trial.merge(Some((upper.as_fd(), work.as_fd())))?;
    let remove = |name| rustix::fs::unlinkat(&merged, name, AtFlags::REMOVEDIR);
    remove("there/below").map_err(fail("remove a directory of the lower layer"))?;
    remove("there").map_err(fail("remove a directory of the lower layer"))?;
    rustix::fs::mkdirat(&merged, "there", Mode::RWXU)
        .map_err(fail("make a directory where one was removed"))?;
    let again = rustix::fs::openat(&upper, "there", OFlags::RDONLY, Mode::empty())
        .map_err(fail("open it in the upper layer"))?;
    if !is_opaque(&again).map_err(fail("read its mark"))? {
        return Err(StepFailure::NotInForce("the upper layer has no marks".into()));
    }
    rustix::fs::statat(&trial.lower, "there/below", AtFlags::SYMLINK_NOFOLLOW)
        .map(drop)
        .map_err(fail("look at what was under it"))
}

/// Without `user.` attributes overlayfs can not mark what it removed, and fails with no word of why.
fn keeps_marks(upper: &OwnedFd) -> Result<(), StepFailure> {
    let flags = rustix::fs::XattrFlags::empty();
    match rustix::fs::fsetxattr(upper, "user.palisade", b"y", flags) {
        Ok(()) => Ok(()),
        Err(rustix::io::Errno::OPNOTSUPP) => Err(StepFailure::NotInForce(
            "overlayfs needs user attributes, which tmpfs has since Linux 6.6".into(),
        )),
        Err(error) => Err(StepFailure::kernel("mark a directory")(error)),
    }
}

/// Whether what is under a directory of the upper layer does not show through it.
pub(crate) fn is_opaque(directory: &OwnedFd) -> Result<bool, rustix::io::Errno> {
    has_mark(directory, "user.overlay.opaque", b"y")
}

/// Whether something of the upper layer was copied from the lower one.
pub(crate) fn is_copy(of: &OwnedFd) -> Result<bool, rustix::io::Errno> {
    let mut value = [0; 256];
    match rustix::fs::fgetxattr(of, "user.overlay.origin", &mut value) {
        Ok(_) | Err(rustix::io::Errno::RANGE) => Ok(true),
        Err(rustix::io::Errno::NODATA | rustix::io::Errno::OPNOTSUPP) => Ok(false),
        Err(error) => Err(error),
    }
}

fn has_mark(of: &OwnedFd, name: &str, expected: &[u8]) -> Result<bool, rustix::io::Errno> {
    let mut value = [0; 16];
    match rustix::fs::fgetxattr(of, name, &mut value) {
        Ok(length) => Ok(value.get(..length) == Some(expected)),
        Err(
            rustix::io::Errno::RANGE | rustix::io::Errno::NODATA | rustix::io::Errno::OPNOTSUPP,
        ) => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_proc_are_read_as_they_are() {
        assert_eq!(unescaped(b"/a\\040b\\134\\011c"), b"/a b\\\tc");
        assert_eq!(unescaped(b"/a\\04"), b"/a\\04");
        assert_eq!(unescaped(b"/\xff"), b"/\xff");
    }
}
