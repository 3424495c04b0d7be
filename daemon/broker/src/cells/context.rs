//! The context of a call: its session, its client, its deadline. Runs in the broker.

use crate::{
    base::{attachment::Attachment, error::CallError, outbox::ClientOutbox, results::CallRoom},
    cells::session::Session,
    stores::spool::Spools,
    telemetry::observers::{EventAudience, Observers},
};
use palisade_protocol::{
    Bytes, CallId, Event, RequestId, ServerMessage, Stream, WAITING_FOR_APPROVAL,
};
use std::{sync::Arc, time::Duration};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

/// The time at which output is sent to the client: as it is produced, or only with the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Streaming {
    Live,
    ResultOnly,
}

/// The reports of a call's progress that its client gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProgressReports {
    /// All of them, and that the call waits for approval.
    All,
    /// Only that the call waits for approval.
    Approval,
    /// Those of a call whose output is streamed.
    WithOutput,
}

/// Receives the whole output of a program, while the result keeps only its head and tail.
pub(crate) trait OutputTap: std::fmt::Debug + Send + Sync {
    /// Receives a piece of output.
    fn receive(&self, stream: Stream, bytes: &[u8]);
}

/// The context of a call: everything that it needs besides its task.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) session: Arc<Session>,
    pub(crate) spools: Spools,
    pub(crate) call_id: CallId,
    pub(crate) request: RequestId,
    pub(crate) cancel: CancellationToken,
    pub(crate) client: ClientOutbox,
    pub(crate) streaming: Streaming,
    pub(crate) reports: ProgressReports,
    pub(crate) input: Option<Attachment>,
    /// A receiver of everything that a program prints, besides the client.
    pub(crate) tap: Option<Arc<dyn OutputTap>>,
    pub(crate) observers: Arc<Observers>,
    /// The observers that may see the output as it is produced.
    pub(crate) audience: EventAudience,
    /// The room for its result in the daemon's memory.
    pub(crate) room: CallRoom,
}

/// The time on the monotonic clock by which a call must be over.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadline {
    pub(crate) at: Instant,
    pub(crate) after: Duration,
}

impl Deadline {
    /// A deadline counted from now.
    pub(crate) fn after(after: Duration) -> Self {
        Self { at: Instant::now() + after, after }
    }

    pub(crate) const fn error(&self) -> CallError {
        CallError::TimedOut(self.after.as_millis())
    }
}

impl Context {
    /// Denies a call of a user whose quota has no room for its output.
    pub(crate) async fn room_for_output(&self) -> Result<(), CallError> {
        let profile = &self.session.profile;
        let least = profile.output_bytes().min(profile.spool_bytes());
        let room = self.spools.check(self.session.uid(), least).await;
        room.map_err(|full| CallError::Refused(full.into()))
    }

    /// Sends a piece of output to observers; those that are behind miss it.
    pub(crate) fn show(&self, stream: Stream, data: &[u8]) {
        self.observers.send_to(&self.session.id, self.audience, || Event::CallOutput {
            session: self.session.id.clone(),
            call_id: self.call_id.clone(),
            stream,
            data: Bytes(data.to_vec()),
        });
    }

    /// Sends a piece of output to the client as an event; waits while the client is slow.
    pub(crate) async fn send(&self, stream: Stream, data: Vec<u8>) {
        let event = Event::Output { call: self.request, stream, data: Bytes(data) };
        // The calls of a client that is gone are ended anyway.
        self.client.send(ServerMessage::Event(event)).await.ok();
    }

    /// Reports progress to a client that asked for it and has room for it.
    pub(crate) fn tell(&self, message: &str, done: u64) {
        self.progress(message, done, None);
    }

    /// Reports progress like [`tell`](Self::tell), with the total if it is known.
    pub(crate) fn progress(&self, message: &str, done: u64, total: Option<u64>) {
        if self.streaming == Streaming::Live || self.reports == ProgressReports::All {
            self.send_progress(message, done, total);
        }
    }

    fn send_progress(&self, message: &str, done: u64, total: Option<u64>) {
        let (call, message) = (self.request, message.to_owned());
        let event = Event::Progress { call, message, done, total };
        // A client that is behind gets the next report.
        self.client.try_send(ServerMessage::Event(event)).ok();
    }

    /// Tells a client that wants to know that the call waits for approval, the time after which it is
    /// denied, and the number of approvals that were given.
    pub(crate) fn tell_waiting(&self, left: Duration, approvals: u64) {
        if self.reports != ProgressReports::WithOutput {
            let left = u64::try_from(left.as_millis()).unwrap_or(u64::MAX);
            self.send_progress(WAITING_FOR_APPROVAL, approvals, Some(left));
        }
    }

    /// Tells such a client that the call does not wait for approval any more.
    pub(crate) fn tell_decided(&self) {
        if self.reports != ProgressReports::WithOutput {
            self.send_progress("approval was decided on", 0, None);
        }
    }

    /// Stops the reports that are output. That the call waits for approval is not.
    pub(crate) fn hide_output(&mut self) {
        self.streaming = Streaming::ResultOnly;
        self.reports = match self.reports {
            ProgressReports::All | ProgressReports::Approval => ProgressReports::Approval,
            ProgressReports::WithOutput => ProgressReports::WithOutput,
        };
        self.audience = EventAudience::Operators;
    }

    /// The context for the review of the call's output.
    pub(crate) fn for_review(&self) -> Self {
        Self { reports: self.reports, ..self.alone() }
    }

    /// The context for a program whose output goes to `tap` and is not streamed.
    pub(crate) fn listening(&self, tap: Arc<dyn OutputTap>) -> Self {
        Self { tap: Some(tap), ..self.alone() }
    }

    /// The context for work after the call was answered: it can not be cancelled.
    pub(crate) fn outliving(&self) -> Self {
        Self { cancel: CancellationToken::new(), ..self.alone() }
    }

    fn alone(&self) -> Self {
        Self {
            session: Arc::clone(&self.session),
            spools: self.spools.clone(),
            call_id: self.call_id.clone(),
            request: self.request,
            cancel: self.cancel.clone(),
            client: self.client.clone(),
            streaming: Streaming::ResultOnly,
            reports: ProgressReports::WithOutput,
            input: None,
            tap: None,
            observers: Arc::clone(&self.observers),
            audience: EventAudience::Nobody,
            room: self.room.clone(),
        }
    }

    /// Returns when the call must stop, with the reason.
    pub(crate) async fn stopped(cancel: &CancellationToken, deadline: Deadline) -> CallError {
        tokio::select! {
            () = cancel.cancelled() => CallError::Cancelled,
            () = sleep_until(deadline.at) => deadline.error(),
        }
    }
}
