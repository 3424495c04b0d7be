//! The index of spools by owner and size, with a limit for each user and one for all. Runs in the
//! broker. Pure: no I/O.

use crate::stores::moment::{Age, Moment};
use palisade_protocol::CallId;
use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

/// The time for which a spool is stored.
pub(super) const MAX_AGE: Duration = Duration::from_secs(24 * 60 * 60);
/// The bytes that a spool occupies besides its content.
pub(super) const OVERHEAD: u64 = 4096;

/// The index of all spools.
#[derive(Debug, Default)]
pub(super) struct SpoolIndex {
    spools: HashMap<CallId, SpoolEntry>,
    users: BTreeMap<u32, u64>,
    total: u64,
}

#[derive(Debug)]
struct SpoolEntry {
    uid: u32,
    bytes: u64,
    age: Age,
    hold: SpoolStatus,
}

/// The status of a spool, which decides whether it may be deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SpoolStatus {
    /// It is being written and may not be deleted.
    Open,
    /// It is complete and may be deleted.
    Closed,
}

impl SpoolIndex {
    /// Adds a spool that holds this many bytes.
    pub(super) fn add(
        &mut self,
        call: CallId,
        uid: u32,
        bytes: u64,
        (age, hold): (Age, SpoolStatus),
    ) {
        self.remove(&call);
        let bytes = bytes.saturating_add(OVERHEAD);
        self.count(uid, bytes);
        self.spools.insert(call, SpoolEntry { uid, bytes, age, hold });
    }

    fn count(&mut self, uid: u32, more: u64) {
        *self.users.entry(uid).or_default() += more;
        self.total += more;
    }

    /// Reserves up to `more` bytes for a spool within its user's quota. Returns how many.
    pub(super) fn take(&mut self, call: &CallId, more: u64, most: u64) -> u64 {
        let Some(held) = self.spools.get_mut(call) else { return 0 };
        let used = self.users.get(&held.uid).copied().unwrap_or_default();
        let granted = more.min(most.saturating_sub(used));
        held.bytes += granted;
        let uid = held.uid;
        self.count(uid, granted);
        granted
    }

    /// Marks a spool as complete, so that it may be deleted when it is the oldest.
    pub(super) fn close(&mut self, call: &CallId, now: Moment) {
        if let Some(held) = self.spools.get_mut(call) {
            held.hold = SpoolStatus::Closed;
            held.age = Age::new(now);
        }
    }

    /// Removes a spool from the index; returns its size.
    pub(super) fn remove(&mut self, call: &CallId) -> u64 {
        let Some(held) = self.spools.remove(call) else { return 0 };
        self.total -= held.bytes;
        if let Some(used) = self.users.get_mut(&held.uid) {
            *used -= held.bytes;
            if *used == 0 {
                self.users.remove(&held.uid);
            }
        }
        held.bytes
    }

    /// Returns `true` if the spool is in the index.
    pub(super) fn knows(&self, call: &CallId) -> bool {
        self.spools.contains_key(call)
    }

    /// Returns the size of a user's spools.
    pub(super) fn used(&self, uid: u32) -> u64 {
        self.users.get(&uid).copied().unwrap_or_default()
    }

    /// Returns the size of the spools of every user who has any.
    pub(super) fn users(&self) -> Vec<(u32, u64)> {
        self.users.iter().map(|(uid, bytes)| (*uid, *bytes)).collect()
    }

    /// Returns the age of a user's oldest spool that may be deleted.
    pub(super) fn oldest(&self, uid: u32, now: Moment) -> Option<Duration> {
        self.closed().filter(|(_, held)| held.uid == uid).map(|(_, held)| held.age.at(now)).max()
    }

    fn closed(&self) -> impl Iterator<Item = (&CallId, &SpoolEntry)> {
        self.spools.iter().filter(|(_, held)| held.hold == SpoolStatus::Closed)
    }

    /// Removes spools that are at least `age` old, of one user or of all. Returns them.
    pub(super) fn expire(&mut self, uid: Option<u32>, age: Duration, now: Moment) -> Vec<CallId> {
        let of =
            |held: &SpoolEntry| uid.is_none_or(|uid| uid == held.uid) && held.age.at(now) >= age;
        let gone = self.closed().filter(|(_, held)| of(held)).map(|(call, _)| call.clone());
        let gone: Vec<CallId> = gone.collect();
        for call in &gone {
            self.remove(call);
        }
        gone
    }

