//! A queue for something that all users share. Free places go to the waiting users in turn, so that
//! a user with a thousand requests delays another user's request by one of them. Runs in the broker.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::sync::oneshot;

/// The number of waiting requests of a user at which those that were given up are removed.
const MOST_GIVEN_UP: usize = 1024;

/// A fixed number of places, and the users who wait for one.
#[derive(Debug, Clone)]
pub(crate) struct FairQueue {
    state: Arc<Mutex<QueueState>>,
}

#[derive(Debug)]
struct QueueState {
    free: usize,
    /// The user who got the last place that somebody waited for.
    last: u32,
    waiting: BTreeMap<u32, VecDeque<oneshot::Sender<Place>>>,
}

/// A place in use; dropping it gives it to the next user.
#[derive(Debug)]
pub(crate) struct Place {
    /// `None` once the place was given back.
    queue: Option<FairQueue>,
}

impl FairQueue {
    pub(crate) fn new(places: usize) -> Self {
        let state = QueueState { free: places, last: 0, waiting: BTreeMap::new() };
        Self { state: Arc::new(Mutex::new(state)) }
    }

    fn state(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a place for a request of this user. Who stops waiting gives up the request.
    pub(crate) async fn enter(&self, uid: u32) -> Place {
        let taken = || Place { queue: Some(self.clone()) };
        let receiver = {
            let mut state = self.state();
            if state.free > 0 {
                state.free -= 1;
                return taken();
            }
            let (sender, receiver) = oneshot::channel();
            let waiting = state.waiting.entry(uid).or_default();
            if waiting.len() >= MOST_GIVEN_UP && waiting.len().is_multiple_of(MOST_GIVEN_UP) {
                waiting.retain(|sender| !sender.is_closed());
            }
            waiting.push_back(sender);
            receiver
        };
        // A sender is dropped only with the queue, which is borrowed here.
        receiver.await.unwrap_or(Place { queue: None })
    }

    /// Gives a place to the next user, or to nobody.
    fn leave(self) {
        let mut place = Place { queue: Some(self.clone()) };
        loop {
            let next = {
                let mut state = self.state();
                let next = state.next();
                if next.is_none() {
                    state.free += 1;
                    place.queue = None;
                }
                next
            };
            let Some(next) = next else { return };
            match next.send(place) {
                Ok(()) => return,
                Err(given_up) => place = given_up,
            }
        }
    }
}

impl QueueState {
    /// Removes the oldest request of the user whose turn it is.
    fn next(&mut self) -> Option<oneshot::Sender<Place>> {
        let after = self.last.checked_add(1).and_then(|from| self.waiting.range(from..).next());
        let uid = *after.or_else(|| self.waiting.iter().next())?.0;
        self.last = uid;
        let waiting = self.waiting.get_mut(&uid)?;
        let sender = waiting.pop_front();
        if waiting.is_empty() {
            self.waiting.remove(&uid);
        }
        sender
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(queue) = self.queue.take() {
            queue.leave();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        pin::{Pin, pin},
        task::{Context, Poll, Waker},
    };

    fn poll(future: Pin<&mut impl Future<Output = Place>>) -> Poll<Place> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    #[tokio::test]
    async fn a_user_with_many_requests_delays_another_by_one() {
        let queue = FairQueue::new(1);
        let first = queue.enter(1).await;
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut tasks = Vec::new();
        for uid in [1, 1, 1, 1, 3, 2, u32::MAX, 3] {
            let (queue, order) = (queue.clone(), Arc::clone(&order));
            tasks.push(tokio::spawn(async move {
                let place = queue.enter(uid).await;
                order.lock().unwrap().push(uid);
                drop(place);
            }));
            tokio::task::yield_now().await;
        }
        drop(first);
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(*order.lock().unwrap(), [1, 2, 3, u32::MAX, 1, 3, 1, 1]);
        assert_eq!(queue.state().free, 1);
        assert!(queue.state().waiting.is_empty());
    }

    #[tokio::test]
    async fn who_stops_waiting_costs_no_place() {
        let queue = FairQueue::new(2);
        let (one, two) = (queue.enter(1).await, queue.enter(1).await);
        {
            let mut unasked = pin!(queue.enter(1));
            let mut given = pin!(queue.enter(2));
            assert!(poll(unasked.as_mut()).is_pending() && poll(given.as_mut()).is_pending());
            // Given to user 2, who never takes it up.
            drop(one);
        }
        drop(two);
        assert_eq!(queue.state().free, 2);
        let _again = (queue.enter(3).await, queue.enter(3).await);
        assert!(poll(pin!(queue.enter(3))).is_pending());
    }

    #[tokio::test]
    async fn requests_that_were_given_up_do_not_pile_up() {
        let queue = FairQueue::new(1);
        let _place = queue.enter(1).await;
        for _ in 0..5 * MOST_GIVEN_UP {
            assert!(poll(pin!(queue.enter(1))).is_pending());
        }
        let waiting = queue.state().waiting.get(&1).map(VecDeque::len);
        assert!(waiting <= Some(MOST_GIVEN_UP), "{waiting:?}");
    }
}
