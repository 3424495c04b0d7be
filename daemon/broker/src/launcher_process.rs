//! Starts the launcher, the one process the broker ever starts.

use crate::{config::AllowedPorts, roles::SessionUids};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use std::{
    io,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

/// The launcher's file name.
const NAME: &str = "palisade-launcher";

/// Where packages put it.
const INSTALLED: &str = "/usr/libexec/palisade";

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
    #[error("no {NAME} in {}; build or install the whole of Palisade", .0.iter().map(|dir| dir.display().to_string()).collect::<Vec<_>>().join(" or "))]
    NotFound(Vec<PathBuf>),
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
    let path = find()?;
    let failed = |source| LauncherProcessError::Start { path: path.clone(), source };
    let kind = (AddressFamily::UNIX, SocketType::SEQPACKET);
    let (socket, theirs) = socketpair(kind.0, kind.1, SocketFlags::CLOEXEC, None)
        .map_err(|errno| failed(errno.into()))?;
    let mut command = command(&path);
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
fn command(path: &Path) -> Command {
    let mut command = Command::new(path);
    command.env_clear().current_dir("/");
    command
}

fn find() -> Result<PathBuf, LauncherProcessError> {
    let beside = std::env::current_exe().ok().and_then(|exe| exe.parent().map(Path::to_path_buf));
    let places: Vec<_> = beside.into_iter().chain([PathBuf::from(INSTALLED)]).collect();
    let found = places.iter().map(|place| place.join(NAME)).find(|path| path.is_file());
    found.ok_or(LauncherProcessError::NotFound(places))
}
