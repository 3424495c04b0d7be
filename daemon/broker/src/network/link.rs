//! The broker's side of the socket to an egress room: one datagram per message. Runs in the broker.

use super::{
    error::NetworkError,
    source::{RoomConnection, RoomSource},
};
use crate::cells::channel::{receive_with, send_with};
use palisade_egress_protocol::{EgressReply, EgressRequest, MAX_EGRESS_MESSAGE};
use palisade_plan::{
    BUILD_ID,
    codec::{self, CodecError},
};
use std::{
    io,
    os::fd::{AsFd as _, BorrowedFd},
    sync::Mutex,
    time::Duration,
};
use tokio::{net::UnixStream, time::timeout};

/// The time limit for a room to confine itself and answer the greeting.
const GREETING: Duration = Duration::from_secs(30);

/// The time limit for a room to take a message. A room that reads nothing for so long is ended.
const TAKEN: Duration = Duration::from_secs(30);

/// A connection to an egress room that has answered the greeting. Dropping it ends the room.
#[derive(Debug)]
pub(super) struct RoomLink {
    socket: UnixStream,
    /// Held so that a room which this daemon started ends with the connection.
    _process: Mutex<Option<super::room_process::RoomProcess>>,
}

impl RoomLink {
    /// Makes a room and greets it.
    pub(super) async fn open(source: &RoomSource) -> Result<Self, NetworkError> {
        let RoomConnection { socket, process } = source.start()?;
        // Tokio has no type for sequenced packets; a stream reports readiness in the same way.
        let socket = std::os::unix::net::UnixStream::from(socket);
        socket.set_nonblocking(true)?;
        let socket = UnixStream::from_std(socket)?;
        let link = Self { socket, _process: Mutex::new(process) };
        let (proxy, files) = (source.proxy.clone(), source.proxy_credential()?);
        let files: Vec<_> = files.iter().map(|credential| credential.file.as_fd()).collect();
        link.send(&EgressRequest::Hello { build_id: BUILD_ID.to_owned(), proxy }, &files).await?;
        let reply = timeout(GREETING, link.receive()).await;
        match reply.map_err(|_| NetworkError::Silent(GREETING.as_secs()))?? {
            EgressReply::Welcome { build_id } if build_id == BUILD_ID => Ok(link),
            EgressReply::Welcome { build_id } => Err(NetworkError::Build { theirs: build_id }),
            EgressReply::Question { .. }
            | EgressReply::Withdrawn { .. }
            | EgressReply::Connected { .. }
            | EgressReply::Ended { .. }
            | EgressReply::Page { .. }
            | EgressReply::Fetched { .. }
            | EgressReply::Refused { .. } => {
                Err(NetworkError::Protocol("its first message is not the answer to the greeting"))
            }
        }
    }

    /// Sends a message with descriptors.
    pub(super) async fn send(
        &self,
        request: &EgressRequest,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<(), NetworkError> {
        let bytes = codec::encode(request)?;
        if bytes.len() > MAX_EGRESS_MESSAGE {
            return Err(CodecError::TooLarge(bytes.len(), MAX_EGRESS_MESSAGE).into());
        }
        let sent = timeout(TAKEN, send_with(&self.socket, &bytes, descriptors)).await;
        match sent.map_err(|_| NetworkError::Silent(TAKEN.as_secs()))? {
            Ok(_) => Ok(()),
            Err(error) if is_closed(&error) => Err(closed()),
            Err(error) => Err(error.into()),
        }
    }

    /// Receives the next message. The room sends no descriptors.
    pub(super) async fn receive(&self) -> Result<EgressReply, NetworkError> {
        let mut buffer = vec![0; MAX_EGRESS_MESSAGE + 1];
        let mut came = Vec::new();
        let length = match receive_with(&self.socket, &mut buffer, &mut came, 1).await {
            Ok(0) => return Err(closed()),
            Ok(length) => length,
            Err(error) if is_closed(&error) => return Err(closed()),
            Err(error) => return Err(error.into()),
        };
        if !came.is_empty() {
            return Err(NetworkError::Protocol("it sent a descriptor"));
        }
        if length > MAX_EGRESS_MESSAGE {
            return Err(CodecError::TooLarge(length, MAX_EGRESS_MESSAGE).into());
        }
        Ok(codec::decode(buffer.get(..length).unwrap_or_default())?)
    }

    /// Closes the connection, although a task may still hold it.
    pub(super) fn close(&self) {
        if let Err(error) = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Both) {
            tracing::debug!(%error, "the egress room's socket was closed already");
        }
    }
}

fn closed() -> NetworkError {
    NetworkError::Gone("it ended".to_owned())
}

fn is_closed(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
}
