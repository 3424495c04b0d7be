//! Answers approval requests with a function. Runs in the operator's process.

use crate::{Answer, Error, ErrorCode, Operator, OperatorEvent, Registration};
use palisade_protocol::{ApprovalId, ApprovalRequest};
use std::{collections::HashMap, time::Duration};
use tokio::{
    task::{self, AbortHandle, JoinError, JoinSet},
    time::{Interval, MissedTickBehavior, interval},
};

impl Operator {
    /// Registers this connection as an approver, and answers each approval request with what the
    /// function returns, until the connection ends. Connecting again is up to the caller.
    ///
    /// Requests are decided in parallel. The future of a request that needs no answer any more is
    /// dropped; if the function panics, the request is denied. A heartbeat that the registration
    /// promises is sent. If the future of this method is dropped, the connection stays registered
    /// and what nobody answers is denied: drop the [`Operator`] too, or
    /// [`withdraw`](Self::withdraw).
    ///
    /// ```no_run
    /// use palisade_client::{Answer, Operator, Registration};
    ///
    /// # async fn approve() -> Result<(), palisade_client::Error> {
    /// let operator = Operator::connect("/run/palisade/operator.sock").await?;
    /// let careful = Registration::new("program:careful").tool("bash");
    /// operator
    ///     .handle(careful, |request| async move {
    ///         if request.view.targets.iter().any(|target| target.lost) {
    ///             Answer::deny("nothing that exists may be lost").guidance("write to a new file")
    ///         } else {
    ///             Answer::approve()
    ///         }
    ///     })
    ///     .await
    /// # }
    /// ```
    ///
    /// # Errors
    /// Always: [`Error::Remote`] with the daemon's reason if the registration is refused; otherwise
    /// the reason the connection ended.
    pub async fn handle<F, A>(&self, registration: Registration, decide: F) -> Result<(), Error>
    where
        F: Fn(ApprovalRequest) -> A,
        A: Future<Output = Answer> + Send + 'static,
    {
        let mut beat = registration.promised_heartbeat().map(beat);
        self.register(registration).await?;
        let mut requests = OpenRequests::default();
        loop {
            tokio::select! {
                event = self.next() => match event {
                    Some(OperatorEvent::ApprovalRequest(request)) => {
                        requests.start(*request.clone(), decide(*request));
                    }
                    Some(OperatorEvent::Over(over)) => requests.stop(&over.request),
                    // No other event concerns an approver.
                    Some(_) => {}
                    None => return Err(self.ended()),
                },
                Some(decided) = requests.decisions.join_next_with_id() => {
                    if let Some((request, answer)) = requests.decided(decided) {
                        self.give(&request, answer).await?;
                    }
                }
                () = tick(&mut beat) => self.ping().await?,
            }
        }
    }

    /// Gives an answer. If the daemon refuses it, the request is denied with the reason.
    async fn give(&self, request: &ApprovalRequest, answer: Answer) -> Result<(), Error> {
        let Err(error) = self.answer(request, answer).await else { return Ok(()) };
        if is_settled(&error) {
            return Ok(());
        }
        let Error::Remote(refused) = error else { return Err(error) };
        let denial = Answer::deny(format!("the approver's answer was refused: {refused}"));
        match self.answer(request, denial).await {
            Err(error) if !is_settled(&error) => Err(error),
            Ok(_) | Err(_) => Ok(()),
        }
    }
}

/// Returns `true` if the request needs no answer any more: it is over, or only remembering was
/// refused.
fn is_settled(error: &Error) -> bool {
    error.code() == Some(ErrorCode::StaleApproval) || error.is_remember_refusal()
}

/// Beats twice as often as was promised, so that one may be late.
fn beat(promised: Duration) -> Interval {
    let mut beat = interval((promised / 2).max(Duration::from_millis(1)));
    beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    beat
}

async fn tick(beat: &mut Option<Interval>) {
    match beat {
        Some(beat) => drop(beat.tick().await),
        None => std::future::pending().await,
    }
}

/// The approval requests that the function is deciding.
#[derive(Default)]
struct OpenRequests {
    decisions: JoinSet<Answer>,
    by_task: HashMap<task::Id, ApprovalRequest>,
    handles: HashMap<ApprovalId, AbortHandle>,
}

impl OpenRequests {
    fn start(
        &mut self,
        request: ApprovalRequest,
        decision: impl Future<Output = Answer> + Send + 'static,
    ) {
        let handle = self.decisions.spawn(decision);
        let id = request.id.clone();
        self.by_task.insert(handle.id(), request);
        self.handles.insert(id, handle);
    }

    fn stop(&mut self, request: &ApprovalId) {
        if let Some(handle) = self.handles.remove(request) {
            self.by_task.remove(&handle.id());
            handle.abort();
        }
    }

    /// Returns a request and its answer, unless the request is over.
    fn decided(
        &mut self,
        decided: Result<(task::Id, Answer), JoinError>,
    ) -> Option<(ApprovalRequest, Answer)> {
        let (id, answer) = match decided {
            Ok((id, answer)) => (id, answer),
            Err(error) => (error.id(), Answer::deny("the approver's function panicked")),
        };
        let request = self.by_task.remove(&id)?;
        self.handles.remove(&request.id);
        Some((request, answer))
    }
}
