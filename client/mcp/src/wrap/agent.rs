//! The agent's side: its requests in order, and the answers to it.

use super::message::{MAX_MESSAGE, RpcError, RpcMessage};
use crate::{
    activity::Activity,
    lines::{InputLine, LineReader},
    served_call::ServedCall,
};
use serde_json::{Map, Value, json};
use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex as StdMutex, PoisonError},
};
use tokio::{
    io::{AsyncWriteExt as _, Stdin, Stdout},
    sync::{Mutex, mpsc, oneshot, watch},
};
use tokio_util::sync::CancellationToken;

/// The number of requests that are remembered so that they can be cancelled. It is more than can
/// wait at once.
const REMEMBERED: usize = 2 * super::MAX_QUEUED;

/// A request of the agent.
#[derive(Debug)]
pub(super) struct AgentRequest {
    pub(super) id: Value,
    pub(super) method: String,
    pub(super) params: Map<String, Value>,
    /// Cancelled when the agent wants no answer any more.
    pub(super) cancelled: CancellationToken,
    /// The call of a client for which it is made.
    pub(super) served: ServedCall,
}

/// The answer to a request.
pub(super) type AgentAnswer = Result<Value, RpcError>;

/// The way of messages to the agent.
#[derive(Debug)]
pub(super) enum AgentWriter {
    /// To the agent, as lines of standard output.
    Lines(Mutex<Stdout>),
    /// To the requests of this process, by their numbers.
    Inner(StdMutex<InnerRequests>),
}

/// The requests of this process that have no answer yet, by their numbers.
#[derive(Debug)]
pub(super) struct InnerRequests {
    waiting: HashMap<u64, InnerRequest>,
    /// The activity of requests that wait for their turn.
    queued: Activity,
}

/// A request of this process that has no answer yet.
#[derive(Debug)]
struct InnerRequest {
    answer: oneshot::Sender<AgentAnswer>,
    /// Hears what the request does while it waits for its turn; `None` from its turn on.
    queued: Option<watch::Sender<Activity>>,
}

impl AgentWriter {
    pub(super) fn new() -> Self {
        Self::Lines(Mutex::new(tokio::io::stdout()))
    }

    /// Makes one for requests of this process.
    pub(super) fn inner() -> Self {
        // The server is not started before the first request.
        let (waiting, queued) = (HashMap::new(), Activity::StartingServer);
        Self::Inner(StdMutex::new(InnerRequests { waiting, queued }))
    }

    /// Returns the answer to a request of this process, when it comes. Tells what the request does until
    /// its turn comes.
    pub(super) fn expect(
        &self,
        id: u64,
        told: &watch::Sender<Activity>,
    ) -> oneshot::Receiver<AgentAnswer> {
        let (sender, answer) = oneshot::channel();
        if let Self::Inner(requests) = self {
            let mut requests = requests.lock().unwrap_or_else(PoisonError::into_inner);
            told.send_replace(requests.queued);
            let request = InnerRequest { answer: sender, queued: Some(told.clone()) };
            requests.waiting.insert(id, request);
        }
        answer
    }

    /// Notes that it is the turn of a request, which says from here on what it does.
    pub(super) fn take(&self, id: &Value) {
        let Self::Inner(requests) = self else { return };
        let mut requests = requests.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(request) = id.as_u64().and_then(|id| requests.waiting.get_mut(&id)) {
            request.queued = None;
        }
    }

    /// Tells the requests that wait for their turn, also later ones, what they do meanwhile.
    pub(super) fn tell_queued(&self, activity: Activity) {
        let Self::Inner(requests) = self else { return };
        let mut requests = requests.lock().unwrap_or_else(PoisonError::into_inner);
        requests.queued = activity;
        for told in requests.waiting.values().filter_map(|request| request.queued.as_ref()) {
            told.send_replace(activity);
        }
    }

    /// Drops the answer to a request of this process.
    pub(super) fn forget(&self, id: u64) {
        if let Self::Inner(requests) = self {
            requests.lock().unwrap_or_else(PoisonError::into_inner).waiting.remove(&id);
        }
    }

    /// Sends a message. An agent that does not read any more is noticed by the end of its input.
    /// Requests of this process need no news of their progress.
    pub(super) async fn send(&self, message: &RpcMessage) {
        let Self::Lines(output) = self else { return };
        let line = message.to_line();
        let mut output = output.lock().await;
        if output.write_all(line.as_bytes()).await.is_ok() {
            output.flush().await.unwrap_or_default();
        }
    }

