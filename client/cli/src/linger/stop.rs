//! `palisade stop`: ends the daemons that commands left running.

use super::directory::{self, Found};
use crate::{failure::Failure, print};
use clap::Args;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal},
};
use std::{
    fs,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    time::Duration,
};
use tokio::time::{sleep, timeout};

/// The name of the daemon's process.
const NAME: &str = "palisaded";

/// The time within which a daemon that is starting has its name.
const STARTING: Duration = Duration::from_secs(10);

/// The pause between two looks at a daemon that is starting.
const PAUSE: Duration = Duration::from_millis(20);

/// The time that a daemon may take to end: its calls may take ten seconds to finish.
const END: Timespec = Timespec { tv_sec: 60, tv_nsec: 0 };

/// End the private daemons that your commands left running
#[derive(Debug, Args)]
#[command(after_help = "\
If no daemon is running, `palisade run` and `palisade call` leave a private daemon running, for the
commands that follow. It ends by itself after five minutes without one. This command ends all of
them at once; calls under way may finish first. A service, and a daemon that you started with
palisaded, goes on.

Exit status: 0 none is left; 125 one could not be ended.

Examples:
  palisade stop
  palisade run --no-linger -- make    a command that leaves nothing running
  PALISADE_LINGER=none make check     the same for every command of a script")]
pub(crate) struct Stop {}

impl Stop {
    pub(crate) async fn perform(self) -> Result<u8, Failure> {
        let mut ended = 0;
        for (socket, _) in directory::daemons().await {
            if end(&socket).await? {
                ended += 1;
            }
        }
        match ended {
            0 => print::line("no daemon was left running"),
            1 => print::line("ended 1 daemon"),
            ended => print::line(&format!("ended {ended} daemons")),
        }
        .map(|()| 0)
    }
}

/// Ends the daemon of a socket and waits for its end. Returns whether there was one.
async fn end(socket: &Path) -> Result<bool, Failure> {
    let failed = |why: &str| {
        Failure::new(
            format!("can not end the daemon of {}: {why}", socket.display()),
            "see which process listens there: ss -xlp",
        )
    };
    let named = async {
        loop {
            match identify(socket).await {
                Ok(Some((process, name))) if name == NAME => return Ok(Some(process)),
                // Until the daemon has taken it over, the socket is that of the command that made it.
                Ok(Some(_)) => sleep(PAUSE).await,
                Ok(None) => return Ok(None),
                Err(error) => return Err(error),
            }
        }
    };
    let process = match timeout(STARTING, named).await {
        Ok(Ok(Some(process))) => process,
        Ok(Ok(None)) => return Ok(false),
        Ok(Err(error)) => return Err(failed(&error.to_string())),
        Err(_) => return Err(failed("another process than palisaded listens there")),
    };
    pidfd_send_signal(&process, Signal::TERM).map_err(|errno| failed(&errno.to_string()))?;
    // Nothing else is going on in this process that waiting could hold up.
    match poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&END)) {
        Ok(0) => Err(failed("it is still running")),
        Ok(_) => Ok(true),
        Err(errno) => Err(failed(&errno.to_string())),
    }
}

/// Returns the process that listens on a socket, and its name. The process is the same that listened
/// before it was opened and listens after, so its id was not reused in between.
async fn identify(socket: &Path) -> std::io::Result<Option<(OwnedFd, String)>> {
    let Some(pid) = listening(socket).await else { return Ok(None) };
    let process = match pidfd_open(pid, PidfdFlags::NONBLOCK) {
        Ok(process) => process,
        Err(rustix::io::Errno::SRCH) => return Ok(None),
        Err(errno) => return Err(errno.into()),
    };
    let comm = PathBuf::from(format!("/proc/{}/comm", pid.as_raw_nonzero()));
    let name = fs::read_to_string(comm).unwrap_or_default();
    match listening(socket).await {
        Some(same) if same == pid => Ok(Some((process, name.trim_end().to_owned()))),
        Some(_) => Ok(Some((process, String::new()))),
        None => Ok(None),
    }
}

async fn listening(socket: &Path) -> Option<Pid> {
    match directory::dial(socket).await {
        Found::Daemon { pid, .. } => pid.and_then(Pid::from_raw),
        Found::Stale | Found::Other => None,
    }
}
