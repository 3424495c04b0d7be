//! The share of the undo store that each user occupies, and how room is made. Runs in the broker.

use super::{error::UndoError, head::Head, index::Index, room::SpaceRequest, store::Undos};
use crate::{base::quotas::UndoBounds, stores::moment::Moment};
use std::{sync::PoisonError, time::Duration};

impl Undos {
    /// Sets the limits of each user from now on.
    pub(crate) fn allow(&self, of_user: UndoBounds) {
        *self.shared.of_user.lock().unwrap_or_else(PoisonError::into_inner) = of_user;
    }

    pub(super) fn bounds(&self) -> UndoBounds {
        *self.shared.of_user.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Deletes records that are at least `age` old, of one user or of all. Returns how many, and
    /// their size.
    pub(crate) fn release(&self, uid: Option<u32>, age: Duration) -> Result<(u64, u64), UndoError> {
        let (gone, bytes) = self.index(|index| {
            let sum = |index: &Index| index.users().iter().map(|(_, bytes)| bytes).sum::<u64>();
            let before = sum(index);
            let gone = index.expire(Moment::now(), age, uid);
            Ok((gone, before - sum(index)))
        })?;
        self.unlink(&gone)?;
        Ok((gone.len() as u64, bytes))
    }

    /// Returns the size of each user's records.
    pub(crate) fn users(&self) -> Vec<(u32, u64)> {
        self.index(|index| Ok(index.users())).unwrap_or_default()
    }

    /// Returns the size of one user's records.
    pub(crate) fn used(&self, uid: u32) -> u64 {
        self.index(|index| Ok(index.used(uid))).unwrap_or_default()
    }

    fn more(&self, (bytes, later): (u64, u64), session: u64) -> SpaceRequest {
        SpaceRequest { bytes, later, session, user: self.bounds() }
    }

    /// Adds to the size of a record, and reserves what completing it will need. Own work is deleted
    /// to make room.
    pub(super) fn grow(&self, head: &Head, more: (u64, u64), room: u64) -> Result<(), UndoError> {
        let (more, mut gone) = (self.more(more, room), Vec::new());
        let grown = self.index(|index| Ok(index.grow(head, more, Moment::now(), &mut gone)))?;
        self.unlink(&gone)?;
        grown
    }

    /// Refuses a record for which there will be no room, before any own work is deleted for it.
    pub(super) fn check_future_room(
        &self,
        head: &Head,
        more: (u64, u64),
        room: u64,
    ) -> Result<(), UndoError> {
        let (more, mut gone) = (self.more(more, room), Vec::new());
        let known = self.index(|index| Ok(index.check(head, more, Moment::now(), &mut gone)))?;
        self.unlink(&gone)?;
        known
    }

    /// Adds to the size of a record, within what was reserved.
    pub(super) fn charge(&self, head: &Head, more: u64) {
        if let Some(index) = self.lock().as_mut() {
            index.charge(head, more);
        }
    }
}
