//! Carries the bytes of a connection: counts them, charges the session's upload budget, and ends a
//! connection on which nothing moves, or whose approval has ended.

use crate::limits::Limits;
use std::{
    io,
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    task::{Context, Poll, Waker, ready},
};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf},
    time::{Duration, Instant, Sleep, sleep},
};

/// The bytes that a session may still send, over all of its connections.
#[derive(Debug)]
pub(crate) struct UploadBudget(AtomicU64);

impl UploadBudget {
    pub(crate) const fn new(bytes: u64) -> Self {
        Self(AtomicU64::new(bytes))
    }

    /// Takes up to `wanted` bytes from the budget, and returns how many.
    fn take(&self, wanted: usize) -> usize {
        let wanted = wanted as u64;
        let less = |left: u64| Some(left.saturating_sub(wanted));
        let left = self.0.fetch_update(Relaxed, Relaxed, less).unwrap_or_default();
        usize::try_from(left.min(wanted)).unwrap_or_default()
    }

    /// Gives back bytes that were taken and not sent.
    fn give_back(&self, unsent: usize) {
        self.0.fetch_add(unsent as u64, Relaxed);
    }
}

/// Why a connection is cut off.
pub(crate) const APPROVAL_ENDED: &str = "the approval of the connection has expired or was revoked";

/// Most tasks that are woken when a connection is cut off.
const MAX_WAITING: usize = 8;

/// The counts of one connection.
#[derive(Debug)]
pub(crate) struct Meter {
    pub(crate) sent: AtomicU64,
    pub(crate) received: AtomicU64,
    start: Instant,
    /// Milliseconds from the start to the last byte.
    last: AtomicU64,
    idle: Duration,
    cut: Mutex<Cut>,
}

/// The state of a connection: open, with the tasks to wake when it is cut off, or cut off.
#[derive(Debug)]
enum Cut {
    No { waiting: Vec<Waker> },
    Yes,
}

impl Meter {
    pub(crate) fn new(limits: &Limits) -> Arc<Self> {
        let zero = || AtomicU64::new(0);
        let start = Instant::now();
        let cut = Mutex::new(Cut::No { waiting: Vec::new() });
        let idle = limits.idle;
        Arc::new(Self { sent: zero(), received: zero(), start, last: zero(), idle, cut })
    }

    fn state(&self) -> MutexGuard<'_, Cut> {
        self.cut.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the connection: nothing more is read from it or written to it.
    pub(crate) fn cut(&self) {
        if let Cut::No { waiting } = std::mem::replace(&mut *self.state(), Cut::Yes) {
            waiting.into_iter().for_each(Waker::wake);
        }
    }

    /// Returns `true` if the connection was cut off.
    pub(crate) fn is_cut(&self) -> bool {
        matches!(*self.state(), Cut::Yes)
    }

    /// Fails if the connection was cut off; else has the task woken when it is.
    fn check(&self, cx: &Context<'_>) -> io::Result<()> {
        match &mut *self.state() {
            Cut::Yes => Err(io::Error::new(io::ErrorKind::ConnectionAborted, APPROVAL_ENDED)),
            Cut::No { waiting } => {
                // Both ends are polled by one task, or by a few.
                if !waiting.iter().any(|known| known.will_wake(cx.waker())) {
                    waiting.truncate(MAX_WAITING - 1);
                    waiting.insert(0, cx.waker().clone());
                }
                Ok(())
            }
        }
    }

    fn moved(&self) {
        let now = self.start.elapsed().as_millis();
        self.last.store(u64::try_from(now).unwrap_or(u64::MAX), Relaxed);
    }

    /// The moment at which the connection has been idle for too long.
    fn deadline(&self) -> Instant {
        self.start + Duration::from_millis(self.last.load(Relaxed)) + self.idle
    }
}

/// The side of a connection that a stream is on.
#[derive(Debug)]
pub(crate) enum Side {
    /// The session's program.
    Client,
    /// The destination. What is written to it counts as sent, against the budget.
    Destination(Arc<UploadBudget>),
}

/// A stream that is counted, and fails with `TimedOut` when nothing moves on its connection.
#[derive(Debug)]
pub(crate) struct Metered<S> {
    stream: S,
    side: Side,
    meter: Arc<Meter>,
    timer: Pin<Box<Sleep>>,
}

impl<S> Metered<S> {
    pub(crate) fn new(stream: S, side: Side, meter: Arc<Meter>) -> Self {
        let timer = Box::pin(sleep(meter.idle));
        Self { stream, side, meter, timer }
    }

    /// Called when the stream can not go on now: ready when nothing has moved for too long.
    fn poll_idle(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        while self.timer.as_mut().poll(cx).is_ready() {
            let deadline = self.meter.deadline();
            if deadline <= Instant::now() {
                let minutes = self.meter.idle.as_secs() / 60;
                let text = format!("nothing was sent or received for {minutes} minutes");
                return Poll::Ready(io::Error::new(io::ErrorKind::TimedOut, text));
            }
            self.timer.as_mut().reset(deadline);
        }
        Poll::Pending
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Metered<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.meter.check(cx)?;
        let before = buffer.filled().len();
        match Pin::new(&mut self.stream).poll_read(cx, buffer) {
            Poll::Pending => self.poll_idle(cx).map(Err),
            Poll::Ready(result) => {
                let count = buffer.filled().len() - before;
                if let Side::Destination(_) = self.side {
                    self.meter.received.fetch_add(count as u64, Relaxed);
                }
                self.meter.moved();
                Poll::Ready(result)
            }
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Metered<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.meter.check(cx)?;
        let taken = match &self.side {
            Side::Client => bytes.len(),
            Side::Destination(budget) => budget.take(bytes.len()),
        };
        if taken == 0 && !bytes.is_empty() {
            let text = "the session has sent as much as its network budget allows";
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::QuotaExceeded, text)));
        }
        let written = Pin::new(&mut self.stream).poll_write(cx, &bytes[..taken]);
        let count = match &written {
            Poll::Ready(Ok(count)) => *count,
            Poll::Ready(Err(_)) | Poll::Pending => 0,
        };
        if let Side::Destination(budget) = &self.side {
            budget.give_back(taken - count);
            self.meter.sent.fetch_add(count as u64, Relaxed);
        }
        if written.is_pending() {
            return self.poll_idle(cx).map(Err);
        }
        self.meter.moved();
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// A stream of which some bytes have been read already: they are read again first.
#[derive(Debug)]
pub(crate) struct Prefixed<S> {
    prefix: io::Cursor<Vec<u8>>,
    stream: S,
}

