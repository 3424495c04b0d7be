//! The order of a session's calls: which of them run alone, which side by side. Runs in the broker.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore, oneshot};

/// The turns of a session. Its calls have places in one queue, in order of arrival; read-only ones
/// leave the queue and run beside it.
#[derive(Debug, Clone)]
pub(crate) struct Turns {
    queue: Arc<Mutex<Queue>>,
    concurrent: Arc<Semaphore>,
}

/// The company in which a call runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Company {
    /// No other call of the queue runs: every earlier one has ended, and no later one has begun.
    Alone,
    /// Calls of the same kind run side by side. Each waits for the earlier calls that run alone.
    Shared,
}

/// A place in the queue, taken when the call arrived. Dropping it leaves the queue.
#[derive(Debug)]
pub(crate) struct QueuePlace {
    queue: Arc<Mutex<Queue>>,
    number: u64,
}

/// The permission to run; the next call's turn comes when it is dropped.
#[derive(Debug)]
pub(crate) enum Turn {
    /// A turn in the queue.
    Queued(QueuePlace),
    /// A read-only call's turn beside the queue.
    Beside { _permit: OwnedSemaphorePermit },
}

/// The calls of a session that wait or run, in order of arrival.
#[derive(Debug)]
struct Queue {
    calls: BTreeMap<u64, QueuedCall>,
    next: u64,
    running: u64,
    /// The most calls that run side by side.
    most: u64,
}

/// A call in the queue.
#[derive(Debug, Default)]
struct QueuedCall {
    /// `None` until the call was judged. Until then it holds up all later calls.
    company: Option<Company>,
    progress: QueueProgress,
}

/// The progress of a call in the queue.
#[derive(Debug, Default)]
enum QueueProgress {
    /// It does not wait for its turn yet.
    #[default]
    Arrived,
    /// It waits for its turn.
    Waiting(oneshot::Sender<()>),
    Running,
}

impl Queue {
    /// Starts the calls whose turn has come.
    fn advance(&mut self) {
        for (earlier, call) in (0..).zip(self.calls.values_mut()) {
            // An earlier call has a place even if it does not wait yet, so that none is overtaken
            // by more than the limit; with a limit of 1 all calls run in order.
            let free = match call.company {
                Some(Company::Alone) => earlier == 0 && self.running == 0,
                Some(Company::Shared) => earlier < self.most && self.running < self.most,
                None => false,
            };
            match (&call.progress, call.company) {
                (QueueProgress::Running, Some(Company::Shared)) => continue,
                (QueueProgress::Waiting(_), _) if free => {
                    self.running += 1;
                    let waiting = std::mem::replace(&mut call.progress, QueueProgress::Running);
                    if let QueueProgress::Waiting(told) = waiting {
                        // A caller that has gone leaves the queue by itself.
                        told.send(()).ok();
                    }
                }
                // It has a place among those that run, and takes it later.
                (QueueProgress::Arrived, Some(Company::Shared)) if free => {}
                (
                    QueueProgress::Arrived | QueueProgress::Waiting(_) | QueueProgress::Running,
                    _,
                ) => {
                    return;
                }
            }
            if call.company == Some(Company::Alone) {
                return;
            }
        }
    }

    /// Ends the turn of a call that runs.
    fn stop(&mut self, number: u64) {
        if let Some(call) = self.calls.get_mut(&number)
            && matches!(call.progress, QueueProgress::Running)
        {
            call.progress = QueueProgress::Arrived;
            self.running -= 1;
        }
    }
}

