//! Frames on a stream socket, with descriptors, in few system calls.

use crate::ChannelError;
use palisade_plan::codec::{self, CodecError, Decode, Encode, HEADER, MAX_DESCRIPTORS};
use rustix::{
    io::{Errno, IoSlice, IoSliceMut},
    net::{
        RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
        SendAncillaryMessage, SendFlags, Shutdown,
    },
};
use std::{
    collections::VecDeque,
    mem::MaybeUninit,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    slice,
    sync::{Mutex, PoisonError},
};

/// The size of the buffer while the channel is idle. A request, or the content of a small file,
/// fits.
const AT_REST: usize = 8 * 1024;

/// A buffer larger than this is released when a frame arrives that does not need it.
const KEPT: usize = 64 * 1024;

/// Most descriptors that wait for their frame: those of one frame, and those of the frame before it
/// that is still incomplete.
const MOST_WAITING: usize = 2 * MAX_DESCRIPTORS;

const CONTROL: usize = rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS));

/// A stream socket that carries frames.
#[derive(Debug)]
pub struct Channel {
    socket: OwnedFd,
    incoming: Mutex<Incoming>,
    // Frames of two threads must not be mixed when the kernel takes only a part.
    sending: Mutex<()>,
}

impl Channel {
    /// Wraps a connected, blocking `SOCK_STREAM` socket.
    #[must_use]
    pub fn new(socket: OwnedFd) -> Self {
        Self { socket, incoming: Mutex::new(Incoming::new()), sending: Mutex::new(()) }
    }

    /// Sends a message.
    ///
    /// # Errors
    /// If the message is over the limit or the kernel refuses. `EPIPE` means that the peer is gone.
    pub fn send<T: Encode>(&self, message: &T) -> Result<(), ChannelError> {
        self.transmit(slice::from_ref(message), &[])
    }

    /// Sends several messages, all at once if the socket has room.
    ///
    /// # Errors
    /// The errors of [`Channel::send`].
    pub fn send_all<T: Encode>(&self, messages: &[T]) -> Result<(), ChannelError> {
        self.transmit(messages, &[])
    }

    /// Sends a message with descriptors.
    ///
    /// # Errors
    /// The errors of [`Channel::send`], and one if there are more than [`MAX_DESCRIPTORS`].
    pub fn send_with<T: Encode>(
        &self,
        message: &T,
        fds: &[BorrowedFd<'_>],
    ) -> Result<(), ChannelError> {
        self.transmit(slice::from_ref(message), fds)
    }

    /// Receives a message and its descriptors; `None` when the peer closed its end between two
    /// messages.
    ///
    /// # Errors
    /// If the kernel refuses, or if the data is not a whole message with its descriptors. The
    /// channel can not be used after that.
    pub fn receive<T: Decode<()>>(&self) -> Result<Option<(T, Vec<OwnedFd>)>, ChannelError> {
        let mut incoming = self.incoming.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let wanted = match incoming.frame()? {
                Frame::Whole { body, descriptors } => {
                    return incoming.take(body, descriptors).map(Some);
                }
                Frame::Wants(bytes) => bytes,
            };
            match incoming.fill(&self.socket, wanted)? {
                0 if incoming.is_empty() => return Ok(None),
                0 => return Err(ChannelError::Truncated),
                _more => {}
            }
        }
    }

    /// Returns `true` if a whole message was received together with an earlier one. It must then be
    /// taken before waiting for the socket.
    #[must_use]
    pub fn has_next(&self) -> bool {
        let incoming = self.incoming.lock().unwrap_or_else(PoisonError::into_inner);
        // Invalid data counts too: receiving it returns the error.
        !matches!(incoming.frame(), Ok(Frame::Wants(_)))
    }

    /// Returns `true` if the peer has sent something or closed its end. Does not wait, and does not
    /// consume it.
    #[must_use]
    pub fn has_pending_input(&self) -> bool {
        if self.has_next() {
            return true;
        }
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        let peeked = rustix::io::retry_on_intr(|| {
            rustix::net::recv(&self.socket, &mut [0_u8; 1][..], flags)
        });
        // An error counts too: receiving returns it.
        !matches!(peeked, Err(Errno::AGAIN))
    }

    /// Closes the channel in both directions, also for a thread that waits in it.
    ///
    /// # Errors
    /// If the kernel refuses. It is not an error if the peer is already gone.
    pub fn shut(&self) -> Result<(), ChannelError> {
        match rustix::net::shutdown(&self.socket, Shutdown::Both) {
            Ok(()) | Err(Errno::NOTCONN) => Ok(()),
            Err(error) => Err(ChannelError::Send(error)),
        }
    }

