//! What the log is told of sessions and their jobs. Broker.

use super::{Audit, Charged, Unrecorded, ending::denied};
use crate::{ended::Ended, job::Job, peer::Peer, session::Session};
use palisade_audit::{CleanText, JobEnd, Record, SessionClose, SessionOpen, TakenBack};
use palisade_protocol::CallId;
use std::{sync::atomic::Ordering, time::Duration};

impl Audit {
    /// Records that a session was opened.
    pub(crate) async fn opened(&self, session: &Session) -> Result<(), Unrecorded> {
        let Peer { uid, pid, .. } = session.peer;
        let ask = serde_json::to_value(session.ask).unwrap_or_default();
        let receipt = session.receipt();
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

    /// Records that a job ended. It has ended in any case.
    pub(crate) async fn job_ended(
        &self,
        session: &Session,
        job: &Job,
        ended: &Ended,
        lasted: Duration,
    ) {
        let record = JobEnd {
            call_id: job.call_id.to_string(),
            session: session.id.to_string(),
            job: job.number,
            exit_code: ended.exit_code,
            signal: ended.signal,
            error: ended.error.as_ref().map(|error| error.code.name()),
            output_bytes: job.progress().total,
            duration_us: u64::try_from(lasted.as_micros()).unwrap_or(u64::MAX),
            denials: ended.denials.iter().map(denied).collect(),
            observed: ended.observed.iter().map(denied).collect(),
        };
        if let Err(error) = self.record(charged(session), Record::JobEnd(record)).await {
            self.lose();
            tracing::error!(%error, "the end of a job is not recorded");
        }
    }

    /// Records that what was cut off is taken back, before it is.
    pub(crate) async fn taking_back(
        &self,
        session: &Session,
        calls: &[CallId],
        paths: usize,
    ) -> Result<(), Unrecorded> {
        let record = TakenBack {
            session: session.id.to_string(),
            calls: calls.iter().map(ToString::to_string).collect(),
            paths: paths as u64,
        };
        self.record(charged(session), Record::TakenBack(record)).await.map(drop)
    }

    /// Records that a session ended. It has ended in any case.
    pub(crate) async fn closed(&self, session: &Session) {
        let calls = session.calls.load(Ordering::Relaxed);
        let record = SessionClose { session: session.id.to_string(), calls };
        if let Err(error) = self.record(charged(session), Record::SessionClose(record)).await {
            self.lose();
            tracing::error!(%error, "the end of a session is not recorded");
        }
    }
}

fn charged(session: &Session) -> Charged {
    Charged::User(session.peer.uid)
}
