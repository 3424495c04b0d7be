//! Commits what a job has done so far: its processes stand still, it is judged like the effects of a
//! call, and they go on. Broker.

use super::{Job, place::JobTransaction, serve};
use crate::{
    audit::docket::Docket,
    context::Context,
    error::CallError,
    outcome::Outcome,
    task::{IfRefused, JobNumber},
    transaction::settle::settle,
};
use palisade_plan::cell::RunRequest;
use palisade_protocol::{JsonText, WireError};
use serde_json::Value;
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

/// How many wait at once.
pub(super) const ORDERS: usize = 4;

/// What is to be committed by a call.
#[derive(Debug)]
pub(crate) struct Order {
    context: Context,
    docket: Docket,
    if_refused: IfRefused,
    answer: oneshot::Sender<Outcome>,
}

/// Has a job commit what it did so far.
pub(crate) async fn run(
    number: JobNumber,
    if_refused: IfRefused,
    context: Context,
    docket: Docket,
) -> Outcome {
    let job = match context.session.jobs.get(number) {
        Ok(job) => job,
        Err(error) => return error.into(),
    };
    let over = || Outcome::from(CallError::JobOver(number));
    let Some(orders) = &job.commits else { return CallError::NoTransaction(number).into() };
    let (answer, answered) = oneshot::channel();
    let order = Order { context, docket, if_refused, answer };
    if orders.send(order).await.is_err() {
        return over();
    }
    // One that was cancelled is answered soon.
    let outcome = answered.await.unwrap_or_else(|_| over());
    told(&job, outcome).unwrap_or_else(Outcome::from)
}

/// The job beside what became of its effects.
fn told(job: &Job, outcome: Outcome) -> Result<Outcome, CallError> {
    let text = outcome.data.as_ref().map_or("null", JsonText::as_str);
    let effects: Value = serde_json::from_str(text).unwrap_or_default();
    let mut data = serve::described(job);
    data["transaction"] = effects["transaction"].clone();
    let data = JsonText::render(&data).map_err(|error| CallError::Io(error.into()))?;
    Ok(Outcome { data: Some(data), exit_code: None, ..outcome })
}

/// What commits are made with while a job runs.
pub(super) struct Committing<'a> {
    pub(super) job: &'a Arc<Job>,
    pub(super) held: &'a mut JobTransaction,
    /// To its runner.
    pub(super) requests: mpsc::Sender<RunRequest>,
    /// Its runner's answers.
    pub(super) frozen: mpsc::Receiver<Option<String>>,
    /// The job is to end.
    pub(super) stopping: CancellationToken,
    /// The job's processes are gone.
    pub(super) over: watch::Receiver<bool>,
}

impl Committing<'_> {
    /// Commits until the job is over. `idle` is locked while one is under way.
    pub(super) async fn serve(
        mut self,
        mut orders: mpsc::Receiver<Order>,
        idle: &tokio::sync::Mutex<()>,
    ) {
        loop {
            let order = tokio::select! {
                biased;
                () = is_over(&mut self.over) => return,
                () = self.stopping.cancelled() => return,
                order = orders.recv() => order,
            };
            let Some(Order { context, docket, if_refused, answer }) = order else { return };
            let _busy = idle.lock().await;
            let outcome = self.one(context, docket).await;
            let refused = outcome.error.is_some();
            // Who does not wait any more is not told.
            answer.send(outcome).unwrap_or_default();
            if refused && if_refused == IfRefused::End {
                self.held.is_refused = true;
                self.job.end.cancel();
            }
        }
    }

    async fn one(&mut self, context: Context, docket: Docket) -> Outcome {
        if let Err(error) = self.freeze().await {
            return error.into();
        }
        self.job.progress.send_modify(|progress| progress.settling = true);
        let outcome = self.settle(context, docket).await;
        self.job.progress.send_modify(|progress| progress.settling = false);
        // A job that was ended meanwhile does not go on.
        self.requests.send(RunRequest::Thaw).await.unwrap_or_default();
        outcome
    }

    /// Has its processes stand still.
    async fn freeze(&mut self) -> Result<(), CallError> {
        let over = CallError::JobOver(self.job.number);
        if self.requests.send(RunRequest::Freeze).await.is_err() {
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

    async fn settle(&mut self, mut context: Context, mut docket: Docket) -> Outcome {
        let session = Arc::clone(&context.session);
        let cancel = context.cancel.child_token();
        context.cancel = cancel.clone();
        let own = std::mem::replace(&mut self.held.unsettled.context, context);
        let outcome = Outcome { exit_code: Some(0), ..Outcome::default() };
        session.changed();
        let outcome = tokio::select! {
            outcome = settle(&self.held.server, &mut docket, &self.held.unsettled, outcome) => outcome,
            never = async {
                self.stopping.cancelled().await;
                // Nobody is asked any more about a job that is to end.
                cancel.cancel();
                std::future::pending().await
            } => never,
        };
        session.changed();
        self.held.unsettled.context = own;
        Outcome { error: outcome.error.map(going_on), ..outcome }
    }
}

/// Says that a job goes on of which nothing was committed.
fn going_on(error: WireError) -> WireError {
    let message = format!("nothing of the job was committed: {}", error.message);
    WireError { message, ..error }
}

async fn is_over(over: &mut watch::Receiver<bool>) {
    // One who can not say it any more is over, too.
    over.wait_for(|over| *over).await.map(drop).unwrap_or_default();
}
