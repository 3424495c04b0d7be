//! Writes a line to the systemd journal for each ended call and each decision, with fields to
//! search by. A line has no arguments and no output, so no secrets, and never delays a call. Runs
//! in the broker.

use super::DecidedCall;
use crate::base::identity::SessionIdentity;
use palisade_protocol::{CallResult, Checkpoint, ErrorCode};
use std::{
    fs, io,
    os::{fd::AsFd as _, unix::net::UnixDatagram},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};
use tokio::sync::mpsc;

/// The socket for the journal's native protocol.
pub(crate) const SOCKET: &str = "/run/systemd/journal/socket";
/// The number of lines that are queued for a slow journal.
const QUEUE: usize = 1024;
/// The `MESSAGE_ID` of each of the two kinds of lines, for journalctl.
const ENDED: &str = "6ad5f1a1b0c54fd5a9ce9e8a4a9b6b11";
const DECIDED: &str = "d1a2f7f1f5b94be28b8f3a7c4e0d7c02";
const INFO: &str = "6";
const NOTICE: &str = "5";

/// The connection to the journal; without a queue nothing is written.
#[derive(Debug, Clone, Default)]
pub(crate) struct Journal {
    queue: Option<mpsc::Sender<Vec<u8>>>,
    lost: Arc<AtomicU64>,
}

/// Returns `true` if standard error is the stream that `$JOURNAL_STREAM` names, so that it goes to
/// the journal.
pub(crate) fn is_ours() -> bool {
    let stated = rustix::fs::fstat(io::stderr().as_fd());
    let (Ok(named), Ok(stat)) = (std::env::var("JOURNAL_STREAM"), stated) else { return false };
    named == format!("{}:{}", stat.st_dev, stat.st_ino)
}

/// A line that is being composed.
struct JournalLine(Vec<u8>);

impl JournalLine {
    fn new(id: &str, priority: &str, message: &str) -> Self {
        let begun = Self(Vec::with_capacity(512)).field("MESSAGE", message);
        begun
            .field("MESSAGE_ID", id)
            .field("PRIORITY", priority)
            .field("SYSLOG_IDENTIFIER", "palisaded")
    }

    /// Adds a field; a value with line breaks is sent with its length.
    fn field(mut self, name: &str, value: &str) -> Self {
        self.0.extend_from_slice(name.as_bytes());
        if value.contains('\n') {
            self.0.push(b'\n');
            self.0.extend_from_slice(&(value.len() as u64).to_le_bytes());
        } else {
            self.0.push(b'=');
        }
        self.0.extend_from_slice(value.as_bytes());
        self.0.push(b'\n');
        self
    }

    /// Adds the fields of the session.
    fn of(self, session: &SessionIdentity) -> Self {
        let own = self
            .field("PALISADE_SESSION", session.id.as_str())
            .field("PALISADE_PROFILE", session.profile.name())
            .field("PALISADE_PEER_UID", &session.peer.uid.to_string());
        match session.peer.pid {
            Some(pid) => own.field("PALISADE_PEER_PID", &pid.to_string()),
            None => own,
        }
    }
}

impl Journal {
    /// Starts writing to the journal's socket. Must be called on the runtime.
    pub(crate) fn to(socket: &Path) -> Self {
        let (queue, lines) = mpsc::channel(QUEUE);
        let lost = Arc::new(AtomicU64::new(0));
        tokio::spawn(write(lines, socket.to_owned(), Arc::clone(&lost)));
        Self { queue: Some(queue), lost }
    }

