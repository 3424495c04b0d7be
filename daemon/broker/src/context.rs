//! What a call needs besides its task: its session, its client, its deadline. Broker.

use crate::{
    attachment::Attachment,
    diagnose::tap::Tap,
    error::CallError,
    observers::{Audience, Observers},
    outbox::ToClient,
    session::Session,
    spool::Spools,
};
use palisade_protocol::{Bytes, CallId, Event, RequestId, ServerMessage, Stream};
use std::{sync::Arc, time::Duration};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

/// Whether output goes to the client as it comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Streaming {
    Live,
    ResultOnly,
}

/// What a call needs besides its task.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) session: Arc<Session>,
    pub(crate) spools: Spools,
    pub(crate) call_id: CallId,
    pub(crate) request: RequestId,
    pub(crate) cancel: CancellationToken,
    pub(crate) client: ToClient,
    pub(crate) streaming: Streaming,
    pub(crate) input: Option<Attachment>,
    /// Who hears all that a program prints, besides the client.
    pub(crate) tap: Option<Tap>,
    pub(crate) observers: Arc<Observers>,
    /// Who of the observers may hear what it prints, as it comes.
    pub(crate) audience: Audience,
}

/// A time on the monotonic clock by which a call must be over.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadline {
    pub(crate) at: Instant,
    pub(crate) after: Duration,
}

impl Deadline {
    /// Counts from now.
    pub(crate) fn after(after: Duration) -> Self {
        Self { at: Instant::now() + after, after }
    }

    pub(crate) const fn error(&self) -> CallError {
        CallError::TimedOut(self.after.as_millis())
    }
}

impl Context {
    /// Refuses to run what its user has no room to keep the output of.
    pub(crate) async fn room_for_output(&self) -> Result<(), CallError> {
        let profile = &self.session.profile;
        let least = profile.output_bytes().min(profile.spool_bytes());
        let room = self.spools.check(self.session.uid(), least).await;
        room.map_err(|full| CallError::Refused(full.into()))
    }

    /// Tells observers of a piece of output; those who are behind miss it.
    pub(crate) fn show(&self, stream: Stream, data: &[u8]) {
        self.observers.tell_of(&self.session.id, self.audience, || Event::CallOutput {
            session: self.session.id.clone(),
            call_id: self.call_id.clone(),
            stream,
            data: Bytes(data.to_vec()),
        });
    }

    /// Sends a piece of output as an event; waits while the client is slow.
    pub(crate) async fn send(&self, stream: Stream, data: Vec<u8>) {
        let event = Event::Output { call: self.request, stream, data: Bytes(data) };
        // A client that is gone takes its calls with it.
        self.client.send(ServerMessage::Event(event)).await.ok();
    }

    /// Says how far the call is, to a client that wants to know and has room for it.
    pub(crate) fn tell(&self, message: &str, done: u64) {
        self.progress(message, done, None);
    }

    /// The same where it is known how far it goes.
    pub(crate) fn progress(&self, message: &str, done: u64, total: Option<u64>) {
        if self.streaming == Streaming::Live {
            let (call, message) = (self.request, message.to_owned());
            let event = Event::Progress { call, message, done, total };
            // One that is behind with what it reads learns the next.
            self.client.try_send(ServerMessage::Event(event)).ok();
        }
    }

    /// The same for a program of the call whose output is heard and not streamed.
    pub(crate) fn listening(&self, tap: Tap) -> Self {
        Self { tap: Some(tap), ..self.alone() }
    }

    /// The same for what is left to do when the call was answered: it can not be cancelled.
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
            input: None,
            tap: None,
            observers: Arc::clone(&self.observers),
            audience: Audience::Nobody,
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
