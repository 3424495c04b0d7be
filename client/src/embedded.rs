//! A private daemon: finds the program, starts it on one end of a socket pair for one client and ends
//! it with the connection, or starts it in the background on a listening socket. The only file of this crate that starts a process.

use crate::{Client, Error, Operator, link::Link};
use palisade_programs::{INSTALLED, NotFound, Search};
use std::{
    ffi::{OsStr, OsString},
    os::{fd::OwnedFd, unix::net::UnixListener},
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};
use tokio::{
    net::UnixStream,
    sync::{mpsc, watch},
    time::timeout,
};

/// The name of the daemon's program.
const DAEMON: &str = "palisaded";

/// The directory where packages install user commands.
const COMMANDS: &str = "/usr/bin";

/// The directory in which a debug build was made. A release build contains nothing about the
/// machine that built it.
const BUILT: Option<&str> = option_env!("PALISADE_BUILD_DIRECTORY");

/// The programs that the daemon starts. It finds them beside itself, or where packages install them.
const ROOMS: [&str; 4] =
    ["palisade-launcher", "palisade-cell", "palisade-analyst", "palisade-egress"];

/// The time that an embedded daemon may take to end by itself.
const GRACE: Duration = Duration::from_secs(60);

/// The options with which a private daemon is started.
///
/// The program is `$PALISADE_DAEMON` if that is set. Otherwise `palisaded` is searched beside the
/// running program and in the two directories above it (tests and examples of a build). In a debug
/// build, the directory in which it was built is next, and then the directory where `cargo install`
/// puts programs (`$CARGO_HOME/bin`, `~/.cargo/bin`), if nobody else can write to it. The last ones
/// are `/usr/bin` and `/usr/libexec/palisade`. `$PATH` is never searched.
///
/// ```
/// # use palisade_client::Embedded;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let directory = tempfile::tempdir()?;
/// let client = Embedded::new().state(directory.path()).start().await?;
/// client.ping().await?;
/// client.shutdown().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Default)]
#[must_use = "a daemon is started by start()"]
pub struct Embedded {
    program: Option<PathBuf>,
    arguments: Vec<OsString>,
}

impl Embedded {
    /// Creates options with the daemon's defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the program to start, instead of searching for one.
    pub fn program(mut self, path: impl AsRef<Path>) -> Self {
        self.program = Some(path.as_ref().to_owned());
        self
    }

    /// Adds a directory of profiles.
    pub fn profiles(self, directory: impl AsRef<Path>) -> Self {
        self.arg("--profiles").arg(directory.as_ref())
    }

    /// Loads only one profile, and those that it extends: the named one, or else the default one.
    /// The daemon starts sooner, errors in other profiles do not stop it, and sessions of other
    /// profiles can not be opened.
    pub fn only_profile(self, name: Option<&str>) -> Self {
        match name {
            Some(name) => self.arg(format!("--only-profile={name}")),
            None => self.arg("--only-profile"),
        }
    }

    /// Prepares nothing for a second call, for a client that makes only one. More calls work, but
    /// begin more slowly.
    pub fn one_call(self) -> Self {
        self.arg("--one-call")
    }

    /// Lets a call take as long as a job of the profile: `limits.job_ms` instead of
    /// `limits.max_timeout_ms`, and at most 24 hours.
    pub fn long_calls(self) -> Self {
        self.arg("--long-calls")
    }

    /// Sets the directory for stored output and other state.
    pub fn state(self, directory: impl AsRef<Path>) -> Self {
        self.arg("--state").arg(directory.as_ref())
    }

