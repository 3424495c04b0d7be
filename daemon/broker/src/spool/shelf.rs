//! Whose spools there are and how much they hold: each user's have a bound together, and so have
//! all. Broker, pure.

use crate::moment::{Age, Moment};
use palisade_protocol::CallId;
use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

/// How long a spool is kept.
pub(super) const MAX_AGE: Duration = Duration::from_secs(24 * 60 * 60);
/// What a spool takes besides what is in it.
pub(super) const OVERHEAD: u64 = 4096;

/// Every spool.
#[derive(Debug, Default)]
pub(super) struct Shelf {
    spools: HashMap<CallId, Held>,
    users: BTreeMap<u32, u64>,
    total: u64,
}

#[derive(Debug)]
struct Held {
    uid: u32,
    bytes: u64,
    age: Age,
    hold: Hold,
}

/// Whether a spool may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hold {
    /// It is being written.
    Open,
    /// It may.
    Closed,
}

impl Shelf {
    /// Adds a spool that has this much in it.
    pub(super) fn add(&mut self, call: CallId, uid: u32, bytes: u64, (age, hold): (Age, Hold)) {
        self.remove(&call);
        let bytes = bytes.saturating_add(OVERHEAD);
        self.count(uid, bytes);
        self.spools.insert(call, Held { uid, bytes, age, hold });
    }

    fn count(&mut self, uid: u32, more: u64) {
        *self.users.entry(uid).or_default() += more;
        self.total += more;
    }

    /// Lets a spool have as much more as its user may; says how much that is.
    pub(super) fn take(&mut self, call: &CallId, more: u64, most: u64) -> u64 {
        let Some(held) = self.spools.get_mut(call) else { return 0 };
        let used = self.users.get(&held.uid).copied().unwrap_or_default();
        let granted = more.min(most.saturating_sub(used));
        held.bytes += granted;
        let uid = held.uid;
        self.count(uid, granted);
        granted
    }

    /// Nothing more comes: it may go when it is the oldest.
    pub(super) fn close(&mut self, call: &CallId, now: Moment) {
        if let Some(held) = self.spools.get_mut(call) {
            held.hold = Hold::Closed;
            held.age = Age::new(now);
        }
    }

    /// Takes a spool out; says what it took.
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

    /// Whether it is here.
    pub(super) fn knows(&self, call: &CallId) -> bool {
        self.spools.contains_key(call)
    }

    /// What a user's take together.
    pub(super) fn used(&self, uid: u32) -> u64 {
        self.users.get(&uid).copied().unwrap_or_default()
    }

    /// The same of every user who has any.
    pub(super) fn users(&self) -> Vec<(u32, u64)> {
        self.users.iter().map(|(uid, bytes)| (*uid, *bytes)).collect()
    }

    /// How old a user's oldest is that may go.
    pub(super) fn oldest(&self, uid: u32, now: Moment) -> Option<Duration> {
        self.closed().filter(|(_, held)| held.uid == uid).map(|(_, held)| held.age.at(now)).max()
    }

    fn closed(&self) -> impl Iterator<Item = (&CallId, &Held)> {
        self.spools.iter().filter(|(_, held)| held.hold == Hold::Closed)
    }

    /// Takes out what is so old, of one user or of all.
    pub(super) fn expire(&mut self, uid: Option<u32>, age: Duration, now: Moment) -> Vec<CallId> {
        let of = |held: &Held| uid.is_none_or(|uid| uid == held.uid) && held.age.at(now) >= age;
        let gone = self.closed().filter(|(_, held)| of(held)).map(|(call, _)| call.clone());
        let gone: Vec<CallId> = gone.collect();
        for call in &gone {
            self.remove(call);
        }
        gone
    }

    /// Takes out a user's oldest until there is room for so much more of theirs.
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

    /// Takes out the oldest of whoever has most until there is room for so much more.
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
        let (mut shelf, now) = (Shelf::default(), Moment::now());
        let most = 2 * OVERHEAD + 100;
        shelf.add(call("a"), 7, 0, (Age::new(now), Hold::Open));
        shelf.add(call("b"), 7, 0, (Age::new(now), Hold::Open));
        shelf.add(call("c"), 8, 0, (Age::new(now), Hold::Open));
        assert_eq!(shelf.take(&call("a"), 60, most), 60);
        assert_eq!(shelf.take(&call("b"), 60, most), 40);
        assert_eq!(shelf.take(&call("b"), 60, most), 0);
        // Another user has their own.
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
        let (mut shelf, now) = (Shelf::default(), Moment::now());
        let (hour, day) = (Duration::from_secs(3600), Duration::from_secs(24 * 3600));
        for (name, uid) in [("a", 7), ("b", 8), ("open", 7)] {
            shelf.add(call(name), uid, 1, (Age::new(now), Hold::Open));
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
        let (mut shelf, now) = (Shelf::default(), Moment::now());
        let age = |seconds| Age::since(now.clock - Duration::from_secs(seconds), now);
        shelf.add(call("small"), 8, 1000, (age(900), Hold::Closed));
        for (name, seconds) in [("young", 100), ("old", 200), ("middle", 150)] {
            shelf.add(call(name), 7, 1000, (age(seconds), Hold::Closed));
        }
        assert_eq!(shelf.make_room_of(7, 0, 4 * (OVERHEAD + 1000), now), []);
        assert_eq!(shelf.make_room_of(8, 0, OVERHEAD, now), [call("small")]);
        shelf.add(call("small"), 8, 1000, (age(900), Hold::Closed));
        let all = shelf.total;
        assert_eq!(shelf.make_room(0, all, now), []);
        assert_eq!(shelf.make_room(1, all, now), [call("old")]);
        assert_eq!(shelf.make_room(all, all, now).first(), Some(&call("middle")));
        assert_eq!(shelf.total, 0);
    }
}
