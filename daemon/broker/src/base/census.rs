//! Counts the connections, sessions and jobs of each user, so that one can not crowd out the rest.
//! Runs in the broker.

use crate::base::{
    quotas::{SOON, quota_error},
    results::ResultBytes,
};
use palisade_plan::launcher::SessionNumber;
use palisade_protocol::WireError;
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

/// The most bytes of the calls of one session that wait or run.
const CALL_BYTES_OF_SESSION: u64 = 64 << 20;
/// The most bytes of the calls of one user that wait or run.
const CALL_BYTES_OF_USER: u64 = 128 << 20;

/// The owner of the bytes that calls hold, for which there is a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum ByteHolder {
    User(u32),
    Session(SessionNumber),
}

/// The bytes that one call holds; dropping it frees them.
#[derive(Debug)]
pub(crate) struct HeldBytes {
    census: Census,
    holders: [ByteHolder; 2],
    bytes: u64,
}

/// The calls under way hold so many bytes that there is no room for one more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the calls of this {whose} that wait or run hold {held} bytes, and this one has {more}")]
pub(crate) struct TooManyBytes {
    whose: &'static str,
    held: u64,
    more: u64,
    most: u64,
}

impl From<TooManyBytes> for WireError {
    fn from(error: TooManyBytes) -> Self {
        let TooManyBytes { whose, most, .. } = error;
        let hint = format!(
            "the limit for one {whose} is {most}; wait for a call to end, or send large content as an \
             attachment"
        );
        quota_error(error.to_string(), hint, SOON)
    }
}

/// The counts of all users.
#[derive(Debug, Clone, Default)]
pub(crate) struct Census {
    bytes: Arc<Mutex<HashMap<ByteHolder, u64>>>,
    counts: Arc<Mutex<HashMap<(CountedKind, u32), usize>>>,
    large: Arc<Mutex<HashMap<u32, Weak<Semaphore>>>>,
    results: Arc<Mutex<HashMap<u32, Weak<ResultBytes>>>>,
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

    /// Returns the bytes of results that all sessions of a user share.
    pub(crate) fn results(&self, uid: u32) -> Arc<ResultBytes> {
        let mut results = self.results.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(held) = results.get(&uid).and_then(Weak::upgrade) {
            return held;
        }
        results.retain(|_, held| held.strong_count() > 0);
        let held = ResultBytes::of_user();
        results.insert(uid, Arc::downgrade(&held));
        held
    }

    fn bytes(&self) -> MutexGuard<'_, HashMap<ByteHolder, u64>> {
        self.bytes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts the bytes of a call, if its session and its user have room for them.
    pub(crate) fn hold_bytes(
        &self,
        uid: u32,
        session: SessionNumber,
        more: u64,
    ) -> Result<HeldBytes, TooManyBytes> {
        let holders = [ByteHolder::Session(session), ByteHolder::User(uid)];
        let mut bytes = self.bytes();
        for (holder, whose, most) in [
            (holders[0], "session", CALL_BYTES_OF_SESSION),
            (holders[1], "user", CALL_BYTES_OF_USER),
        ] {
            let held = bytes.get(&holder).copied().unwrap_or_default();
            // A single call always has room, whatever its size.
            if held > 0 && held.saturating_add(more) > most {
                return Err(TooManyBytes { whose, held, more, most });
            }
        }
        for holder in holders {
            *bytes.entry(holder).or_default() += more;
        }
        Ok(HeldBytes { census: self.clone(), holders, bytes: more })
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

impl Drop for HeldBytes {
    fn drop(&mut self) {
        let mut bytes = self.census.bytes();
        for holder in self.holders {
            if let Some(held) = bytes.get_mut(&holder) {
                *held -= self.bytes;
                if *held == 0 {
                    bytes.remove(&holder);
                }
            }
        }
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
    fn bytes_of_calls_are_bounded_by_session_and_by_user() {
        let census = Census::default();
        let hold = |uid, session, bytes| census.hold_bytes(uid, session, bytes);
        let half = CALL_BYTES_OF_SESSION / 2;
        let held = [hold(1, 1, half).unwrap(), hold(1, 1, half).unwrap()];
        assert_eq!(hold(1, 1, 1).unwrap_err().whose, "session");
        let _others = [hold(1, 2, half).unwrap(), hold(1, 3, half).unwrap()];
        let error = hold(1, 4, 1).unwrap_err();
        assert_eq!((error.whose, error.held), ("user", CALL_BYTES_OF_USER));
        let _another = hold(2, 5, CALL_BYTES_OF_USER * 2).unwrap();
        drop(held);
        drop(hold(1, 1, 1).unwrap());
        assert_eq!(census.bytes().len(), 5, "two sessions and a user, and another with one");
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
