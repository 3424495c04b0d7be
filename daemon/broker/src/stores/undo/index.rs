//! The index of undo records, by owner and size. Runs in the broker. Pure: no I/O.

use super::{
    bounds::SpaceUsed,
    error::UndoError,
    head::{Head, Owner},
    holds::DeletionLoss,
};
use crate::stores::moment::{Age, Moment};
use palisade_protocol::{CallId, SessionId};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    time::{Duration, SystemTime},
};

/// The position of a record. The call id makes it unique if several daemons of one user share a
/// directory.
type RecordPosition = (u64, CallId);

/// All records, oldest first.
#[derive(Debug, Default)]
pub(super) struct Index {
    pub(super) records: BTreeMap<RecordPosition, IndexedRecord>,
    /// The records of own work.
    own: BTreeSet<RecordPosition>,
    places: HashMap<CallId, RecordPosition>,
    sessions: HashMap<SessionId, SpaceShares>,
    pub(super) users: HashMap<u32, SpaceShares>,
    pub(super) all: SpaceShares,
}

#[derive(Debug)]
pub(super) struct IndexedRecord {
    pub(super) head: Head,
    pub(super) bytes: u64,
    pub(super) hold: RecordStatus,
    pub(super) age: Age,
}

/// The status of a record, which decides whether it may be deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RecordStatus {
    /// It is being written and may not be deleted.
    Held,
    /// It is complete; what it holds decides.
    Free(DeletionLoss),
}

/// The space that records occupy, by whether they may be deleted early.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct SpaceShares {
    /// Records that hold a loss, and those that are being written.
    pub(super) kept: SpaceUsed,
    /// Records of own work.
    pub(super) own: SpaceUsed,
}

impl SpaceShares {
    const fn of(&mut self, hold: RecordStatus) -> &mut SpaceUsed {
        match hold {
            RecordStatus::Held | RecordStatus::Free(DeletionLoss::Loss) => &mut self.kept,
            RecordStatus::Free(DeletionLoss::OwnWork) => &mut self.own,
        }
    }

    pub(super) const fn total(self) -> SpaceUsed {
        self.kept.and(self.own)
    }
}

impl IndexedRecord {
    const fn sum(&self) -> SpaceUsed {
        SpaceUsed { bytes: self.bytes, records: 1 }
    }
}

impl Index {
    /// Returns the position for the next record: by the clock, and never before an existing one.
    pub(super) fn next(&self, now: SystemTime) -> u64 {
        let since = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let last = self.records.last_key_value().map_or(0, |((last, _), _)| *last);
        u64::try_from(since.as_nanos()).unwrap_or_default().max(last.saturating_add(1))
    }

    /// Adds a record.
    pub(super) fn insert(&mut self, head: Head, bytes: u64, (hold, age): (RecordStatus, Age)) {
        let place = (head.order, head.call_id.clone());
        if hold == RecordStatus::Free(DeletionLoss::OwnWork) {
            self.own.insert(place.clone());
        }
        let known = IndexedRecord { head, bytes, hold, age };
        self.add(&known.head, hold, known.sum());
        self.places.insert(place.1.clone(), place.clone());
        self.records.insert(place, known);
    }

    fn add(&mut self, head: &Head, hold: RecordStatus, more: SpaceUsed) {
        let session = self.sessions.entry(head.session.clone()).or_default();
        let user = self.users.entry(head.uid).or_default();
        for share in [session, user, &mut self.all] {
            let sum = share.of(hold);
            *sum = sum.and(more);
        }
    }

    fn take(&mut self, head: &Head, hold: RecordStatus, less: SpaceUsed) {
        let drop = |share: &mut SpaceShares| {
            let sum = share.of(hold);
            *sum = sum.less(less);
            share.total().records == 0
        };
        drop(&mut self.all);
        if self.sessions.get_mut(&head.session).is_some_and(drop) {
            self.sessions.remove(&head.session);
        }
        if self.users.get_mut(&head.uid).is_some_and(drop) {
            self.users.remove(&head.uid);
        }
    }

    /// Removes a record from the index. Returns false if it was not there.
    pub(super) fn remove(&mut self, call: &CallId) -> bool {
        let Some(place) = self.places.remove(call) else { return false };
        self.own.remove(&place);
        let Some(known) = self.records.remove(&place) else { return false };
        self.take(&known.head, known.hold, known.sum());
        true
    }

    pub(super) fn known(&self, call: &CallId) -> Option<&IndexedRecord> {
        self.places.get(call).and_then(|place| self.records.get(place))
    }

