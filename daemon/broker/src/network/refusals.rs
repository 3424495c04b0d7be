//! Collects the refused connections of a session, so that a program which tries again and again fills
//! neither the audit log nor the memory. Pure: no I/O.

use palisade_egress_protocol::{RefusalKind, host::Target};
use palisade_protocol::CallId;
use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// Most refusals that are told apart; others are counted together.
const MOST: usize = 256;

/// The refused connections of a session.
#[derive(Debug, Default)]
pub(super) struct RefusalCounts(Mutex<RefusalTable>);

#[derive(Debug, Default)]
struct RefusalTable {
    each: BTreeMap<RefusalKey, u64>,
    others: u64,
}

/// Refusals that are counted together: of one target, while one call runs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RefusalKey {
    pub(super) call: Option<CallId>,
    pub(super) target: Option<Target>,
    pub(super) reason: String,
    pub(super) kind: RefusalKind,
}

/// The decision about the record of a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RefusalRecord {
    /// It is the first of its kind, and is recorded.
    Now,
    /// It is counted, and recorded when the session ends.
    Later,
}

impl RefusalCounts {
    fn counts(&self) -> MutexGuard<'_, RefusalTable> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a refusal.
    pub(super) fn count(&self, key: RefusalKey) -> RefusalRecord {
        let mut counts = self.counts();
        let is_full = counts.each.len() >= MOST;
        match counts.each.get_mut(&key) {
            Some(count) => *count += 1,
            None if is_full => counts.others += 1,
            None => {
                counts.each.insert(key, 0);
                return RefusalRecord::Now;
            }
        }
        RefusalRecord::Later
    }

    /// Takes the refusals that were not recorded, each with how often it occurred, and the number of
    /// those that were not told apart.
    pub(super) fn take(&self) -> (Vec<(RefusalKey, u64)>, u64) {
        let RefusalTable { each, others } = std::mem::take(&mut *self.counts());
        (each.into_iter().filter(|(_, count)| *count > 0).collect(), others)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use palisade_egress_protocol::host::{Host, HostName};

    fn key(name: &str) -> RefusalKey {
        let host = Host::Name(HostName::new(name).unwrap());
        let target = Some(Target { host, port: 443 });
        let (call, kind) = (None, RefusalKind::Ordinary);
        RefusalKey { call, target, reason: "not allowed".to_owned(), kind }
    }

    #[test]
    fn the_first_is_recorded_and_the_others_are_counted() {
        let counts = RefusalCounts::default();
        assert_eq!(counts.count(key("a.example")), RefusalRecord::Now);
        assert_eq!(counts.count(key("b.example")), RefusalRecord::Now);
        for _ in 0..1000 {
            assert_eq!(counts.count(key("a.example")), RefusalRecord::Later);
        }
        let later = RefusalKey { call: Some("c-1".parse().unwrap()), ..key("a.example") };
        assert_eq!(counts.count(later), RefusalRecord::Now, "another call");
        assert_eq!(counts.take(), (vec![(key("a.example"), 1000)], 0));
        assert_eq!(counts.take(), (Vec::new(), 0));
    }

    #[test]
    fn a_thousand_names_take_the_room_of_the_first() {
        let counts = RefusalCounts::default();
        let recorded = (0..1000)
            .filter(|number| counts.count(key(&format!("n{number}.example"))) == RefusalRecord::Now)
            .count();
        assert_eq!(recorded, MOST);
        assert_eq!(counts.take(), (Vec::new(), 1000 - MOST as u64));
    }
}
