//! Makes the standard streams of a program. They are made here, by the session's user, so that they
//! belong to the user as whom the program runs: it may open them again by name (`/dev/stdout`,
//! `/proc/self/fd/1`). Runs in the cell.

use palisade_plan::cell::{Size, Stdin, Streams};
use rustix::{
    fs::{Mode, OFlags},
    io::Errno,
    pipe::{PipeFlags, pipe_with},
    pty::{OpenptFlags, ioctl_tiocgptpeer, openpt, unlockpt},
    termios::{Winsize, tcsetwinsize},
};
use std::os::fd::OwnedFd;

/// The streams of one program, and the broker's ends of them.
#[derive(Debug)]
pub(crate) struct ProgramStreams {
    /// Standard input, output and error.
    pub(crate) program: [OwnedFd; 3],
    /// The descriptors of [`palisade_plan::cell::RunReply::Streams`].
    pub(crate) broker: Vec<OwnedFd>,
    /// The slave side of a terminal.
    pub(crate) terminal: Option<OwnedFd>,
}

impl ProgramStreams {
    /// Makes the streams. `given` replaces the standard input, except on a terminal.
    pub(crate) fn new(kind: Streams, given: Option<OwnedFd>) -> Result<Self, Errno> {
        match kind {
            Streams::Pipes(stdin) => pipes(stdin, given),
            Streams::Terminal(size) => terminal(size),
        }
    }
}

fn pipes(stdin: Stdin, given: Option<OwnedFd>) -> Result<ProgramStreams, Errno> {
    let pipe = || pipe_with(PipeFlags::CLOEXEC);
    let ((out, stdout), (err, stderr)) = (pipe()?, pipe()?);
    // Never a socket: bash would assume a remote shell and read its start-up files.
    let (stdin, broker) = match (given, stdin) {
        (Some(given), _) => (given, vec![out, err]),
        (None, Stdin::Null) => {
            // The cell's own: Landlock does not know the host's as one that may be opened again.
            let null =
                rustix::fs::open("/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
            (null?, vec![out, err])
        }
        (None, Stdin::Pipe) => {
            let (stdin, input) = pipe()?;
            (stdin, vec![out, err, input])
        }
    };
    Ok(ProgramStreams { program: [stdin, stdout, stderr], broker, terminal: None })
}

/// Makes a terminal from the cell's own `/dev/pts`, so that no device of the host is behind it.
fn terminal(size: Size) -> Result<ProgramStreams, Errno> {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let master = openpt(flags)?;
    unlockpt(&master)?;
    // Opened through the master and not by name, because something else may be mounted at the name.
    let slave = || ioctl_tiocgptpeer(&master, flags);
    let program = [slave()?, slave()?, slave()?];
    let slave = slave()?;
    let Size { rows, cols } = size;
    tcsetwinsize(&slave, Winsize { ws_row: rows, ws_col: cols, ws_xpixel: 0, ws_ypixel: 0 })?;
    Ok(ProgramStreams { program, broker: vec![master], terminal: Some(slave) })
}
