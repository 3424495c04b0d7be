//! Audit records of a session's network connections, and of the approval requests about them. Runs
//! in the broker.

use super::{
    Audit, RecordError, VolumeOwner,
    docket::{
        CheckpointDecision, SentRequest,
        decisions::{answer_record, request_record},
    },
    granted,
};
use crate::base::identity::SessionIdentity;
use palisade_audit::{Connection, GrantAct, Record, RequestKey};
use palisade_protocol::{ApprovalRequest, CallId, Grant};
use std::time::Duration;

impl Audit {
    /// Writes an approval request about a connection into the log; only then it is sent.
    pub(crate) async fn connection_asked(
        &self,
        session: &SessionIdentity,
        (asked, key): (&ApprovalRequest, RequestKey),
        time: Duration,
        approvers: &[String],
    ) -> Result<SentRequest, RecordError> {
        let record = request_record(session.id.to_string(), (asked, key), time, approvers);
        self.record(charged(session), record).await.map(drop)?;
        Ok(SentRequest::new(asked))
    }

    /// Writes a decision about a connection into the log; only then it takes effect.
    pub(crate) async fn connection_answered(
        &self,
        session: &SessionIdentity,
        call_id: &CallId,
        answering: CheckpointDecision<'_>,
    ) -> Result<(), RecordError> {
        let record = answer_record(call_id.to_string(), session.id.to_string(), answering);
        self.record(charged(session), record).await.map(drop)
    }

    /// Writes into the log that the approval of a connection is to be remembered; only then it is.
    pub(crate) async fn connection_granted(
        &self,
        session: &SessionIdentity,
        grant: &Grant,
    ) -> Result<(), RecordError> {
        let made = granted(grant, GrantAct::Made, &grant.by, None);
        self.record(charged(session), made).await.map(drop)
    }

    /// Records a connection that has ended or was refused. A log that fails can not change that any
    /// more.
    pub(crate) fn connection(&self, session: &SessionIdentity, connection: Connection) {
        let record = move || Record::Connection(connection);
        if let Err(error) = self.defer(charged(session), record) {
            self.lose();
            tracing::error!(%error, "could not record a network connection");
        }
        self.replied();
    }
}

fn charged(session: &SessionIdentity) -> VolumeOwner {
    VolumeOwner::User(session.peer.uid)
}
