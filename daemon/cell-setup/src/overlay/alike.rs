//! Makes directories of a layer that look like those of the workspace below them: same owner, same
//! mode. The session owns none of them unless it owns the directory below. Runs in the cell, while
//! it has privilege.

use crate::{borrowed::BorrowedIdentity, failure::StepFailure};
use palisade_plan::{Identity, MountRights};
use rustix::{
    fs::{
        Access, AtFlags, CWD, Mode, OFlags, ResolveFlags, Stat, Timespec, Timestamps, XattrFlags,
    },
    io::Errno,
    process::geteuid,
};
use std::os::fd::{AsRawFd as _, OwnedFd};

/// The access control lists of a directory, and the default ones for files made in it.
const LISTS: [&str; 2] = ["system.posix_acl_access", "system.posix_acl_default"];

/// The maximum size of an access control list: the kernel's limit for an attribute.
const LONGEST: usize = 65_536;

/// The mode of a directory while it is filled: open to every identity under which something is
/// made. Nobody else can reach the layer.
const OPEN: u32 = 0o777;

/// The owner, mode, time and access control lists that a directory is to have.
#[derive(Debug, Clone)]
pub(crate) struct DirectoryAttributes {
    pub(crate) owner: Identity,
    mode: u32,
    modified: Timespec,
    lists: Vec<(&'static str, Vec<u8>)>,
}

/// Makes directories under the identity of their future owner.
pub(crate) struct DirectoryMaker {
    rights: MountRights,
    session: Identity,
    now: Option<(Identity, BorrowedIdentity)>,
}

impl DirectoryMaker {
    pub(crate) fn new(rights: MountRights, session: Identity) -> Self {
        Self { rights, session, now: None }
    }

    /// Switches to this user, if this process can take on other users' identities.
    pub(crate) fn become_owner(&mut self, owner: Identity) -> Result<(), StepFailure> {
        if self.rights == MountRights::Own
            || self.now.as_ref().is_some_and(|(now, _)| *now == owner)
        {
            return Ok(());
        }
        self.give_back()?;
        self.now = Some((owner, BorrowedIdentity::take(owner)?));
        Ok(())
    }

    /// Switches to the session's user.
    pub(crate) fn become_session(&mut self) -> Result<(), StepFailure> {
        self.become_owner(self.session)
    }

    /// Switches back to this process's own identity.
    pub(crate) fn give_back(&mut self) -> Result<(), StepFailure> {
        self.now.take().map_or(Ok(()), |(_, borrowed)| borrowed.give_back())
    }

    /// Reads the attributes of a directory of the workspace, as the session. `None` if the session
    /// can not reach it, or it is no directory.
    pub(crate) fn look(
        &mut self,
        workspace: &OwnedFd,
        path: &[u8],
    ) -> Result<Option<DirectoryAttributes>, StepFailure> {
        self.become_session()?;
        match look(workspace, path, self.rights) {
            Ok(likeness) => Ok(Some(likeness)),
            Err(Errno::NOENT | Errno::NOTDIR | Errno::ACCESS | Errno::LOOP | Errno::XDEV) => {
                Ok(None)
            }
            Err(error) => Err(StepFailure::kernel("look at a directory of the workspace")(error)),
        }
    }

    /// Makes a directory that belongs to the owner in `likeness`. Without one, only a privileged
    /// process can enter it once it is finished.
    pub(crate) fn make(
        &mut self,
        above: &OwnedFd,
        path: &[u8],
        likeness: Option<&DirectoryAttributes>,
    ) -> Result<(), StepFailure> {
        let fail = || StepFailure::kernel::<Errno>("make a directory of the layer");
        match likeness {
            Some(likeness) => self.become_owner(likeness.owner)?,
            None => self.give_back()?,
        }
        rustix::fs::mkdirat(above, path, Mode::RWXU).map_err(fail())?;
        rustix::fs::chmodat(above, path, Mode::from_raw_mode(OPEN), AtFlags::empty())
            .map_err(fail())
    }

