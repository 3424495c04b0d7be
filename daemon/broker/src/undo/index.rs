//! What is kept, whose it is and how much: the oldest go when it is too much. Broker, pure.

use super::{
    bounds::{ALL, MAX_AGE, SESSION_RECORDS, Sum, USER_RECORDS},
    error::UndoError,
    head::{Head, Owner},
};
use crate::{
    moment::{Age, Moment},
    quotas::{Bound, Full, Kept, Past},
};
use palisade_protocol::{CallId, SessionId};
use std::{
    collections::{BTreeMap, HashMap},
    time::{Duration, SystemTime},
};

/// Which came first; several daemons of one user may share a directory.
type Place = (u64, CallId);

/// Everything that is kept, oldest first.
#[derive(Debug, Default)]
pub(super) struct Index {
    records: BTreeMap<Place, Known>,
    places: HashMap<CallId, Place>,
    sessions: HashMap<SessionId, Sum>,
    users: HashMap<u32, Sum>,
    all: Sum,
}

#[derive(Debug)]
struct Known {
    head: Head,
    bytes: u64,
    hold: Hold,
    age: Age,
}

/// How much more a record takes, and what there may be.
#[derive(Debug, Clone, Copy)]
pub(super) struct More {
    pub(super) bytes: u64,
    /// What it will take besides, when it is completed.
    pub(super) later: u64,
    /// What its session may hold.
    pub(super) session: u64,
    /// What its user may.
    pub(super) user: Bound,
}

/// Whether a record may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hold {
    /// It is being written.
    Held,
    /// It may.
    Free,
}

impl Index {
    /// The order of the next: by the clock, and never before one that is there.
    pub(super) fn next(&self, now: SystemTime) -> u64 {
        let since = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let last = self.records.last_key_value().map_or(0, |((last, _), _)| *last);
        u64::try_from(since.as_nanos()).unwrap_or_default().max(last.saturating_add(1))
    }

    /// Adds a record.
    pub(super) fn insert(&mut self, head: Head, bytes: u64, (hold, age): (Hold, Age)) {
        self.add(&head, Sum { bytes, records: 1 });
        let place = (head.order, head.call_id.clone());
        self.places.insert(head.call_id.clone(), place.clone());
        self.records.insert(place, Known { head, bytes, hold, age });
    }

    fn add(&mut self, head: &Head, more: Sum) {
        let session = self.sessions.entry(head.session.clone()).or_default();
        let user = self.users.entry(head.uid).or_default();
        for sum in [session, user, &mut self.all] {
            sum.bytes += more.bytes;
            sum.records += more.records;
        }
    }

    /// Takes a record out.
    pub(super) fn remove(&mut self, call: &CallId) -> bool {
        let known = self.places.remove(call).and_then(|place| self.records.remove(&place));
        let Some(Known { head, bytes, .. }) = known else { return false };
        let less = |sum: &mut Sum| {
            sum.bytes -= bytes;
            sum.records -= 1;
        };
        less(&mut self.all);
        if let Some(sum) = self.sessions.get_mut(&head.session) {
            less(sum);
            if sum.records == 0 {
                self.sessions.remove(&head.session);
            }
        }
        if let Some(sum) = self.users.get_mut(&head.uid) {
            less(sum);
            if sum.records == 0 {
                self.users.remove(&head.uid);
            }
        }
        true
    }

    /// A record is written: it may go when it is the oldest.
    pub(super) fn free(&mut self, call: &CallId) {
        if let Some(known) = self.places.get(call).and_then(|place| self.records.get_mut(place)) {
            known.hold = Hold::Free;
        }
    }

    /// A record takes more; the oldest of its session go for that. A user's own bound makes nothing
    /// go: then nothing more is taken.
    pub(super) fn grow(
        &mut self,
        head: &Head,
        more: More,
        now: Moment,
        gone: &mut Vec<CallId>,
    ) -> Result<(), UndoError> {
        self.check(head, more, now, gone)?;
        self.charge(head, more.bytes);
        let session = Sum { bytes: more.session, records: SESSION_RECORDS };
        let bytes = match more.user.past {
            Past::Refused => u64::MAX,
            Past::OldestGo => more.user.bytes,
        };
        let user = Sum { bytes, records: USER_RECORDS };
        loop {
            let of = |sum: Option<&Sum>| sum.copied().unwrap_or_default();
            let oldest = if of(self.sessions.get(&head.session)).is_over(session) {
                self.oldest(|known| known.session == head.session)
            } else if of(self.users.get(&head.uid)).is_over(user) {
                self.oldest(|known| known.uid == head.uid)
            } else if self.all.is_over(ALL) {
                let most = self.users.iter().max_by_key(|(uid, sum)| (sum.bytes, **uid));
                let most = most.map_or(head.uid, |(uid, _)| *uid);
                self.oldest(|known| known.uid == most).or_else(|| self.oldest(|_| true))
            } else {
                return Ok(());
            };
            let oldest = oldest.ok_or(UndoError::TooLarge("there is no room for it"))?;
            self.remove(&oldest);
            gone.push(oldest);
        }
    }

