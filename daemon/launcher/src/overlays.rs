//! Changes how the overlays of a transaction can be used. Only the launcher has the privilege for
//! that. A runner asks for it before its program's changes are judged: while an overlay is
//! read-only, the kernel lets nobody change anything in it, not even by a descriptor that the
//! program has passed on.

use crate::spawn::Process;
use palisade_plan::cell::{OverlayMode, OverlayReply, Report};
use rustix::{
    io::Errno,
    mount::{FsPickFlags, fsconfig_reconfigure, fsconfig_set_flag, fspick},
};
use std::os::fd::OwnedFd;

/// The overlays of a runner.
#[derive(Debug)]
pub(crate) enum RunnerOverlays {
    /// It is not a transaction's runner.
    None,
    /// Its process has not sent them yet. It does so while it is still privileged, before anything
    /// that a client chose runs in it.
    Awaited,
    Mounted(Vec<OwnedFd>),
}

impl RunnerOverlays {
    /// Returns `true` if the runner's process may send messages.
    pub(crate) const fn may_send(&self) -> bool {
        !matches!(self, Self::None)
    }

    /// Handles a message of the runner's process. Nothing in it comes from a client or a program:
    /// it is one of two words. A process that sends anything else is killed: it was taken over, or
    /// it has ended already.
    pub(crate) fn handle_message(&mut self, process: &Process) {
        let is_fine = match self {
            Self::None => false,
            Self::Awaited => match process.control.receive::<Report>() {
                Ok(Some((Report::Overlays, mounts))) => {
                    *self = Self::Mounted(mounts);
                    true
                }
                Ok(Some((Report::Prepared | Report::Tried { .. }, _)) | None) | Err(_) => false,
            },
            Self::Mounted(mounts) => match process.control.receive::<OverlayMode>() {
                Ok(Some((mode, _))) => {
                    let done = mounts.iter().try_for_each(|mount| set_mode(mount, mode));
                    let reply = OverlayReply { done: done.map_err(Errno::raw_os_error) };
                    process.control.send_now(&reply).is_ok()
                }
                Ok(None) | Err(_) => false,
            },
        };
        if !is_fine {
            process.kill();
        }
    }
}

/// Changes one overlay as a whole, for all of its mounts. It can become read-only only if no file
/// in it is open for writing.
fn set_mode(mount: &OwnedFd, mode: OverlayMode) -> Result<(), Errno> {
    let flags = FsPickFlags::FSPICK_CLOEXEC | FsPickFlags::FSPICK_EMPTY_PATH;
    let context = fspick(mount, "", flags)?;
    let flag = match mode {
        OverlayMode::ReadOnly => "ro",
        OverlayMode::Writable => "rw",
    };
    fsconfig_set_flag(&context, flag)?;
    fsconfig_reconfigure(&context)
}