impl<S> Prefixed<S> {
    pub(crate) const fn new(prefix: Vec<u8>, stream: S) -> Self {
        Self { prefix: io::Cursor::new(prefix), stream }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Prefixed<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.prefix).poll_read(cx, buffer))?;
        if buffer.filled().len() > before || buffer.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Prefixed<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// The bytes that are copied at once.
const CHUNK: usize = 32 * 1024;

/// Copies both ways until both ends have closed. When one end stops sending, the other is told, and
/// may go on.
pub(crate) async fn copy<C, D>(client: &mut C, destination: &mut D) -> io::Result<()>
where
    C: AsyncRead + AsyncWrite + Unpin,
    D: AsyncRead + AsyncWrite + Unpin,
{
    tokio::io::copy_bidirectional_with_sizes(client, destination, CHUNK, CHUNK).await.map(drop)
}

/// The answer whether the server had sent something when its client spoke.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Listened {
    Silence,
    SpokenTo,
}

/// Why no more of a client's first bytes are waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Waited {
    /// They are enough, or the client sends nothing any more.
    Ended,
    /// The time is over.
    Late,
}

/// Hands the destination's bytes to the client until the client has sent enough, and returns that.
/// From its first bytes on, the client has the time that they give it. For protocols in which the
/// server speaks first.
pub(crate) async fn listen_first<C, D>(
    client: &mut C,
    destination: &mut D,
    time: impl Fn(&[u8]) -> Duration,
    is_enough: impl Fn(&[u8], Listened) -> bool,
) -> io::Result<(Vec<u8>, Listened, Waited)>
where
    C: AsyncRead + AsyncWrite + Unpin,
    D: AsyncRead + AsyncWrite + Unpin,
{
    let (mut from_client, mut to_client) = tokio::io::split(client);
    let (mut first, mut piece, mut chunk) = (Vec::new(), vec![0; CHUNK], vec![0; CHUNK]);
    // The part of `chunk` that the client has not got.
    let mut unsent = 0..0;
    let (mut is_open, mut listened) = (true, Listened::Silence);
    let mut late = std::pin::pin!(sleep(Duration::ZERO));
    let waited = loop {
        // Every branch can be left without losing bytes.
        let read = tokio::select! {
            biased;
            count = from_client.read(&mut piece) => Some(count?),
            () = &mut late, if !first.is_empty() => break Waited::Late,
            step = async {
                if !unsent.is_empty() {
                    unsent.start += to_client.write(&chunk[unsent.clone()]).await?;
                } else if is_open {
                    unsent = 0..destination.read(&mut chunk).await?;
                    is_open = !unsent.is_empty();
                    if !is_open {
                        to_client.shutdown().await?;
                    } else if first.is_empty() {
                        listened = Listened::SpokenTo;
                    }
                } else {
                    std::future::pending::<()>().await;
                }
                io::Result::Ok(())
            } => step.map(|()| None)?,
        };
        let Some(count) = read else { continue };
        let is_first = first.is_empty();
        first.extend_from_slice(&piece[..count]);
        if count == 0 || is_enough(&first, listened) {
            break Waited::Ended;
        }
        if is_first {
            late.as_mut().reset(Instant::now() + time(&first));
        }
    };
    to_client.write_all(&chunk[unsent]).await?;
    Ok((first, listened, waited))
}

/// A stream whose first bytes are watched while they are read: reading fails if they turn out to be
/// what is not allowed.
#[derive(Debug)]
pub(crate) struct Watched<S> {
    stream: S,
    /// The bytes so far; `None` when nothing is watched any more.
    seen: Option<Vec<u8>>,
    check: fn(&[u8]) -> io::Result<Watching>,
}

/// The answer whether more bytes of a stream are watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Watching {
    GoesOn,
    Ends,
}

impl<S> Watched<S> {
    /// Watches a stream whose first bytes have been read already.
    pub(crate) const fn new(
        stream: S,
        seen: Vec<u8>,
        check: fn(&[u8]) -> io::Result<Watching>,
    ) -> Self {
        Self { stream, seen: Some(seen), check }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let before = buffer.filled().len();
        ready!(Pin::new(&mut this.stream).poll_read(cx, buffer))?;
        if let Some(seen) = &mut this.seen {
            seen.extend_from_slice(&buffer.filled()[before..]);
            match (this.check)(seen) {
                Ok(Watching::GoesOn) => {}
                Ok(Watching::Ends) => this.seen = None,
                Err(error) => {
                    buffer.set_filled(before);
                    return Poll::Ready(Err(error));
                }
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
