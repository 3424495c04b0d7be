//! What operators and observers hear on a connection, between the task that reads the socket and
//! whoever asks for it next. Runs in the operator's process.

use palisade_protocol::{Approval, CallEnded, CallStarted, Denied, Event, Question, QuestionOver};
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};
use tokio::sync::mpsc;

/// How much news of calls may wait. Questions are never dropped: the daemon bounds them.
const BACKLOG: u64 = 4096;

/// What an operator hears.
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
    /// News of calls that was dropped because nobody read it. Questions are never dropped.
    Lost {
        /// How many events.
        events: u64,
    },
}

#[derive(Debug, Default)]
struct Counts {
    waiting: AtomicU64,
    lost: AtomicU64,
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

/// The operator's side.
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

impl NewsSender {
    /// Takes what operators hear; the events of a connection's own calls come back.
    pub(crate) fn take(&self, event: Event) -> Option<Event> {
        let (event, bounded) = match event {
            Event::Question(question) => (OperatorEvent::Question(question), false),
            Event::QuestionOver(over) => (OperatorEvent::Over(over), false),
            Event::ToolApproval(approval) => (OperatorEvent::Approval(approval), true),
            Event::CallStarted(started) => (OperatorEvent::CallStarted(started), true),
            Event::CallEnded(ended) => (OperatorEvent::CallEnded(ended), true),
            Event::Denied(denied) => (OperatorEvent::Denied(denied), true),
            Event::Output { .. }
            | Event::Progress { .. }
            | Event::Invoke(_)
            | Event::InvokeCancelled(_) => return Some(event),
        };
        if bounded && self.counts.waiting.load(Ordering::Relaxed) >= BACKLOG {
            self.counts.lost.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        self.counts.waiting.fetch_add(1, Ordering::Relaxed);
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
            events => return Some(OperatorEvent::Lost { events }),
        }
        let event = self.queue.recv().await?;
        self.counts.waiting.fetch_sub(1, Ordering::Relaxed);
        Some(event)
    }
}
