//! Finds the daemon: the one that was named, a running one, or a private one.

use crate::Connection;
use palisade_client::{Client, Embedded, Error};
use std::{
    ffi::OsString,
    io::ErrorKind,
    path::{Path, PathBuf},
};

/// The socket of the system's daemon.
const SYSTEM: &str = "/run/palisade/agent.sock";

/// The places to look for a daemon.
#[derive(Debug, PartialEq, Eq)]
enum DaemonLocation {
    /// At this socket and nowhere else.
    Named(PathBuf),
    /// At each of these sockets; if none answers, a private daemon is started.
    Usual(Vec<PathBuf>),
    /// Nowhere: a private daemon is started.
    Private,
}

/// The kind of daemon that answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Daemon {
    /// The daemon was already running.
    Running,
    /// The daemon was started for this command.
    Private(PrivateReason),
}

impl Daemon {
    /// Returns what the user should know about the daemon; `None` if there is nothing.
    #[must_use]
    pub const fn notice(self) -> Option<&'static str> {
        match self {
            Self::Running => None,
            Self::Private(reason) => reason.notice(),
        }
    }
}

/// The reason why a daemon is started for a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PrivateReason {
    /// The command names directories of profiles.
    Profiles,
    /// No daemon answers at the usual sockets.
    NoneRuns,
    /// The system's daemon has a socket, and this user may not connect to it.
    NotAdmitted,
}

impl PrivateReason {
    /// Returns what the user should know: the service does not see what a private daemon does.
    #[must_use]
    pub const fn notice(self) -> Option<&'static str> {
        match self {
            Self::Profiles | Self::NoneRuns => None,
            Self::NotAdmitted => Some(
                "a private daemon is used, which the service does not see: this user may not use \
                 /run/palisade/agent.sock (see group palisade-users)",
            ),
        }
    }
}

/// A running daemon, or a private one to be started.
#[derive(Debug)]
pub enum DaemonChoice {
    /// The daemon was already running.
    Running(Client),
    /// The daemon is to be started for this command.
    Private(Embedded, PrivateReason),
}

/// Connects, starting a private daemon if none runs.
///
/// # Errors
/// If the named daemon does not answer, or a private one does not start.
pub async fn connect(options: &Connection) -> Result<(Client, Daemon), Error> {
    match find(options).await? {
        DaemonChoice::Running(client) => Ok((client, Daemon::Running)),
        DaemonChoice::Private(private, why) => Ok((private.start().await?, Daemon::Private(why))),
    }
}

/// Connects for sessions of one profile. A private daemon loads only that profile and those that it
/// extends, so an error in another one does not matter.
///
/// # Errors
/// As for [`connect`].
pub async fn connect_for(
    options: &Connection,
    profile: Option<&str>,
) -> Result<(Client, Daemon), Error> {
    match find(options).await? {
        DaemonChoice::Running(client) => Ok((client, Daemon::Running)),
        DaemonChoice::Private(private, why) => {
            Ok((private.only_profile(profile).start().await?, Daemon::Private(why)))
        }
    }
}

/// Finds a running daemon, or returns the private one to start instead.
///
/// # Errors
/// If the named daemon does not answer, or a running one refuses this client.
pub async fn find(options: &Connection) -> Result<DaemonChoice, Error> {
    let root = rustix::process::geteuid().is_root();
    let environment = (std::env::var_os("PALISADE_SOCKET"), std::env::var_os("XDG_RUNTIME_DIR"));
    match places(options, environment, root) {
        DaemonLocation::Named(path) => Ok(DaemonChoice::Running(Client::connect(path).await?)),
        DaemonLocation::Usual(paths) => {
            let mut why = PrivateReason::NoneRuns;
            for path in paths {
                match running(&path).await? {
                    SocketState::Answers(client) => return Ok(DaemonChoice::Running(client)),
                    SocketState::Closed => why = PrivateReason::NotAdmitted,
                    SocketState::Silent => {}
                }
            }
            Ok(DaemonChoice::Private(Embedded::new(), why))
        }
        DaemonLocation::Private => {
            let private = options.profiles.iter().fold(Embedded::new(), |daemon, directory| {
                daemon.profiles(std::path::absolute(directory).unwrap_or(directory.clone()))
            });
            Ok(DaemonChoice::Private(private, PrivateReason::Profiles))
        }
    }
}

