//! Bounds the memory of results that their clients have not read: by session and by user. A call whose
//! session has too many of them waits before it runs. Runs in the broker.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// The most bytes of one session's results that wait for its client.
const OF_SESSION: usize = 64 << 20;
/// The most bytes of one user's results that wait for clients. It is larger, so that one client that does
/// not read does not stop the others of its user.
const OF_USER: usize = 256 << 20;
/// Results up to this size need no reservation: their call only waits until there is room for any.
pub(crate) const SMALL: usize = 256 << 10;

/// The bytes that results of one session or one user hold.
#[derive(Debug)]
pub(crate) struct ResultBytes {
    held: Mutex<usize>,
    most: usize,
    freed: Notify,
}

impl ResultBytes {
    /// The bytes of one user's results.
    pub(super) fn of_user() -> Arc<Self> {
        Self::new(OF_USER)
    }

    fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { held: Mutex::new(0), most, freed: Notify::new() })
    }

    fn held(&self) -> MutexGuard<'_, usize> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until `more` bytes fit, and counts them. A single result always fits.
    async fn reserve(&self, more: usize) {
        loop {
            let mut freed = std::pin::pin!(self.freed.notified());
            freed.as_mut().enable();
            {
                let mut held = self.held();
                if *held == 0 || held.saturating_add(more) <= self.most {
                    *held += more;
                    return;
                }
            }
            freed.await;
        }
    }

    fn free(&self, bytes: usize) {
        *self.held() -= bytes;
        self.freed.notify_waiters();
    }
}

/// The room that results of a session have: its own, and its user's.
#[derive(Debug, Clone)]
pub(crate) struct ResultRoom {
    session: Arc<ResultBytes>,
    user: Arc<ResultBytes>,
}

impl ResultRoom {
    /// The room of a new session of a user.
    pub(crate) fn new(user: Arc<ResultBytes>) -> Self {
        Self { session: ResultBytes::new(OF_SESSION), user }
    }

    /// Waits until one more result of this size fits.
    pub(crate) async fn reserve(&self, bytes: usize) -> HeldResult {
        let mut held = HeldResult { of: Vec::with_capacity(2) };
        for of in [&self.session, &self.user] {
            of.reserve(bytes).await;
            held.of.push((Arc::clone(of), bytes));
        }
        held
    }

    /// Waits until a small result fits, which is not counted yet.
    pub(crate) async fn wait(&self) {
        drop(self.reserve(SMALL).await);
    }

    /// Counts a result that is there already, whether it fits or not.
    pub(crate) fn hold(&self, bytes: usize) -> HeldResult {
        let hold = |of: &Arc<ResultBytes>| {
            *of.held() += bytes;
            (Arc::clone(of), bytes)
        };
        HeldResult { of: [&self.session, &self.user].map(hold).into() }
    }
}

/// The bytes of one result; dropping it frees them.
#[derive(Debug)]
pub(crate) struct HeldResult {
    of: Vec<(Arc<ResultBytes>, usize)>,
}

impl Drop for HeldResult {
    fn drop(&mut self) {
        self.of.iter().for_each(|(of, bytes)| of.free(*bytes));
    }
}

/// The room of one call's result, which the call and its reply share.
#[derive(Debug, Clone)]
pub(crate) struct CallRoom {
    room: ResultRoom,
    reserved: Arc<Mutex<Option<HeldResult>>>,
}

impl CallRoom {
    pub(crate) fn new(room: ResultRoom) -> Self {
        Self { room, reserved: Arc::default() }
    }

    fn reserved(&self) -> MutexGuard<'_, Option<HeldResult>> {
        self.reserved.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until a large result fits, before it is made. A call does this once, because two calls that
    /// each held a part would wait for each other.
    pub(crate) async fn reserve(&self, most: usize) {
        let held = self.room.reserve(most).await;
        *self.reserved() = Some(held);
    }

    /// Counts the result as large as it has become, in place of what was reserved.
    pub(crate) fn settle(&self, bytes: usize) -> HeldResult {
        let held = self.room.hold(bytes);
        drop(self.reserved().take());
        held
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        pin::pin,
        task::{Context, Poll, Waker},
    };

    /// Returns what a future has at once, and drops it.
    fn at_once<T>(future: impl Future<Output = T>) -> Option<T> {
        match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(output) => Some(output),
            Poll::Pending => None,
        }
    }

    #[test]
    fn results_that_nobody_reads_are_bounded_by_session_and_by_user() {
        let user = ResultBytes::of_user();
        let sessions: Vec<_> = (0..5).map(|_| ResultRoom::new(Arc::clone(&user))).collect();
        let large = OF_SESSION / 4;
        let mut unread = Vec::new();
        for session in &sessions[..4] {
            for _ in 0..4 {
                unread.push(at_once(session.reserve(large)).unwrap());
            }
            assert!(at_once(session.reserve(large)).is_none(), "the session has no room");
            assert!(at_once(session.wait()).is_none());
        }
        assert!(at_once(sessions[4].reserve(large)).is_none(), "the user has no room");
        let other = ResultRoom::new(ResultBytes::of_user());
        drop(at_once(other.reserve(OF_USER * 2)).unwrap());
        unread.pop();
        drop(at_once(sessions[4].reserve(large)).unwrap());
        unread.clear();
        assert_eq!(*user.held(), 0, "a wait that was given up counts nothing");
    }

    #[tokio::test]
    async fn a_call_waits_for_room_and_its_result_counts_as_large_as_it_is() {
        let room = ResultRoom::new(ResultBytes::of_user());
        let (first, second) = (CallRoom::new(room.clone()), CallRoom::new(room.clone()));
        first.reserve(OF_SESSION).await;
        assert!(at_once(second.reserve(OF_SESSION)).is_none());
        let waiting = tokio::spawn(async move {
            second.reserve(OF_SESSION - 10).await;
            second
        });
        let sent = first.settle(10);
        let second = waiting.await.unwrap();
        drop((sent, second.settle(7)));
        assert_eq!((*room.session.held(), *room.user.held()), (0, 0));
    }
}
