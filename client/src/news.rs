//! What operators and observers hear on a connection, between the task that reads the socket and
//! whoever asks for it next. Runs in the operator's process.

use palisade_protocol::{
    Approval, CallEnded, CallId, CallStarted, Denied, Event, Question, QuestionOver, SessionId,
    Stream,
};
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};
use tokio::sync::mpsc;

/// How much news of calls may wait. Questions are never dropped: the daemon bounds them.
const BACKLOG: u64 = 4096;

/// How much output may wait in it.
const BACKLOG_BYTES: u64 = 8 * 1024 * 1024;

/// What an operator or an observer hears. Only an operator hears of questions.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum OperatorEvent {
    /// To a handler: answer this.
    Question(Box<Question>),
    /// To a handler that was asked: no answer is needed any more.
    Over(QuestionOver),
    /// To subscribers: what a checkpoint decided.
    Approval(Approval),
    /// To subscribers: a call begins.
    CallStarted(CallStarted),
    /// To subscribers: a call has ended.
    CallEnded(CallEnded),
    /// To subscribers: a call was refused.
    Denied(Denied),
    /// To subscribers: a piece of a call's output, in order of arrival.
    CallOutput {
        /// Whose.
        session: SessionId,
        /// The call.
        call_id: CallId,
        /// Which stream.
        stream: Stream,
        /// The bytes; a character may be cut between two pieces.
        data: Vec<u8>,
    },
    /// News of calls that was dropped because nobody read it. Questions are never dropped.
    Lost {
        /// How many events.
        events: u64,
        /// How much output was in them.
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

/// The socket's side.
#[derive(Debug)]
pub(crate) struct NewsSender {
    queue: mpsc::UnboundedSender<OperatorEvent>,
    counts: Arc<Counts>,
}

/// Where a connection's events go that belong to none of its calls.
#[derive(Debug)]
pub(crate) enum Sink {
    /// To whoever asks for the next.
    Operator(NewsSender),
    /// To the loop that serves invocations. The daemon bounds how many there are.
    Provider(mpsc::UnboundedSender<Event>),
}

impl Sink {
    /// Takes what is for it; the events of a connection's own calls come back.
    pub(crate) fn take(&self, event: Event) -> Option<Event> {
        match self {
            Self::Operator(news) => news.take(event),
            Self::Provider(queue) => {
                // A provider that is gone hears nothing.
                drop(queue.send(event));
                None
            }
        }
    }
}

/// The side of whoever listens.
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
            Self::Question(_)
            | Self::Over(_)
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
    /// Takes what operators and observers hear; the events of a connection's own calls come back.
    pub(crate) fn take(&self, event: Event) -> Option<Event> {
        let (event, bounded) = match event {
            Event::Question(question) => (OperatorEvent::Question(question), false),
            Event::QuestionOver(over) => (OperatorEvent::Over(over), false),
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
                | OperatorEvent::Question(_)
                | OperatorEvent::Over(_)
                | OperatorEvent::Approval(_)
                | OperatorEvent::CallStarted(_)
                | OperatorEvent::CallEnded(_)
                | OperatorEvent::Denied(_) => self.counts.lose(1, bytes),
            }
            return None;
        }
        self.counts.waiting.fetch_add(1, Ordering::Relaxed);
        self.counts.waiting_bytes.fetch_add(bytes, Ordering::Relaxed);
        // A receiver that is gone wants no news.
        drop(self.queue.send(event));
        None
    }
}

impl NewsReceiver {
    /// What comes next; none once the connection has ended.
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
