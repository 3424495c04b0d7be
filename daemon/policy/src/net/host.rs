//! `[net.host]`: the services of this host that a session may use, as they are written and as they
//! apply. Pure: no I/O.

use super::{NetMode, PortEntry};
use crate::{
    entries::{Base, PathEntry, never_shown},
    keys::{noun, text},
    source::WithOrigin,
};
use palisade_egress_protocol::{THIS_HOST, host::Host};
use palisade_plan::ceiling;
use serde::{Deserialize, Serialize};
use std::{fmt, path::Path};
use toml::Spanned;

/// A Unix socket of the host: an absolute path. A socket that does not exist is left out; with a
/// leading `!` it must exist.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct SocketEntry(pub(crate) PathEntry);

impl SocketEntry {
    pub(crate) fn path(&self) -> &Path {
        Path::new(&self.0.rest)
    }
}

impl fmt::Display for SocketEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.rest)
    }
}

impl From<SocketEntry> for String {
    fn from(entry: SocketEntry) -> Self {
        entry.0.into()
    }
}

impl TryFrom<String> for SocketEntry {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let entry = PathEntry::parse(&text)?;
        if entry.base != Base::Root || entry.rest == "/" {
            return Err(format!(
                "{text:?} is not the absolute path of a socket, such as \
                 \"/run/postgresql/.s.PGSQL.5432\""
            ));
        }
        let path = Path::new(&entry.rest);
        never_shown(path)?;
        if ceiling::is_running(path) || path.starts_with("/dev") || path.starts_with("/sys") {
            return Err(format!("{text:?} is below a directory that no session gets a part of"));
        }
        Ok(Self(entry))
    }
}

noun! { SocketEntry: "absolute path", "absolute paths"; }

text! {
    /// The section `[net.host]` as it is written in a profile.
    #[derive(Debug, Default, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    "net.host." pub(crate) struct HostText {
        /// with `mode = "domains"`: ports of the host's own 127.0.0.1, which the session reaches as
        /// `host.palisade.internal:PORT`; see [network.md](network.md#services-of-this-host)
        ports: Option<Vec<Spanned<PortEntry>>>, "none";
        /// in every mode: Unix sockets of the host, each at the same path in the session. One that
        /// does not exist is left out; with a leading `!` the session is refused then
        sockets: Option<Vec<Spanned<SocketEntry>>>, "none";
    }
}

/// The services of this host that a session may use.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(crate) struct HostServices {
    /// The ports of the host's loopback, which need mode `domains`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) ports: Vec<WithOrigin<PortEntry>>,
    /// The Unix sockets.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) sockets: Vec<WithOrigin<SocketEntry>>,
}

impl HostServices {
    pub(crate) const fn is_empty(&self) -> bool {
        self.ports.is_empty() && self.sockets.is_empty()
    }

    /// Returns the entry of a port, if the port may be connected to.
    pub(crate) fn port(&self, port: u16) -> Option<&WithOrigin<PortEntry>> {
        self.ports.iter().find(|said| said.value.0 == port)
    }

    /// Returns the entry of a socket, if it may be connected to.
    pub(crate) fn socket(&self, path: &Path) -> Option<&WithOrigin<SocketEntry>> {
        self.sockets.iter().find(|said| said.value.path() == path)
    }

    /// Returns the services that both profiles name, of the kinds that a mode has.
    pub(crate) fn both(&self, other: &Self, mode: NetMode) -> Self {
        let ports = self.ports.iter().filter(|said| other.port(said.value.0).is_some());
        let sockets = self.sockets.iter().filter(|said| other.socket(said.value.path()).is_some());
        let (ports, sockets) = (ports.cloned().collect(), sockets.cloned().collect());
        Self { ports, sockets }.within(mode)
    }

    /// Returns the services of the kinds that a mode has.
    pub(crate) fn within(self, mode: NetMode) -> Self {
        match mode {
            NetMode::Domains => self,
            NetMode::None | NetMode::Loopback | NetMode::Ports => {
                Self { ports: Vec::new(), ..self }
            }
        }
    }
}

/// Returns `true` if a host is this host, by the name that it has in sessions.
pub(crate) fn is_this_host(host: &Host) -> bool {
    match host {
        Host::Name(name) => name.as_str() == THIS_HOST,
        Host::Address(_) => false,
    }
}

#[cfg(test)]
mod tests;
