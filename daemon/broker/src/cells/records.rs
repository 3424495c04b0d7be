//! The kernel's audit records of denials, assigned to calls. Runs in the broker.
//!
//! Landlock's records are matched by the name under which the call's domain was created, which
//! nobody else knows. The seccomp filter's are matched by the audit session of the runner, which
//! runs one program at a time. A record that belongs to no call of this broker is dropped at once.

mod book;
mod fence;
mod record;
mod stamp;

use book::{CallRecords, DenialBook};
use fence::Fence;
use palisade_plan::Found;
use palisade_policy::refused::KernelRefusal;
use record::KernelAuditRecord;
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

/// The time limit for a fence's record to arrive; it usually takes tens of microseconds.
const PATIENCE: Duration = Duration::from_millis(100);
/// The time that a new session waits to learn whether records arrive at all.
const FIRST: Duration = Duration::from_millis(3);
/// The longest record that is read whole, in bytes. A path has at most 4096 bytes, and twice that
/// in hexadecimal.
const LONGEST: usize = 9 * 1024;
/// The number of letters of a mark: 75 bits, as much as a process's name holds.
const MARK: usize = 15;
const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

/// The first Landlock ABI whose denials are recorded.
pub(crate) const LANDLOCK_RECORDS: u32 = 7;

const CHANGED: &str = "kernel audit was turned off, or its rules were changed";

const NONE_COME: &str = "no kernel audit records arrive: kernel audit is off, or the launcher is \
                         not in the host's network namespace";

/// The kernel's audit records, as far as they arrive.
#[derive(Debug)]
pub(crate) struct Records {
    stream: Option<UnixStream>,
    state: Mutex<RecordsState>,
    arrived: Notify,
    over: CancellationToken,
}

#[derive(Debug)]
struct RecordsState {
    book: DenialBook,
    availability: RecordAvailability,
    fence: Option<Fence>,
    fence_requests: u64,
    /// A runner's own denial was not recorded although this process's was: seccomp denials are not
    /// logged.
    unlogged: bool,
}

/// The availability of records.
#[derive(Debug, Clone)]
enum RecordAvailability {
    Testing,
    Yes,
    No(String),
}

/// The denials of a call.
#[derive(Debug, Default)]
pub(crate) struct CallDenials {
    /// Each different denial, with how often it occurred.
    pub(crate) refused: Vec<(KernelRefusal, u64)>,
    /// The reason that there may be more denials; empty if none are missing.
    pub(crate) missing: String,
}

/// A call whose records are being collected.
#[derive(Debug)]
pub(crate) struct CallWatch {
    records: Arc<Records>,
    pub(crate) mark: String,
    /// True if denials by its runner's seccomp filter are recorded.
    logged: bool,
}

/// The end of a call, which decides whether to wait for records that may still arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CompletionStatus {
    /// The call succeeded.
    Success,
    /// The call failed, and it should be known whether something was denied. The runner provokes a
    /// denial of its own right after it reports the end.
    Failure,
    /// The runner did not report how it ended.
    Unknown,
}

impl Records {
    /// Reads records from the launcher's audit socket, if there is one, and tests whether they
    /// arrive.
    pub(crate) fn read(found: &Found, socket: Option<OwnedFd>) -> Arc<Self> {
        let (stream, availability) = match (found, socket.map(stream)) {
            (Found::Yes(_), Some(Ok(stream))) => (Some(stream), RecordAvailability::Testing),
            (Found::Yes(_), Some(Err(error))) => (None, RecordAvailability::No(error.to_string())),
            (Found::Yes(_), None) => {
                (None, RecordAvailability::No("the launcher sent no audit socket".to_owned()))
            }
            (Found::No(why), _) => (None, RecordAvailability::No(why.clone())),
        };
        let state = RecordsState {
            book: DenialBook::default(),
            availability,
            fence: None,
            fence_requests: 0,
            unlogged: false,
        };
        let (state, over) = (Mutex::new(state), CancellationToken::new());
        let records = Arc::new(Self { stream, state, arrived: Notify::new(), over });
        if records.stream.is_some() {
            tokio::spawn(attend(Arc::clone(&records)));
            tokio::spawn(Arc::clone(&records).test_arrival());
        }
        records
    }

    fn state(&self) -> MutexGuard<'_, RecordsState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stops reading: the launcher is gone, and with it every process that it started.
    pub(crate) fn close(&self) {
        self.over.cancel();
        let mut state = self.state();
        state.fence = None;
        state.availability = RecordAvailability::No("the launcher is gone".to_owned());
    }

