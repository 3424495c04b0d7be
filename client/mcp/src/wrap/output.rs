//! The server's output: read from its job, bounded, and told apart. Requests of the server are
//! answered here; they never reach the agent.

use super::{
    flow::{LineBuffer, MessageRate},
    input::{Outgoing, explain_result},
    message::{RpcError, RpcMessage, printable},
};
use crate::{activity::Activity, explain::explain};
use palisade_client::{ErrorCode, JobStatus, Session};
use serde_json::{Map, Value, json};
use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};
use tokio::sync::{mpsc, watch};

/// The file inside the session that holds the server's standard error.
pub(super) const STDERR: &str = "/tmp/palisade-mcp-server.stderr";

/// The time that one call waits for output. Profiles allow ten minutes at most.
const WAIT: Duration = Duration::from_secs(590);

/// The number of characters of the standard error that are reported, and the bytes that hold them.
const MAX_STDERR: usize = 600;
const STDERR_BYTES: &str = "600";

/// The maximum number of kinds of messages that are reported as not passed on.
const MAX_REPORTED: usize = 20;

/// Something that the server did.
#[derive(Debug)]
pub(super) enum ServerEvent {
    Answer {
        id: Value,
        outcome: Result<Value, RpcError>,
    },
    Progress(Map<String, Value>),
    ToolsChanged,
    /// A message to the server was denied. The server runs on.
    Denied {
        request: Option<u64>,
        why: String,
    },
    /// The server has ended, or is not to be relied on any more.
    Ended(String),
}

/// The reader of one server's output.
pub(super) struct OutputReader {
    pub(super) name: String,
    pub(super) session: Session,
    pub(super) job: u64,
    pub(super) events: mpsc::Sender<ServerEvent>,
    pub(super) writer: mpsc::Sender<Outgoing>,
    /// The kinds of messages that were reported as not passed on.
    pub(super) reported: BTreeSet<String>,
}

impl OutputReader {
    /// Reads until the server ends or breaks a limit.
    pub(super) async fn run(mut self) {
        let why = self.read().await;
        // If nobody waits for it, the server is being ended.
        self.events.send(ServerEvent::Ended(why)).await.unwrap_or_default();
    }

    /// Reads all output; returns why there is no more.
    async fn read(&mut self) -> String {
        let (mut cursor, mut buffer) = (0, LineBuffer::default());
        let mut rate = MessageRate::new(Instant::now());
        loop {
            let output = self.session.job_output(self.job).cursor(cursor).wait(WAIT).timeout(WAIT);
            let result = match output.await {
                Ok(result) if result.success => result,
                Ok(result) => return explain_result(&result),
                Err(error) => return explain(&error),
            };
            let Some(status) = JobStatus::of(&result) else {
                return "the daemon's answer is not understood".to_owned();
            };
            if status.omitted_bytes > 0 {
                return ended_because(format!(
                    "{} bytes of its output were lost",
                    status.omitted_bytes
                ));
            }
            cursor = status.cursor;
            let lines = match buffer.push(&result.output) {
                Ok(lines) => lines,
                Err(error) => return ended_because(error),
            };
            for line in lines {
                if let Err(error) = rate.count(Instant::now()) {
                    return ended_because(error);
                }
                self.take(&line).await;
            }
            if status.has_ended() && !status.more {
                return self.end(&status).await;
            }
        }
    }

    async fn take(&mut self, line: &str) {
        let event = match RpcMessage::parse(line.as_bytes()) {
            Ok(None) => return,
            Ok(Some(RpcMessage::Response { id, outcome })) => ServerEvent::Answer { id, outcome },
            Ok(Some(RpcMessage::Request { id, method, .. })) => {
                return self.refuse(id, &method).await;
            }
            Ok(Some(RpcMessage::Notification { method, params })) => match method.as_str() {
                "notifications/progress" => ServerEvent::Progress(params),
                "notifications/tools/list_changed" => ServerEvent::ToolsChanged,
                _ => return self.report(&format!("its {method}")),
            },
            Err(_) => return self.report("lines on its standard output that are no messages"),
        };
        // If nobody waits for it, the server is being ended.
        self.events.send(event).await.unwrap_or_default();
    }

    /// Answers a request of the server: a ping with an answer, everything else with an error.
    async fn refuse(&mut self, id: Value, method: &str) {
        let outcome = if method == "ping" {
            Ok(json!({}))
        } else {
            self.report(&format!("its request {method}"));
            let method = printable(method, 100);
            let why = format!(
                "{method} is refused: this server runs confined by palisade mcp wrap, which passes no \
                 request of a server on"
            );
            Err(RpcError::new(RpcError::UNKNOWN_METHOD, why))
        };
        let line = RpcMessage::Response { id, outcome }.to_line();
        let reason = format!("MCP server {}: the answer to its request", self.name);
        let told = watch::Sender::new(Activity::Running);
        let answer = Outgoing { tool: None, request: None, line, reason, told };
        // If the writer is gone, the server is being ended.
        self.writer.send(answer).await.unwrap_or_default();
    }

    /// Says once what is not passed on.
    fn report(&mut self, what: &str) {
        let what = printable(what, 100);
        if self.reported.len() < MAX_REPORTED && self.reported.insert(what.clone()) {
            eprintln!("note: MCP server {}: not passed on: {what}", self.name);
        }
    }

    /// Says how the server ended, with the end of its standard error.
    async fn end(&self, status: &JobStatus) -> String {
        let mut why = match (status.exit_code, status.signal) {
            (_, Some(signal)) => format!("it was ended by signal {signal}"),
            (Some(code), None) => format!("it ended with status {code}"),
            (None, None) => "it ended".to_owned(),
        };
        if status.oom {
            why.push_str(" because memory ran out");
        }
        match (&status.error, &status.transaction) {
            (Some(error), _) if error.code != ErrorCode::CommandFailed => {
                why.push_str(&format!("; {}", error.message));
            }
            (_, Some(changes)) if changes.committed && !changes.effects.is_empty() => {
                why.push_str("; what it had changed was committed at its end");
            }
            _ => {}
        }
        let tail = self.session.exec(["tail", "-c", STDERR_BYTES, STDERR]).await;
        match tail {
            Ok(result) if !result.output.trim().is_empty() => {
                why.push_str(&format!(
                    "; it wrote: {}",
                    printable(result.output.trim(), MAX_STDERR)
                ));
            }
            Ok(_) | Err(_) => {}
        }
        why
    }
}

/// Says why this relay ends a server that runs.
pub(super) fn ended_because(why: impl std::fmt::Display) -> String {
    format!("{why}; so it was ended, and what it had changed since the last call was discarded")
}