    fn transmit<T: Encode>(
        &self,
        messages: &[T],
        fds: &[BorrowedFd<'_>],
    ) -> Result<(), ChannelError> {
        let mut headers = Vec::with_capacity(messages.len());
        let mut bodies = Vec::with_capacity(messages.len());
        let mut unsent = fds;
        for message in messages {
            let body = codec::encode(message)?;
            headers.push(codec::header(body.len(), unsent.len())?);
            bodies.push(body);
            unsent = &[];
        }
        let parts = headers.iter().zip(&bodies);
        let mut parts: Vec<IoSlice<'_>> =
            parts.flat_map(|(head, body)| [IoSlice::new(head), IoSlice::new(body)]).collect();
        let mut rest = parts.as_mut_slice();
        unsent = fds;
        let _one_at_a_time = self.sending.lock().unwrap_or_else(PoisonError::into_inner);
        while !rest.is_empty() {
            let sent = self.put(rest, unsent)?;
            unsent = &[];
            IoSlice::advance_slices(&mut rest, sent);
        }
        Ok(())
    }

    fn put(&self, parts: &[IoSlice<'_>], fds: &[BorrowedFd<'_>]) -> Result<usize, ChannelError> {
        let mut space = [MaybeUninit::uninit(); CONTROL];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
            return Err(ChannelError::Descriptors {
                expected: MAX_DESCRIPTORS,
                received: fds.len(),
            });
        }
        rustix::io::retry_on_intr(|| {
            rustix::net::sendmsg(&self.socket, parts, &mut control, SendFlags::NOSIGNAL)
        })
        .map_err(ChannelError::Send)
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Data that was received and not taken yet.
#[derive(Debug)]
struct Incoming {
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    // The kernel delivers descriptors with the first byte of the header that they were sent with,
    // and never those of two messages at once. So each frame takes, in order, as many as it
    // announces.
    fds: VecDeque<OwnedFd>,
}

enum Frame {
    Whole { body: usize, descriptors: usize },
    Wants(usize),
}

impl Incoming {
    fn new() -> Self {
        Self { buffer: vec![0; AT_REST], start: 0, end: 0, fds: VecDeque::new() }
    }

    fn is_empty(&self) -> bool {
        self.start == self.end && self.fds.is_empty()
    }

    fn frame(&self) -> Result<Frame, CodecError> {
        let Some(header) = self.buffer[self.start..self.end].first_chunk::<HEADER>() else {
            return Ok(Frame::Wants(HEADER));
        };
        let (body, descriptors) = codec::parse_header(*header)?;
        if self.end - self.start < HEADER + body {
            return Ok(Frame::Wants(HEADER + body));
        }
        Ok(Frame::Whole { body, descriptors })
    }

    fn take<T: Decode<()>>(
        &mut self,
        body: usize,
        descriptors: usize,
    ) -> Result<(T, Vec<OwnedFd>), ChannelError> {
        let first = self.start + HEADER;
        let message = codec::decode(&self.buffer[first..first + body])?;
        self.start = first + body;
        let waiting = self.fds.len();
        let last = self.start == self.end;
        if waiting < descriptors || (last && waiting != descriptors) {
            return Err(ChannelError::Descriptors { expected: descriptors, received: waiting });
        }
        if last {
            self.start = 0;
            self.end = 0;
            if self.buffer.len() > KEPT && body < KEPT {
                self.buffer = vec![0; AT_REST];
            }
        }
        Ok((message, self.fds.drain(..descriptors).collect()))
    }

    /// Receives once, with room for a frame of `wanted` bytes. Returns 0 when the peer has closed
    /// its end.
    fn fill(&mut self, socket: &OwnedFd, wanted: usize) -> Result<usize, ChannelError> {
        if self.start + wanted > self.buffer.len() {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
            if wanted > self.buffer.len() {
                self.buffer.resize(wanted, 0);
            }
        }
        let mut space = [MaybeUninit::uninit(); CONTROL];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let received = rustix::io::retry_on_intr(|| {
            let mut room = [IoSliceMut::new(&mut self.buffer[self.end..])];
            rustix::net::recvmsg(socket, &mut room, &mut control, RecvFlags::CMSG_CLOEXEC)
        })
        .map_err(ChannelError::Receive)?;
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                self.fds.extend(rights);
            }
        }
        if received.flags.contains(ReturnFlags::CTRUNC) {
            return Err(ChannelError::Truncated);
        }
        if self.fds.len() > MOST_WAITING {
            return Err(ChannelError::Descriptors {
                expected: MOST_WAITING,
                received: self.fds.len(),
            });
        }
        self.end += received.bytes;
        Ok(received.bytes)
    }
}

#[cfg(test)]
#[path = "stream_tests.rs"]
mod tests;
