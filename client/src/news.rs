//! The queue of events for operators and observers, between the task that reads the socket and the
//! caller that asks for the next event. Runs in the operator's process.

use palisade_protocol::{
    Approval, ApprovalClosed, ApprovalGiven, ApprovalRequest, CallEnded, CallId, CallStarted,
    Denied, Event, SessionId, Stream,
};
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};
use tokio::sync::mpsc;

/// The maximum number of events about calls that may wait. Approval requests are never dropped: the
/// daemon limits their number.
const BACKLOG: u64 = 4096;

/// The maximum number of output bytes in the waiting events.
const BACKLOG_BYTES: u64 = 8 * 1024 * 1024;

/// An event for an operator or an observer. Only an operator gets approval requests.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum OperatorEvent {
    /// To an approver: an approval request to answer.
    ApprovalRequest(Box<ApprovalRequest>),
    /// To an approver that was asked: no answer is needed any more.
    Over(ApprovalClosed),
    /// To an approver that was asked: one has approved, and others still must.
    Approved(ApprovalGiven),
    /// To subscribers: the decision on an approval request.
    Approval(Approval),
    /// To subscribers: a call begins.
    CallStarted(CallStarted),
    /// To subscribers: a call has ended.
    CallEnded(CallEnded),
    /// To subscribers: a call was denied.
    Denied(Denied),
    /// To subscribers: a piece of a call's output, in order of arrival.
    CallOutput {
        /// The call's session.
        session: SessionId,
        /// The call's id.
        call_id: CallId,
        /// The stream it belongs to.
        stream: Stream,
        /// The bytes; a character may be cut between two pieces.
        data: Vec<u8>,
    },
    /// Events about calls that were dropped because nobody read them. Approval requests are never
    /// dropped.
    Lost {
        /// The number of dropped events.
        events: u64,
        /// The number of output bytes in the dropped events.
        bytes: u64,
    },
}

#[derive(Debug, Default)]
struct Counts {
    waiting: AtomicU64,
    waiting_bytes: AtomicU64,
    lost: AtomicU64,
    lost_bytes: AtomicU64,
}

/// The sending side, used by the task that reads the socket.
#[derive(Debug)]
pub(crate) struct NewsSender {
    queue: mpsc::UnboundedSender<OperatorEvent>,
    counts: Arc<Counts>,
}

/// The receiver of a connection's events that belong to none of its calls.
#[derive(Debug)]
pub(crate) enum Sink {
    /// The queue of events for an operator or observer.
    Operator(NewsSender),
    /// The loop that serves invocations. The daemon limits their number.
    Provider(mpsc::UnboundedSender<Event>),
}

impl Sink {
    /// Takes the events that are for this receiver. Returns the events of the connection's own
    /// calls.
    pub(crate) fn take(&self, event: Event) -> Option<Event> {
        match self {
            Self::Operator(news) => news.take(event),
            Self::Provider(queue) => {
                // A provider that is gone needs no events.
                drop(queue.send(event));
                None
            }
        }
    }
}

/// The receiving side.
#[derive(Debug)]
pub(crate) struct NewsReceiver {
    queue: mpsc::UnboundedReceiver<OperatorEvent>,
    counts: Arc<Counts>,
}

pub(crate) fn channel() -> (NewsSender, NewsReceiver) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let counts = Arc::new(Counts::default());
    (
        NewsSender { queue: sender, counts: Arc::clone(&counts) },
        NewsReceiver { queue: receiver, counts },
    )
}

impl OperatorEvent {
    fn bytes(&self) -> u64 {
        match self {
            Self::CallOutput { data, .. } => data.len() as u64,
            Self::ApprovalRequest(_)
            | Self::Over(_)
            | Self::Approved(_)
            | Self::Approval(_)
            | Self::CallStarted(_)
            | Self::CallEnded(_)
            | Self::Denied(_)
            | Self::Lost { .. } => 0,
        }
    }
}

impl Counts {
    fn has_room(&self, bytes: u64) -> bool {
        self.waiting.load(Ordering::Relaxed) < BACKLOG
            && self.waiting_bytes.load(Ordering::Relaxed) + bytes <= BACKLOG_BYTES
    }

    fn lose(&self, events: u64, bytes: u64) {
        self.lost.fetch_add(events, Ordering::Relaxed);
        self.lost_bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}

impl NewsSender {
    /// Takes the events for operators and observers. Returns the events of the connection's own
    /// calls.
    pub(crate) fn take(&self, event: Event) -> Option<Event> {
        let (event, bounded) = match event {
            Event::ApprovalRequest(request) => (OperatorEvent::ApprovalRequest(request), false),
            Event::ApprovalClosed(over) => (OperatorEvent::Over(over), false),
            Event::ApprovalGiven(approved) => (OperatorEvent::Approved(approved), false),
            Event::ToolApproval(approval) => (OperatorEvent::Approval(approval), true),
            Event::CallStarted(started) => (OperatorEvent::CallStarted(started), true),
            Event::CallEnded(ended) => (OperatorEvent::CallEnded(ended), true),
            Event::Denied(denied) => (OperatorEvent::Denied(denied), true),
            Event::CallOutput { session, call_id, stream, data } => {
                (OperatorEvent::CallOutput { session, call_id, stream, data: data.0 }, true)
            }
            Event::Lost { events, bytes } => (OperatorEvent::Lost { events, bytes }, true),
            Event::Output { .. }
            | Event::Progress { .. }
            | Event::Invoke(_)
            | Event::InvokeCancelled(_) => return Some(event),
        };
        let bytes = event.bytes();
        if bounded && !self.counts.has_room(bytes) {
            match event {
                OperatorEvent::Lost { events, bytes } => self.counts.lose(events, bytes),
                OperatorEvent::CallOutput { .. }
                | OperatorEvent::ApprovalRequest(_)
                | OperatorEvent::Over(_)
                | OperatorEvent::Approved(_)
                | OperatorEvent::Approval(_)
                | OperatorEvent::CallStarted(_)
                | OperatorEvent::CallEnded(_)
                | OperatorEvent::Denied(_) => self.counts.lose(1, bytes),
            }
            return None;
        }
        self.counts.waiting.fetch_add(1, Ordering::Relaxed);
        self.counts.waiting_bytes.fetch_add(bytes, Ordering::Relaxed);
        // A receiver that is gone needs no events.
        drop(self.queue.send(event));
        None
    }
}

impl NewsReceiver {
    /// Returns the next event; `None` once the connection has ended.
    pub(crate) async fn next(&mut self) -> Option<OperatorEvent> {
        match self.counts.lost.swap(0, Ordering::Relaxed) {
            0 => {}
            events => {
                let bytes = self.counts.lost_bytes.swap(0, Ordering::Relaxed);
                return Some(OperatorEvent::Lost { events, bytes });
            }
        }
        let event = self.queue.recv().await?;
        self.counts.waiting.fetch_sub(1, Ordering::Relaxed);
        self.counts.waiting_bytes.fetch_sub(event.bytes(), Ordering::Relaxed);
        Some(event)
    }
}
