//! The source of egress rooms: a program that this daemon starts, or a service. Runs in the broker.

use super::{
    credentials::{CredentialFile, CredentialStore},
    error::NetworkError,
    room_process::{self, RoomProcess},
};
use crate::base;
use palisade_egress_protocol::OperatorProxy;
use palisade_policy::EgressPolicy;
use palisade_programs::Program;
use std::{
    collections::BTreeSet,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
};

/// The source of egress rooms, and their way out.
#[derive(Debug)]
pub(crate) struct RoomSource {
    pub(crate) origin: RoomOrigin,
    /// The operator's HTTP proxy, through which rooms connect to other hosts.
    pub(crate) proxy: Option<OperatorProxy>,
}

/// The place that egress rooms come from.
#[derive(Debug)]
pub(crate) enum RoomOrigin {
    /// A program that this daemon starts, once for each user, and the credentials that it gets.
    Program(Program, CredentialStore),
    /// The socket of a service that starts a room for each connection.
    Socket(PathBuf),
    /// No program: sessions that need a room are refused, with this reason.
    Missing(String),
    /// A room made by a test.
    #[cfg(test)]
    Test(super::tests::FakeRooms),
}

/// A new connection to a room, and the room's process if this daemon started it.
#[derive(Debug)]
pub(super) struct RoomConnection {
    pub(super) socket: OwnedFd,
    pub(super) process: Option<RoomProcess>,
}

impl RoomSource {
    /// Makes a new room.
    pub(super) fn start(&self) -> Result<RoomConnection, NetworkError> {
        match &self.origin {
            RoomOrigin::Program(program, _) => {
                let (process, socket) = room_process::start(program)?;
                Ok(RoomConnection { socket, process: Some(process) })
            }
            RoomOrigin::Socket(path) => Ok(RoomConnection { socket: dial(path)?, process: None }),
            RoomOrigin::Missing(why) => Err(NetworkError::Missing(why.clone())),
            #[cfg(test)]
            RoomOrigin::Test(rooms) => Ok(RoomConnection { socket: rooms.start()?, process: None }),
        }
    }

    /// Opens the credentials of a session. The rooms of a service have them from the service manager.
    pub(super) fn credentials(
        &self,
        policy: &EgressPolicy,
    ) -> Result<Vec<CredentialFile>, NetworkError> {
        self.open_credentials(policy.credentials().into_iter().map(|(_, name, _)| name).collect())
    }

    /// Opens the credential of the operator's proxy, if it wants one.
    pub(super) fn proxy_credential(&self) -> Result<Vec<CredentialFile>, NetworkError> {
        let name = self.proxy.as_ref().and_then(|proxy| proxy.credential.clone());
        self.open_credentials(name.into_iter().collect())
    }

    fn open_credentials(
        &self,
        names: BTreeSet<String>,
    ) -> Result<Vec<CredentialFile>, NetworkError> {
        match &self.origin {
            RoomOrigin::Program(_, store) => Ok(store.open(names)?),
            RoomOrigin::Socket(_) | RoomOrigin::Missing(_) => Ok(Vec::new()),
            #[cfg(test)]
            RoomOrigin::Test(_) => Ok(Vec::new()),
        }
    }

    /// Describes the source, for `doctor`.
    pub(crate) fn describe(&self) -> String {
        let origin = match &self.origin {
            RoomOrigin::Program(program, _) => format!("started from {}", program.path().display()),
            RoomOrigin::Socket(path) => format!("service at {}", path.display()),
            RoomOrigin::Missing(why) => {
                format!("unavailable: {why}; sessions with net.mode = \"domains\" are refused")
            }
            #[cfg(test)]
            RoomOrigin::Test(_) => "made by a test".to_owned(),
        };
        match &self.proxy {
            Some(proxy) => format!("{origin}, through the proxy {proxy}"),
            None => origin,
        }
    }
}

fn dial(path: &Path) -> Result<OwnedFd, NetworkError> {
    base::dial::dial(path).map_err(|source| NetworkError::Connect { path: path.to_owned(), source })
}
