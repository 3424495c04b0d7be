//! Counts the connections, sessions and jobs of each user, so that one can not crowd out the rest.
//! Runs in the broker.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};
use tokio::sync::Semaphore;

/// The most connections of one user.
pub(crate) const CONNECTIONS_OF_USER: usize = 256;
/// The most connections of one user over that limit that get an error. Further ones are closed
/// without a word.
pub(crate) const TURNED_AWAY_OF_USER: usize = 32;
/// The most connections of all users together.
pub(crate) const CONNECTIONS: usize = 2048;
/// The most sessions of one user, whatever the profile allows.
pub(crate) const SESSIONS_OF_USER: usize = 64;

/// The kinds of things that are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum CountedKind {
    Connection,
    /// A connection over the limit that is still being sent its error.
    TurnedAway,
    Session,
    Job,
}

/// The number of large messages of one user that may be read at once.
const LARGE_OF_USER: usize = 8;

/// The counts of all users.
#[derive(Debug, Clone, Default)]
pub(crate) struct Census {
    counts: Arc<Mutex<HashMap<(CountedKind, u32), usize>>>,
    large: Arc<Mutex<HashMap<u32, Weak<Semaphore>>>>,
}

/// One counted thing; dropping it lowers the count.
#[derive(Debug)]
pub(crate) struct CensusEntry {
    census: Census,
    key: (CountedKind, u32),
}

impl Census {
    fn counts(&self) -> MutexGuard<'_, HashMap<(CountedKind, u32), usize>> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the permits for large messages that all connections of a user share.
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

    /// Counts one more for this user, if there are fewer than `most`. Otherwise returns how many
    /// there are.
    pub(crate) fn enroll(
        &self,
        what: CountedKind,
        uid: u32,
        most: usize,
    ) -> Result<CensusEntry, usize> {
        let key = (what, uid);
        let mut counts = self.counts();
        let total: usize =
            counts.iter().filter(|((kind, _), _)| *kind == what).map(|(_, n)| n).sum();
        if what == CountedKind::Connection && total >= CONNECTIONS {
            return Err(total);
        }
        let count = counts.entry(key).or_default();
        if *count >= most {
            return Err(*count);
        }
        *count += 1;
        Ok(CensusEntry { census: self.clone(), key })
    }
}

impl Drop for CensusEntry {
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
        let take = |uid| census.enroll(CountedKind::Session, uid, 2);
        let (first, _second) = (take(1).unwrap(), take(1).unwrap());
        assert_eq!(take(1).unwrap_err(), 2);
        let _other = take(2).unwrap();
        let _connection = census.enroll(CountedKind::Connection, 1, 1).unwrap();
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
            .map(|uid| census.enroll(CountedKind::Connection, uid, 1).unwrap())
            .collect();
        assert_eq!(census.enroll(CountedKind::Connection, u32::MAX, 1).unwrap_err(), CONNECTIONS);
        drop(all);
        assert!(census.counts().is_empty());
    }
}
