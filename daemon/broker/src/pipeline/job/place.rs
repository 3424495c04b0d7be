//! The place where a job runs, and the review of its effects when it has ended. Runs in the broker.

use crate::{
    approval::service::ApprovalService,
    base::{
        ended::{ProgramEnd, SettledEffects},
        error::CallError,
        outcome::Outcome,
    },
    cells::runner::RunnerKind,
    changes::transaction::{settle::settle, unsettled::UnsettledCall},
    telemetry::audit::docket::CallAudit,
};
use palisade_protocol::{Finding, Severity, WireError};
use std::sync::Arc;

/// The place where a job runs.
#[derive(Debug)]
pub(crate) enum JobPlace {
    /// In a runner of the session, without a transaction.
    Runner(RunnerKind),
    /// In a transaction, which is committed or discarded when the job has ended.
    Transaction(Box<JobTransaction>),
}

/// The transaction of a job, and everything that is needed to review its effects.
#[derive(Debug)]
pub(crate) struct JobTransaction {
    pub(crate) unsettled: UnsettledCall,
    pub(crate) approvals: Arc<ApprovalService>,
    pub(crate) docket: CallAudit,
    /// True if a commit was refused and the call had asked that the job then ends.
    pub(crate) is_refused: bool,
}

impl JobTransaction {
    /// Reviews the effects of a job that has ended, like those of a call, and commits or discards
    /// them.
    pub(super) async fn settle(self, ended: &mut ProgramEnd) {
        let Self { unsettled, approvals, mut docket, is_refused } = self;
        let session = Arc::clone(&unsettled.context.session);
        if is_refused {
            ended.cwd = None;
            ended.error = Some(CallError::Discarded.into());
            return;
        }
        // A job that was killed is judged by what it changed until then.
        let outcome = Outcome { exit_code: ended.exit_code, ..Outcome::default() };
        let outcome = settle(&approvals, &mut docket, &unsettled, outcome).await;
        if let Some(error) = outcome.error {
            let message = format!("no changes of the job were committed: {}", error.message);
            let error = WireError { message, ..error };
            let why = format!("a job ended: {}", error.message);
            session.tell(vec![Finding::new("job_discarded", Severity::Warning, why)]);
            ended.cwd = None;
            ended.error = Some(error);
        }
        ended.denials.extend(outcome.denials);
        let Outcome { data, undo, findings, checkpoint, .. } = outcome;
        ended.settled = Some(Box::new(SettledEffects { data, undo, findings, checkpoint }));
    }
}