    /// Adds any other argument for the daemon.
    pub fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.arguments.push(argument.as_ref().to_owned());
        self
    }

    /// Starts the daemon and connects.
    ///
    /// # Errors
    /// [`Error::DaemonNotFound`] or [`Error::DaemonNotStarted`]; [`Error::Disconnected`] if the
    /// daemon ended at once, with the reason on its standard error.
    pub async fn start(self) -> Result<Client, Error> {
        Client::with_daemon(self).await
    }

    /// Starts the daemon and connects twice: as its client, and as its only operator. The
    /// operator's connection is for this process alone; a client that reconnects has none.
    ///
    /// ```no_run
    /// # use palisade_client::{Embedded, Registration};
    /// # async fn start() -> Result<(), palisade_client::Error> {
    /// let (client, operator) = Embedded::new().with_operator().await?;
    /// operator.register(Registration::new("person:me")).await?;
    /// // Answer what operator.next() asks, in a task of its own, while client makes calls.
    /// # drop(client);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As for [`start`](Self::start).
    pub async fn with_operator(self) -> Result<(Client, Operator), Error> {
        Client::with_operator(self).await
    }

    /// Starts the daemon in the background for all clients of a listening socket that belong to this
    /// user. It ends after `rest` without a client. It leaves this process's session, keeps no descriptor
    /// of this process, and has no environment but `variables`. Its messages are lost.
    ///
    /// # Errors
    /// [`Error::DaemonNotFound`] or [`Error::DaemonNotStarted`]. A daemon that starts and fails closes
    /// the socket.
    #[allow(clippy::disallowed_methods, reason = "the one file of the client that starts a room")]
    pub fn linger(
        self,
        listener: UnixListener,
        rest: Duration,
        variables: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Result<(), Error> {
        let path = self.path()?;
        let failed = |source| Error::DaemonNotStarted { path: path.clone(), source };
        let mut command = std::process::Command::new(std::path::absolute(&path).map_err(failed)?);
        // The process is not waited for. It outlives this one, and somebody else reaps it.
        command
            .args(["--embedded", "--linger-ms", &rest.as_millis().to_string()])
            .args(&self.arguments)
            .env_clear()
            .envs(variables)
            .current_dir("/")
            .stdin(OwnedFd::from(listener))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map(drop)
            .map_err(failed)
    }

    /// Returns the paths at which the daemon's programs may be: its own, and those that it starts.
    ///
    /// # Errors
    /// [`Error::DaemonNotFound`].
    pub fn programs(&self) -> Result<Vec<PathBuf>, Error> {
        let daemon = self.path()?;
        let directories = daemon.parent().into_iter().chain([Path::new(INSTALLED)]);
        let rooms = directories.flat_map(|directory| ROOMS.map(|name| directory.join(name)));
        Ok([daemon.clone()].into_iter().chain(rooms).collect())
    }

    fn path(&self) -> Result<PathBuf, Error> {
        match &self.program {
            Some(path) => Ok(path.clone()),
            None => find(std::env::var_os("PALISADE_DAEMON"), &Places::of_this_process()),
        }
    }

    pub(crate) fn spawn(&self) -> Result<(UnixStream, Daemon), Error> {
        let (stream, theirs) = pair()?;
        Ok((stream, self.spawn_on(theirs, None)?))
    }

    pub(crate) fn spawn_with_operator(&self) -> Result<(UnixStream, UnixStream, Daemon), Error> {
        let ((stream, theirs), (operator, theirs_too)) = (pair()?, pair()?);
        Ok((stream, operator, self.spawn_on(theirs, Some(theirs_too))?))
    }

    #[allow(clippy::disallowed_methods, reason = "the one file of the client that starts a room")]
    fn spawn_on(&self, agent: OwnedFd, operator: Option<OwnedFd>) -> Result<Daemon, Error> {
        let path = self.path()?;
        let mut command = std::process::Command::new(&path);
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        command
            .arg("--embedded")
            .args(operator.as_ref().map(|_| "--operator-stdout"))
            .args(&self.arguments)
            .stdin(agent)
            .stdout(operator.map_or_else(Stdio::null, Stdio::from))
            .stderr(Stdio::inherit());
        let child = tokio::process::Command::from(command)
            .spawn()
            .map_err(|source| Error::DaemonNotStarted { path, source })?;
        Ok(Daemon::watch(child))
    }
}

/// Creates a socket pair: this process's end and the daemon's end.
fn pair() -> Result<(UnixStream, OwnedFd), Error> {
    let (ours, theirs) = std::os::unix::net::UnixStream::pair().map_err(Error::Socket)?;
    ours.set_nonblocking(true).map_err(Error::Socket)?;
    Ok((UnixStream::from_std(ours).map_err(Error::Socket)?, OwnedFd::from(theirs)))
}

/// A started daemon. A background task waits for its end, so that the process is always reaped.
#[derive(Debug)]
pub(crate) struct Daemon {
    ended: watch::Receiver<()>,
    kill: mpsc::UnboundedSender<()>,
}

impl Daemon {
    fn watch(mut child: tokio::process::Child) -> Self {
        let (alive, ended) = watch::channel(());
        let (kill, mut orders) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            let order = tokio::select! {
                _ = child.wait() => None,
                order = orders.recv() => order,
            };
            if order.is_some() && child.start_kill().is_err() {
                // The daemon ended in between, so there is nothing left to do but wait.
            }
            // Reaps the process. Its status adds nothing to the messages it has printed.
            drop(child.wait().await);
            drop(alive);
        });
        Self { ended, kill }
    }

    /// Closes the connection, which ends the daemon, and waits for its end.
    pub(crate) async fn end(&self, link: &Link) -> Result<(), Error> {
        let gone = async {
            link.finish().await;
            self.gone().await;
        };
        if timeout(GRACE, gone).await.is_ok() {
            return Ok(());
        }
        if self.kill.send(()).is_ok() {
            self.gone().await;
        }
        Err(Error::DaemonStuck(GRACE))
    }

    async fn gone(&self) {
        // This channel carries no values: it only reports that its sender is gone.
        while self.ended.clone().changed().await.is_ok() {}
    }
}

