//! The file channels of a session. Each is leased to one call at a time, and recovered after a call
//! that ended early. Runs in the broker.

mod collected;

use crate::cells::channel::{Channel, ChannelError};
use collected::PartialReply;
use palisade_plan::cell::{FileError, FileErrorKind, FileReply, FileRequest};
use std::{
    os::fd::{AsFd as _, OwnedFd},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The time limit for the cell to answer a request that its call no longer waits for.
const PATIENCE: Duration = Duration::from_secs(30);

/// All file channels of a session.
#[derive(Debug, Clone)]
pub(crate) struct FileChannels {
    shared: Arc<ChannelPool>,
}

#[derive(Debug)]
struct ChannelPool {
    free: Mutex<Vec<Channel>>,
    /// Channels that can not be used any more. Closing one would end the session, so they stay
    /// open.
    broken: Mutex<Vec<Channel>>,
    permits: Arc<Semaphore>,
    all: usize,
}

/// A channel that is leased for one call.
#[derive(Debug)]
pub(crate) struct Lease {
    channel: Option<Channel>,
    owed: ChannelState,
    settling: RecoveryState,
    /// The parts of a reply that is not complete yet.
    collected: PartialReply,
    shared: Arc<ChannelPool>,
    permit: Option<OwnedSemaphorePermit>,
}

/// The progress of a channel's recovery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RecoveryState {
    NotYet,
    /// Recovery has begun; if it is given up, it is not tried again.
    UnderWay,
}

/// The state of a channel: what is outstanding on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ChannelState {
    Nothing,
    /// The last message of a reply is still to come.
    Reply,
    /// Sending failed, or an invalid message arrived.
    Broken,
    /// No reply will come: the cell's process has ended, and so has the session.
    Gone,
}

impl ChannelState {
    const fn after(error: &ChannelError) -> Self {
        match error {
            ChannelError::Closed => Self::Gone,
            ChannelError::Io(_) | ChannelError::Codec(_) => Self::Broken,
        }
    }

    /// True if a channel that is set aside in this state is worth a warning. In the other states
    /// the session has ended, or the daemon is stopping.
    const fn is_fault(self) -> bool {
        matches!(self, Self::Broken)
    }
}

impl FileChannels {
    pub(crate) fn new(channels: Vec<Channel>) -> Self {
        let all = channels.len();
        let permits = Arc::new(Semaphore::new(all));
        let (free, broken) = (Mutex::new(channels), Mutex::default());
        Self { shared: Arc::new(ChannelPool { free, broken, permits, all }) }
    }

