//! Makes directories of a layer that are like those of the workspace that they lie over: what is seen,
//! and asked for its owner and mode, is theirs. None is the session's own that is not so below.
//! Room: the cell, while it has privilege.

use crate::{borrowed::Borrowed, failure::StepFailure};
use palisade_plan::{Identity, MountRights};
use rustix::{
    fs::{
        Access, AtFlags, CWD, Mode, OFlags, ResolveFlags, Stat, Timespec, Timestamps, XattrFlags,
    },
    io::Errno,
    process::geteuid,
};
use std::os::fd::{AsRawFd as _, OwnedFd};

/// Access control lists: of the directory, and of what is made in it.
const LISTS: [&str; 2] = ["system.posix_acl_access", "system.posix_acl_default"];

/// The longest access control list: what an attribute may have.
const LONGEST: usize = 65_536;

/// While it is filled a directory is open for every identity that something is made as. Nobody else
/// reaches the layer.
const OPEN: u32 = 0o777;

/// What a directory is to look like.
#[derive(Debug, Clone)]
pub(crate) struct Likeness {
    pub(crate) owner: Identity,
    mode: u32,
    modified: Timespec,
    lists: Vec<(&'static str, Vec<u8>)>,
}

/// Makes directories, as whoever is to own them.
pub(crate) struct Maker {
    rights: MountRights,
    session: Identity,
    now: Option<(Identity, Borrowed)>,
}

impl Maker {
    pub(crate) fn new(rights: MountRights, session: Identity) -> Self {
        Self { rights, session, now: None }
    }

    /// From here on what is done is done as this user, where other users can be taken on.
    pub(crate) fn become_owner(&mut self, owner: Identity) -> Result<(), StepFailure> {
        if self.rights == MountRights::Own
            || self.now.as_ref().is_some_and(|(now, _)| *now == owner)
        {
            return Ok(());
        }
        self.give_back()?;
        self.now = Some((owner, Borrowed::take(owner)?));
        Ok(())
    }

    /// The same as the session's user.
    pub(crate) fn become_session(&mut self) -> Result<(), StepFailure> {
        self.become_owner(self.session)
    }

    /// As this process again.
    pub(crate) fn give_back(&mut self) -> Result<(), StepFailure> {
        self.now.take().map_or(Ok(()), |(_, borrowed)| borrowed.give_back())
    }

    /// Looks at a directory of the workspace, as the session: none if that can not be, or it is none.
    pub(crate) fn look(
        &mut self,
        workspace: &OwnedFd,
        path: &[u8],
    ) -> Result<Option<Likeness>, StepFailure> {
        self.become_session()?;
        match look(workspace, path, self.rights) {
            Ok(likeness) => Ok(Some(likeness)),
            Err(Errno::NOENT | Errno::NOTDIR | Errno::ACCESS | Errno::LOOP | Errno::XDEV) => {
                Ok(None)
            }
            Err(error) => Err(StepFailure::kernel("look at a directory of the workspace")(error)),
        }
    }

    /// Makes a directory for the owner of what it is like; without a likeness it is closed to everybody
    /// who is not privileged.
    pub(crate) fn make(
        &mut self,
        above: &OwnedFd,
        path: &[u8],
        likeness: Option<&Likeness>,
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

    /// Gives a directory that was made, and filled, its mode, lists and time.
    pub(crate) fn finish(
        &mut self,
        above: &OwnedFd,
        path: &[u8],
        likeness: Option<&Likeness>,
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
                // Of an ordinary user's own directories a list says nothing to that user.
                Err(Errno::INVAL | Errno::OPNOTSUPP) if self.rights == MountRights::Own => {}
                done => done.map_err(StepFailure::kernel("access control list of the layer"))?,
            }
        }
        let (last_access, last_modification) = (likeness.modified, likeness.modified);
        rustix::fs::futimens(&made, &Timestamps { last_access, last_modification })
            .map_err(fail())?;
        self.check(&made, likeness)
    }

    fn check(&self, made: &OwnedFd, likeness: &Likeness) -> Result<(), StepFailure> {
        let stat = rustix::fs::fstat(made).map_err(StepFailure::kernel("look at the layer"))?;
        let same = match self.rights {
            MountRights::Own => true,
            MountRights::Session => {
                (stat.st_uid, stat.st_gid) == (likeness.owner.uid, likeness.owner.gid)
            }
        };
        match same && stat.st_mode & 0o7777 == likeness.mode {
            true => Ok(()),
            false => Err(StepFailure::NotInForce(
                "a directory of the workspace belongs to somebody whom its layer can not belong to"
                    .into(),
            )),
        }
    }
}

fn look(workspace: &OwnedFd, path: &[u8], rights: MountRights) -> Result<Likeness, Errno> {
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
    // In the place of another's directory the mode alone says what the session may.
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
    Ok(Likeness { owner, mode, modified, lists })
}

/// Root's own directories can be written by root, so that what removes a layer is not in need of more
/// than that. The session is somebody else, or could do it itself.
fn of_root(stat: &Stat) -> u32 {
    let mode = stat.st_mode & 0o7777;
    if stat.st_uid == 0 { mode | 0o200 } else { mode }
}

/// The mode of an ordinary user's directory in the place of another: that user owns it, whoever owns the
/// other. What its owner may is then what that user may in the other one.
fn own_mode(of: &OwnedFd, stat: &Stat) -> Result<u32, Errno> {
    // A group that is not this one is not to be had for what is made below it either.
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

/// A name that leads to what was opened for reference only.
fn name_of(of: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", of.as_raw_fd())
}

fn nanoseconds<N: TryInto<i64>>(value: N) -> i64 {
    value.try_into().unwrap_or(0)
}
