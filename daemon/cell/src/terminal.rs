//! A terminal for one program, from the cell's own `/dev/pts`: nothing of the host's is behind it.
//! Room: the cell.

use palisade_plan::cell::Size;
use rustix::{
    io::Errno,
    pty::{OpenptFlags, ioctl_tiocgptpeer, openpt, unlockpt},
    termios::{Winsize, tcsetwinsize},
};
use std::os::fd::OwnedFd;

/// The master and the slave side.
pub(crate) fn make(size: Size) -> Result<(OwnedFd, OwnedFd), Errno> {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let master = openpt(flags)?;
    unlockpt(&master)?;
    // By the master and not by its name, which somebody else may have put something under.
    let slave = ioctl_tiocgptpeer(&master, flags)?;
    let Size { rows, cols } = size;
    tcsetwinsize(&slave, Winsize { ws_row: rows, ws_col: cols, ws_xpixel: 0, ws_ypixel: 0 })?;
    Ok((master, slave))
}
