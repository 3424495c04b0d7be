//! The file channels of a session: leased one call at a time, put right after a call that left
//! early. Broker.

use crate::channel::{Channel, ChannelError};
use palisade_plan::cell::{FileReply, FileRequest};
use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// How long the cell has to answer what a call no longer waits for.
const PATIENCE: Duration = Duration::from_secs(30);

/// All file channels of a session.
#[derive(Debug, Clone)]
pub(crate) struct FileChannels {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    free: Mutex<Vec<Channel>>,
    /// Channels of no more use. Closing one would end the session, so they are kept.
    broken: Mutex<Vec<Channel>>,
    permits: Arc<Semaphore>,
    all: usize,
}

/// A channel for the time of one call.
#[derive(Debug)]
pub(crate) struct Lease {
    channel: Option<Channel>,
    owed: Owed,
    shared: Arc<Shared>,
    permit: Option<OwnedSemaphorePermit>,
}

/// What is outstanding on a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owed {
    Nothing,
    /// The last message of a reply.
    Reply,
    /// Content of a write, and then its reply.
    Content,
    /// A message went out in part, or nonsense came in.
    Broken,
}

impl FileChannels {
    pub(crate) fn new(channels: Vec<Channel>) -> Self {
        let all = channels.len();
        let permits = Arc::new(Semaphore::new(all));
        let (free, broken) = (Mutex::new(channels), Mutex::default());
        Self { shared: Arc::new(Shared { free, broken, permits, all }) }
    }

    /// The next free channel; none if all are broken.
    pub(crate) async fn lease(&self) -> Option<Lease> {
        let permit = Arc::clone(&self.shared.permits).acquire_owned().await.ok()?;
        let channel = lock(&self.shared.free).pop()?;
        let shared = Arc::clone(&self.shared);
        Some(Lease { channel: Some(channel), owed: Owed::Nothing, shared, permit: Some(permit) })
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Lease {
    /// Sends requests, all at once.
    pub(crate) async fn send(&mut self, requests: &[FileRequest]) -> Result<(), ChannelError> {
        self.owed = Owed::Broken;
        let channel = self.channel.as_mut().ok_or(ChannelError::Closed)?;
        channel.send_all(requests).await?;
        self.owed = match requests.last() {
            Some(FileRequest::Write { .. } | FileRequest::Content { end: false, .. }) => {
                Owed::Content
            }
            Some(_) | None => Owed::Reply,
        };
        Ok(())
    }

    /// The next reply.
    pub(crate) async fn receive(&mut self) -> Result<FileReply, ChannelError> {
        let channel = self.channel.as_mut().ok_or(ChannelError::Closed)?;
        let reply = channel.receive().await.inspect_err(|_| self.owed = Owed::Broken)?;
        match &reply {
            FileReply::Content(_) => {}
            FileReply::Read { .. }
            | FileReply::Written { .. }
            | FileReply::Deleted { .. }
            | FileReply::Listed { .. }
            | FileReply::Abandoned
            | FileReply::Failed(_) => self.owed = Owed::Nothing,
        }
        Ok(reply)
    }

    /// Brings a channel whose call left early back to where the next can use it.
    async fn put_right(mut self) {
        let settle = async {
            if self.owed == Owed::Content {
                self.send(&[FileRequest::Abandon]).await?;
            }
            while self.owed != Owed::Nothing {
                self.receive().await?;
            }
            Ok::<(), ChannelError>(())
        };
        let settled = tokio::time::timeout(PATIENCE, settle).await;
        if !matches!(settled, Ok(Ok(()))) {
            self.owed = Owed::Broken;
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
        tracing::warn!(
            broken = broken.len(),
            of = self.shared.all,
            "a file channel is of no more use"
        );
        if broken.len() == self.shared.all {
            self.shared.permits.close();
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let Some(channel) = self.channel.take() else { return };
        match (self.owed, tokio::runtime::Handle::try_current()) {
            (Owed::Nothing, _) => self.give_back(channel),
            (Owed::Reply | Owed::Content, Ok(runtime)) => {
                let (owed, shared) = (self.owed, Arc::clone(&self.shared));
                let permit = self.permit.take();
                let lease = Self { channel: Some(channel), owed, shared, permit };
                runtime.spawn(lease.put_right());
            }
            (Owed::Reply | Owed::Content | Owed::Broken, _) => self.set_aside(channel),
        }
    }
}