    /// Answers a request.
    pub(super) async fn answer(&self, id: Value, outcome: AgentAnswer) {
        match self {
            Self::Lines(_) => self.send(&RpcMessage::Response { id, outcome }).await,
            Self::Inner(requests) => {
                let mut requests = requests.lock().unwrap_or_else(PoisonError::into_inner);
                let request = id.as_u64().and_then(|id| requests.waiting.remove(&id));
                if let Some(request) = request {
                    // Whoever waited may be gone.
                    request.answer.send(outcome).unwrap_or_default();
                }
            }
        }
    }
}

/// Reads the agent's messages.
#[derive(Debug)]
pub(super) struct AgentReader {
    lines: LineReader<Stdin>,
    agent: Arc<AgentWriter>,
    queue: mpsc::Sender<AgentRequest>,
    /// The last requests, so that they can be cancelled.
    recent: VecDeque<(Value, CancellationToken)>,
}

impl AgentReader {
    pub(super) fn new(agent: Arc<AgentWriter>, queue: mpsc::Sender<AgentRequest>) -> Self {
        let lines = LineReader::new(tokio::io::stdin(), MAX_MESSAGE);
        Self { lines, agent, queue, recent: VecDeque::new() }
    }

    /// Reads until the end of the input.
    pub(super) async fn run(mut self) {
        loop {
            let message = match self.lines.next().await {
                InputLine::End => return,
                InputLine::Whole(line) => RpcMessage::parse(&line),
                InputLine::TooLong => Err(RpcError::new(
                    RpcError::INVALID_REQUEST,
                    format!("the message is longer than {MAX_MESSAGE} bytes"),
                )),
            };
            match message {
                Ok(None) => {}
                Ok(Some(message)) => self.take(message).await,
                Err(error) => self.agent.answer(Value::Null, Err(error)).await,
            }
        }
    }

    async fn take(&mut self, message: RpcMessage) {
        match message {
            RpcMessage::Request { id, method, .. } if method == "ping" => {
                self.agent.answer(id, Ok(json!({}))).await;
            }
            RpcMessage::Request { id, method, params } => {
                let cancelled = CancellationToken::new();
                self.recent.push_back((id.clone(), cancelled.clone()));
                if self.recent.len() > REMEMBERED {
                    self.recent.pop_front();
                }
                let served = ServedCall::none();
                let request = AgentRequest { id, method, params, cancelled, served };
                if let Err(mpsc::error::TrySendError::Full(request)) = self.queue.try_send(request)
                {
                    let message = format!(
                        "{} requests already wait for the server; wait for their answers",
                        super::MAX_QUEUED
                    );
                    self.agent.answer(request.id, Err(RpcError::of_server(message))).await;
                }
            }
            RpcMessage::Notification { method, params } if method == "notifications/cancelled" => {
                let named = params.get("requestId");
                let is_it = |(id, _): &&(Value, CancellationToken)| Some(id) == named;
                if let Some((_, cancelled)) = self.recent.iter().rev().find(is_it) {
                    cancelled.cancel();
                }
            }
            // No other notification concerns the server, and nothing was asked of the agent.
            RpcMessage::Notification { .. } | RpcMessage::Response { .. } => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_in_the_queue_waits_for_the_server_unless_one_runs() {
        let agent = AgentWriter::inner();
        let told = [(); 3].map(|()| watch::Sender::new(Activity::Running));
        let heard = || told.each_ref().map(|told| *told.borrow());
        let _answers = [agent.expect(1, &told[0]), agent.expect(2, &told[1])];
        let (running, starting) = (Activity::Running, Activity::StartingServer);
        assert_eq!(heard(), [starting, starting, running]);
        // It speaks for itself once it is its turn.
        agent.take(&json!(1));
        told[0].send_replace(Activity::WaitingForApproval);
        agent.tell_queued(running);
        assert_eq!(heard(), [Activity::WaitingForApproval, running, running]);
        // The server has ended.
        agent.tell_queued(starting);
        assert_eq!(heard(), [Activity::WaitingForApproval, starting, running]);
        let _answer = agent.expect(3, &told[2]);
        assert_eq!(heard()[2], starting);
        agent.forget(2);
        agent.tell_queued(running);
        assert_eq!(heard()[1..], [starting, running], "nobody waits for the second one");
    }
}
