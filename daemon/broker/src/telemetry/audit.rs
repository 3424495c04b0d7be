//! The broker's side of the audit log. What is about to take effect is recorded before; what has
//! already happened is recorded afterwards, and nobody waits for that. Runs in the broker.

mod committed;
pub(crate) mod docket;
mod ending;
mod network;
mod retention;
pub(crate) mod search;
pub(crate) mod sessions;
mod volume;

pub(crate) use retention::LogKeeping;

use crate::telemetry::logs::{AuditLogs, LogExport};
use palisade_audit::{
    Account, AuditError, Call, CleanText, GrantAct, Log, Options, Record, StoredDataDeletion, Sync,
    Ticket,
};
use palisade_plan::BUILD_ID;
use palisade_policy::Size;
use palisade_protocol::{ErrorCode, Forget, Grant, WireError};
use retention::LogRetention;
use std::{
    path::Path,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};
use volume::Volumes;

/// The audit log, or why there is none.
#[derive(Debug, Clone)]
pub(crate) struct Audit {
    log: Result<Arc<Log>, Arc<str>>,
    sync: Sync,
    lost: Arc<AtomicU64>,
    /// The reason that the last record was not written, if it was not.
    fault: Arc<Mutex<Option<String>>>,
    volumes: Arc<Volumes>,
    /// The retention of the log; none if there is no log.
    retention: Option<Arc<LogRetention>>,
    /// The export of records to a collector.
    pub(crate) logs: Arc<AuditLogs>,
}

/// The user whose share of the log a record is counted against.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum VolumeOwner {
    User(u32),
    /// No user: an operator's action.
    Nobody,
}

/// An error from writing a record. The action that it records is then not done.
#[derive(Debug, thiserror::Error)]
#[error("can not write the audit log: {0}")]
pub(crate) struct RecordError(String);

impl From<RecordError> for WireError {
    fn from(error: RecordError) -> Self {
        Self::new(
            ErrorCode::AuditFailed,
            error.to_string(),
            "calls run only if they can be recorded: make room for, or give access to, the \
             directory `audit` in the daemon's state",
        )
    }
}

fn catch_up(log: &Log) {
    if let Err(error) = log.catch_up() {
        tracing::error!(%error, "results of calls are not recorded yet");
    }
}

impl Audit {
    /// Opens the log in a directory.
    pub(crate) fn open(
        directory: &Path,
        sync: Sync,
        keeping: LogKeeping,
        export: Option<LogExport>,
    ) -> Result<Self, AuditError> {
        let key = keeping.key.clone();
        let (logs, observer) = match export.map(AuditLogs::to) {
            Some((logs, observer)) => (logs, Some(observer)),
            None => (AuditLogs::default(), None),
        };
        let options = Options { sync, key, observer, ..Options::new(BUILD_ID) };
        let log = Log::open(directory, options)?;
        let (lost, fault, volumes) = (Arc::default(), Arc::default(), Arc::default());
        let retention = Some(Arc::new(LogRetention::new(directory.to_owned(), keeping)));
        let (log, logs) = (Ok(Arc::new(log)), Arc::new(logs));
        Ok(Self { log, sync, lost, fault, volumes, retention, logs })
    }

    /// An audit without a log: nothing can be recorded, so nothing runs.
    pub(crate) fn none(why: &str) -> Self {
        let fault = Arc::new(Mutex::new(Some(why.to_owned())));
        let (lost, volumes) = (Arc::default(), Arc::default());
        let (log, sync, logs) = (Err(why.into()), Sync::default(), Arc::default());
        Self { log, sync, lost, fault, volumes, retention: None, logs }
    }

    /// Counts a record of something that had already happened and could not be written.
    fn lose(&self) {
        self.lost.fetch_add(1, Ordering::Relaxed);
    }

    /// The number of records that were lost.
    pub(crate) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// The error of the last attempt to write a record, if it failed.
    pub(crate) fn fault(&self) -> Option<String> {
        self.fault.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn account(&self, charged: VolumeOwner) -> Account {
        match charged {
            VolumeOwner::User(uid) => self.volumes.account(uid, Instant::now()),
            VolumeOwner::Nobody => Account::default(),
        }
    }

    /// Denies a call of a user who has filled their share of the log.
    pub(crate) fn room(&self, uid: u32, per_day: Size) -> Result<(), WireError> {
        self.volumes.check(uid, per_day, Instant::now())
    }

    /// Writes a record, and remembers the fault if that failed.
    async fn record(&self, charged: VolumeOwner, record: Record) -> Result<Ticket, RecordError> {
        let written = self.write(self.account(charged), record).await;
        let fault = written.as_ref().err().map(|RecordError(why)| why.clone());
        *self.fault.lock().unwrap_or_else(PoisonError::into_inner) = fault;
        written
    }

    /// Writes a record. Waits for the disk only with `Sync::Always`, and then on another thread.
    async fn write(&self, account: Account, record: Record) -> Result<Ticket, RecordError> {
        let log = self.log.as_ref().map_err(|why| RecordError(why.to_string()))?;
        let written = match self.sync {
            Sync::Within(_) => log.append_for(&account, &record),
            Sync::Always => {
                let log = Arc::clone(log);
                tokio::task::spawn_blocking(move || log.append_for(&account, &record))
                    .await
                    .map_err(|error| RecordError(error.to_string()))?
            }
        };
        written.map_err(|error| RecordError(error.to_string()))
    }

    /// Queues a record of what has already happened, to be made and written later, in order.
    fn defer(
        &self,
        charged: VolumeOwner,
        make: impl FnOnce() -> Record + Send + 'static,
    ) -> Result<(), RecordError> {
        let log = self.log.as_ref().map_err(|why| RecordError(why.to_string()))?;
        log.defer_for(self.account(charged), make).map_err(|error| RecordError(error.to_string()))
    }

    /// Returns a function that writes deferred records, to be called whenever the daemon is idle:
    /// between a reply and the next request, or while a cell works. `None` if writing a record may
    /// wait for the disk.
    pub(crate) fn when_idle(&self) -> Option<impl Fn() + Send + std::marker::Sync + 'static> {
        match (&self.log, self.sync) {
            (Ok(log), Sync::Within(_)) => {
                let log = Arc::clone(log);
                Some(move || catch_up(&log))
            }
            (Ok(_) | Err(_), _) => None,
        }
    }

    /// Writes deferred records now.
    pub(crate) fn catch_up(&self) {
        if let Ok(log) = &self.log {
            catch_up(log);
        }
    }

    /// Writes deferred records after a call's reply, unless the idle daemon writes them.
    pub(crate) fn replied(&self) {
        if let (Ok(log), Sync::Always) = (&self.log, self.sync) {
            let log = Arc::clone(log);
            tokio::task::spawn_blocking(move || catch_up(&log));
        }
    }

    /// Records that kept data of calls (full output, undo records) will be deleted, before it is.
    pub(crate) async fn forgetting(&self, forget: &Forget, by: &str) -> Result<(), RecordError> {
        let record = StoredDataDeletion {
            by: by.to_owned(),
            uid: forget.uid,
            spools: forget.spools,
            undo: forget.undo,
            older_than_ms: forget.older_than_ms,
        };
        self.record(VolumeOwner::Nobody, Record::Forgotten(record)).await.map(drop)
    }

    /// Records that a remembered approval was revoked.
    pub(crate) async fn revoked(&self, grant: &Grant, by: &str) -> Result<(), RecordError> {
        self.record(VolumeOwner::Nobody, granted(grant, GrantAct::Revoked, by, None))
            .await
            .map(drop)
    }
}

/// Makes the record of a remembered approval.
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
