//! The kernel's records of what it refused programs, told apart by call. Landlock's by the name
//! under which the call's domain was made, which nobody else knows; the filter's by the audit session
//! of the runner, which runs one program at a time. What is not of a call of this broker's is
//! forgotten at once. Broker.

mod book;
mod fence;
mod record;
mod stamp;

use book::{Book, Claim};
use fence::Fence;
use palisade_plan::Found;
use palisade_policy::refused::Refused;
use record::Record;
use rustix::{
    io::Errno,
    net::{RecvFlags, recv},
};
use stamp::{Clocks, since_boot};
use std::{
    io,
    os::fd::OwnedFd,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::{
    io::Interest,
    net::UnixStream,
    sync::Notify,
    time::{Instant, sleep, timeout_at},
};
use tokio_util::sync::CancellationToken;

/// How long a fence's record may take; they take some tens of microseconds.
const PATIENCE: Duration = Duration::from_millis(100);
/// How long a session waits to learn whether there are records at all.
const FIRST: Duration = Duration::from_millis(3);
/// The longest record that is read whole; a path has at most 4096 bytes, in hexadecimal twice that.
const LONGEST: usize = 9 * 1024;
/// Letters of a mark: 75 bits, as much as a process's name holds.
const MARK: usize = 15;
const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

/// The Landlock ABI from which on there are records of what programs are refused.
pub(crate) const LANDLOCK_RECORDS: u32 = 7;

const CHANGED: &str = "the kernel's audit was turned off, or given other rules";

const NONE_COME: &str = "no audit record of the kernel's comes: audit is off there, or the launcher \
                         is not in the host's network namespace";

/// The kernel's records, as far as they come.
#[derive(Debug)]
pub(crate) struct Records {
    stream: Option<UnixStream>,
    state: Mutex<State>,
    arrived: Notify,
    over: CancellationToken,
}

#[derive(Debug)]
struct State {
    book: Book,
    known: Known,
    fence: Option<Fence>,
    asked: u64,
    /// A runner's refusal did not come, though this process's own did: filters are not recorded.
    unlogged: bool,
}

/// Whether records come.
#[derive(Debug, Clone)]
enum Known {
    Trying,
    Yes,
    No(String),
}

/// What a call was refused.
#[derive(Debug, Default)]
pub(crate) struct Told {
    /// Each once, with how often.
    pub(crate) refused: Vec<(Refused, u64)>,
    /// Why there may be more; empty if there are none.
    pub(crate) missing: String,
}

/// A call whose records are gathered.
#[derive(Debug)]
pub(crate) struct Watched {
    records: Arc<Records>,
    pub(crate) mark: String,
    /// Whether the filter of its runner leaves records.
    logged: bool,
}

/// Whether it matters that a refusal may just be on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// All went well.
    Well,
    /// Something failed: it should be known whether it was refused. The runner has something
    /// refused to itself right after it says so.
    Badly,
    /// The runner did not say how it ended.
    Unknown,
}