fn lock(queue: &Mutex<Queue>) -> MutexGuard<'_, Queue> {
    queue.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Turns {
    /// Makes the turns of a session that runs this many calls side by side: of those in the queue,
    /// and as many read-only ones beside it.
    pub(crate) fn new(most: u64) -> Self {
        let concurrent = usize::try_from(most).unwrap_or(usize::MAX).min(Semaphore::MAX_PERMITS);
        let queue = Queue { calls: BTreeMap::new(), next: 0, running: 0, most };
        Self {
            queue: Arc::new(Mutex::new(queue)),
            concurrent: Arc::new(Semaphore::new(concurrent)),
        }
    }

    /// Waits until one more read-only call may run.
    pub(crate) async fn acquire_concurrent(&self) -> Result<Turn, AcquireError> {
        let permit = Arc::clone(&self.concurrent).acquire_owned().await?;
        Ok(Turn::Beside { _permit: permit })
    }

    /// Takes the next place in the queue.
    pub(crate) fn enqueue(&self) -> QueuePlace {
        let mut queue = lock(&self.queue);
        let number = queue.next;
        queue.next += 1;
        queue.calls.insert(number, QueuedCall::default());
        drop(queue);
        QueuePlace { queue: Arc::clone(&self.queue), number }
    }
}

impl QueuePlace {
    /// Notes in which company the call will run, as soon as that is known: it then holds up no
    /// later call that may run beside it.
    pub(crate) fn declare(&self, company: Company) {
        let mut queue = lock(&self.queue);
        if let Some(call) = queue.calls.get_mut(&self.number) {
            call.company = Some(company);
        }
        queue.advance();
    }

    /// Waits for this place's turn.
    pub(crate) async fn turn(self, company: Company) -> Turn {
        let (told, turn) = oneshot::channel();
        {
            let mut queue = lock(&self.queue);
            queue.stop(self.number);
            if let Some(call) = queue.calls.get_mut(&self.number) {
                *call =
                    QueuedCall { company: Some(company), progress: QueueProgress::Waiting(told) };
            }
            queue.advance();
        }
        // The sender is in the queue for as long as this place is.
        turn.await.ok();
        Turn::Queued(self)
    }
}

impl Turn {
    /// Returns a turn of a call that must run alone after all. Waits until no other one runs.
    pub(crate) async fn alone(self) -> Self {
        match self {
            Self::Queued(place) if !place.is_alone() => place.turn(Company::Alone).await,
            turn @ (Self::Queued(_) | Self::Beside { .. }) => turn,
        }
    }
}

impl QueuePlace {
    fn is_alone(&self) -> bool {
        let queue = lock(&self.queue);
        queue.calls.get(&self.number).is_some_and(|call| call.company == Some(Company::Alone))
    }
}