    /// Leases the next free channel; `None` if all are broken.
    pub(crate) async fn lease(&self) -> Option<Lease> {
        let permit = Arc::clone(&self.shared.permits).acquire_owned().await.ok()?;
        let channel = lock(&self.shared.free).pop()?;
        let shared = Arc::clone(&self.shared);
        let (owed, settling, collected) =
            (ChannelState::Nothing, RecoveryState::NotYet, PartialReply::default());
        let (channel, permit) = (Some(channel), Some(permit));
        Some(Lease { channel, owed, settling, collected, shared, permit })
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Lease {
    /// Sends requests, all at once. If the caller stops waiting, they are still sent.
    pub(crate) async fn send(&mut self, requests: &[FileRequest]) -> Result<(), ChannelError> {
        self.owed = ChannelState::Reply;
        let channel = self.channel.as_mut().ok_or(ChannelError::Closed)?;
        channel.send_all(requests).await.inspect_err(|error| self.owed = ChannelState::after(error))
    }

    async fn flush(&mut self) -> Result<(), ChannelError> {
        self.channel.as_mut().ok_or(ChannelError::Closed)?.flush().await
    }

    /// Receives the next reply, with all its parts.
    pub(crate) async fn receive(&mut self) -> Result<FileReply, ChannelError> {
        let reply = loop {
            let channel = self.channel.as_mut().ok_or(ChannelError::Closed)?;
            let reply = channel.receive().await;
            let reply = reply.and_then(|reply| self.collected.take(reply));
            if let Some(reply) =
                reply.inspect_err(|error| self.owed = ChannelState::after(error))?
            {
                break reply;
            }
        };
        match &reply {
            // A change that is prepared has not ended.
            FileReply::Content(_)
            | FileReply::Before(_)
            | FileReply::Attributes(_)
            | FileReply::Effects(_)
            | FileReply::Evidence(_)
            | FileReply::Wrote(_)
            | FileReply::Prepared(_)
            | FileReply::Progress { .. } => {}
            FileReply::Failed(FileError { kind: FileErrorKind::Broken, .. }) => {
                self.owed = ChannelState::Broken;
            }
            FileReply::Globbed(_)
            | FileReply::Grepped(_)
            | FileReply::Read { .. }
            | FileReply::Listed { .. }
            | FileReply::Looked { .. }
            | FileReply::Changed(_)
            | FileReply::Scanned { .. }
            | FileReply::Noise(_)
            | FileReply::Abandoned
            | FileReply::Failed(_) => self.owed = ChannelState::Nothing,
        }
        Ok(reply)
    }

    /// Has the cell search for hidden names. Returns the reply and the descriptor that comes with
    /// it. The caller must not stop waiting.
    pub(crate) async fn scan(
        &mut self,
        keep: bool,
        known: Option<&OwnedFd>,
    ) -> Result<(FileReply, Option<OwnedFd>), ChannelError> {
        self.owed = ChannelState::Broken;
        let channel = self.channel.as_mut().ok_or(ChannelError::Closed)?;
        let known: Vec<_> = known.iter().map(|known| known.as_fd()).collect();
        let asked = async {
            channel.send(&FileRequest::Scan { keep }, &known).await?;
            channel.receive_with().await
        };
        let (reply, mut came) =
            asked.await.inspect_err(|error| self.owed = ChannelState::after(error))?;
        self.owed = ChannelState::Nothing;
        Ok((reply, came.pop()))
    }

    /// Recovers a channel whose call ended early, so that the next call can use it.
    async fn put_right(mut self) {
        let settle = async {
            self.flush().await?;
            // The cell stops; if its answer is on the way already, that counts as the answer.
            if self.owed != ChannelState::Nothing {
                self.send(&[FileRequest::Abandon]).await?;
            }
            while self.owed == ChannelState::Reply {
                self.receive().await?;
            }
            Ok::<(), ChannelError>(())
        };
        match tokio::time::timeout(PATIENCE, settle).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => self.owed = ChannelState::after(&error),
            Err(_) => self.owed = ChannelState::Broken,
        }
    }

    fn give_back(&mut self, mut channel: Channel) {
        channel.relax();
        lock(&self.shared.free).push(channel);
        self.permit = None;
    }

    fn set_aside(&mut self, channel: Channel) {
        if let Some(permit) = self.permit.take() {
            permit.forget();
        }
        let mut broken = lock(&self.shared.broken);
        broken.push(channel);
        let (broken_now, of) = (broken.len(), self.shared.all);
        if self.owed.is_fault() {
            tracing::warn!(broken = broken_now, of, "a file channel is broken");
        } else {
            tracing::debug!(broken = broken_now, of, "a file channel ended with its session");
        }
        if broken.len() == self.shared.all {
            self.shared.permits.close();
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let Some(channel) = self.channel.take() else { return };
        match (self.owed, self.settling, tokio::runtime::Handle::try_current()) {
            (ChannelState::Nothing, _, _) => self.give_back(channel),
            (ChannelState::Reply, RecoveryState::NotYet, Ok(runtime)) => {
                let (owed, settling) = (self.owed, RecoveryState::UnderWay);
                let (shared, permit) = (Arc::clone(&self.shared), self.permit.take());
                let (channel, collected) = (Some(channel), std::mem::take(&mut self.collected));
                let lease = Self { channel, owed, settling, collected, shared, permit };
                // A runtime that is shutting down drops this at once.
                runtime.spawn(lease.put_right());
            }
            (ChannelState::Reply | ChannelState::Broken | ChannelState::Gone, _, _) => {
                self.set_aside(channel)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use palisade_plan::{
        Path,
        cell::{Conversion, Form, Part},
        change::{Act, Change, EvidenceDepth, Keep, Prepared, WriteMode},
        codec,
    };
    use std::{
        io::{Read as _, Write as _},
        os::unix::net::UnixStream,
    };

    /// The cell's end of one channel, played by the test.
    struct Cell(UnixStream);

    impl Cell {
        fn hear(&mut self) -> FileRequest {
            let mut header = [0; codec::HEADER];
            self.0.read_exact(&mut header).unwrap();
            let (length, _) = codec::parse_header(header).unwrap();
            let mut body = vec![0; length];
            self.0.read_exact(&mut body).unwrap();
            codec::decode(&body).unwrap()
        }

        fn say(&mut self, reply: &FileReply) {
            let body = codec::encode(reply).unwrap();
            self.0.write_all(&codec::header(body.len(), 0).unwrap()).unwrap();
            self.0.write_all(&body).unwrap();
        }
    }

    fn one_channel() -> (FileChannels, Cell) {
        let (channel, end) = Channel::pair().unwrap();
        (FileChannels::new(vec![channel]), Cell(end.into()))
    }

    fn read() -> FileRequest {
        FileRequest::Read { path: Path(b"/f".to_vec()), part: Part::All, most: 9, form: Form::AsIs }
    }

    fn end_of_read() -> FileReply {
        FileReply::Read { bytes: 1, size: 1, complete: true, mode: 0o644, made: Conversion::AsIs }
    }

    #[tokio::test]
    async fn the_end_of_a_session_while_hidden_names_are_searched_is_no_fault() {
        let (channels, mut cell) = one_channel();
        let mut lease = channels.lease().await.unwrap();
        let ended = tokio::task::spawn_blocking(move || {
            assert_eq!(cell.hear(), FileRequest::Scan { keep: false });
            drop(cell);
        });
        assert!(matches!(lease.scan(false, None).await, Err(ChannelError::Closed)));
        ended.await.unwrap();
        assert!(!lease.owed.is_fault());
        drop(lease);
        assert!(channels.lease().await.is_none());
        // The control: an invalid message is a fault.
        let (channels, mut cell) = one_channel();
        let mut lease = channels.lease().await.unwrap();
        cell.0.write_all(&[0xff; codec::HEADER]).unwrap();
        assert!(matches!(lease.scan(false, None).await, Err(ChannelError::Codec(_))));
        assert!(lease.owed.is_fault());
    }

    #[tokio::test]
    async fn a_channel_is_used_again_after_its_call() {
        let (channels, mut cell) = one_channel();
        for _ in 0..2 {
            let mut lease = channels.lease().await.unwrap();
            lease.send(&[read()]).await.unwrap();
            assert_eq!(cell.hear(), read());
            cell.say(&end_of_read());
            assert_eq!(lease.receive().await.unwrap(), end_of_read());
        }
    }

    #[tokio::test]
    async fn a_reply_that_nobody_waits_for_is_not_the_next_calls() {
        let (channels, mut cell) = one_channel();
        let mut lease = channels.lease().await.unwrap();
        lease.send(&[read()]).await.unwrap();
        drop(lease);
        cell.say(&FileReply::Content(vec![1]));
        cell.say(&end_of_read());
        let mut lease = channels.lease().await.unwrap();
        lease.send(&[read()]).await.unwrap();
        cell.say(&FileReply::Content(vec![7; 7]));
        assert_eq!(lease.receive().await.unwrap(), FileReply::Content(vec![7; 7]));
    }

    #[tokio::test]
    async fn a_channel_that_the_cell_closed_is_not_used_again() {
        let (channels, mut cell) = one_channel();
        let mut lease = channels.lease().await.unwrap();
        lease.send(&[read()]).await.unwrap();
        drop(lease);
        let (kind, message) = (FileErrorKind::Broken, "this channel is closed".to_owned());
        cell.say(&FileReply::Failed(FileError {
            kind,
            errno: 0,
            message,
            about: None,
            diff: None,
        }));
        assert!(channels.lease().await.is_none(), "there is no other");
        assert_eq!(lock(&channels.shared.broken).len(), 1);
    }

    #[test]
    fn a_lease_that_outlives_its_runtime_is_set_aside_once() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (channels, cell) = runtime.block_on(async {
            let (channels, cell) = one_channel();
            let mut lease = channels.lease().await.unwrap();
            lease.send(&[read()]).await.unwrap();
            tokio::spawn(async move {
                std::future::pending::<()>().await;
                drop(lease);
            });
            (channels, cell)
        });
        drop(runtime);
        assert_eq!(lock(&channels.shared.broken).len(), 1);
        drop(cell);
    }

    #[tokio::test]
    async fn a_write_left_half_way_is_abandoned() {
        let (channels, mut cell) = one_channel();
        let (path, mode) = (Path(b"/f".to_vec()), WriteMode::Overwrite);
        let (act, keep) = (Act::Write { path, mode }, Keep::Nothing);
        let write = FileRequest::Change(Change {
            act,
            most: 9,
            keep,
            diff: 0,
            evidence: EvidenceDepth::Paths,
        });
        let mut lease = channels.lease().await.unwrap();
        lease.send(std::slice::from_ref(&write)).await.unwrap();
        drop(lease);
        let cell = tokio::task::spawn_blocking(move || {
            assert_eq!(cell.hear(), write);
            assert_eq!(cell.hear(), FileRequest::Abandon);
            cell.say(&FileReply::Abandoned);
            cell
        });
        channels.lease().await.unwrap();
        cell.await.unwrap();
    }

    #[tokio::test]
    async fn what_was_prepared_and_left_is_abandoned() {
        let (channels, mut cell) = one_channel();
        let act = Act::MakeDir { path: Path(b"/d".to_vec()) };
        let change = FileRequest::Change(Change {
            act,
            most: 9,
            keep: Keep::Nothing,
            diff: 0,
            evidence: EvidenceDepth::Paths,
        });
        let (effects, diff) = (Vec::new(), String::new());
        let (diff_complete, conflicts) = (true, Vec::new());
        let evidence = Box::<palisade_plan::evidence::Evidence>::default();
        let digest = [7; 32];
        let prepared = Prepared { effects, digest, diff, diff_complete, conflicts, evidence };
        let mut lease = channels.lease().await.unwrap();
        lease.send(std::slice::from_ref(&change)).await.unwrap();
        assert_eq!(cell.hear(), change);
        cell.say(&FileReply::Prepared(prepared.clone()));
        assert_eq!(lease.receive().await.unwrap(), FileReply::Prepared(prepared));
        drop(lease);
        let cell = tokio::task::spawn_blocking(move || {
            assert_eq!(cell.hear(), FileRequest::Abandon);
            cell.say(&FileReply::Abandoned);
            cell
        });
        channels.lease().await.unwrap();
        cell.await.unwrap();
    }

    #[tokio::test]
    async fn a_message_left_half_way_is_sent_to_its_end_and_the_write_abandoned() {
        let (channels, mut cell) = one_channel();
        let mut lease = channels.lease().await.unwrap();
        // More than the socket takes while nobody reads.
        let content = FileRequest::Content { data: vec![7; 3 << 20], end: false };
        let requests = std::slice::from_ref(&content);
        let sending = tokio::time::timeout(Duration::from_millis(50), lease.send(requests));
        assert!(sending.await.is_err(), "it could not be sent whole");
        drop(lease);
        let cell = tokio::task::spawn_blocking(move || {
            assert!(cell.hear() == content);
            assert_eq!(cell.hear(), FileRequest::Abandon);
            cell.say(&FileReply::Abandoned);
            cell
        });
        channels.lease().await.unwrap();
        cell.await.unwrap();
    }

    #[tokio::test]
    async fn when_all_are_broken_nobody_waits() {
        let (channels, mut cell) = one_channel();
        let mut lease = channels.lease().await.unwrap();
        lease.send(&[read()]).await.unwrap();
        cell.0.write_all(&[0xff; codec::HEADER]).unwrap();
        assert!(matches!(lease.receive().await, Err(ChannelError::Codec(_))));
        drop(lease);
        assert!(channels.lease().await.is_none());
        // The channel itself stays open: closing it would end the session.
        cell.0.set_nonblocking(true).unwrap();
        cell.hear();
        let error = cell.0.read(&mut [0; 1]).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
    }
}