    /// Makes a fence and tests whether its record arrives.
    async fn test_arrival(self: Arc<Self>) {
        let made = mark()
            .ok_or_else(|| io::Error::other("the kernel returned no random bytes"))
            .and_then(Fence::new);
        {
            let mut state = self.state();
            state.fence = match made {
                Ok(fence) => {
                    state.book.fence(&fence.name);
                    state.fence_requests = 0;
                    Some(fence)
                }
                Err(error) => {
                    state.availability = RecordAvailability::No(format!(
                        "can not test whether kernel audit records arrive: {error}"
                    ));
                    None
                }
            };
        }
        if self.wait_for_fence().await.is_ok() {
            self.state().availability = RecordAvailability::Yes;
        }
    }

    /// Returns the reason that no records arrive; `None` if they do.
    pub(crate) fn unavailable_reason(&self) -> Option<String> {
        match &self.state().availability {
            RecordAvailability::Yes => None,
            RecordAvailability::Testing => Some(NONE_COME.to_owned()),
            RecordAvailability::No(why) => Some(why.clone()),
        }
    }

    /// Returns how many denials are known to be missing from the records.
    pub(crate) fn lost(&self) -> u64 {
        self.state().book.lost
    }

    /// Returns `true` if the denials of a session that begins now will be recorded.
    pub(crate) async fn will_record(self: &Arc<Self>) -> bool {
        let until = Instant::now() + FIRST;
        while matches!(self.state().availability, RecordAvailability::Testing)
            && Instant::now() < until
        {
            sleep(Duration::from_micros(200)).await;
        }
        let known = self.state().availability.clone();
        if matches!(known, RecordAvailability::No(_)) && self.stream.is_some() {
            // The kernel's audit may have been turned on since.
            tokio::spawn(Arc::clone(self).test_arrival());
        }
        matches!(known, RecordAvailability::Yes)
    }

    /// Starts to collect the denials of a call; `None` if there are no records.
    pub(crate) fn watch(
        self: &Arc<Self>,
        landlock_abi: u32,
        audit_session: Option<u32>,
    ) -> Option<CallWatch> {
        self.reserve(landlock_abi)?.begin(audit_session)
    }

    /// Starts to collect the denials of a shell that is started ahead of its call; `None` if there
    /// are no records.
    pub(crate) fn reserve(self: &Arc<Self>, landlock_abi: u32) -> Option<CallWatch> {
        let mut state = self.state();
        if !matches!(state.availability, RecordAvailability::Yes) || landlock_abi < LANDLOCK_RECORDS
        {
            return None;
        }
        let mark = mark()?;
        state.book.open(mark.clone());
        drop(state);
        Some(CallWatch { records: Arc::clone(self), mark, logged: false })
    }

    /// Reads all records that have arrived.
    fn drain(self: &Arc<Self>) {
        let Some(stream) = &self.stream else { return };
        let mut changed = false;
        let mut state = self.state();
        let mut buffer = [0; LONGEST];
        loop {
            match recv(stream, &mut buffer, RecvFlags::DONTWAIT) {
                Ok((_, length)) => {
                    let message = buffer.get(..length).unwrap_or_default();
                    if let Some(record) = KernelAuditRecord::parse(message) {
                        changed |= record == KernelAuditRecord::Changed;
                        state.book.enter(record, Clocks::now());
                    }
                }
                Err(Errno::INTR) => {}
                // The socket was full; how many records were dropped is unknown.
                Err(Errno::NOBUFS) => state.book.overflow(),
                Err(_) => break,
            }
        }
        if changed {
            // Seccomp records arrive even so; only another Landlock record shows that all do.
            state.availability = RecordAvailability::No(CHANGED.to_owned());
            tokio::spawn(Arc::clone(self).test_arrival());
        }
        drop(state);
        self.arrived.notify_waiters();
    }

    /// Waits until the book satisfies a condition. Returns false if it takes longer than
    /// `PATIENCE`.
    async fn wait_for(&self, condition: impl Fn(&DenialBook) -> bool) -> bool {
        let until = Instant::now() + PATIENCE;
        loop {
            let arrived = self.arrived.notified();
            if condition(&self.state().book) {
                return true;
            }
            if timeout_at(until, arrived).await.is_err() {
                return false;
            }
        }
    }

