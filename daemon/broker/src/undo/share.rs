//! How much is kept of each user's calls, and who makes room for whom. Broker.

use super::{
    error::UndoError,
    head::Head,
    index::{Index, More},
    store::Undos,
};
use crate::{moment::Moment, quotas::Bound};
use std::{sync::PoisonError, time::Duration};

impl Undos {
    /// Lets one user hold this much from now on.
    pub(crate) fn allow(&self, of_user: Bound) {
        *self.shared.of_user.lock().unwrap_or_else(PoisonError::into_inner) = of_user;
    }

    /// Lets go of what is at least so old, of one user or of all. Says how many calls can not be
    /// undone any more, and how much that was.
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

    /// What is kept of each user's calls.
    pub(crate) fn users(&self) -> Vec<(u32, u64)> {
        self.index(|index| Ok(index.users())).unwrap_or_default()
    }

    /// The same of one.
    pub(crate) fn used(&self, uid: u32) -> u64 {
        self.index(|index| Ok(index.used(uid))).unwrap_or_default()
    }

    fn more(&self, (bytes, later): (u64, u64), session: u64) -> More {
        let user = *self.shared.of_user.lock().unwrap_or_else(PoisonError::into_inner);
        More { bytes, later, session, user }
    }

    /// A record takes more, and will take some when it is completed; the oldest of its session go for
    /// that.
    pub(super) fn grow(&self, head: &Head, more: (u64, u64), room: u64) -> Result<(), UndoError> {
        let (more, mut gone) = (self.more(more, room), Vec::new());
        let grown = self.index(|index| Ok(index.grow(head, more, Moment::now(), &mut gone)))?;
        self.unlink(&gone)?;
        grown
    }

    /// Refuses what there will be no room for, before anything has to go for it.
    pub(super) fn foresee(&self, head: &Head, more: u64, room: u64) -> Result<(), UndoError> {
        let (more, mut gone) = (self.more((more, 0), room), Vec::new());
        let known = self.index(|index| Ok(index.check(head, more, Moment::now(), &mut gone)))?;
        self.unlink(&gone)?;
        known
    }

    /// Counts what a record took for which there was room.
    pub(super) fn charge(&self, head: &Head, more: u64) {
        if let Some(index) = self.lock().as_mut() {
            index.charge(head, more);
        }
    }
}