    /// The number of lines that the journal did not get.
    pub(crate) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    fn tell(&self, entry: impl FnOnce() -> JournalLine) {
        let Some(queue) = &self.queue else { return };
        if queue.try_send(entry().0).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Writes that a call has ended.
    pub(crate) fn ended(&self, session: &SessionIdentity, result: &CallResult) {
        self.tell(|| {
            let code = result.error.as_ref().map(|error| error.code);
            let outcome = code.map_or_else(|| "ok".to_owned(), ErrorCode::name);
            let decision = match (&result.checkpoint, code) {
                (Some(checkpoint), _) => checkpoint.decision.as_str(),
                (None, Some(ErrorCode::Denied)) => "denied",
                (None, _) => "allowed",
            };
            let priority = if decision == "denied" { NOTICE } else { INFO };
            JournalLine::new(ENDED, priority, &format!("{} ended: {outcome}", result.tool))
                .of(session)
                .field("PALISADE_CALL", result.call_id.as_str())
                .field("PALISADE_TOOL", result.tool.as_str())
                .field("PALISADE_DECISION", decision)
                .field("PALISADE_OUTCOME", &outcome)
                .field("PALISADE_TIME_MS", &result.execution_time_ms.to_string())
        });
    }

    /// Writes that a checkpoint has decided.
    pub(crate) fn decided(&self, session: &SessionIdentity, decided: &DecidedCall<'_>) {
        self.tell(|| {
            let DecidedCall { call_id, tool, .. } = decided;
            let Checkpoint { decision, by, .. } = decided.checkpoint;
            let line = JournalLine::new(DECIDED, NOTICE, &format!("{tool} was {decision} by {by}"))
                .of(session)
                .field("PALISADE_CALL", call_id.as_str())
                .field("PALISADE_TOOL", tool.as_str())
                .field("PALISADE_DECISION", decision.as_str())
                .field("PALISADE_BY", &by.to_string());
            let approvals = decided.asked.map_or(&[][..], |asked| asked.approvals_of_several(by));
            approvals.iter().fold(line, |line, by| line.field("PALISADE_APPROVAL", &by.to_string()))
        });
    }
}

fn connect(path: &Path) -> io::Result<tokio::net::UnixDatagram> {
    let socket = UnixDatagram::unbound()?;
    socket.connect(path)?;
    socket.set_nonblocking(true)?;
    tokio::net::UnixDatagram::from_std(socket)
}

/// Writes lines as they come; reconnects to a journal that was restarted.
async fn write(mut lines: mpsc::Receiver<Vec<u8>>, path: PathBuf, lost: Arc<AtomicU64>) {
    let mut socket = connect(&path).ok();
    while let Some(line) = lines.recv().await {
        let sent = match &socket {
            Some(known) => known.send(&line).await.is_ok(),
            None => false,
        };
        if sent {
            continue;
        }
        socket = connect(&path).ok();
        let again = match &socket {
            Some(known) => known.send(&line).await.is_ok(),
            None => false,
        };
        if !again && lost.fetch_add(1, Ordering::Relaxed) == 0 {
            let there = fs::exists(&path).unwrap_or(false);
            tracing::warn!(path = %path.display(), there, "can not write to the journal");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn fields_are_in_the_journals_own_format() {
        let entry = JournalLine(Vec::new()).field("A", "b=c").field("D", "e\nf");
        assert_eq!(entry.0, b"A=b=c\nD\n\x03\0\0\0\0\0\0\0e\nf\n");
    }

    #[tokio::test]
    async fn a_journal_that_comes_back_is_found_and_what_it_missed_is_counted() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let journal = Journal::to(&path);
        let line = |text: &str| {
            let text = text.to_owned();
            journal.tell(move || JournalLine(Vec::new()).field("MESSAGE", &text));
        };
        line("nobody hears");
        while journal.lost() == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        for _ in 0..2 {
            let heard = tokio::net::UnixDatagram::bind(&path).unwrap();
            line("heard");
            let mut buffer = [0; 64];
            let length = heard.recv(&mut buffer).await.unwrap();
            assert_eq!(buffer.get(..length).unwrap(), b"MESSAGE=heard\n");
            fs::remove_file(&path).unwrap();
        }
        assert_eq!(journal.lost(), 1);
        Journal::default().tell(|| panic!("nobody listens"));
    }
}
