//! Turns: calls that must not run concurrently run in order of arrival. Runs in the broker.

use std::{future::poll_fn, pin::Pin, sync::Arc, task::Poll};
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};

type TurnFuture =
    Pin<Box<dyn Future<Output = Result<OwnedSemaphorePermit, AcquireError>> + Send + Sync>>;

/// The turns of a session: one exclusive call at a time, and a number of concurrent ones beside it.
#[derive(Debug, Clone)]
pub(crate) struct Turns {
    exclusive: Arc<Semaphore>,
    concurrent: Arc<Semaphore>,
}

/// A place in the queue, taken when the call arrived. Dropping it leaves the queue.
pub(crate) struct QueuePlace(TurnFuture);

/// The permission to run; the next call's turn comes when it is dropped.
#[derive(Debug)]
pub(crate) struct Turn {
    _permit: OwnedSemaphorePermit,
}

impl std::fmt::Debug for QueuePlace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Place")
    }
}

impl Turns {
    pub(crate) fn new(concurrent: u64) -> Self {
        let concurrent =
            usize::try_from(concurrent).unwrap_or(usize::MAX).min(Semaphore::MAX_PERMITS);
        Self {
            exclusive: Arc::new(Semaphore::new(1)),
            concurrent: Arc::new(Semaphore::new(concurrent)),
        }
    }

    /// Waits until one more concurrent call may run.
    pub(crate) async fn acquire_concurrent(&self) -> Result<Turn, AcquireError> {
        Ok(Turn { _permit: Arc::clone(&self.concurrent).acquire_owned().await? })
    }

    /// Takes the next place in the queue. The semaphore is fair from the first poll on. So the
    /// first poll is made here, not wherever the call happens to be scheduled later.
    pub(crate) async fn enqueue(&self) -> QueuePlace {
        let mut waiting: TurnFuture = Box::pin(Arc::clone(&self.exclusive).acquire_owned());
        let mut ready = None;
        poll_fn(|context| {
            if let Poll::Ready(permit) = waiting.as_mut().poll(context) {
                ready = Some(permit);
            }
            Poll::Ready(())
        })
        .await;
        QueuePlace(match ready {
            Some(permit) => Box::pin(std::future::ready(permit)),
            None => waiting,
        })
    }
}

impl QueuePlace {
    /// Waits for this place's turn.
    pub(crate) async fn turn(self) -> Result<Turn, AcquireError> {
        Ok(Turn { _permit: self.0.await? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[tokio::test]
    async fn turns_come_in_order_of_arrival_whoever_waits_first() {
        let turns = Turns::new(2);
        let first = turns.enqueue().await.turn().await.unwrap();
        let (second, third) = (turns.enqueue().await, turns.enqueue().await);
        let order = Arc::new(Mutex::new(Vec::new()));
        let run = |name, place: QueuePlace| {
            let order = Arc::clone(&order);
            tokio::spawn(async move {
                let _turn = place.turn().await.unwrap();
                order.lock().unwrap().push(name);
            })
        };
        let tasks = [run("third", third), run("second", second)];
        tokio::task::yield_now().await;
        assert!(order.lock().unwrap().is_empty());
        drop(first);
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(*order.lock().unwrap(), ["second", "third"]);
    }

    #[tokio::test]
    async fn so_many_run_side_by_side_and_no_more() {
        let turns = Turns::new(2);
        let _alone = turns.enqueue().await.turn().await.unwrap();
        let (first, _second) =
            (turns.acquire_concurrent().await.unwrap(), turns.acquire_concurrent().await.unwrap());
        let third = turns.acquire_concurrent();
        tokio::pin!(third);
        assert!(tokio::time::timeout(std::time::Duration::ZERO, &mut third).await.is_err());
        drop(first);
        third.await.unwrap();
    }

    #[tokio::test]
    async fn leaving_the_queue_holds_nobody_up() {
        let turns = Turns::new(2);
        let (first, second, third) =
            (turns.enqueue().await, turns.enqueue().await, turns.enqueue().await);
        drop(second);
        drop(first.turn().await.unwrap());
        third.turn().await.unwrap();
    }
}
