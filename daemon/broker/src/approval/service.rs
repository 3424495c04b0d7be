//! The parts of the daemon that asking for approval needs. Runs in the broker.

use super::{
    coverage::ComparedRequest, desk::Approvals, grants::RememberedApproval,
    prepared::PreparedRequest, verdict::DecidedRequest,
};
use crate::{
    base::{live::SettingsInForce, outcome::Outcome},
    cells::context::Context,
    telemetry::{
        Telemetry,
        audit::docket::{CallAudit, SentRequest},
    },
};
use palisade_protocol::WireError;
use std::sync::Arc;
use tokio::time::Instant;

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
        prepared: &mut PreparedRequest,
    ) -> Result<SentRequest, WireError> {
        let handlers = self.desk.announce(prepared)?;
        let key = ComparedRequest::of(&prepared.claim).recorded();
        Ok(docket.request(&prepared.request, key, prepared.time(), &handlers).await?)
    }

    /// Sends an announced approval request of a call, and waits until it is decided. Meanwhile the call is
    /// in the stage `checkpoint`, and its client is told how long it waits at most.
    pub(crate) async fn ask(&self, context: &Context, prepared: PreparedRequest) -> DecidedRequest {
        let _stage = self.telemetry.calls_in_progress.wait_for_approval(&context.call_id);
        let mut is_told = false;
        let decided = self.desk.ask_telling(prepared, |left, approvals| {
            is_told = true;
            context.tell_waiting(left, approvals);
        });
        let decided = decided.await;
        if is_told {
            context.tell_decided();
        }
        decided
    }

    /// Records approvals that are to be remembered; only then they are.
    pub(crate) async fn remember(
        &self,
        docket: &CallAudit,
        kept: Vec<RememberedApproval>,
    ) -> Result<(), Box<Outcome>> {
        for kept in kept {
            // Another call that asked for the same may have remembered it already.
            if self.desk.holds(&kept) {
                continue;
            }
            let recorded = docket.grant(&kept.grant(Instant::now())).await;
            recorded.map_err(|error| Box::new(WireError::from(error).into()))?;
            self.desk.keep(kept);
        }
        Ok(())
    }
}

/// Describes the approvals that are to be remembered, for the audit log; `None` if there are none.
pub(crate) fn summaries(kept: &[RememberedApproval]) -> Option<String> {
    let all: Vec<String> = kept.iter().map(|kept| kept.grant(Instant::now()).summary).collect();
    (!all.is_empty()).then(|| all.join("; "))
}
