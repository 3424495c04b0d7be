//! The hosts that a recording session was allowed to connect to, for the results of its calls. Runs in
//! the broker.

use palisade_egress_protocol::host::Target;
use palisade_plan::{
    Path,
    record::{RecordedUse, Right, TargetKind},
};
use std::{
    collections::BTreeSet,
    sync::{Mutex, PoisonError},
};

/// Most hosts that are kept. A run with more is recorded as incomplete.
const MOST: usize = 1024;

/// The hosts that a session was allowed to connect to.
#[derive(Debug, Default)]
pub(crate) struct UsedHosts(Mutex<(BTreeSet<Target>, u64)>);

impl UsedHosts {
    /// Notes a host that a connection was allowed to.
    pub(crate) fn note(&self, target: &Target) {
        let mut noted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (hosts, lost) = &mut *noted;
        if hosts.len() < MOST {
            hosts.insert(target.clone());
        } else if !hosts.contains(target) {
            *lost += 1;
        }
    }

    /// Returns the hosts so far as accesses, and the number of those that were not kept.
    pub(crate) fn accesses(&self) -> (Vec<RecordedUse>, u64) {
        let noted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let access = |target: &Target| RecordedUse {
            right: Right::Connect,
            path: Path(target.to_string().into_bytes()),
            kind: TargetKind::Address,
        };
        (noted.0.iter().map(access).collect(), noted.1)
    }
}