/// The places near which programs are searched.
#[derive(Debug, Clone, Default)]
struct Places {
    /// The running program.
    running: Option<PathBuf>,
    /// The directory in which a debug build was made.
    built: Option<PathBuf>,
    /// The directory where `cargo install` puts programs.
    cargo: Option<PathBuf>,
}

impl Places {
    fn of_this_process() -> Self {
        let variable = |name| std::env::var_os(name).map(PathBuf::from);
        let home = variable("HOME").map(|home| home.join(".cargo"));
        Self {
            running: std::env::current_exe().ok(),
            built: BUILT.map(PathBuf::from),
            cargo: variable("CARGO_HOME").or(home).map(|cargo| cargo.join("bin")),
        }
    }

    fn search(&self) -> Search {
        let near = Search::around(self.running.as_deref(), 3);
        let near = self.built.iter().fold(near, Search::and);
        self.cargo.iter().fold(near, Search::and_own).and(COMMANDS).and(INSTALLED)
    }
}

/// Returns the daemon's program: the named one, or the first that exists.
fn find(named: Option<OsString>, places: &Places) -> Result<PathBuf, Error> {
    if let Some(path) = named {
        return Ok(PathBuf::from(path));
    }
    Ok(places.search().open(DAEMON)?.path().to_owned())
}

/// Finds a program that comes with Palisade, in the directories where the daemon is searched. Never
/// on `$PATH`.
///
/// # Errors
/// The searched directories, if none of them has the program.
pub fn companion(name: &str) -> Result<PathBuf, NotFound> {
    Ok(Places::of_this_process().search().open(name)?.path().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_named_program_is_taken_as_it_is() {
        let running = Some("/usr/bin/env".into());
        let places = Places { running, ..Places::default() };
        let found = find(Some("/opt/palisaded".into()), &places).unwrap();
        assert_eq!(found, Path::new("/opt/palisaded"));
    }

    #[test]
    fn beside_the_program_and_two_directories_up_but_not_three() {
        let root = tempfile::tempdir().unwrap();
        let deep = root.path().join("a/b/c");
        std::fs::create_dir_all(&deep).unwrap();
        let program = deep.join("test-1234");
        std::fs::write(root.path().join(DAEMON), "").unwrap();
        let running = Some(program);
        let places = Places { running, built: Some("/build".into()), ..Places::default() };
        match find(None, &places) {
            Err(Error::DaemonNotFound(NotFound { searched, .. })) => {
                let searched: Vec<_> = searched.into_iter().map(|searched| searched.path).collect();
                let near = ["a/b/c", "a/b", "a"].map(|name| root.path().join(name).join(DAEMON));
                assert_eq!(searched[..3], near);
                let far = ["/build", "/usr/bin", "/usr/libexec/palisade"];
                assert_eq!(searched[3..], far.map(|name| Path::new(name).join(DAEMON)));
            }
            other => panic!("{other:?}"),
        }
        for directory in ["a", "a/b", "a/b/c"] {
            let path = root.path().join(directory).join(DAEMON);
            std::fs::write(&path, "").unwrap();
            assert_eq!(find(None, &places).unwrap(), path);
        }
    }

    #[test]
    fn a_daemon_that_cargo_installed_is_found_and_otherwise_one_line_says_what_to_set() {
        let root = tempfile::tempdir().unwrap();
        let cargo = root.path().join("cargo/bin");
        std::fs::create_dir_all(&cargo).unwrap();
        let running = Some(root.path().join("a/b/c/agent"));
        let places = Places { running, cargo: Some(cargo.clone()), built: None };
        if !Path::new("/usr/bin/palisaded").exists() {
            let told = find(None, &places).unwrap_err().to_string();
            assert_eq!(
                told,
                format!(
                    "palisaded was not found; set PALISADE_DAEMON to its path, or install it into \
                     {}",
                    root.path().join("a/b/c").display()
                )
            );
        }
        let path = cargo.join(DAEMON);
        std::fs::write(&path, "").unwrap();
        assert_eq!(find(None, &places).unwrap(), path);
    }
}
