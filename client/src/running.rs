//! A running call: its events, its result, its cancellation.

use crate::{Error, link::Link, table::ReplyResult};
use palisade_protocol::{CallResult, Event as WireEvent, Reply, RequestId, Stream};
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};
use tokio::{
    sync::{mpsc, oneshot},
    task::AbortHandle,
};

/// An event of a running call.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// A piece of output, in order of arrival.
    Output {
        /// The stream it belongs to.
        stream: Stream,
        /// The bytes; a character may be cut between two pieces.
        data: Vec<u8>,
    },
    /// The progress of a long call.
    Progress {
        /// The current activity.
        message: String,
        /// Units done.
        done: u64,
        /// Units in total, if known.
        total: Option<u64>,
    },
    /// Output that was not delivered, because this call's events were not read while others waited.
    /// Always the last event. The result and the stored output are complete.
    Lost {
        /// The number of bytes that were not delivered.
        bytes: u64,
    },
}

impl Event {
    /// Converts an event of one of this connection's calls; `None` for events to observers and
    /// operators.
    pub(crate) fn from_wire(event: WireEvent) -> Option<(RequestId, Self)> {
        match event {
            WireEvent::Output { call, stream, data } => {
                Some((call, Self::Output { stream, data: data.0 }))
            }
            WireEvent::Progress { call, message, done, total } => {
                Some((call, Self::Progress { message, done, total }))
            }
            WireEvent::ApprovalRequest(_)
            | WireEvent::ApprovalClosed(_)
            | WireEvent::ApprovalGiven(_)
            | WireEvent::ToolApproval(_)
            | WireEvent::CallStarted(_)
            | WireEvent::CallEnded(_)
            | WireEvent::Denied(_)
            | WireEvent::Invoke(_)
            | WireEvent::InvokeCancelled(_)
            | WireEvent::CallOutput { .. }
            | WireEvent::Lost { .. } => None,
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Output { data, .. } => data.len(),
            Self::Progress { .. } | Self::Lost { .. } => 0,
        }
    }
}

/// A running call, made by [`Call::start`](crate::Call::start). Dropping it cancels the call.
///
/// The events of a streaming call wait in a queue of fixed length. When the queue is full, the
/// connection stops reading, and eventually the program that prints blocks. So a slow reader slows
/// its own command, and nothing is lost.
///
/// But the connection is shared. If other requests wait on it and the queue stays full for a
/// second, the stream of this call is cut. Events in the queue are still delivered, the rest is
/// only counted, and the last event is [`Event::Lost`].
#[derive(Debug)]
pub struct Running {
    link: Arc<Link>,
    id: RequestId,
    answer: oneshot::Receiver<ReplyResult>,
    events: Option<mpsc::Receiver<Event>>,
    lost: Arc<AtomicU64>,
    outcome: Option<ReplyResult>,
    feeder: Option<AbortHandle>,
}

impl Running {
    pub(crate) fn new(
        link: Arc<Link>,
        entered: crate::table::PendingRequest,
        events: Option<mpsc::Receiver<Event>>,
    ) -> Self {
        let crate::table::PendingRequest { id, answer, lost } = entered;
        Self { link, id, answer, events, lost, outcome: None, feeder: None }
    }

    pub(crate) const fn id(&self) -> RequestId {
        self.id
    }

    pub(crate) fn fed_by(&mut self, feeder: AbortHandle) {
        self.feeder = Some(feeder);
    }

    /// Returns the next event; `None` once the call has ended and all events were delivered.
    /// Without [`Call::stream`](crate::Call::stream) or [`Call::progress`](crate::Call::progress)
    /// there are no events, and this waits for the end of the call.
    pub async fn next(&mut self) -> Option<Event> {
        if let Some(events) = &mut self.events {
            if let Some(event) = events.recv().await {
                return Some(event);
            }
            self.events = None;
        }
        self.settle().await;
        match self.lost.swap(0, Ordering::Relaxed) {
            0 => None,
            bytes => Some(Event::Lost { bytes }),
        }
    }

    /// Waits for the result. Events that were not read yet are dropped.
    ///
    /// # Errors
    /// [`Error::Remote`] if the call could not be made at all, [`Error::Disconnected`] if the
    /// connection ended first. A call that was made and failed is a result.
    pub async fn result(mut self) -> Result<CallResult, Error> {
        self.events = None;
        self.settle().await;
        match self.outcome.take() {
            Some(Ok(Reply::Result(result))) => Ok(self.link.with_receipt(*result)),
            Some(Ok(Reply::Error(error))) => Err(Error::Remote(error)),
            Some(Ok(_)) => Err(Error::Protocol("a call was answered without a result".to_owned())),
            Some(Err(error)) => Err(error),
            None => Err(self.link.table.ended()),
        }
    }

    /// Requests the end of the call without waiting for it. Events keep coming until then, and the
    /// result has `cancelled` set. Cancelling a call that has ended is not an error.
    ///
    /// # Errors
    /// If the connection is gone, and with it the call.
    pub async fn cancel(&self) -> Result<(), Error> {
        self.link.cancel(self.id)
    }

    async fn settle(&mut self) {
        if self.outcome.is_none() {
            self.outcome = Some(match (&mut self.answer).await {
                Ok(answer) => answer,
                Err(_) => Err(self.link.table.ended()),
            });
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(feeder) = &self.feeder {
            feeder.abort();
        }
        // If the connection is gone, the call has ended with it.
        drop(self.link.cancel(self.id));
    }
}
