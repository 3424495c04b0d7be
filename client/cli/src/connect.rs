//! Finding the daemon: the one that was named, the one that runs, or a private one.

use crate::{failure::Failure, options::Connection};
use palisade_client::{Client, Embedded, Error};
use std::{
    ffi::OsString,
    io::ErrorKind,
    path::{Path, PathBuf},
};

/// The system's daemon.
const SYSTEM: &str = "/run/palisade/agent.sock";

/// Where to look for a daemon.
#[derive(Debug, PartialEq, Eq)]
enum Where {
    /// Here and nowhere else.
    Named(PathBuf),
    /// At each of these, and if none answers, a private one.
    Usual(Vec<PathBuf>),
    /// A private one.
    Private,
}

/// Whose daemon answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Daemon {
    /// It was running already.
    Running,
    /// It was started for the occasion.
    Private,
}

/// A daemon that was found, or one to be started.
#[derive(Debug)]
pub(crate) enum Found {
    /// It was running already.
    Running(Client),
    /// It is to be started for the occasion.
    Private(Embedded),
}

/// Connects, starting a private daemon if none runs.
pub(crate) async fn connect(options: &Connection) -> Result<(Client, Daemon), Failure> {
    match find(options).await? {
        Found::Running(client) => Ok((client, Daemon::Running)),
        Found::Private(private) => Ok((private.start().await?, Daemon::Private)),
    }
}

/// Finds a daemon that runs, or what to start instead.
pub(crate) async fn find(options: &Connection) -> Result<Found, Failure> {
    let root = rustix::process::geteuid().is_root();
    let environment = (std::env::var_os("PALISADE_SOCKET"), std::env::var_os("XDG_RUNTIME_DIR"));
    match places(options, environment, root) {
        Where::Named(path) => Ok(Found::Running(Client::connect(path).await?)),
        Where::Usual(paths) => {
            for path in paths {
                if let Some(client) = running(&path).await? {
                    return Ok(Found::Running(client));
                }
            }
            Ok(Found::Private(Embedded::new()))
        }
        Where::Private => {
            let private = options.profiles.iter().fold(Embedded::new(), |daemon, directory| {
                daemon.profiles(std::path::absolute(directory).unwrap_or(directory.clone()))
            });
            Ok(Found::Private(private))
        }
    }
}

fn places(
    options: &Connection,
    (named, runtime): (Option<OsString>, Option<OsString>),
    root: bool,
) -> Where {
    if let Some(path) = &options.socket {
        return Where::Named(path.clone());
    }
    if !options.profiles.is_empty() {
        return Where::Private;
    }
    if let Some(path) = named.filter(|path| !path.is_empty()) {
        return Where::Named(PathBuf::from(path));
    }
    let own = runtime
        .filter(|directory| !root && Path::new(directory).is_absolute())
        .map(|directory| Path::new(&directory).join("palisade/agent.sock"));
    Where::Usual(own.into_iter().chain([PathBuf::from(SYSTEM)]).collect())
}

/// The daemon at a usual place, if one listens there and lets this user in.
async fn running(path: &Path) -> Result<Option<Client>, Error> {
    match Client::connect(path).await {
        Ok(client) => Ok(Some(client)),
        Err(Error::Connect { source, .. })
            if matches!(
                source.kind(),
                ErrorKind::NotFound
                    | ErrorKind::ConnectionRefused
                    // The listener went away while the connection waited to be accepted, as when a
                    // daemon ends.
                    | ErrorKind::ConnectionReset
                    | ErrorKind::PermissionDenied
                    | ErrorKind::NotADirectory
            ) =>
        {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usual(paths: &[&str]) -> Where {
        Where::Usual(paths.iter().map(PathBuf::from).collect())
    }

    #[test]
    fn the_option_wins_over_the_variable_and_both_over_the_usual_places() {
        let socket = Connection { socket: Some("/a".into()), profiles: Vec::new() };
        let variable = || (Some("/b".into()), Some("/run/user/1".into()));
        assert_eq!(places(&socket, variable(), false), Where::Named("/a".into()));
        let none = Connection::default();
        assert_eq!(places(&none, variable(), false), Where::Named("/b".into()));
        let profiles = Connection { socket: None, profiles: vec!["p".into()] };
        assert_eq!(places(&profiles, variable(), false), Where::Private);
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
        assert!(running(&path).await.unwrap().is_none());
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        assert!(path.exists());
        // It goes away while the connection waits to be accepted.
        let (found, ()) = tokio::join!(running(&path), async {
            // Once: the other one has connected and waits for an answer by now.
            tokio::task::yield_now().await;
            drop(listener);
        });
        assert!(found.unwrap().is_none());
        assert!(running(&path).await.unwrap().is_none());
    }
}
