//! Messages as datagrams over a `SOCK_SEQPACKET` socket, one message each.

use crate::ChannelError;
use bincode::{Decode, Encode};
use palisade_plan::codec::{self, MAX_DESCRIPTORS, MAX_PLAN};
use rustix::{
    io::{Errno, IoSlice, IoSliceMut},
    net::{
        RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
        SendAncillaryMessage, SendFlags,
    },
};
use std::{
    mem::MaybeUninit,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

/// The descriptors that the kernel delivered with a message.
enum Handed {
    All(Vec<OwnedFd>),
    /// Some are missing, because this process may not open so many. Those that were delivered are
    /// closed.
    Cut,
}

/// A socket that preserves message boundaries.
#[derive(Debug)]
pub struct Datagrams {
    socket: OwnedFd,
}

impl Datagrams {
    /// Wraps a connected `SOCK_SEQPACKET` socket.
    #[must_use]
    pub const fn new(socket: OwnedFd) -> Self {
        Self { socket }
    }

    /// Sends a message with descriptors.
    ///
    /// # Errors
    /// If the message is over the limit or the kernel refuses. `EPIPE` means that the peer is gone.
    pub fn send<T: Encode>(&self, message: &T, fds: &[BorrowedFd<'_>]) -> Result<(), ChannelError> {
        self.send_with(message, fds, SendFlags::empty())
    }

    /// Sends a message to a peer that is not trusted to read it. Never waits.
    ///
    /// # Errors
    /// As [`Self::send`]. `EAGAIN` means that the peer has not read what was sent before.
    pub fn send_now<T: Encode>(&self, message: &T) -> Result<(), ChannelError> {
        self.send_with(message, &[], SendFlags::DONTWAIT)
    }

    fn send_with<T: Encode>(
        &self,
        message: &T,
        fds: &[BorrowedFd<'_>],
        flags: SendFlags,
    ) -> Result<(), ChannelError> {
        let body = codec::encode(message)?;
        if body.len() > MAX_PLAN || fds.len() > MAX_DESCRIPTORS {
            return Err(codec::CodecError::TooLarge(body.len(), MAX_PLAN).into());
        }
        let flags = flags | SendFlags::NOSIGNAL;
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
            return Err(ChannelError::Descriptors {
                expected: MAX_DESCRIPTORS,
                received: fds.len(),
            });
        }
        loop {
            let parts = [IoSlice::new(&body)];
            match rustix::net::sendmsg(&self.socket, &parts, &mut control, flags) {
                Ok(sent) if sent == body.len() => return Ok(()),
                Ok(_) => return Err(ChannelError::Truncated),
                Err(Errno::INTR) => {}
                Err(error) => return Err(ChannelError::Send(error)),
            }
        }
    }

    /// Receives a message and its descriptors; `None` when the peer is gone.
    ///
    /// # Errors
    /// If the kernel refuses, or if the data is not one whole message with all of its descriptors.
    pub fn receive<T: Decode<()>>(&self) -> Result<Option<(T, Vec<OwnedFd>)>, ChannelError> {
        match self.take()? {
            Some((_, Handed::Cut)) => Err(ChannelError::Truncated),
            Some((message, Handed::All(fds))) => Ok(Some((message, fds))),
            None => Ok(None),
        }
    }

    /// Receives a message; without any descriptors if this process can not open all of them. This
    /// is for a caller who can answer such a message.
    ///
    /// # Errors
    /// If the kernel refuses, or if the data is not one whole message.
    pub fn receive_or_bare<T: Decode<()>>(
        &self,
    ) -> Result<Option<(T, Vec<OwnedFd>)>, ChannelError> {
        Ok(self.take()?.map(|(message, handed)| match handed {
            Handed::All(fds) => (message, fds),
            Handed::Cut => (message, Vec::new()),
        }))
    }

    fn take<T: Decode<()>>(&self) -> Result<Option<(T, Handed)>, ChannelError> {
        // One byte more than allowed, so that a message that is too long is noticed.
        let mut body = vec![0; MAX_PLAN + 1];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let received = loop {
            let mut parts = [IoSliceMut::new(&mut body)];
            match rustix::net::recvmsg(
                &self.socket,
                &mut parts,
                &mut control,
                RecvFlags::CMSG_CLOEXEC,
            ) {
                Ok(received) => break received,
                Err(Errno::INTR) => {}
                // The peer closed its end while messages of ours were unread.
                Err(Errno::CONNRESET) => return Ok(None),
                Err(error) => return Err(ChannelError::Receive(error)),
            }
        };
        let mut fds = Vec::new();
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                fds.extend(rights);
            }
        }
        if received.bytes == 0 && fds.is_empty() {
            return Ok(None);
        }
        if received.flags.contains(ReturnFlags::TRUNC) {
            return Err(ChannelError::Truncated);
        }
        let cut = received.flags.contains(ReturnFlags::CTRUNC);
        let handed = if cut { Handed::Cut } else { Handed::All(fds) };
        Ok(Some((codec::decode(&body[..received.bytes])?, handed)))
    }
}

impl AsFd for Datagrams {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
