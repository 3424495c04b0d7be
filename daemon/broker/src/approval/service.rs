//! The parts of the daemon that asking for approval needs. Runs in the broker.

use super::{desk::Approvals, inquiry::ApprovalRequest};
use crate::{
    base::live::SettingsInForce,
    telemetry::{
        Telemetry,
        audit::docket::{CallAudit, SentRequest},
    },
};
use palisade_protocol::WireError;
use std::sync::Arc;

/// The approvers, and what an approval request is recorded in and compared with.
#[derive(Debug)]
pub(crate) struct ApprovalService {
    pub(crate) desk: Approvals,
    pub(crate) telemetry: Arc<Telemetry>,
    pub(crate) live: Arc<SettingsInForce>,
}

impl ApprovalService {
    /// Records an approval request in the audit log; only then it is sent.
    pub(crate) async fn put(
        &self,
        docket: &CallAudit,
        inquiry: &mut ApprovalRequest,
    ) -> Result<SentRequest, WireError> {
        let handlers = self.desk.announce(inquiry)?;
        Ok(docket.question(&inquiry.question, inquiry.time(), &handlers).await?)
    }
}
