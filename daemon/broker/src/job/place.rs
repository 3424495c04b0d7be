//! Where a job runs, and how its effects are settled when it has ended. Broker.

use crate::{
    audit::docket::Docket,
    ended::{Ended, Settled},
    error::CallError,
    outcome::Outcome,
    runner::RunnerKind,
    server::Server,
    transaction::{settle::settle, unsettled::Unsettled},
};
use palisade_protocol::{Finding, Severity, WireError};
use std::sync::Arc;

/// Where a job runs.
#[derive(Debug)]
pub(crate) enum JobPlace {
    /// In a runner of the session.
    Runner(RunnerKind),
    /// In a transaction, which is settled when it has ended.
    Transaction(Box<JobTransaction>),
}

/// The transaction of a job, and what its effects are settled with.
#[derive(Debug)]
pub(crate) struct JobTransaction {
    pub(crate) unsettled: Unsettled,
    pub(crate) server: Arc<Server>,
    pub(crate) docket: Docket,
    /// What it did so far was not committed, and the call that asked said that it ends then.
    pub(crate) is_refused: bool,
}

impl JobTransaction {
    /// Settles the effects of a job that has ended: they are judged like those of a call.
    pub(super) async fn settle(self, ended: &mut Ended) {
        let Self { unsettled, server, mut docket, is_refused } = self;
        let session = Arc::clone(&unsettled.context.session);
        if is_refused {
            ended.cwd = None;
            ended.error = Some(CallError::Discarded.into());
            return;
        }
        // One that was killed is judged by what it did until then.
        let outcome = Outcome { exit_code: ended.exit_code, ..Outcome::default() };
        let outcome = settle(&server, &mut docket, &unsettled, outcome).await;
        if let Some(error) = outcome.error {
            let message = format!("nothing that the job changed was committed: {}", error.message);
            let error = WireError { message, ..error };
            let why = format!("a job ended: {}", error.message);
            session.tell(vec![Finding::new("job_discarded", Severity::Warning, why)]);
            ended.cwd = None;
            ended.error = Some(error);
        }
        ended.denials.extend(outcome.denials);
        let Outcome { data, undo, findings, checkpoint, .. } = outcome;
        ended.settled = Some(Box::new(Settled { data, undo, findings, checkpoint }));
    }
}
