//! A connected Unix socket for which the kernel wakes this process only when there is something to
//! read. Runs in the broker.
//!
//! Tokio's own sockets are registered for writing too. The kernel then also wakes this process each
//! time the other end has read something, although a message almost never has to wait for room.

use rustix::net::{SendFlags, Shutdown};
use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::Arc,
};
use tokio::net::unix::pipe;

/// A connected Unix socket for a stream or for sequenced packets. Tokio has no safe type that is
/// registered for reading only, except the ends of pipes, which report readiness in the same way.
#[derive(Debug)]
pub(crate) struct LocalSocket(pipe::Receiver);

impl LocalSocket {
    /// Registers a socket with the runtime.
    pub(crate) fn new(socket: OwnedFd) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(&socket, true)?;
        Ok(Self(pipe::Receiver::from_owned_fd_unchecked(socket)?))
    }

    /// Runs `act`, which receives, when there may be something to receive, until it does not fail
    /// with `WouldBlock`. Nothing is lost if the caller stops waiting.
    pub(crate) async fn receive_by<T>(
        &self,
        mut act: impl FnMut() -> io::Result<T>,
    ) -> io::Result<T> {
        loop {
            self.0.readable().await?;
            match self.0.try_io(&mut act) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => return done,
            }
        }
    }

    /// Runs `act`, which sends, until it does not fail with `WouldBlock`. In between it waits for
    /// room in the socket.
    pub(crate) async fn send_by<T>(&self, mut act: impl FnMut() -> io::Result<T>) -> io::Result<T> {
        loop {
            match act() {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.wait_for_room().await?;
                }
                done => return done,
            }
        }
    }

    /// Waits for room in the socket, by a second descriptor that is registered for writing.
    async fn wait_for_room(&self) -> io::Result<()> {
        let second = rustix::io::fcntl_dupfd_cloexec(self, 3)?;
        pipe::Sender::from_owned_fd_unchecked(second)?.writable().await
    }

    /// Reads into the free space of `buffer`, and returns the number of bytes; 0 at the end of the
    /// stream. Nothing is lost if the caller stops waiting.
    pub(crate) async fn read(&self, buffer: &mut Vec<u8>) -> io::Result<usize> {
        let act = || Ok(rustix::io::read(self, rustix::buffer::spare_capacity(buffer))?);
        self.receive_by(act).await
    }

    /// Writes some bytes, and returns their number.
    pub(crate) async fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        self.send_by(|| Ok(rustix::net::send(self, bytes, SendFlags::NOSIGNAL)?)).await
    }

    /// Writes all bytes.
    pub(crate) async fn write_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.write(bytes).await? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                sent => bytes = bytes.get(sent..).unwrap_or_default(),
            }
        }
        Ok(())
    }
}

impl AsFd for LocalSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// The writing half of a stream. When it is dropped, the other end sees the end of the stream.
#[derive(Debug)]
pub(crate) struct WritingHalf(Arc<LocalSocket>);

impl WritingHalf {
    /// Makes the writing half of a stream.
    pub(crate) const fn of(socket: Arc<LocalSocket>) -> Self {
        Self(socket)
    }

    /// Writes all bytes.
    pub(crate) async fn write_all(&self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes).await
    }
}

impl Drop for WritingHalf {
    fn drop(&mut self) {
        if let Err(error) = rustix::net::shutdown(&*self.0, Shutdown::Write) {
            tracing::debug!(%error, "a stream was closed already");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::{
        event::epoll::EventFlags,
        net::{AddressFamily, SocketFlags, SocketType, socketpair},
    };
    use std::{
        fs,
        io::{Read as _, Write as _},
        os::{fd::AsRawFd as _, unix::net::UnixStream},
    };

    fn pair() -> (OwnedFd, OwnedFd) {
        let kind = (AddressFamily::UNIX, SocketType::STREAM);
        socketpair(kind.0, kind.1, SocketFlags::CLOEXEC, None).unwrap()
    }

    /// Returns the events for which the kernel wakes this process because of a socket.
    fn events(socket: impl AsFd) -> EventFlags {
        let wanted = socket.as_fd().as_raw_fd().to_string();
        let infos = fs::read_dir("/proc/self/fdinfo").unwrap().flatten();
        let infos = infos.filter_map(|info| fs::read_to_string(info.path()).ok());
        let texts = infos.collect::<Vec<_>>().join("\n");
        let line = texts.lines().find_map(|line| {
            let words: Vec<_> = line.split_whitespace().collect();
            let [first, number, second, events, ..] = words[..] else { return None };
            ([first, number, second] == ["tfd:", &wanted, "events:"]).then(|| events.to_owned())
        });
        let line = line.expect("the socket is registered");
        EventFlags::from_bits_retain(u32::from_str_radix(&line, 16).unwrap())
    }

    #[tokio::test]
    async fn the_other_end_wakes_this_process_only_with_bytes() {
        let (ours, _theirs) = pair();
        let socket = LocalSocket::new(ours).unwrap();
        let found = events(&socket);
        assert!(found.contains(EventFlags::IN) && !found.contains(EventFlags::OUT), "{found:?}");

        let (ours, _theirs) = tokio::net::UnixStream::pair().unwrap();
        assert!(events(&ours).contains(EventFlags::IN | EventFlags::OUT), "the control");
    }

    #[tokio::test]
    async fn what_does_not_fit_into_the_socket_is_written_when_there_is_room() {
        let (ours, theirs) = pair();
        let socket = LocalSocket::new(ours).unwrap();
        let bytes: Vec<u8> = (0..=250).cycle().take(4_000_000).collect();
        let reader = std::thread::spawn(move || {
            let mut got = Vec::new();
            UnixStream::from(theirs).read_to_end(&mut got).map(|_| got)
        });
        let half = WritingHalf::of(Arc::new(socket));
        half.write_all(&bytes).await.unwrap();
        drop(half);
        assert!(reader.join().unwrap().unwrap() == bytes);
    }

    #[tokio::test]
    async fn bytes_and_the_end_of_the_stream_are_read() {
        let (ours, theirs) = pair();
        let (socket, mut theirs) = (LocalSocket::new(ours).unwrap(), UnixStream::from(theirs));
        let mut buffer = Vec::with_capacity(4);
        theirs.write_all(b"one").unwrap();
        assert_eq!(socket.read(&mut buffer).await.unwrap(), 3);
        let writer = std::thread::spawn(move || theirs.write_all(b"two").unwrap());
        assert_eq!(socket.read(&mut buffer).await.unwrap(), 1);
        buffer.reserve(64);
        assert_eq!(socket.read(&mut buffer).await.unwrap(), 2);
        writer.join().unwrap();
        assert_eq!(socket.read(&mut buffer).await.unwrap(), 0);
        assert_eq!(buffer, b"onetwo");
    }

    #[tokio::test]
    async fn a_stream_ends_with_its_writing_half_although_it_is_still_read() {
        let (ours, theirs) = pair();
        let socket = Arc::new(LocalSocket::new(ours).unwrap());
        drop(WritingHalf::of(Arc::clone(&socket)));
        let mut theirs = UnixStream::from(theirs);
        assert_eq!(theirs.read(&mut [0]).unwrap(), 0);
        theirs.write_all(b"on").unwrap();
        let mut buffer = Vec::with_capacity(8);
        assert_eq!(socket.read(&mut buffer).await.unwrap(), 2);
    }
}