    /// Removes a user's oldest spools until `more` bytes fit into that user's quota. Returns them.
    pub(super) fn make_room_of(
        &mut self,
        uid: u32,
        more: u64,
        most: u64,
        now: Moment,
    ) -> Vec<CallId> {
        let mut gone = Vec::new();
        while self.used(uid).saturating_add(OVERHEAD).saturating_add(more) > most {
            let own = self.closed().filter(|(_, held)| held.uid == uid);
            let oldest = own.map(|(call, held)| ((held.age.at(now), call.as_str()), call.clone()));
            let Some((_, call)) = oldest.max_by(|(a, _), (b, _)| a.cmp(b)) else { break };
            self.remove(&call);
            gone.push(call);
        }
        gone
    }

    /// Removes the oldest spool of whoever has most until `more` bytes fit. Returns the removed
    /// ones.
    pub(super) fn make_room(&mut self, more: u64, most: u64, now: Moment) -> Vec<CallId> {
        let mut gone = Vec::new();
        while self.total.saturating_add(more) > most {
            let may_go = self.closed().map(|(call, held)| {
                ((self.used(held.uid), held.age.at(now), call.as_str()), call.clone())
            });
            let Some((_, call)) = may_go.max_by(|(a, _), (b, _)| a.cmp(b)) else { break };
            self.remove(&call);
            gone.push(call);
        }
        gone
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(name: &str) -> CallId {
        name.parse().unwrap()
    }

    #[test]
    fn a_user_has_no_more_than_their_share_and_gets_it_back() {
        let (mut shelf, now) = (SpoolIndex::default(), Moment::now());
        let most = 2 * OVERHEAD + 100;
        shelf.add(call("a"), 7, 0, (Age::new(now), SpoolStatus::Open));
        shelf.add(call("b"), 7, 0, (Age::new(now), SpoolStatus::Open));
        shelf.add(call("c"), 8, 0, (Age::new(now), SpoolStatus::Open));
        assert_eq!(shelf.take(&call("a"), 60, most), 60);
        assert_eq!(shelf.take(&call("b"), 60, most), 40);
        assert_eq!(shelf.take(&call("b"), 60, most), 0);
        // Another user has a quota of their own.
        assert_eq!(shelf.take(&call("c"), 60, most), 60);
        assert_eq!((shelf.used(7), shelf.used(8), shelf.used(9)), (most, OVERHEAD + 60, 0));
        assert_eq!(shelf.remove(&call("a")), OVERHEAD + 60);
        assert_eq!(shelf.take(&call("b"), 60, most), 60);
        assert_eq!(shelf.take(&call("gone"), 60, most), 0);
        shelf.remove(&call("b"));
        assert_eq!(shelf.users(), [(8, OVERHEAD + 60)]);
        shelf.remove(&call("c"));
        assert_eq!((shelf.users(), shelf.total), (vec![], 0));
    }

    #[test]
    fn what_is_written_stays_and_what_is_old_goes() {
        let (mut shelf, now) = (SpoolIndex::default(), Moment::now());
        let (hour, day) = (Duration::from_secs(3600), Duration::from_secs(24 * 3600));
        for (name, uid) in [("a", 7), ("b", 8), ("open", 7)] {
            shelf.add(call(name), uid, 1, (Age::new(now), SpoolStatus::Open));
        }
        assert_eq!(shelf.expire(None, Duration::ZERO, now), []);
        shelf.close(&call("a"), now);
        shelf.close(&call("b"), now.later(hour));
        let later = now.later(2 * hour);
        assert_eq!((shelf.oldest(7, later), shelf.oldest(8, later)), (Some(2 * hour), Some(hour)));
        assert_eq!(shelf.expire(Some(8), 2 * hour, later), []);
        assert_eq!(shelf.expire(None, day, now.later(day)), [call("a")]);
        assert_eq!(shelf.expire(Some(8), hour, later), [call("b")]);
        assert_eq!(shelf.users(), [(7, OVERHEAD + 1)]);
    }

    #[test]
    fn whoever_has_most_makes_room_for_the_others() {
        let (mut shelf, now) = (SpoolIndex::default(), Moment::now());
        let age = |seconds| Age::since(now.clock - Duration::from_secs(seconds), now);
        shelf.add(call("small"), 8, 1000, (age(900), SpoolStatus::Closed));
        for (name, seconds) in [("young", 100), ("old", 200), ("middle", 150)] {
            shelf.add(call(name), 7, 1000, (age(seconds), SpoolStatus::Closed));
        }
        assert_eq!(shelf.make_room_of(7, 0, 4 * (OVERHEAD + 1000), now), []);
        assert_eq!(shelf.make_room_of(8, 0, OVERHEAD, now), [call("small")]);
        shelf.add(call("small"), 8, 1000, (age(900), SpoolStatus::Closed));
        let all = shelf.total;
        assert_eq!(shelf.make_room(0, all, now), []);
        assert_eq!(shelf.make_room(1, all, now), [call("old")]);
        assert_eq!(shelf.make_room(all, all, now).first(), Some(&call("middle")));
        assert_eq!(shelf.total, 0);
    }
}
