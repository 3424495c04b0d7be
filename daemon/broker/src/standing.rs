//! What was last told the service manager of how the daemon is. Broker.

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
};

/// The line about how the daemon is.
#[derive(Debug, Default)]
pub(crate) struct Standing {
    told: Mutex<String>,
    /// Why the last reload failed, if it did.
    not_reloaded: Mutex<Option<String>>,
}

impl Standing {
    /// Remembers how a reload went.
    pub(crate) fn reloaded(&self, result: Result<(), String>) {
        *self.not_reloaded.lock().unwrap_or_else(PoisonError::into_inner) = result.err();
    }

    /// Why the last reload failed, if it did.
    pub(crate) fn not_reloaded(&self) -> Option<String> {
        self.not_reloaded.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Tells the line, if it is another than before.
    pub(crate) fn tell(&self, line: String) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if *told != line && mention(&NotifyState::Status(&line)) == Heard::Yes {
            *told = line;
        }
    }
}

/// Tells the service manager something; there may be none.
pub(crate) fn notify(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!(%error, "the service manager could not be told");
    }
}

/// Whether the service manager took what it was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Heard {
    Yes,
    /// It has not read what it was told before; this is told again.
    NotNow,
}

/// Tells the service manager what will be told again. This is said from the loop that serves clients, so
/// a manager that does not read must not hold it up.
pub(crate) fn mention(state: &NotifyState<'_>) -> Heard {
    match sent(&state.to_string()) {
        Ok(()) => Heard::Yes,
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Heard::NotNow,
        Err(error) => {
            tracing::warn!(%error, "the service manager could not be told");
            Heard::Yes
        }
    }
}

fn sent(text: &str) -> io::Result<()> {
    let Some(name) = std::env::var_os("NOTIFY_SOCKET") else { return Ok(()) };
    let address = match name.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(&name)?,
    };
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    socket.send_to_addr(text.as_bytes(), &address).map(drop)
}
