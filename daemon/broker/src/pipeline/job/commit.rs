//! Commits what a job has changed so far. Its processes are frozen, the changes are reviewed like
//! the effects of a call, and the processes continue. Runs in the broker.

use super::{place::JobTransaction, serve};
use crate::{
    base::{
        error::CallError,
        outcome::Outcome,
        task::{JobNumber, RefusalAction, RouteChoice, Task},
    },
    cells::{
        context::Context,
        job::{CommitRequest, Job},
    },
    changes::transaction::settle::settle,
    telemetry::audit::docket::CallAudit,
};
use palisade_plan::cell::RunRequest;
use palisade_protocol::{JsonText, WireError};
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

/// The number of requests to commit that may wait at once.
pub(super) const ORDERS: usize = 4;

/// Commits what a job has changed so far.
pub(super) async fn run(
    number: JobNumber,
    if_refused: RefusalAction,
    context: Context,
    docket: CallAudit,
) -> Result<Outcome, CallError> {
    let job = context.session.jobs.get(number)?;
    let orders = job.commits.as_ref().ok_or(CallError::NoTransaction(number))?;
    let (answer, answered) = oneshot::channel();
    let order = CommitRequest { context, docket, if_refused, answer };
    orders.send(order).await.map_err(|_| CallError::JobOver(number))?;
    let outcome = answered.await.map_err(|_| CallError::JobOver(number))?;
    let mut data = serve::described(&job);
    data["transaction"] = serve::transaction_of(outcome.data.as_ref());
    let data = JsonText::render(&data).map_err(|error| CallError::Io(error.into()))?;
    Ok(Outcome { data: Some(data), exit_code: None, ..outcome })
}

/// Everything that is needed for commits while a job runs.
pub(super) struct CommitContext<'a> {
    pub(super) job: &'a Arc<Job>,
    pub(super) held: &'a mut JobTransaction,
    /// Sends requests to the job's runner.
    pub(super) requests: mpsc::Sender<RunRequest>,
    /// The runner's answers: `None` if the job is frozen, otherwise why it is not.
    pub(super) frozen: mpsc::Receiver<Option<String>>,
    /// Cancelled when the job is to end.
    pub(super) stopping: CancellationToken,
    /// True when the job's processes are gone.
    pub(super) over: watch::Receiver<bool>,
}

impl CommitContext<'_> {
    /// Serves requests to commit until the job has ended. `idle` is locked while one is under way.
    pub(super) async fn serve(
        mut self,
        mut orders: mpsc::Receiver<CommitRequest>,
        idle: &tokio::sync::Mutex<()>,
    ) {
        loop {
            let order = tokio::select! {
                biased;
                () = is_over(&mut self.over) => return,
                () = self.stopping.cancelled() => return,
                order = orders.recv() => order,
            };
            let Some(CommitRequest { context, docket, if_refused, answer }) = order else { return };
            let _busy = idle.lock().await;
            let outcome = self.one(context, docket).await;
            let refused = outcome.error.is_some();
            // A caller that does not wait any more is not told.
            answer.send(outcome).unwrap_or_default();
            if refused && if_refused == RefusalAction::End {
                self.held.is_refused = true;
                self.job.end.cancel();
            }
        }
    }

    async fn one(&mut self, context: Context, docket: CallAudit) -> Outcome {
        if let Err(error) = self.freeze().await {
            return error.into();
        }
        self.job.progress.send_modify(|progress| progress.settling = true);
        let outcome = self.settle(context, docket).await;
        self.job.progress.send_modify(|progress| progress.settling = false);
        // A job that was ended meanwhile does not continue.
        self.requests.send(RunRequest::Thaw).await.unwrap_or_default();
        outcome
    }

    /// Returns `true` if the job may have passed open files to a program that is not frozen: to
    /// another job, or to another session by a socket in a place that both can reach. The session's
    /// other calls do not run meanwhile.
    fn may_share_files(&self) -> bool {
        let unsettled = &self.held.unsettled;
        let session = &unsettled.context.session;
        let is_other = |job: &Arc<Job>| job.number != self.job.number && !job.is_over();
        let watches = matches!(&unsettled.task, Task::Run(run) if run.route == RouteChoice::Watch);
        let profile = &session.profile;
        let shares_place = profile.writes_beyond() || profile.is_in_hosts_network();
        watches || shares_place || session.jobs.all().iter().any(is_other)
    }

    /// Freezes the job's processes.
    async fn freeze(&mut self) -> Result<(), CallError> {
        let over = CallError::JobOver(self.job.number);
        let freeze = RunRequest::Freeze { may_share: self.may_share_files() };
        if self.requests.send(freeze).await.is_err() {
            return Err(over);
        }
        tokio::select! {
            biased;
            frozen = self.frozen.recv() => match frozen {
                Some(None) => Ok(()),
                Some(Some(why)) => Err(CallError::NotFrozen { job: self.job.number, why }),
                None => Err(over),
            },
            () = is_over(&mut self.over) => Err(over),
        }
    }

    async fn settle(&mut self, mut context: Context, mut docket: CallAudit) -> Outcome {
        let session = Arc::clone(&context.session);
        let cancel = context.cancel.child_token();
        context.cancel = cancel.clone();
        let own = std::mem::replace(&mut self.held.unsettled.context, context);
        let outcome = Outcome { exit_code: Some(0), ..Outcome::default() };
        session.changed();
        let outcome = tokio::select! {
            outcome = settle(&self.held.approvals, &mut docket, &self.held.unsettled, outcome) => outcome,
            never = async {
                self.stopping.cancelled().await;
                // An approval request about a job that is to end is withdrawn.
                cancel.cancel();
                std::future::pending().await
            } => never,
        };
        session.changed();
        self.held.unsettled.context = own;
        Outcome { error: outcome.error.map(with_job_continues), ..outcome }
    }
}

/// Adds to an error that nothing was committed; the job continues.
fn with_job_continues(error: WireError) -> WireError {
    let message = format!("no changes of the job were committed: {}", error.message);
    WireError { message, ..error }
}

async fn is_over(over: &mut watch::Receiver<bool>) {
    // If the sender is gone, the job has ended too.
    over.wait_for(|over| *over).await.map(drop).unwrap_or_default();
}