impl Drop for QueuePlace {
    fn drop(&mut self) {
        let mut queue = lock(&self.queue);
        queue.stop(self.number);
        queue.calls.remove(&self.number);
        queue.advance();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{pin::Pin, task::Poll};

    type WaitingTurn = Pin<Box<dyn Future<Output = Turn>>>;

    /// Waits for turns in a queue, as calls do.
    fn wait(place: QueuePlace, company: Company) -> WaitingTurn {
        Box::pin(place.turn(company))
    }

    /// Returns the turn if it has come.
    fn come(waiting: &mut WaitingTurn) -> Option<Turn> {
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        match waiting.as_mut().poll(&mut context) {
            Poll::Ready(turn) => Some(turn),
            Poll::Pending => None,
        }
    }

    #[test]
    fn turns_come_in_order_of_arrival_whoever_waits_first() {
        let turns = Turns::new(2);
        let [first, second, third] = [turns.enqueue(), turns.enqueue(), turns.enqueue()];
        let mut third = wait(third, Company::Alone);
        assert!(come(&mut third).is_none());
        let mut second = wait(second, Company::Alone);
        assert!(come(&mut second).is_none());
        let first = come(&mut wait(first, Company::Alone)).unwrap();
        assert!(come(&mut third).is_none() && come(&mut second).is_none());
        drop(first);
        assert!(come(&mut third).is_none());
        drop(come(&mut second).unwrap());
        come(&mut third).unwrap();
    }

    #[test]
    fn shared_calls_run_side_by_side_up_to_the_limit() {
        let turns = Turns::new(2);
        let mut waiting: Vec<_> = (0..4).map(|_| wait(turns.enqueue(), Company::Shared)).collect();
        let first = come(&mut waiting[0]).unwrap();
        let _second = come(&mut waiting[1]).unwrap();
        assert!(come(&mut waiting[2]).is_none());
        drop(first);
        assert!(come(&mut waiting[3]).is_none());
        let _third = come(&mut waiting[2]).unwrap();
        assert!(come(&mut waiting[3]).is_none());
    }

    #[test]
    fn a_call_that_runs_alone_waits_for_earlier_ones_and_holds_up_later_ones() {
        let turns = Turns::new(8);
        let mut first = wait(turns.enqueue(), Company::Shared);
        let mut alone = wait(turns.enqueue(), Company::Alone);
        let mut later = wait(turns.enqueue(), Company::Shared);
        let first = come(&mut first).unwrap();
        assert!(come(&mut alone).is_none() && come(&mut later).is_none());
        drop(first);
        let alone = come(&mut alone).unwrap();
        assert!(come(&mut later).is_none());
        drop(alone);
        come(&mut later).unwrap();
    }

    #[test]
    fn a_call_that_declared_itself_shared_holds_up_only_those_that_run_alone() {
        let turns = Turns::new(2);
        let approval = turns.enqueue();
        let mut beside = wait(turns.enqueue(), Company::Shared);
        let mut alone = wait(turns.enqueue(), Company::Alone);
        assert!(come(&mut beside).is_none());
        approval.declare(Company::Shared);
        let beside = come(&mut beside).unwrap();
        drop(beside);
        assert!(come(&mut alone).is_none());
        drop(approval);
        come(&mut alone).unwrap();
    }

    #[test]
    fn with_a_limit_of_one_no_call_overtakes_another() {
        let turns = Turns::new(1);
        let first = turns.enqueue();
        first.declare(Company::Shared);
        let mut second = wait(turns.enqueue(), Company::Shared);
        assert!(come(&mut second).is_none());
        drop(come(&mut wait(first, Company::Shared)).unwrap());
        come(&mut second).unwrap();
    }

    #[test]
    fn shared_calls_that_must_run_alone_after_all_run_one_after_another() {
        let turns = Turns::new(3);
        let [one, two] = [turns.enqueue(), turns.enqueue()];
        let mut third = wait(turns.enqueue(), Company::Shared);
        let one = come(&mut wait(one, Company::Shared)).unwrap();
        let two = come(&mut wait(two, Company::Shared)).unwrap();
        let third = come(&mut third).unwrap();
        let (mut two, mut one): (WaitingTurn, WaitingTurn) =
            (Box::pin(two.alone()), Box::pin(one.alone()));
        assert!(come(&mut two).is_none() && come(&mut one).is_none());
        drop(third);
        assert!(come(&mut two).is_none());
        let one = come(&mut one).unwrap();
        assert!(come(&mut two).is_none());
        drop(one);
        come(&mut two).unwrap();
    }

    #[test]
    fn leaving_the_queue_holds_nobody_up() {
        let turns = Turns::new(2);
        let [first, second, third] = [turns.enqueue(), turns.enqueue(), turns.enqueue()];
        let mut second = wait(second, Company::Alone);
        let mut third = wait(third, Company::Alone);
        assert!(come(&mut second).is_none() && come(&mut third).is_none());
        drop(second);
        drop(first);
        come(&mut third).unwrap();
    }

    #[tokio::test]
    async fn so_many_read_only_calls_run_beside_the_queue_and_no_more() {
        let turns = Turns::new(2);
        let _alone = turns.enqueue().turn(Company::Alone).await;
        let (first, _second) =
            (turns.acquire_concurrent().await.unwrap(), turns.acquire_concurrent().await.unwrap());
        let third = turns.acquire_concurrent();
        tokio::pin!(third);
        assert!(tokio::time::timeout(std::time::Duration::ZERO, &mut third).await.is_err());
        drop(first);
        third.await.unwrap();
    }
}
