//! Makes room for undo records: own work is deleted, oldest first; a record that holds a loss
//! stays. Runs in the broker. Pure: no I/O.

use super::{
    bounds::{ALL, ALL_OF_USER, SESSION_RECORDS, SpaceUsed, USER_RECORDS},
    error::UndoError,
    full::StoreFull,
    head::Head,
    holds::DeletionLoss,
    index::{Index, RecordStatus},
};
use crate::{base::quotas::UndoBounds, stores::moment::Moment};
use palisade_protocol::CallId;

/// The growth of a record, and the limits that apply.
#[derive(Debug, Clone, Copy)]
pub(super) struct SpaceRequest {
    pub(super) bytes: u64,
    /// The bytes that completing the record will need in addition.
    pub(super) later: u64,
    /// The limit of one call's record, and of its session's own work.
    pub(super) session: u64,
    /// The limits of its user's records.
    pub(super) user: UndoBounds,
}

impl Index {
    /// Adds to the size of a record. Own work is removed to make room, and listed in `gone`. If
    /// that is not enough, the record is refused and no own work is removed.
    pub(super) fn grow(
        &mut self,
        head: &Head,
        more: SpaceRequest,
        now: Moment,
        gone: &mut Vec<CallId>,
    ) -> Result<(), UndoError> {
        self.check(head, more, now, gone)?;
        self.charge(head, more.bytes);
        while let Some(victim) = self.victim(head, more) {
            self.remove(&victim);
            gone.push(victim);
        }
        Ok(())
    }

    /// Refuses a record that exceeds the limit of one call, or for which its user's store has no
    /// room even without own work. Expired records are removed first.
    pub(super) fn check(
        &mut self,
        head: &Head,
        more: SpaceRequest,
        now: Moment,
        gone: &mut Vec<CallId>,
    ) -> Result<(), UndoError> {
        let own = self.known(&head.call_id).map_or(0, |known| known.bytes);
        if own.saturating_add(more.bytes) > more.session {
            return Err(UndoError::TooLarge("it exceeds the limit of one call"));
        }
        if self.refused(head, more).is_some() {
            gone.extend(self.expire(now, more.user.keep, Some(head.uid)));
        }
        let Some(used) = self.refused(head, more) else { return Ok(()) };
        let known = self.records.values().filter(|known| known.head.uid == head.uid);
        let kept = known.filter(|known| known.hold == RecordStatus::Free(DeletionLoss::Loss));
        Err(UndoError::Full(StoreFull {
            uid: head.uid,
            // The record itself is not complete, and so not counted.
            used: used.less(SpaceUsed { bytes: own, records: 1 }),
            most: most(more.user),
            more: own.saturating_add(more.bytes).saturating_add(more.later),
            oldest: kept.map(|known| known.age.at(now)).max(),
            keep: more.user.keep,
        }))
    }

    /// Returns the space that is occupied, if there is no room for the record.
    fn refused(&self, head: &Head, more: SpaceRequest) -> Option<SpaceUsed> {
        let used = self.share(head.uid).kept;
        let needed = SpaceUsed { bytes: more.bytes.saturating_add(more.later), records: 0 };
        used.and(needed).is_over(most(more.user)).then_some(used)
    }

    /// Returns the next record to delete for one that is being written, if necessary.
    fn victim(&self, head: &Head, more: SpaceRequest) -> Option<CallId> {
        let bytes = self.known(&head.call_id).map_or(0, |known| known.bytes);
        let this = SpaceUsed { bytes, records: 1 };
        let session = SpaceUsed { bytes: more.session, records: SESSION_RECORDS };
        let user = SpaceUsed { bytes: u64::MAX, records: USER_RECORDS };
        let of_user = self.share(head.uid);
        if self.share_of_session(&head.session).own.and(this).is_over(session) {
            return self.oldest_own(|known| known.session == head.session);
        }
        let later = SpaceUsed { bytes: more.later, records: 0 };
        if of_user.own.and(this).is_over(user)
            || of_user.total().and(later).is_over(most(more.user))
        {
            return self.oldest_own(|known| known.uid == head.uid);
        }
        if self.all.own.and(this).is_over(ALL) {
            let most = self.users.iter().max_by_key(|(uid, share)| (share.own.bytes, **uid));
            let most = most.map_or(head.uid, |(uid, _)| *uid);
            return self.oldest_own(|known| known.uid == most);
        }
        None
    }
}

const fn most(user: UndoBounds) -> SpaceUsed {
    SpaceUsed { bytes: user.bytes, records: ALL_OF_USER }
}
