//! How many connections and sessions each user has, so that one can not crowd out the rest. Broker.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};
use tokio::sync::Semaphore;

/// Connections of one user.
pub(crate) const CONNECTIONS_OF_USER: usize = 256;
/// Connections of one user over that limit that are told so; more are closed without a word.
pub(crate) const TURNED_AWAY_OF_USER: usize = 32;
/// Connections in all.
pub(crate) const CONNECTIONS: usize = 2048;
/// Sessions of one user, whatever the profile allows.
pub(crate) const SESSIONS_OF_USER: usize = 64;

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Counted {
    Connection,
    /// A connection over the limit that is still being told so.
    TurnedAway,
    Session,
    Job,
}

/// Large messages of one user that are being read at once.
const LARGE_OF_USER: usize = 8;

/// The counts.
#[derive(Debug, Clone, Default)]
pub(crate) struct Census {
    counts: Arc<Mutex<HashMap<(Counted, u32), usize>>>,
    large: Arc<Mutex<HashMap<u32, Weak<Semaphore>>>>,
}

/// One of what is counted, for as long as it lives.
#[derive(Debug)]
pub(crate) struct Enrolled {
    census: Census,
    key: (Counted, u32),
}

impl Census {
    fn counts(&self) -> MutexGuard<'_, HashMap<(Counted, u32), usize>> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The places for large messages that all connections of a user share.
    pub(crate) fn large(&self, uid: u32) -> Arc<Semaphore> {
        let mut large = self.large.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(places) = large.get(&uid).and_then(Weak::upgrade) {
            return places;
        }
        large.retain(|_, places| places.strong_count() > 0);
        let places = Arc::new(Semaphore::new(LARGE_OF_USER));
        large.insert(uid, Arc::downgrade(&places));
        places
    }

    /// One more for this user, if that is not more than `most`; else the number there are.
    pub(crate) fn enroll(&self, what: Counted, uid: u32, most: usize) -> Result<Enrolled, usize> {
        let key = (what, uid);
        let mut counts = self.counts();
        let total: usize =
            counts.iter().filter(|((kind, _), _)| *kind == what).map(|(_, n)| n).sum();
        if what == Counted::Connection && total >= CONNECTIONS {
            return Err(total);
        }
        let count = counts.entry(key).or_default();
        if *count >= most {
            return Err(*count);
        }
        *count += 1;
        Ok(Enrolled { census: self.clone(), key })
    }
}

impl Drop for Enrolled {
    fn drop(&mut self) {
        let mut counts = self.census.counts();
        if let Some(count) = counts.get_mut(&self.key) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_user_has_a_limit_of_their_own() {
        let census = Census::default();
        let take = |uid| census.enroll(Counted::Session, uid, 2);
        let (first, _second) = (take(1).unwrap(), take(1).unwrap());
        assert_eq!(take(1).unwrap_err(), 2);
        let _other = take(2).unwrap();
        let _connection = census.enroll(Counted::Connection, 1, 1).unwrap();
        drop(first);
        take(1).unwrap();
    }

    #[test]
    fn places_for_large_messages_are_a_users_own() {
        let census = Census::default();
        let places = census.large(1);
        let taken = places.try_acquire_many(LARGE_OF_USER as u32).unwrap();
        assert!(census.large(1).try_acquire().is_err());
        assert!(census.large(2).try_acquire().is_ok());
        drop(taken);
        assert!(census.large(1).try_acquire().is_ok());
    }

    #[test]
    fn all_connections_together_have_a_limit() {
        let census = Census::default();
        let all: Vec<_> = (0..CONNECTIONS as u32)
            .map(|uid| census.enroll(Counted::Connection, uid, 1).unwrap())
            .collect();
        assert_eq!(census.enroll(Counted::Connection, u32::MAX, 1).unwrap_err(), CONNECTIONS);
        drop(all);
        assert!(census.counts().is_empty());
    }
}
