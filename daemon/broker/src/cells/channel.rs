//! A stream to one process of a cell: typed messages in frames, with file descriptors beside them.
//! Runs in the broker.

use crate::cells::records::CallWatch;
use palisade_plan::codec::{self, CodecError, HEADER};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use std::{
    io::{self, IoSlice, IoSliceMut},
    mem::MaybeUninit,
    os::fd::{BorrowedFd, OwnedFd},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, Interest},
    net::UnixStream,
};

/// The buffer that stays allocated for a channel that waits for its next call.
const IDLE_BUFFER: usize = 16 * 1024;

/// Most descriptors that a process of a cell sends with a message, but for the first: the ends of
/// three pipes. The kernel closes any more.
const RECEIVED: usize = 3;

/// A stream to one process of a cell.
#[derive(Debug)]
pub(crate) struct Channel {
    stream: UnixStream,
    buffer: Vec<u8>,
    /// Frames on their way, and how much of them the socket has taken.
    outgoing: Vec<u8>,
    sent: usize,
    /// The process's session id in the kernel's audit records, if it has one.
    pub(crate) audit_session: Option<u32>,
    /// The records of the call for which the process has started a shell ahead.
    pub(crate) reserved: Option<CallWatch>,
}

/// The reason that a channel can not be used any more.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ChannelError {
    /// The process at the other end has ended.
    #[error("the cell's process ended")]
    Closed,
    /// The socket failed.
    #[error("the channel to the cell failed: {0}")]
    Io(#[from] io::Error),
    /// The other end does not keep to the protocol.
    #[error("the cell sent an invalid reply: {0}")]
    Codec(#[from] CodecError),
}

impl Channel {
    /// Makes a channel, and the descriptor for its other end.
    pub(crate) fn pair() -> io::Result<(Self, OwnedFd)> {
        let kind = (AddressFamily::UNIX, SocketType::STREAM);
        let (ours, theirs) = socketpair(kind.0, kind.1, SocketFlags::CLOEXEC, None)?;
        Ok((Self::over(ours)?, theirs))
    }

    /// Makes a channel over an existing socket.
    pub(crate) fn over(socket: OwnedFd) -> io::Result<Self> {
        let socket = std::os::unix::net::UnixStream::from(socket);
        socket.set_nonblocking(true)?;
        let stream = UnixStream::from_std(socket)?;
        let (buffer, outgoing) = (Vec::new(), Vec::new());
        Ok(Self { stream, buffer, outgoing, sent: 0, audit_session: None, reserved: None })
    }

    /// Sends a message with file descriptors.
    pub(crate) async fn send<T: codec::Encode>(
        &mut self,
        message: &T,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<(), ChannelError> {
        let mut frame = Vec::new();
        append(&mut frame, message, descriptors.len())?;
        let sent = send_with(&self.stream, &frame, descriptors).await.map_err(closed)?;
        let rest = frame.get(sent..).unwrap_or_default();
        self.stream.write_all(rest).await.map_err(closed)
    }

    /// Sends messages, all at once if the socket has room. If the caller stops waiting, the rest is
    /// sent by the next [`flush`](Self::flush).
    pub(crate) async fn send_all<T: codec::Encode>(
        &mut self,
        messages: &[T],
    ) -> Result<(), ChannelError> {
        messages.iter().try_for_each(|message| append(&mut self.outgoing, message, 0))?;
        self.flush().await
    }

    /// Sends the rest of earlier messages.
    pub(crate) async fn flush(&mut self) -> Result<(), ChannelError> {
        while let Some(rest) = self.outgoing.get(self.sent..).filter(|rest| !rest.is_empty()) {
            match self.stream.write(rest).await.map_err(closed)? {
                0 => return Err(ChannelError::Closed),
                taken => self.sent += taken,
            }
        }
        self.outgoing.clear();
        self.sent = 0;
        Ok(())
    }

    /// Receives the next message. Nothing is lost if the caller stops waiting.
    pub(crate) async fn receive<T: codec::Decode<()>>(&mut self) -> Result<T, ChannelError> {
        loop {
            let mut wanted = HEADER;
            if let Some(header) = self.buffer.first_chunk::<HEADER>() {
                let (length, descriptors) = codec::parse_header(*header)?;
                if descriptors != 0 {
                    // The kernel dropped the descriptors: there was no buffer to receive them in.
                    return Err(CodecError::Malformed("unexpected descriptors".into()).into());
                }
                wanted = HEADER + length;
                if let Some(body) = self.buffer.get(HEADER..wanted) {
                    let message = codec::decode(body)?;
                    self.buffer.drain(..wanted);
                    return Ok(message);
                }
            }
            self.buffer.reserve((wanted - self.buffer.len()).max(IDLE_BUFFER));
            if self.stream.read_buf(&mut self.buffer).await.map_err(closed)? == 0 {
                return Err(ChannelError::Closed);
            }
        }
    }

    /// Receives the next message and the descriptors that come with it, at most [`RECEIVED`]. The
    /// caller must not stop waiting.
    pub(crate) async fn receive_with<T: codec::Decode<()>>(
        &mut self,
    ) -> Result<(T, Vec<OwnedFd>), ChannelError> {
        self.receive_up_to(RECEIVED).await
    }

    /// Receives the first message of a cell, with the listeners of its network. The caller must not
    /// stop waiting.
    pub(crate) async fn receive_first<T: codec::Decode<()>>(
        &mut self,
    ) -> Result<(T, Vec<OwnedFd>), ChannelError> {
        self.receive_up_to(codec::MAX_DESCRIPTORS).await
    }

    async fn receive_up_to<T: codec::Decode<()>>(
        &mut self,
        most: usize,
    ) -> Result<(T, Vec<OwnedFd>), ChannelError> {
        let mut came = Vec::new();
        loop {
            if let Some(header) = self.buffer.first_chunk::<HEADER>() {
                let (length, descriptors) = codec::parse_header(*header)?;
                if let Some(body) = self.buffer.get(HEADER..HEADER + length) {
                    if descriptors != came.len() {
                        return Err(CodecError::Malformed("wrong descriptors".into()).into());
                    }
                    let message = codec::decode(body)?;
                    self.buffer.drain(..HEADER + length);
                    return Ok((message, came));
                }
            }
            let mut piece = [0; 512];
            let read =
                receive_with(&self.stream, &mut piece, &mut came, most).await.map_err(closed)?;
            if read == 0 {
                return Err(ChannelError::Closed);
            }
            self.buffer.extend_from_slice(piece.get(..read).unwrap_or_default());
        }
    }

    /// Frees memory that a large message needed.
    pub(crate) fn relax(&mut self) {
        self.buffer.shrink_to(IDLE_BUFFER);
        self.outgoing.shrink_to(IDLE_BUFFER);
    }
}

fn append<T: codec::Encode>(
    frames: &mut Vec<u8>,
    message: &T,
    descriptors: usize,
) -> Result<(), CodecError> {
    let body = codec::encode(message)?;
    frames.reserve(HEADER + body.len());
    frames.extend_from_slice(&codec::header(body.len(), descriptors)?);
    frames.extend_from_slice(&body);
    Ok(())
}

fn closed(error: io::Error) -> ChannelError {
    if matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset) {
        ChannelError::Closed
    } else {
        ChannelError::Io(error)
    }
}

/// Sends the first bytes together with descriptors; returns how many bytes were sent.
pub(crate) async fn send_with(
    stream: &UnixStream,
    bytes: &[u8],
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<usize> {
    stream
        .async_io(Interest::WRITABLE, || {
            let mut space =
                [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(codec::MAX_DESCRIPTORS))];
            let mut control = SendAncillaryBuffer::new(&mut space);
            if !descriptors.is_empty()
                && !control.push(SendAncillaryMessage::ScmRights(descriptors))
            {
                return Err(io::Error::from(io::ErrorKind::InvalidInput));
            }
            let flags = SendFlags::NOSIGNAL;
            Ok(sendmsg(stream, &[IoSlice::new(bytes)], &mut control, flags)?)
        })
        .await
}

/// Receives bytes and the descriptors that come with them. The kernel closes more than `most`.
pub(crate) async fn receive_with(
    stream: &UnixStream,
    bytes: &mut [u8],
    came: &mut Vec<OwnedFd>,
    most: usize,
) -> io::Result<usize> {
    stream
        .async_io(Interest::READABLE, || {
            let mut space = vec![MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(most))];
            let mut control = RecvAncillaryBuffer::new(&mut space);
            let flags = RecvFlags::CMSG_CLOEXEC;
            let got = recvmsg(stream, &mut [IoSliceMut::new(bytes)], &mut control, flags)?;
            for message in control.drain() {
                if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                    came.extend(descriptors);
                }
            }
            Ok(got.bytes)
        })
        .await
}

