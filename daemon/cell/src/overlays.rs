//! Asks the launcher to make the overlays of a transaction read-only before its changes are judged,
//! so that what is committed is what was judged. Runs in the cell.

use palisade_channel::Datagrams;
use palisade_plan::cell::{OverlayMode, OverlayReply};
use palisade_workspace::LayerAccess;
use rustix::io::Errno;
use std::{thread::sleep, time::Duration};

/// The first pause before an overlay that is still in use is tried again. Each one is twice as long
/// as the one before.
const FIRST_PAUSE: Duration = Duration::from_millis(1);

/// The number of times that an overlay in use is tried again once every process has ended. The
/// kernel may close the last files a moment later.
const RETRIES_AFTER_END: u32 = 9;

/// The same while the program goes on afterwards, and waits for that.
const RETRIES_WHILE_FROZEN: u32 = 4;

/// The state of the program that wrote the overlays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProgramState {
    /// It has ended, with everything that it started.
    Ended,
    /// All of its processes are stopped.
    Frozen,
}

/// Makes the overlays read-only, and returns whether they are.
pub(crate) fn make_read_only(launcher: &Datagrams, program: ProgramState) -> LayerAccess {
    let mut retries = match program {
        ProgramState::Ended => RETRIES_AFTER_END,
        ProgramState::Frozen => RETRIES_WHILE_FROZEN,
    };
    let mut pause = FIRST_PAUSE;
    loop {
        match change(launcher, OverlayMode::ReadOnly) {
            Ok(()) => return LayerAccess::ReadOnly,
            Err(Errno::BUSY) if retries > 0 => {
                sleep(pause);
                (pause, retries) = (pause.saturating_mul(2), retries - 1);
            }
            Err(errno) => return LayerAccess::Refused(errno),
        }
    }
}

/// Lets the program write again.
pub(crate) fn make_writable(launcher: &Datagrams) -> Result<(), Errno> {
    change(launcher, OverlayMode::Writable)
}

fn change(launcher: &Datagrams, mode: OverlayMode) -> Result<(), Errno> {
    // A launcher that is gone ends this process.
    launcher.send(&mode, &[]).map_err(|_| Errno::PIPE)?;
    match launcher.receive::<OverlayReply>() {
        Ok(Some((reply, _))) => reply.done.map_err(Errno::from_raw_os_error),
        Ok(None) | Err(_) => Err(Errno::PIPE),
    }
}
