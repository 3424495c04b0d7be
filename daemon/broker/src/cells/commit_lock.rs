//! The commit locks of workspaces. From when a change is judged until it is committed, no other
//! session of the same user judges or commits in the same directories, or in directories above or
//! below them. Runs in the broker.
//!
//! Users have separate locks, even where they share a workspace: none of them can hold up another.

use palisade_plan::TreePlace;
use palisade_policy::SessionMemory;
use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};
use tokio::sync::oneshot;

/// The commit locks of all users.
#[derive(Debug, Default)]
pub(crate) struct CommitLocks(Mutex<HashMap<u32, Weak<UserLocks>>>);

/// The commit locks of one user's sessions.
#[derive(Debug, Default)]
struct UserLocks {
    queue: Mutex<ClaimQueue>,
    sessions: Mutex<Vec<CommittingSession>>,
}

/// A session that may commit.
#[derive(Debug)]
struct CommittingSession {
    trees: Arc<[TreePlace]>,
    memory: Weak<Mutex<SessionMemory>>,
}

/// The claims to locks, in order of arrival. A claim is granted when no earlier one overlaps it.
#[derive(Debug, Default)]
struct ClaimQueue {
    next: u64,
    claims: BTreeMap<u64, CommitClaim>,
}

/// A claim to the lock of some trees.
#[derive(Debug)]
struct CommitClaim {
    trees: Arc<[TreePlace]>,
    /// Told when the lock is granted; `None` once it is.
    waiting: Option<oneshot::Sender<()>>,
}

/// The commit lock of one session's workspace.
#[derive(Debug)]
pub(crate) struct WorkspaceLock {
    user: Arc<UserLocks>,
    /// The trees that the session's commits change. Empty if they are not known: then the lock
    /// excludes all sessions of the user.
    trees: Arc<[TreePlace]>,
    memory: Arc<Mutex<SessionMemory>>,
}

/// A lock that is held or waited for. Dropping it releases it.
#[derive(Debug)]
pub(crate) struct CommitGuard {
    user: Arc<UserLocks>,
    number: u64,
}

/// The turn of one change to be judged and committed. The lock is taken at most once.
#[derive(Debug)]
pub(crate) struct CommitTurn<'a> {
    lock: &'a WorkspaceLock,
    guard: Option<CommitGuard>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl CommitLocks {
    /// Returns the lock of a new session of a user, whose commits change these trees.
    pub(crate) fn of_session(&self, uid: u32, trees: Vec<TreePlace>) -> WorkspaceLock {
        let user = {
            let mut users = locked(&self.0);
            users.retain(|_, user| user.strong_count() > 0);
            let known = users.get(&uid).and_then(Weak::upgrade);
            known.unwrap_or_else(|| {
                let user = Arc::default();
                users.insert(uid, Arc::downgrade(&user));
                user
            })
        };
        let (trees, memory) = (Arc::from(trees), Arc::default());
        let mut sessions = locked(&user.sessions);
        sessions.retain(|session| session.memory.strong_count() > 0);
        let member =
            CommittingSession { trees: Arc::clone(&trees), memory: Arc::downgrade(&memory) };
        sessions.push(member);
        drop(sessions);
        WorkspaceLock { user, trees, memory }
    }
}

/// Returns `true` if two sets of trees have a directory in common, or may have.
fn overlap(one: &Arc<[TreePlace]>, other: &Arc<[TreePlace]>) -> bool {
    let is_unknown = one.is_empty() || other.is_empty();
    let meets = |tree: &TreePlace| other.iter().any(|other| tree.overlaps(other));
    is_unknown || Arc::ptr_eq(one, other) || one.iter().any(meets)
}

impl WorkspaceLock {
    /// Waits for the lock. Claims are granted in order of arrival.
    pub(crate) async fn lock(&self) -> CommitGuard {
        let (told, turn) = oneshot::channel();
        let guard = {
            let mut queue = locked(&self.user.queue);
            let number = queue.next;
            queue.next += 1;
            let claim = CommitClaim { trees: Arc::clone(&self.trees), waiting: Some(told) };
            queue.claims.insert(number, claim);
            queue.advance();
            CommitGuard { user: Arc::clone(&self.user), number }
        };
        // The sender is in the queue for as long as the guard is.
        turn.await.ok();
        guard
    }

    /// Takes the lock if nobody holds it or waits for it.
    pub(crate) async fn try_lock(&self) -> Option<CommitGuard> {
        tokio::select! {
            biased;
            guard = self.lock() => Some(guard),
            () = std::future::ready(()) => None,
        }
    }

    /// Returns the turn of a change, which does not hold the lock yet.
    pub(crate) const fn turn(&self) -> CommitTurn<'_> {
        CommitTurn { lock: self, guard: None }
    }

    /// Returns what the session remembers of its committed changes.
    pub(crate) fn memory(&self) -> MutexGuard<'_, SessionMemory> {
        locked(&self.memory)
    }

    /// Calls a function with the memory of each other session of the user that commits to the same
    /// directories. The caller holds the lock.
    pub(crate) fn tell_others(&self, tell: impl Fn(&mut SessionMemory)) {
        let sessions = locked(&self.user.sessions);
        let others = sessions.iter().filter(|other| overlap(&self.trees, &other.trees));
        let memories: Vec<_> = others.filter_map(|other| other.memory.upgrade()).collect();
        drop(sessions);
        for memory in memories.iter().filter(|memory| !Arc::ptr_eq(memory, &self.memory)) {
            tell(&mut locked(memory));
        }
    }
}