    /// Waits for the denial that a runner provoked for itself after its program ended.
    async fn wait_until_complete(&self, mark: &str) -> Result<(), String> {
        if self.state().unlogged {
            return self.wait_for_fence().await;
        }
        if self.wait_for(|book| book.is_complete(mark)).await {
            return Ok(());
        }
        self.wait_for_fence().await?;
        let mut state = self.state();
        if state.book.runner_denial_arrived {
            // The kernel dropped that record, and perhaps others.
            state.book.lost += 1;
            return Err("the kernel dropped records while the call ran".to_owned());
        }
        state.unlogged = true;
        Ok(())
    }

    /// Waits until every earlier denial has been read, by provoking one more with the fence.
    async fn wait_for_fence(&self) -> Result<(), String> {
        let number = {
            let mut state = self.state();
            let Some(fence) = &state.fence else {
                return Err("can not test whether kernel audit records arrive".to_owned());
            };
            // If the fence's thread is gone, no record arrives.
            fence.refuse().unwrap_or_default();
            state.fence_requests += 1;
            state.fence_requests
        };
        if self.wait_for(|book| book.fenced >= number).await {
            return Ok(());
        }
        let mut state = self.state();
        state.availability = RecordAvailability::No(NONE_COME.to_owned());
        // The old fence's records may still arrive, and must not be counted for a new one.
        state.fence = None;
        Err(NONE_COME.to_owned())
    }
}

impl CallWatch {
    /// Begins the call; `None` if there are no records any more. Denials by the seccomp filter in
    /// this audit session are now the call's.
    pub(crate) fn begin(mut self, audit_session: Option<u32>) -> Option<Self> {
        let records = Arc::clone(&self.records);
        let mut state = records.state();
        if !matches!(state.availability, RecordAvailability::Yes) {
            // Before the watch is dropped, which takes the lock.
            drop(state);
            return None;
        }
        state.book.begin(&self.mark, audit_session);
        self.logged = audit_session.is_some();
        Some(self)
    }

    /// Returns the denials of the call. To be called when every process of the call is gone.
    pub(crate) async fn end(self, ending: CompletionStatus) -> CallDenials {
        self.records.drain();
        let any = self.records.state().book.has_any(&self.mark);
        let mut missing = String::new();
        let mut fenced = false;
        let all = match ending {
            CompletionStatus::Failure if self.logged => {
                Some(self.records.wait_until_complete(&self.mark).await)
            }
            CompletionStatus::Failure | CompletionStatus::Unknown => {
                Some(self.records.wait_for_fence().await)
            }
            CompletionStatus::Success if any => Some(self.records.wait_for_fence().await),
            CompletionStatus::Success => None,
        };
        match all {
            Some(Ok(())) => fenced = true,
            Some(Err(why)) => missing = why,
            None => {}
        }
        let until = if fenced { None } else { Some(since_boot()) };
        let Some(CallRecords { refused, left_out, ambiguous, audit_changed, .. }) =
            self.records.state().book.close(&self.mark, until)
        else {
            return CallDenials::default();
        };
        if audit_changed {
            missing = CHANGED.to_owned();
        } else if left_out > 0 {
            missing = format!("{left_out} denials of this call are not listed");
        } else if ambiguous {
            missing =
                "a system call that was denied when this call began may belong to the call before"
                    .to_owned();
        }
        CallDenials { refused, missing }
    }
}

impl Drop for CallWatch {
    fn drop(&mut self) {
        self.records.state().book.close(&self.mark, Some(since_boot()));
    }
}

/// Reads records as they arrive, until this value is closed.
async fn attend(records: Arc<Records>) {
    let Some(stream) = &records.stream else { return };
    loop {
        let ready = tokio::select! {
            ready = stream.readable() => ready,
            () = records.over.cancelled() => return,
        };
        if let Err(error) = ready {
            tracing::warn!(%error, "kernel audit records can no longer be read");
            return;
        }
        // A failed read is how the runtime learns that there is nothing more to read.
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

/// Wraps a netlink socket. Tokio has no type for it; a stream reports readiness in the same way.
fn stream(socket: OwnedFd) -> io::Result<UnixStream> {
    let socket = std::os::unix::net::UnixStream::from(socket);
    socket.set_nonblocking(true)?;
    UnixStream::from_std(socket)
}

/// Returns a name that nobody can guess; `None` if the kernel has no randomness.
fn mark() -> Option<String> {
    let mut bytes = [0; MARK];
    let flags = rustix::rand::GetRandomFlags::empty();
    let filled = rustix::rand::getrandom(&mut bytes, flags).ok()?;
    let letter = |byte: &u8| char::from(LETTERS[usize::from(byte % 32)]);
    (filled == MARK).then(|| bytes.iter().map(letter).collect())
}