    /// Refuses what its session could not hold by itself, and what its user may not hold besides what
    /// they have. What is too old goes first.
    pub(super) fn check(
        &mut self,
        head: &Head,
        more: More,
        now: Moment,
        gone: &mut Vec<CallId>,
    ) -> Result<(), UndoError> {
        let place = self.places.get(&head.call_id);
        let own = place.and_then(|place| self.records.get(place)).map_or(0, |known| known.bytes);
        let whole = own.saturating_add(more.bytes);
        if whole > more.session {
            return Err(UndoError::TooLarge("there is no room for it"));
        }
        if more.user.past == Past::OldestGo {
            return Ok(());
        }
        let needed = more.bytes.saturating_add(more.later);
        let used = |index: &Self| index.used(head.uid);
        // What its session lets go of for it is given back first.
        let held = self.sessions.get(&head.session).copied().unwrap_or_default().bytes;
        let freed = held.saturating_add(more.bytes).saturating_sub(more.session);
        let is_over =
            |used: u64| used.saturating_sub(freed).saturating_add(needed) > more.user.bytes;
        if is_over(used(self)) {
            gone.extend(self.expire(now, MAX_AGE, Some(head.uid)));
        }
        let used = used(self);
        if !is_over(used) {
            return Ok(());
        }
        let free = self.records.values().filter(|known| known.hold == Hold::Free);
        let oldest = free.filter(|known| known.head.uid == head.uid).map(|known| known.age.at(now));
        let oldest = oldest.max().map(|age| MAX_AGE.saturating_sub(age));
        let (uid, most) = (head.uid, more.user.bytes);
        Err(Full { kept: Kept::Undo, uid, used, most, more: needed, oldest }.into())
    }

    /// Counts what a record takes more.
    pub(super) fn charge(&mut self, head: &Head, more: u64) {
        let known = self.places.get(&head.call_id).and_then(|place| self.records.get_mut(place));
        if let Some(known) = known {
            known.bytes += more;
            self.add(head, Sum { bytes: more, records: 0 });
        }
    }

    /// What a user's records take.
    pub(super) fn used(&self, uid: u32) -> u64 {
        self.users.get(&uid).copied().unwrap_or_default().bytes
    }

    /// The same of every user who has any.
    pub(super) fn users(&self) -> Vec<(u32, u64)> {
        self.users.iter().map(|(uid, sum)| (*uid, sum.bytes)).collect()
    }

    fn oldest(&self, of: impl Fn(&Head) -> bool) -> Option<CallId> {
        let mut free = self.records.values().filter(|known| known.hold == Hold::Free);
        free.find(|known| of(&known.head)).map(|known| known.head.call_id.clone())
    }

    /// Takes out what is at least so old, of one user or of all.
    pub(super) fn expire(&mut self, now: Moment, age: Duration, uid: Option<u32>) -> Vec<CallId> {
        let old = |known: &&Known| {
            known.hold == Hold::Free
                && known.age.at(now) >= age
                && uid.is_none_or(|uid| uid == known.head.uid)
        };
        let gone: Vec<CallId> =
            self.records.values().filter(old).map(|known| known.head.call_id.clone()).collect();
        for call in &gone {
            self.remove(call);
        }
        gone
    }

    /// A call that this user may undo in this workspace. Another user's is like none.
    pub(super) fn find(&self, owner: &Owner, call: &CallId) -> Result<&Head, UndoError> {
        let known = self.places.get(call).and_then(|place| self.records.get(place));
        let head = &known
            .filter(|known| known.head.uid == owner.uid && known.hold == Hold::Free)
            .ok_or_else(|| UndoError::None(call.clone()))?
            .head;
        if head.workspace != owner.workspace {
            let place = String::from_utf8_lossy(&head.workspace.0).into_owned();
            return Err(UndoError::Elsewhere(call.clone(), place));
        }
        Ok(head)
    }

    /// The calls of a call's session that came after it, the newest first.
    pub(super) fn since(&self, owner: &Owner, call: &CallId) -> Result<Vec<Head>, UndoError> {
        let point = self.find(owner, call)?;
        let later = self.records.values().rev().take_while(|known| known.head.order > point.order);
        let of_session = later.filter(|known| known.head.session == point.session);
        let calls: Vec<Head> = of_session.map(|known| known.head.clone()).collect();
        if calls.is_empty() { Err(UndoError::NothingSince(call.clone())) } else { Ok(calls) }
    }

    /// A user's calls in a workspace that nobody writes any more.
    pub(super) fn idle(&self, owner: &Owner) -> Vec<Head> {
        let of = |known: &&Known| {
            known.hold == Hold::Free
                && (known.head.uid, &known.head.workspace) == (owner.uid, &owner.workspace)
        };
        self.records.values().filter(of).map(|known| known.head.clone()).collect()
    }

    /// Whether there is a record of a call.
    pub(super) fn knows(&self, call: &CallId) -> bool {
        self.places.contains_key(call)
    }

    /// How much a session holds, and everybody.
    #[cfg(test)]
    pub(super) fn sums(&self, session: &SessionId) -> (Sum, Sum) {
        (self.sessions.get(session).copied().unwrap_or_default(), self.all)
    }
}

/// When a record was made, as its head says.
pub(super) fn age(head: &Head, now: Moment) -> Age {
    let made = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(head.time));
    Age::since(made.unwrap_or(now.clock), now)
}

/// Seconds since 1970.
pub(super) fn seconds(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
}