#[cfg(test)]
mod tests {
    use super::*;
    use palisade_plan::cell::RunReply;
    use std::{
        io::{Read as _, Write as _},
        os::fd::AsFd as _,
    };

    fn reply() -> RunReply {
        RunReply::NotStarted { act: "exec".into(), errno: 2 }
    }

    #[tokio::test]
    async fn a_message_arrives_in_pieces() {
        let (mut channel, other) = Channel::pair().expect("a pair");
        let mut other = std::os::unix::net::UnixStream::from(other);
        let body = codec::encode(&reply()).expect("bytes");
        let header = codec::header(body.len(), 0).expect("a header");
        let sender = std::thread::spawn(move || {
            for byte in header.iter().chain(&body).chain(&header).chain(&body) {
                other.write_all(&[*byte]).expect("sent");
            }
        });
        assert_eq!(channel.receive::<RunReply>().await.expect("first"), reply());
        assert_eq!(channel.receive::<RunReply>().await.expect("second"), reply());
        sender.join().expect("joined");
        assert!(matches!(channel.receive::<RunReply>().await, Err(ChannelError::Closed)));
    }

    #[tokio::test]
    async fn an_oversized_announcement_is_refused_unread() {
        let (mut channel, other) = Channel::pair().expect("a pair");
        let mut other = std::os::unix::net::UnixStream::from(other);
        other.write_all(&[0xff, 0xff, 0xff, 0xff, 0]).expect("sent");
        let error = channel.receive::<RunReply>().await.expect_err("refused");
        assert!(matches!(error, ChannelError::Codec(CodecError::TooLarge(..))), "{error}");
    }

    #[tokio::test]
    async fn descriptors_come_with_the_header() {
        let (mut channel, other) = Channel::pair().expect("a pair");
        let (reader, writer) = rustix::pipe::pipe().expect("a pipe");
        channel.send(&reply(), &[writer.as_fd()]).await.expect("sent");
        drop(writer);
        let mut header = [0; HEADER];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        recvmsg(&other, &mut [IoSliceMut::new(&mut header)], &mut control, RecvFlags::empty())
            .expect("received");
        let got: Vec<OwnedFd> = control
            .drain()
            .flat_map(|message| {
                let RecvAncillaryMessage::ScmRights(descriptors) = message else {
                    panic!("something else than descriptors came")
                };
                descriptors
            })
            .collect();
        assert_eq!((got.len(), header[4]), (1, 1));
        rustix::io::write(&got[0], b"here").expect("written");
        drop(got);
        let mut text = String::new();
        std::fs::File::from(reader).read_to_string(&mut text).expect("read");
        assert_eq!(text, "here");
    }
}
