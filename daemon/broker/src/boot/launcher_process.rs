//! Starts the launcher of a private daemon.

use crate::{base::roles::SessionUids, boot::config::AllowedPorts, cells::analyst::ExpectedCalls};
use palisade_programs::{NotFound, Program, Search};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use std::{
    ffi::OsString,
    io,
    os::{fd::OwnedFd, unix::process::CommandExt as _},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

/// The launcher's file name.
const NAME: &str = "palisade-launcher";

/// A launcher that this daemon started, and the socket to it.
#[derive(Debug)]
pub(crate) struct LauncherProcess {
    /// The launcher's process.
    pub(crate) child: Child,
    /// The broker's end of the socket pair (sequenced packets).
    pub(crate) socket: OwnedFd,
}

/// An error from starting the launcher.
#[derive(Debug, thiserror::Error)]
pub enum LauncherProcessError {
    /// The program is in none of the directories that are searched.
    #[error("{0}; build or install the whole of Palisade")]
    NotFound(#[from] NotFound),
    /// The program could not be started.
    #[error("can not start {path}")]
    Start {
        /// The path of the launcher's program.
        path: PathBuf,
        /// The error that the kernel returned.
        source: io::Error,
    },
}

/// Starts the launcher that lies beside this program, or else the installed one.
///
/// `store` is the directory on disk for transactions. `ports` are the TCP ports that its sessions
/// may connect to. `uids` are the user ids for sessions that get one of their own. `client` is
/// the option that says on which connections clients arrive. `calls` decides for how many calls
/// processes are prepared.
pub(crate) fn start(
    store: Option<&Path>,
    ports: Option<&AllowedPorts>,
    uids: Option<SessionUids>,
    client: Option<(&'static str, OsString)>,
    calls: ExpectedCalls,
) -> Result<LauncherProcess, LauncherProcessError> {
    let program = Search::usual().open(NAME)?;
    let failed = |source| LauncherProcessError::Start { path: program.path().to_owned(), source };
    let kind = (AddressFamily::UNIX, SocketType::SEQPACKET);
    let (socket, theirs) = socketpair(kind.0, kind.1, SocketFlags::CLOEXEC, None)
        .map_err(|errno| failed(errno.into()))?;
    let mut command = command(&program);
    if let Some(store) = store {
        command.arg("--store").arg(store);
    }
    if let Some(ports) = ports {
        command.args(["--allow-ports", ports.as_str()]);
    }
    if let Some(SessionUids(range)) = uids {
        command.arg("--session-uids").arg(range.to_string());
    }
    if let Some((option, value)) = client {
        command.arg(option).arg(value);
    }
    command.args((calls == ExpectedCalls::One).then_some("--one-call"));
    let child = command.stdin(Stdio::from(theirs)).spawn().map_err(failed)?;
    Ok(LauncherProcess { child, socket })
}

#[allow(clippy::disallowed_methods, reason = "this is the file that starts the launcher")]
fn command(program: &Program) -> Command {
    let mut command = Command::new(program.entry());
    command.arg0(NAME).env_clear().current_dir("/");
    command
}
