//! Audit records of sessions and their jobs. Runs in the broker.

use super::{Audit, RecordError, VolumeOwner, ending::denied};
use crate::base::{ended::ProgramEnd, identity::SessionIdentity, peer::Peer, task::JobNumber};
use palisade_audit::{CleanText, JobEnd, Record, Rollback, SessionClose, SessionOpen};
use palisade_protocol::{CallId, Receipt};
use std::time::Duration;

/// A job that has ended.
#[derive(Debug)]
pub(crate) struct EndedJob<'a> {
    pub(crate) call_id: &'a CallId,
    pub(crate) number: JobNumber,
    pub(crate) output_bytes: u64,
    pub(crate) lasted: Duration,
}

impl Audit {
    /// Records that a session was opened.
    pub(crate) async fn opened(
        &self,
        session: &SessionIdentity,
        receipt: &Receipt,
    ) -> Result<(), RecordError> {
        let Peer { uid, pid, .. } = session.peer;
        let ask = serde_json::to_value(session.ask).unwrap_or_default();
        let record = Record::SessionOpen(SessionOpen {
            session: session.id.to_string(),
            uid,
            pid,
            profile: session.profile.name().to_owned(),
            ask: ask.as_str().unwrap_or_default().to_owned(),
            workspace: CleanText::new(&String::from_utf8_lossy(&session.workspace.0)),
            runs_as: receipt.for_uid.map(|_| receipt.uid),
        });
        self.record(charged(session), record).await.map(drop)
    }

    /// Records that a job ended. A log that fails can not change that any more.
    pub(crate) async fn job_ended(
        &self,
        session: &SessionIdentity,
        job: &EndedJob<'_>,
        ended: &ProgramEnd,
    ) {
        let record = JobEnd {
            call_id: job.call_id.to_string(),
            session: session.id.to_string(),
            job: job.number,
            exit_code: ended.exit_code,
            signal: ended.signal,
            error: ended.error.as_ref().map(|error| error.code.name()),
            output_bytes: job.output_bytes,
            duration_us: u64::try_from(job.lasted.as_micros()).unwrap_or(u64::MAX),
            denials: ended.denials.iter().map(denied).collect(),
            observed: ended.observed.iter().map(denied).collect(),
        };
        if let Err(error) = self.record(charged(session), Record::JobEnd(record)).await {
            self.lose();
            tracing::error!(%error, "could not record the end of a job");
        }
    }

    /// Records that an interrupted commit is about to be rolled back.
    pub(crate) async fn rolling_back(
        &self,
        session: &SessionIdentity,
        calls: &[CallId],
        paths: usize,
    ) -> Result<(), RecordError> {
        let record = Rollback {
            session: session.id.to_string(),
            calls: calls.iter().map(ToString::to_string).collect(),
            paths: paths as u64,
        };
        self.record(charged(session), Record::TakenBack(record)).await.map(drop)
    }

    /// Records that a session ended. A log that fails can not change that any more.
    pub(crate) async fn closed(&self, session: &SessionIdentity, calls: u64) {
        let record = SessionClose { session: session.id.to_string(), calls };
        if let Err(error) = self.record(charged(session), Record::SessionClose(record)).await {
            self.lose();
            tracing::error!(%error, "could not record the end of a session");
        }
    }
}

fn charged(session: &SessionIdentity) -> VolumeOwner {
    VolumeOwner::User(session.peer.uid)
}