    /// Sets the final mode, lists and time of a directory, once it has been filled.
    pub(crate) fn finish(
        &mut self,
        above: &OwnedFd,
        path: &[u8],
        likeness: Option<&DirectoryAttributes>,
    ) -> Result<(), StepFailure> {
        let fail = || StepFailure::kernel::<Errno>("finish a directory of the layer");
        let Some(likeness) = likeness else {
            self.give_back()?;
            return rustix::fs::chmodat(above, path, Mode::empty(), AtFlags::empty())
                .map_err(fail());
        };
        self.become_owner(likeness.owner)?;
        let made = rustix::fs::openat(above, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
            .map_err(fail())?;
        rustix::fs::fchmod(&made, Mode::from_raw_mode(likeness.mode)).map_err(fail())?;
        for (name, value) in &likeness.lists {
            match rustix::fs::fsetxattr(&made, *name, value, XattrFlags::empty()) {
                // An ordinary user owns all its directories here, and a list does not limit their
                // owner.
                Err(Errno::INVAL | Errno::OPNOTSUPP) if self.rights == MountRights::Own => {}
                done => done.map_err(StepFailure::kernel("access control list of the layer"))?,
            }
        }
        let (last_access, last_modification) = (likeness.modified, likeness.modified);
        rustix::fs::futimens(&made, &Timestamps { last_access, last_modification })
            .map_err(fail())?;
        self.check(&made, likeness)
    }

    fn check(&self, made: &OwnedFd, likeness: &DirectoryAttributes) -> Result<(), StepFailure> {
        let stat = rustix::fs::fstat(made).map_err(StepFailure::kernel("look at the layer"))?;
        let same = match self.rights {
            MountRights::Own => true,
            MountRights::Session => {
                (stat.st_uid, stat.st_gid) == (likeness.owner.uid, likeness.owner.gid)
            }
        };
        match same && stat.st_mode & 0o7777 == likeness.mode {
            true => Ok(()),
            false => Err(StepFailure::Setup(
                "a directory of the workspace belongs to a user or group that its layer can not \
                 have"
                    .into(),
            )),
        }
    }
}

fn look(
    workspace: &OwnedFd,
    path: &[u8],
    rights: MountRights,
) -> Result<DirectoryAttributes, Errno> {
    let here: &[u8] = if path.is_empty() { b"." } else { path };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    let found = rustix::fs::openat2(workspace, here, flags, Mode::empty(), resolve)?;
    let stat = rustix::fs::fstat(&found)?;
    let modified = Timespec { tv_sec: stat.st_mtime, tv_nsec: nanoseconds(stat.st_mtime_nsec) };
    let owner = Identity { uid: stat.st_uid, gid: stat.st_gid };
    let mode = match rights {
        MountRights::Session => of_root(&stat),
        MountRights::Own => own_mode(&found, &stat)?,
    };
    let mut lists = Vec::new();
    // For a directory of another user, the mode alone expresses what the session may do.
    let listed = rights == MountRights::Session || stat.st_uid == geteuid().as_raw();
    for name in LISTS.into_iter().filter(|_| listed) {
        let mut value = vec![0; LONGEST];
        match rustix::fs::getxattr(name_of(&found), name, &mut value[..]) {
            Ok(length) => {
                value.truncate(length);
                lists.push((name, value));
            }
            Err(Errno::NODATA | Errno::OPNOTSUPP) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(DirectoryAttributes { owner, mode, modified, lists })
}

/// Returns the mode, with write permission added for root on root's own directories. A process that
/// later deletes the layer then needs no other right. A session can not gain from it: it is another
/// user, or could change the mode itself.
fn of_root(stat: &Stat) -> u32 {
    let mode = stat.st_mode & 0o7777;
    if stat.st_uid == 0 { mode | 0o200 } else { mode }
}

/// Returns the mode for an ordinary user's copy of a directory that may belong to somebody else.
/// The user owns the copy, so its owner bits are what that user may do in the original.
fn own_mode(of: &OwnedFd, stat: &Stat) -> Result<u32, Errno> {
    // No set-gid bit: files made below could not get a group that is not this user's.
    let mode = stat.st_mode & 0o1777;
    if stat.st_uid == geteuid().as_raw() {
        return Ok(mode);
    }
    let mut own = 0;
    for (access, bit) in
        [(Access::READ_OK, 0o400), (Access::WRITE_OK, 0o200), (Access::EXEC_OK, 0o100)]
    {
        match rustix::fs::accessat(CWD, name_of(of), access, AtFlags::EACCESS) {
            Ok(()) => own |= bit,
            Err(Errno::ACCESS | Errno::ROFS) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(mode & 0o1077 | own)
}

/// Returns a path in `/proc` that leads to an `O_PATH` descriptor.
fn name_of(of: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", of.as_raw_fd())
}

fn nanoseconds<N: TryInto<i64>>(value: N) -> i64 {
    value.try_into().unwrap_or(0)
}
