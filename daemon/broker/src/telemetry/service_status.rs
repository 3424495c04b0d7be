//! The status last sent to the service manager. Runs in the broker.

use sd_notify::NotifyState;
use std::{
    io,
    os::{
        linux::net::SocketAddrExt as _,
        unix::{
            ffi::OsStrExt as _,
            net::{SocketAddr, UnixDatagram},
        },
    },
    sync::{Mutex, PoisonError},
    time::Duration,
};

/// The status line last sent, and the result of the last reload.
#[derive(Debug, Default)]
pub(crate) struct ServiceStatus {
    sent: Mutex<String>,
    /// The error of the last reload, if it failed.
    not_reloaded: Mutex<Option<String>>,
}

impl ServiceStatus {
    /// Stores the result of a reload.
    pub(crate) fn reloaded(&self, result: Result<(), String>) {
        *self.not_reloaded.lock().unwrap_or_else(PoisonError::into_inner) = result.err();
    }

    /// Returns why the last reload failed, if it did.
    pub(crate) fn not_reloaded(&self) -> Option<String> {
        self.not_reloaded.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sends the status line to the service manager, if it changed.
    pub(crate) fn send(&self, line: String) {
        // After a line break the service manager would read another notification.
        let line = line.replace('\n', "; ");
        let mut sent = self.sent.lock().unwrap_or_else(PoisonError::into_inner);
        if *sent != line && mention(&NotifyState::Status(&line)) == NotifyResult::Yes {
            *sent = line;
        }
    }
}

/// The time limit for a notification that is sent once, if the service manager does not read.
const PATIENCE: Duration = Duration::from_secs(2);

/// Sends notifications that are not repeated to the service manager, if there is one. It waits for
/// room in the manager's socket, but not for ever: the event loop calls it.
pub(crate) fn notify(states: &[NotifyState<'_>]) {
    let lines: String = states.iter().map(|state| format!("{state}\n")).collect();
    let sent = sent(&lines, |socket| socket.set_write_timeout(Some(PATIENCE)));
    if let Err(error) = sent {
        tracing::warn!(%error, "the service manager could not be notified");
    }
}

/// The answer of the service manager to a notification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotifyResult {
    Yes,
    /// Its socket is full; the notification is sent again later.
    NotNow,
}

/// Sends a notification that is repeated later anyway, without blocking. It is called from the
/// event loop, which a service manager that does not read must not hold up.
pub(crate) fn mention(state: &NotifyState<'_>) -> NotifyResult {
    match sent(&state.to_string(), |socket| socket.set_nonblocking(true)) {
        Ok(()) => NotifyResult::Yes,
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => NotifyResult::NotNow,
        Err(error) => {
            tracing::warn!(%error, "the service manager could not be notified");
            NotifyResult::Yes
        }
    }
}

fn sent(text: &str, limit: impl FnOnce(&UnixDatagram) -> io::Result<()>) -> io::Result<()> {
    let Some(name) = std::env::var_os("NOTIFY_SOCKET") else { return Ok(()) };
    let address = match name.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(&name)?,
    };
    let socket = UnixDatagram::unbound()?;
    limit(&socket)?;
    socket.send_to_addr(text.as_bytes(), &address).map(drop)
}
