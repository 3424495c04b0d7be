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

/// The buffer of a channel at rest. A request, and a small file's content, fit.
const AT_REST: usize = 8 * 1024;

/// A buffer over this is given back when a frame came that does not need it.
const KEPT: usize = 64 * 1024;

/// The most descriptors that wait for their frame: those of one frame, and of the one before it
/// that is still being put together.
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
    /// Takes a connected, blocking `SOCK_STREAM` socket.
    #[must_use]
    pub fn new(socket: OwnedFd) -> Self {
        Self { socket, incoming: Mutex::new(Incoming::new()), sending: Mutex::new(()) }
    }

    /// Sends a message.
    ///
    /// # Errors
    /// If it is over the limit or the kernel refuses; the peer is gone with `EPIPE`.
    pub fn send<T: Encode>(&self, message: &T) -> Result<(), ChannelError> {
        self.transmit(slice::from_ref(message), &[])
    }

    /// Sends messages, all at once if the socket has room.
    ///
    /// # Errors
    /// As [`Channel::send`].
    pub fn send_all<T: Encode>(&self, messages: &[T]) -> Result<(), ChannelError> {
        self.transmit(messages, &[])
    }

    /// Sends a message with descriptors.
    ///
    /// # Errors
    /// As [`Channel::send`], and if there are more than [`MAX_DESCRIPTORS`].
    pub fn send_with<T: Encode>(
        &self,
        message: &T,
        fds: &[BorrowedFd<'_>],
    ) -> Result<(), ChannelError> {
        self.transmit(slice::from_ref(message), fds)
    }

    /// Receives a message and its descriptors; none when the peer ended between two messages.
    ///
    /// # Errors
    /// If the kernel refuses, or what came is not a whole message with its descriptors. The
    /// channel is of no use after that.
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

    /// Whether a whole message was received together with an earlier one: it is then to be taken
    /// before the socket is waited for.
    #[must_use]
    pub fn has_next(&self) -> bool {
        let incoming = self.incoming.lock().unwrap_or_else(PoisonError::into_inner);
        // Nonsense counts too: taking it says what it is.
        !matches!(incoming.frame(), Ok(Frame::Wants(_)))
    }

    /// Whether the peer has sent something, or ended; without waiting, and without taking it.
    #[must_use]
    pub fn is_spoken_to(&self) -> bool {
        if self.has_next() {
            return true;
        }
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        let peeked = rustix::io::retry_on_intr(|| {
            rustix::net::recv(&self.socket, &mut [0_u8; 1][..], flags)
        });
        // An error counts too: receiving says what it is.
        !matches!(peeked, Err(Errno::AGAIN))
    }

    /// Ends the channel in both directions, also for a thread that waits in it.
    ///
    /// # Errors
    /// If the kernel refuses. That the peer was gone already is not an error.
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

/// What came and was not taken yet.
#[derive(Debug)]
struct Incoming {
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    // The kernel hands descriptors over with the first byte of the header that they came with,
    // and never those of two messages at once: in order, each frame takes as many as it announces.
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

    /// Receives once, with room for a frame of `wanted` bytes. Nothing at the peer's end.
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
