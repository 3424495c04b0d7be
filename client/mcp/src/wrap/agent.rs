//! The agent's side: its requests in order, and the answers to it.

use super::message::{MAX_MESSAGE, RpcError, RpcMessage};
use crate::lines::{InputLine, LineReader};
use serde_json::{Map, Value, json};
use std::{collections::VecDeque, sync::Arc};
use tokio::{
    io::{AsyncWriteExt as _, Stdin, Stdout},
    sync::{Mutex, mpsc},
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
}

/// The agent's end of the output.
#[derive(Debug)]
pub(super) struct AgentWriter {
    output: Mutex<Stdout>,
}

impl AgentWriter {
    pub(super) fn new() -> Self {
        Self { output: Mutex::new(tokio::io::stdout()) }
    }

    /// Sends a message. An agent that does not read any more is noticed by the end of its input.
    pub(super) async fn send(&self, message: &RpcMessage) {
        let line = message.to_line();
        let mut output = self.output.lock().await;
        if output.write_all(line.as_bytes()).await.is_ok() {
            output.flush().await.unwrap_or_default();
        }
    }

    /// Answers a request.
    pub(super) async fn answer(&self, id: Value, outcome: Result<Value, RpcError>) {
        self.send(&RpcMessage::Response { id, outcome }).await;
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
                let request = AgentRequest { id, method, params, cancelled };
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
