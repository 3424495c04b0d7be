//! Starts the launcher, the one process the broker ever starts.

use crate::{config::AllowedPorts, roles::SessionUids};
use palisade_programs::{NotFound, Program, Search};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use std::{
    io,
    os::{fd::OwnedFd, unix::process::CommandExt as _},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

/// The launcher's file name.
const NAME: &str = "palisade-launcher";

/// A launcher that was started, and the socket to it.
#[derive(Debug)]
pub(crate) struct LauncherProcess {
    /// The process.
    pub(crate) child: Child,
    /// Sequenced packets.
    pub(crate) socket: OwnedFd,
}

/// Why there is no launcher.
#[derive(Debug, thiserror::Error)]
pub enum LauncherProcessError {
    /// In none of the places.
    #[error("{0}; build or install the whole of Palisade")]
    NotFound(#[from] NotFound),
    /// It could not be started.
    #[error("can not start {path}")]
    Start {
        /// Its path.
        path: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
}

/// Starts the launcher that lies beside this program, or the installed one, with a place for
/// transactions on the disk, what of the network its sessions may reach, and uids for those that are
/// to have one of their own.
pub(crate) fn start(
    store: Option<&Path>,
    ports: Option<&AllowedPorts>,
    uids: Option<SessionUids>,
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
    let child = command.stdin(Stdio::from(theirs)).spawn().map_err(failed)?;
    Ok(LauncherProcess { child, socket })
}

#[allow(clippy::disallowed_methods, reason = "this is the file that starts the launcher")]
fn command(program: &Program) -> Command {
    let mut command = Command::new(program.entry());
    command.arg0(NAME).env_clear().current_dir("/");
    command
}