impl Records {
    /// Reads from a socket of the launcher's, if there is one, and finds out whether records come.
    pub(crate) fn read(found: &Found, socket: Option<OwnedFd>) -> Arc<Self> {
        let (stream, known) = match (found, socket.map(stream)) {
            (Found::Yes(_), Some(Ok(stream))) => (Some(stream), Known::Trying),
            (Found::Yes(_), Some(Err(error))) => (None, Known::No(error.to_string())),
            (Found::Yes(_), None) => (None, Known::No("the launcher sent no socket".to_owned())),
            (Found::No(why), _) => (None, Known::No(why.clone())),
        };
        let state = State { book: Book::default(), known, fence: None, asked: 0, unlogged: false };
        let (state, over) = (Mutex::new(state), CancellationToken::new());
        let records = Arc::new(Self { stream, state, arrived: Notify::new(), over });
        if records.stream.is_some() {
            tokio::spawn(attend(Arc::clone(&records)));
            tokio::spawn(Arc::clone(&records).try_out());
        }
        records
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads no more: the launcher is gone, and with it everything that it started.
    pub(crate) fn close(&self) {
        self.over.cancel();
        let mut state = self.state();
        state.fence = None;
        state.known = Known::No("the launcher is gone".to_owned());
    }

    /// Finds out whether records come.
    async fn try_out(self: Arc<Self>) {
        let made = mark().ok_or_else(|| io::Error::other("no randomness")).and_then(Fence::new);
        {
            let mut state = self.state();
            state.fence = match made {
                Ok(fence) => {
                    state.book.fence(&fence.name);
                    state.asked = 0;
                    Some(fence)
                }
                Err(error) => {
                    state.known = Known::No(format!("no fence: {error}"));
                    None
                }
            };
        }
        if self.pass().await.is_ok() {
            self.state().known = Known::Yes;
        }
    }

    /// Why no records come, if so.
    pub(crate) fn unknown(&self) -> Option<String> {
        match &self.state().known {
            Known::Yes => None,
            Known::Trying => Some(NONE_COME.to_owned()),
            Known::No(why) => Some(why.clone()),
        }
    }

    /// How many refusals are known to have been left out.
    pub(crate) fn lost(&self) -> u64 {
        self.state().book.lost
    }

    /// Whether there will be records of a session that begins now.
    pub(crate) async fn expected(self: &Arc<Self>) -> bool {
        let until = Instant::now() + FIRST;
        while matches!(self.state().known, Known::Trying) && Instant::now() < until {
            sleep(Duration::from_micros(200)).await;
        }
        let known = self.state().known.clone();
        if matches!(known, Known::No(_)) && self.stream.is_some() {
            // Audit may have come on since.
            tokio::spawn(Arc::clone(self).try_out());
        }
        matches!(known, Known::Yes)
    }

    /// Gathers what a call will be refused; none if there are no records.
    pub(crate) fn watch(
        self: &Arc<Self>,
        landlock_abi: u32,
        audit_session: Option<u32>,
    ) -> Option<Watched> {
        let mut state = self.state();
        if !matches!(state.known, Known::Yes) || landlock_abi < LANDLOCK_RECORDS {
            return None;
        }
        let mark = mark()?;
        state.book.open(mark.clone(), audit_session);
        drop(state);
        let logged = audit_session.is_some();
        Some(Watched { records: Arc::clone(self), mark, logged })
    }

    /// Reads what has come.
    fn drain(self: &Arc<Self>) {
        let Some(stream) = &self.stream else { return };
        let mut changed = false;
        let mut state = self.state();
        let mut buffer = [0; LONGEST];
        loop {
            match recv(stream, &mut buffer, RecvFlags::DONTWAIT) {
                Ok((_, length)) => {
                    let message = buffer.get(..length).unwrap_or_default();
                    if let Some(record) = Record::parse(message) {
                        changed |= record == Record::Changed;
                        state.book.enter(record, Clocks::now());
                    }
                }
                Err(Errno::INTR) => {}
                // The socket was full: how many were dropped nobody knows.
                Err(Errno::NOBUFS) => state.book.overflow(),
                Err(_) => break,
            }
        }
        if changed {
            // A filter's records come all the same: only another of Landlock's shows that all do.
            state.known = Known::No(CHANGED.to_owned());
            tokio::spawn(Arc::clone(self).try_out());
        }
        drop(state);
        self.arrived.notify_waiters();
    }

    /// Waits for something in the book; whether it came in time.
    async fn comes(&self, it: impl Fn(&Book) -> bool) -> bool {
        let until = Instant::now() + PATIENCE;
        loop {
            let arrived = self.arrived.notified();
            if it(&self.state().book) {
                return true;
            }
            if timeout_at(until, arrived).await.is_err() {
                return false;
            }
        }
    }

    /// Waits for the refusal that a runner had made to itself after its program.
    async fn whole(&self, mark: &str) -> Result<(), String> {
        if self.state().unlogged {
            return self.pass().await;
        }
        if self.comes(|book| book.is_whole(mark)).await {
            return Ok(());
        }
        self.pass().await?;
        let mut state = self.state();
        if state.book.heard {
            // The kernel dropped that one, and perhaps more.
            state.book.lost += 1;
            return Err("the kernel dropped records while the call ran".to_owned());
        }
        state.unlogged = true;
        Ok(())
    }

    /// Waits until everything that was refused before is known.
    async fn pass(&self) -> Result<(), String> {
        let number = {
            let mut state = self.state();
            let Some(fence) = &state.fence else { return Err("there is no fence".to_owned()) };
            // If its thread is gone, no record comes.
            fence.refuse().unwrap_or_default();
            state.asked += 1;
            state.asked
        };
        if self.comes(|book| book.fenced >= number).await {
            return Ok(());
        }
        let mut state = self.state();
        state.known = Known::No(NONE_COME.to_owned());
        // Its records may still come, and must not be taken for those of another.
        state.fence = None;
        Err(NONE_COME.to_owned())
    }
}

impl Watched {
    /// What the call was refused, now that everything it started is gone.
    pub(crate) async fn end(self, ending: Ending) -> Told {
        self.records.drain();
        let any = self.records.state().book.has_any(&self.mark);
        let mut missing = String::new();
        let mut fenced = false;
        let all = match ending {
            Ending::Badly if self.logged => Some(self.records.whole(&self.mark).await),
            Ending::Badly | Ending::Unknown => Some(self.records.pass().await),
            Ending::Well if any => Some(self.records.pass().await),
            Ending::Well => None,
        };
        match all {
            Some(Ok(())) => fenced = true,
            Some(Err(why)) => missing = why,
            None => {}
        }
        let until = if fenced { None } else { Some(since_boot()) };
        let Some(Claim { refused, left_out, mixed, unsettled, .. }) =
            self.records.state().book.close(&self.mark, until)
        else {
            return Told::default();
        };
        if unsettled {
            missing = CHANGED.to_owned();
        } else if left_out > 0 {
            missing = format!("{left_out} refusals of this call were left out");
        } else if mixed {
            missing = "a system call that was refused as the call began may be its or that of the \
                       call before"
                .to_owned();
        }
        Told { refused, missing }
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.records.state().book.close(&self.mark, Some(since_boot()));
    }
}

/// Reads records as they come, for as long as anybody may want them.
async fn attend(records: Arc<Records>) {
    let Some(stream) = &records.stream else { return };
    loop {
        let ready = tokio::select! {
            ready = stream.readable() => ready,
            () = records.over.cancelled() => return,
        };
        if let Err(error) = ready {
            tracing::warn!(%error, "the kernel's records can not be read any more");
            return;
        }
        // The runtime learns from this that there is nothing more to read.
        let peeked = stream.try_io(Interest::READABLE, || {
            let mut byte = [0; 1];
            Ok(recv(stream, &mut byte, RecvFlags::PEEK | RecvFlags::DONTWAIT)?)
        });
        match peeked {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
            Err(_) => records.state().book.overflow(),
            Ok(_) => {}
        }
        records.drain();
    }
}

/// Tokio has no netlink sockets of its own; a stream's readiness is the same.
fn stream(socket: OwnedFd) -> io::Result<UnixStream> {
    let socket = std::os::unix::net::UnixStream::from(socket);
    socket.set_nonblocking(true)?;
    UnixStream::from_std(socket)
}

/// A name that nobody can guess; none if the kernel has no randomness.
fn mark() -> Option<String> {
    let mut bytes = [0; MARK];
    let flags = rustix::rand::GetRandomFlags::empty();
    let filled = rustix::rand::getrandom(&mut bytes, flags).ok()?;
    let letter = |byte: &u8| char::from(LETTERS[usize::from(byte % 32)]);
    (filled == MARK).then(|| bytes.iter().map(letter).collect())
}