impl CommitTurn<'_> {
    /// Waits for the lock, unless this turn holds it already.
    pub(crate) async fn take(&mut self) {
        if self.guard.is_none() {
            self.guard = Some(self.lock.lock().await);
        }
    }

    pub(crate) const fn is_held(&self) -> bool {
        self.guard.is_some()
    }
}

impl ClaimQueue {
    /// Grants each claim that no earlier one overlaps.
    fn advance(&mut self) {
        let mut earlier: Vec<Arc<[TreePlace]>> = Vec::new();
        for claim in self.claims.values_mut() {
            let is_free = !earlier.iter().any(|trees| overlap(trees, &claim.trees));
            if let Some(told) = claim.waiting.take_if(|_| is_free) {
                // Whoever stopped waiting leaves the queue without being told.
                told.send(()).ok();
            }
            if !earlier.iter().any(|trees| Arc::ptr_eq(trees, &claim.trees)) {
                earlier.push(Arc::clone(&claim.trees));
            }
        }
    }
}

impl Drop for CommitGuard {
    fn drop(&mut self) {
        let mut queue = locked(&self.user.queue);
        queue.claims.remove(&self.number);
        queue.advance();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use palisade_plan::DirectoryIdentity;
    use std::{
        pin::{Pin, pin},
        task::{Context, Poll, Waker},
    };

    /// Returns the place of a tree, by the inodes from its top directory up to the root.
    fn tree(inodes: &[u64]) -> TreePlace {
        TreePlace(
            inodes.iter().map(|inode| DirectoryIdentity { device: 1, inode: *inode }).collect(),
        )
    }

    fn poll(future: Pin<&mut impl Future<Output = CommitGuard>>) -> Poll<CommitGuard> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    fn excludes(one: &WorkspaceLock, other: &WorkspaceLock) -> bool {
        let Poll::Ready(held) = poll(pin!(one.lock())) else { panic!("nobody holds it") };
        let waits = poll(pin!(other.lock())).is_pending();
        drop(held);
        assert!(poll(pin!(other.lock())).is_ready());
        waits
    }

    #[test]
    fn sessions_that_commit_to_the_same_directories_exclude_each_other() {
        let locks = CommitLocks::default();
        let of = |trees: &[&[u64]]| {
            locks.of_session(7, trees.iter().map(|inodes| tree(inodes)).collect())
        };
        let (outer, inner, beside) = (of(&[&[2, 1]]), of(&[&[4, 3, 2, 1]]), of(&[&[9, 1]]));
        let linked = of(&[&[8, 1], &[5, 2, 1]]);
        assert!(excludes(&outer, &of(&[&[2, 1]])) && excludes(&inner, &inner));
        assert!(excludes(&outer, &inner) && excludes(&inner, &outer));
        assert!(excludes(&outer, &linked) && excludes(&linked, &outer));
        assert!(!excludes(&outer, &beside) && !excludes(&inner, &linked));
        let unknown = of(&[]);
        assert!(excludes(&unknown, &beside) && excludes(&beside, &unknown));
    }

    #[test]
    fn users_do_not_wait_for_each_other() {
        let locks = CommitLocks::default();
        let [mine, theirs] = [1, 2].map(|uid| locks.of_session(uid, vec![tree(&[2, 1])]));
        assert!(excludes(&mine, &mine));
        assert!(!excludes(&mine, &theirs) && !excludes(&theirs, &mine));
    }

    #[test]
    fn claims_are_granted_in_order_and_one_that_is_given_up_holds_up_nobody() {
        let locks = CommitLocks::default();
        let [one, two, three] = [&[2, 1][..], &[3, 2, 1], &[4, 1]]
            .map(|inodes| locks.of_session(7, vec![tree(inodes)]));
        let Poll::Ready(held) = poll(pin!(two.lock())) else { panic!("nobody holds it") };
        let mut last = pin!(two.lock());
        {
            let mut given_up = pin!(one.lock());
            assert!(poll(given_up.as_mut()).is_pending());
            assert!(poll(last.as_mut()).is_pending());
            // Nobody who works elsewhere waits.
            assert!(poll(pin!(three.lock())).is_ready());
            drop(held);
            assert!(poll(last.as_mut()).is_pending());
        }
        assert!(poll(last.as_mut()).is_ready());
    }

    #[test]
    fn locks_of_users_without_sessions_are_forgotten() {
        let locks = CommitLocks::default();
        for uid in 0..100 {
            drop(locks.of_session(uid, Vec::new()));
        }
        let last = locks.of_session(7, Vec::new());
        drop(locks.of_session(7, Vec::new()));
        assert_eq!(locked(&locks.0).len(), 1);
        assert_eq!(locked(&last.user.sessions).len(), 2);
        drop(locks.of_session(7, Vec::new()));
        assert_eq!(locked(&last.user.sessions).len(), 2);
    }
}
