//! Retention of the audit log: old files are archived and old archives deleted, at the start and
//! then every hour. Runs in the broker.

use super::Audit;
use palisade_audit::{LogVolume, RetentionPolicy, SigningKey, Timestamp};
use std::{
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

/// The bounds of the log, and the key that signs its heads and archives.
#[derive(Debug, Clone, Default)]
pub(crate) struct LogKeeping {
    pub(crate) policy: RetentionPolicy,
    pub(crate) key: Option<SigningKey>,
}

/// The retention of an open log.
#[derive(Debug)]
pub(super) struct LogRetention {
    pub(super) directory: PathBuf,
    pub(super) keeping: LogKeeping,
    /// The error of the last run, if it failed.
    fault: Mutex<Option<String>>,
}

impl LogRetention {
    pub(super) fn new(directory: PathBuf, keeping: LogKeeping) -> Self {
        Self { directory, keeping, fault: Mutex::default() }
    }
}

impl Audit {
    /// Archives and deletes what is older or larger than the configuration keeps. A failure deletes
    /// nothing, and is tried again the next time.
    pub(crate) async fn retain(&self) {
        let (Ok(log), Some(retention)) = (&self.log, &self.retention) else { return };
        if !retention.keeping.policy.is_bounded() {
            return;
        }
        let (log, retention) = (Arc::clone(log), Arc::clone(retention));
        let run = tokio::task::spawn_blocking(move || {
            let LogKeeping { policy, key } = retention.keeping.clone();
            let done = policy.apply(&log, &retention.directory, key, Timestamp::now());
            let fault = match done {
                Ok(done) if done == palisade_audit::RetentionReport::default() => None,
                Ok(done) => {
                    let (archived, deleted) = (done.archived, done.deleted);
                    tracing::info!(archived, deleted, "retention of the audit log");
                    None
                }
                Err(error) => {
                    tracing::error!(%error, "retention of the audit log failed; nothing was deleted");
                    Some(error.to_string())
                }
            };
            *retention.fault.lock().unwrap_or_else(PoisonError::into_inner) = fault;
        });
        if let Err(error) = run.await {
            tracing::error!(%error, "retention of the audit log was interrupted");
        }
    }

    /// The error of the last run of retention, if it failed.
    pub(crate) fn retention_fault(&self) -> Option<String> {
        let retention = self.retention.as_ref()?;
        retention.fault.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Measures the log and its archives; zero if they can not be read.
    pub(crate) fn volume(&self) -> LogVolume {
        let directory = self.retention.as_ref().map(|retention| &retention.directory);
        directory.and_then(|directory| LogVolume::of(directory).ok()).unwrap_or_default()
    }
}