    fn known_mut(&mut self, call: &CallId) -> Option<&mut IndexedRecord> {
        self.places.get(call).and_then(|place| self.records.get_mut(place))
    }

    /// Marks a record as complete, with what it holds.
    pub(super) fn free(&mut self, call: &CallId, holds: DeletionLoss) {
        let Some(known) = self.known_mut(call) else { return };
        let (before, after) = (known.hold, RecordStatus::Free(holds));
        known.hold = after;
        let (head, sum) = (known.head.clone(), known.sum());
        self.take(&head, before, sum);
        self.add(&head, after, sum);
        if holds == DeletionLoss::OwnWork {
            self.own.insert((head.order, head.call_id));
        }
    }

    /// Returns the oldest record of own work that satisfies the condition.
    pub(super) fn oldest_own(&self, of: impl Fn(&Head) -> bool) -> Option<CallId> {
        let mut own = self.own.iter().filter_map(|place| self.records.get(place));
        own.find(|known| of(&known.head)).map(|known| known.head.call_id.clone())
    }

    /// Adds to the size of a record.
    pub(super) fn charge(&mut self, head: &Head, more: u64) {
        if let Some(known) = self.known_mut(&head.call_id) {
            known.bytes += more;
            let hold = known.hold;
            self.add(head, hold, SpaceUsed { bytes: more, records: 0 });
        }
    }

    /// Returns the size of a user's records.
    pub(super) fn used(&self, uid: u32) -> u64 {
        self.share(uid).total().bytes
    }

    pub(super) fn share(&self, uid: u32) -> SpaceShares {
        self.users.get(&uid).copied().unwrap_or_default()
    }

    pub(super) fn share_of_session(&self, session: &SessionId) -> SpaceShares {
        self.sessions.get(session).copied().unwrap_or_default()
    }

    /// Returns the size of the records of every user who has any.
    pub(super) fn users(&self) -> Vec<(u32, u64)> {
        self.users.iter().map(|(uid, share)| (*uid, share.total().bytes)).collect()
    }

    /// Removes records that are at least `age` old, of one user or of all. Returns them.
    pub(super) fn expire(&mut self, now: Moment, age: Duration, uid: Option<u32>) -> Vec<CallId> {
        let old = |known: &&IndexedRecord| {
            known.hold != RecordStatus::Held
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

    /// Returns a call that this user may undo in this workspace. Another user's call counts as
    /// missing.
    pub(super) fn find(&self, owner: &Owner, call: &CallId) -> Result<&Head, UndoError> {
        let head = &self
            .known(call)
            .filter(|known| known.head.uid == owner.uid && known.hold != RecordStatus::Held)
            .ok_or_else(|| UndoError::None(call.clone()))?
            .head;
        if head.workspace != owner.workspace {
            let place = String::from_utf8_lossy(&head.workspace.0).into_owned();
            return Err(UndoError::Elsewhere(call.clone(), place));
        }
        Ok(head)
    }

    /// Returns the calls of the same session that came after a call, newest first.
    pub(super) fn since(&self, owner: &Owner, call: &CallId) -> Result<Vec<Head>, UndoError> {
        let point = self.find(owner, call)?;
        let later = self.records.values().rev().take_while(|known| known.head.order > point.order);
        let of_session = later.filter(|known| known.head.session == point.session);
        let calls: Vec<Head> = of_session.map(|known| known.head.clone()).collect();
        if calls.is_empty() { Err(UndoError::NothingSince(call.clone())) } else { Ok(calls) }
    }

    /// Returns a user's calls in a workspace whose records are not being written.
    pub(super) fn idle(&self, owner: &Owner) -> Vec<Head> {
        let of = |known: &&IndexedRecord| {
            known.hold != RecordStatus::Held
                && (known.head.uid, &known.head.workspace) == (owner.uid, &owner.workspace)
        };
        self.records.values().filter(of).map(|known| known.head.clone()).collect()
    }

    /// Returns `true` if there is a record of a call.
    pub(super) fn knows(&self, call: &CallId) -> bool {
        self.places.contains_key(call)
    }

    /// Returns the space that a session's records occupy, and that of all records.
    #[cfg(test)]
    pub(super) fn sums(&self, session: &SessionId) -> (SpaceUsed, SpaceUsed) {
        (self.share_of_session(session).total(), self.all.total())
    }
}

/// Returns the age of a record, from the time in its head.
pub(super) fn age(head: &Head, now: Moment) -> Age {
    let made = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(head.time));
    Age::since(made.unwrap_or(now.clock), now)
}

/// Converts a time to seconds since 1970.
pub(super) fn seconds(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
}