fn places(
    options: &Connection,
    (named, runtime): (Option<OsString>, Option<OsString>),
    root: bool,
) -> DaemonLocation {
    if let Some(path) = &options.socket {
        return DaemonLocation::Named(path.clone());
    }
    if !options.profiles.is_empty() {
        return DaemonLocation::Private;
    }
    if let Some(path) = named.filter(|path| !path.is_empty()) {
        return DaemonLocation::Named(PathBuf::from(path));
    }
    let own = runtime
        .filter(|directory| !root && Path::new(directory).is_absolute())
        .map(|directory| Path::new(&directory).join("palisade/agent.sock"));
    DaemonLocation::Usual(own.into_iter().chain([PathBuf::from(SYSTEM)]).collect())
}

/// The state of a default socket.
#[derive(Debug)]
enum SocketState {
    /// A daemon answers.
    Answers(Client),
    /// This user may not connect.
    Closed,
    /// Nothing listens there.
    Silent,
}

/// Connects to a default socket, if a daemon is there and this user may.
async fn running(path: &Path) -> Result<SocketState, Error> {
    match Client::connect(path).await {
        Ok(client) => Ok(SocketState::Answers(client)),
        Err(Error::Connect { source, .. }) if source.kind() == ErrorKind::PermissionDenied => {
            Ok(SocketState::Closed)
        }
        Err(Error::Connect { source, .. })
            if matches!(
                source.kind(),
                ErrorKind::NotFound
                    | ErrorKind::ConnectionRefused
                    // The listener was closed while the connection waited to be accepted, for
                    // example because the daemon ended.
                    | ErrorKind::ConnectionReset
                    | ErrorKind::NotADirectory
            ) =>
        {
            Ok(SocketState::Silent)
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usual(paths: &[&str]) -> DaemonLocation {
        DaemonLocation::Usual(paths.iter().map(PathBuf::from).collect())
    }

    #[test]
    fn the_option_wins_over_the_variable_and_both_over_the_usual_places() {
        let socket = Connection { socket: Some("/a".into()), profiles: Vec::new() };
        let variable = || (Some("/b".into()), Some("/run/user/1".into()));
        assert_eq!(places(&socket, variable(), false), DaemonLocation::Named("/a".into()));
        let none = Connection::default();
        assert_eq!(places(&none, variable(), false), DaemonLocation::Named("/b".into()));
        let profiles = Connection { socket: None, profiles: vec!["p".into()] };
        assert_eq!(places(&profiles, variable(), false), DaemonLocation::Private);
    }

    #[test]
    fn a_user_looks_in_the_runtime_directory_first_and_root_only_in_run() {
        let none = Connection::default();
        let runtime = |text: &str| (Some("".into()), Some(text.into()));
        let both = usual(&["/run/user/1/palisade/agent.sock", SYSTEM]);
        assert_eq!(places(&none, runtime("/run/user/1"), false), both);
        assert_eq!(places(&none, runtime("/run/user/1"), true), usual(&[SYSTEM]));
        assert_eq!(places(&none, runtime("relative"), false), usual(&[SYSTEM]));
        assert_eq!(places(&none, (None, None), false), usual(&[SYSTEM]));
    }

    #[tokio::test]
    async fn a_socket_nobody_listens_on_is_nobody() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("agent.sock");
        assert!(matches!(running(&path).await.unwrap(), SocketState::Silent));
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        assert!(path.exists());
        // The listener is closed while the connection waits to be accepted.
        let (found, ()) = tokio::join!(running(&path), async {
            // One yield is enough: the other future has connected and waits for an answer by then.
            tokio::task::yield_now().await;
            drop(listener);
        });
        assert!(matches!(found.unwrap(), SocketState::Silent));
        assert!(matches!(running(&path).await.unwrap(), SocketState::Silent));
    }

    #[test]
    fn a_user_whom_the_service_does_not_admit_is_told_and_no_other() {
        let told = PrivateReason::NotAdmitted.notice().unwrap();
        assert!(told.contains("the service does not see") && told.contains("palisade-users"));
        assert_eq!(Daemon::Private(PrivateReason::NotAdmitted).notice(), Some(told));
        assert_eq!(Daemon::Running.notice(), None);
        assert_eq!(PrivateReason::NoneRuns.notice(), None);
        assert_eq!(PrivateReason::Profiles.notice(), None);
    }
}
