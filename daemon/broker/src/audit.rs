//! The audit log as the broker keeps it: what is to take effect is written before, what has
//! happened after, and nobody waits for that. Broker.

mod committed;
pub(crate) mod docket;
mod ending;
mod sessions;
mod volume;

use palisade_audit::{
    Account, AuditError, Call, CleanText, Forgotten, GrantAct, Log, Options, Record, Sync, Ticket,
};
use palisade_plan::BUILD_ID;
use palisade_policy::Size;
use palisade_protocol::{ErrorCode, Forget, Grant, WireError};
use std::{
    path::Path,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};
use volume::Volumes;

/// The log, or why there is none.
#[derive(Debug, Clone)]
pub(crate) struct Audit {
    log: Result<Arc<Log>, Arc<str>>,
    sync: Sync,
    lost: Arc<AtomicU64>,
    /// Why the last record was not written, if it was not.
    fault: Arc<Mutex<Option<String>>>,
    volumes: Arc<Volumes>,
}

/// Whose share of the log a record is counted against.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Charged {
    User(u32),
    /// What operators do.
    Nobody,
}

/// Why something was not recorded, and so was not done.
#[derive(Debug, thiserror::Error)]
#[error("the audit log can not be written: {0}")]
pub(crate) struct Unrecorded(String);

impl From<Unrecorded> for WireError {
    fn from(error: Unrecorded) -> Self {
        Self::new(
            ErrorCode::AuditFailed,
            error.to_string(),
            "nothing runs that is not recorded: make room for, or give access to, the directory \
             `audit` in the daemon's state",
        )
    }
}

fn catch_up(log: &Log) {
    if let Err(error) = log.catch_up() {
        tracing::error!(%error, "results of calls are not recorded yet");
    }
}

impl Audit {
    /// Opens the log of a directory.
    pub(crate) fn open(directory: &Path, sync: Sync) -> Result<Self, AuditError> {
        let log = Log::open(directory, Options { sync, ..Options::new(BUILD_ID) })?;
        let (lost, fault, volumes) = (Arc::default(), Arc::default(), Arc::default());
        Ok(Self { log: Ok(Arc::new(log)), sync, lost, fault, volumes })
    }

    /// No log: nothing can be recorded, so nothing runs.
    pub(crate) fn none(why: &str) -> Self {
        let fault = Arc::new(Mutex::new(Some(why.to_owned())));
        let (lost, volumes) = (Arc::default(), Arc::default());
        Self { log: Err(why.into()), sync: Sync::default(), lost, fault, volumes }
    }

    /// A record of what had happened already could not be written.
    fn lose(&self) {
        self.lost.fetch_add(1, Ordering::Relaxed);
    }

    /// How often that was.
    pub(crate) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// Why nothing can be recorded, as far as the last attempt tells.
    pub(crate) fn fault(&self) -> Option<String> {
        self.fault.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn account(&self, charged: Charged) -> Account {
        match charged {
            Charged::User(uid) => self.volumes.account(uid, Instant::now()),
            Charged::Nobody => Account::default(),
        }
    }

    /// Refuses what would be recorded of a user who has filled their share of the log.
    pub(crate) fn room(&self, uid: u32, per_day: Size) -> Result<(), WireError> {
        self.volumes.check(uid, per_day, Instant::now())
    }

    /// Writes a record, and remembers whether that could be done.
    async fn record(&self, charged: Charged, record: Record) -> Result<Ticket, Unrecorded> {
        let written = self.write(self.account(charged), record).await;
        let fault = written.as_ref().err().map(|Unrecorded(why)| why.clone());
        *self.fault.lock().unwrap_or_else(PoisonError::into_inner) = fault;
        written
    }

    /// That does not wait for the disk, unless it is to; then not on this thread.
    async fn write(&self, account: Account, record: Record) -> Result<Ticket, Unrecorded> {
        let log = self.log.as_ref().map_err(|why| Unrecorded(why.to_string()))?;
        let written = match self.sync {
            Sync::Within(_) => log.append_for(&account, &record),
            Sync::Always => {
                let log = Arc::clone(log);
                tokio::task::spawn_blocking(move || log.append_for(&account, &record))
                    .await
                    .map_err(|error| Unrecorded(error.to_string()))?
            }
        };
        written.map_err(|error| Unrecorded(error.to_string()))
    }

    /// Has a record of what has happened already made and written later, in its order.
    fn defer(
        &self,
        charged: Charged,
        make: impl FnOnce() -> Record + Send + 'static,
    ) -> Result<(), Unrecorded> {
        let log = self.log.as_ref().map_err(|why| Unrecorded(why.to_string()))?;
        log.defer_for(self.account(charged), make).map_err(|error| Unrecorded(error.to_string()))
    }

    /// What writes deferred records whenever the daemon has nothing else to do: between a reply and
    /// the next request, or while a cell works. None if a record may wait for the disk.
    pub(crate) fn when_idle(&self) -> Option<impl Fn() + Send + std::marker::Sync + 'static> {
        match (&self.log, self.sync) {
            (Ok(log), Sync::Within(_)) => {
                let log = Arc::clone(log);
                Some(move || catch_up(&log))
            }
            (Ok(_) | Err(_), _) => None,
        }
    }

    /// A call has its reply: what was deferred is written, unless that is for the idle daemon.
    pub(crate) fn replied(&self) {
        if let (Ok(log), Sync::Always) = (&self.log, self.sync) {
            let log = Arc::clone(log);
            tokio::task::spawn_blocking(move || catch_up(&log));
        }
    }

    /// Records that what is kept of calls is let go of, before it is.
    pub(crate) async fn forgetting(&self, forget: &Forget, by: &str) -> Result<(), Unrecorded> {
        let record = Forgotten {
            by: by.to_owned(),
            uid: forget.uid,
            spools: forget.spools,
            undo: forget.undo,
            older_than_ms: forget.older_than_ms,
        };
        self.record(Charged::Nobody, Record::Forgotten(record)).await.map(drop)
    }

    /// Records that an approval is not remembered any more.
    pub(crate) async fn revoked(&self, grant: &Grant, by: &str) -> Result<(), Unrecorded> {
        self.record(Charged::Nobody, granted(grant, GrantAct::Revoked, by, None)).await.map(drop)
    }
}

/// What is recorded of a grant.
fn granted(grant: &Grant, act: GrantAct, by: &str, call: Option<&Call>) -> Record {
    let session = call.map(|call| call.session.clone());
    Record::Grant(palisade_audit::Grant {
        grant: grant.id.to_string(),
        act,
        by: CleanText::new(by),
        covers: CleanText::new(&grant.summary),
        expires_in_ms: grant.expires_in_ms,
        session: session.or_else(|| grant.session.as_ref().map(ToString::to_string)),
        call_id: call.map(|call| call.call_id.clone()),
    })
}
