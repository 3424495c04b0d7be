//! Private daemons that a command leaves running for a while, so that the next command of this user
//! starts at once. A daemon is found by a digest of everything that it was started with.

mod directory;
mod key;
pub(crate) mod stop;

use crate::{
    failure::Failure,
    paint::{self, Paint},
};
use directory::Found;
use palisade_client::{Client, Embedded, JobInfo, Jobs};
use palisade_options::duration;
use std::{os::unix::net::UnixListener, path::Path, time::Duration};

/// The variable that sets how long a daemon stays, or that it does not.
const VARIABLE: &str = "PALISADE_LINGER";

/// The time for which a daemon stays without clients.
const REST: Duration = Duration::from_secs(5 * 60);

/// The most daemons of one user. Beyond, each command has a daemon of its own.
const MOST: usize = 8;

/// The longest path of a socket.
const LONGEST_PATH: usize = 107;

/// The lifetime of a private daemon after its command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Linger {
    /// It ends with the command.
    Never,
    /// It ends with the command, whose calls may take as long as a job of the profile.
    WithOneLongCall,
    /// It stays for as long as the variable says, or for five minutes.
    AsConfigured,
}

impl Linger {
    /// Returns the time for which a daemon stays without clients; `None` if it ends with its command.
    pub(crate) fn rest(self) -> Result<Option<Duration>, Failure> {
        match self {
            Self::Never | Self::WithOneLongCall => Ok(None),
            Self::AsConfigured => {
                rest(std::env::var_os(VARIABLE).unwrap_or_default().to_string_lossy().as_ref())
            }
        }
    }
}

/// Reads the time that the variable sets.
fn rest(text: &str) -> Result<Option<Duration>, Failure> {
    match text {
        "" => Ok(Some(REST)),
        "none" => Ok(None),
        text => duration::parse(text).map(Some).map_err(|error| {
            let told = format!("{VARIABLE}={text:?}: {error}");
            Failure::new(told, "set it to a time such as 5m, or to none")
        }),
    }
}

/// Connects to the daemon that an earlier command left running, or starts one that stays for `rest`.
/// Returns `None` where that is not possible: then the command has a daemon of its own, which says
/// what is wrong, if something is.
pub(crate) async fn connect(
    private: &Embedded,
    profile: Option<&str>,
    rest: Duration,
) -> Option<Client> {
    let directory = directory::make()?;
    let key = key::of(private, profile, rest)?;
    let socket = directory.join(key.socket_name());
    if socket.as_os_str().len() > LONGEST_PATH {
        return None;
    }
    if let Some(client) = answering(&socket).await {
        return Some(client);
    }
    // Another command that starts a daemon at this moment has the lock. It is not waited for.
    let lock = directory::lock(&directory)?;
    if let Some(client) = answering(&socket).await {
        return Some(client);
    }
    if directory::sweep(&directory).await >= MOST {
        return None;
    }
    let listener = UnixListener::bind(&socket).ok()?;
    let daemon = private.clone().only_profile(profile);
    daemon.linger(listener, rest, key.variables).ok()?;
    drop(lock);
    answering(&socket).await
}

/// Connects to each daemon that commands left running and that has jobs.
pub(crate) async fn with_jobs() -> Vec<(Client, Vec<JobInfo>)> {
    let mut found = Vec::new();
    for (socket, _) in directory::daemons().await {
        let Some(client) = answering(&socket).await else { continue };
        // A daemon that is ending has no jobs that could be shown.
        if let Ok(Jobs { jobs }) = client.jobs().await
            && !jobs.is_empty()
        {
            found.push((client, jobs));
        }
    }
    found
}

/// Connects to a daemon of this user, if one accepts the connection and greets.
async fn answering(socket: &Path) -> Option<Client> {
    match directory::dial(socket).await {
        Found::Daemon { stream, .. } => Client::from_stream(stream).await.ok(),
        Found::Stale | Found::Other => None,
    }
}

/// Returns a line about the daemons that commands left running; nothing if there are none.
pub(crate) async fn notice(paint: Paint) -> String {
    match directory::daemons().await.len() {
        0 => String::new(),
        count => {
            let told = format!(
                "{count} left running by earlier commands, for those that follow; palisade stop \
                 ends them"
            );
            paint::field("lingering", &told, paint) + "\n"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_daemon_stays_for_the_time_that_is_set() {
        assert_eq!(Linger::Never.rest().unwrap(), None);
        assert_eq!(Linger::WithOneLongCall.rest().unwrap(), None);
        assert_eq!(rest("").unwrap(), Some(REST));
        assert_eq!(rest("none").unwrap(), None);
        assert_eq!(rest("30s").unwrap(), Some(Duration::from_secs(30)));
        for text in ["0s", "off", "5"] {
            let failure = rest(text).unwrap_err();
            assert!(failure.lines(crate::paint::Paint::Plain)[0].contains(VARIABLE), "{text}");
        }
    }
}
