//! Assigns records to calls. Runs in the broker. Pure: no I/O.

use super::{record::KernelAuditRecord, stamp::Clocks};
use palisade_policy::refused::KernelRefusal;
use std::{
    collections::{HashMap, VecDeque},
    time::Duration,
};

/// The most different denials stored for one call; the rest is counted.
const MOST: usize = 64;
/// The number of denials that may wait for the record that names their domain; it follows at once.
const UNCLAIMED: usize = 256;
/// The time after a call in which its records may arrive; they take well under a millisecond.
const LATEST: Duration = Duration::from_secs(1);
/// The number of domains and audit sessions of ended calls that are remembered.
const REMEMBERED: usize = 1024;

/// The denials of one call, and how to recognise its records.
#[derive(Debug, Default)]
pub(super) struct CallRecords {
    domain: Option<u64>,
    audit_session: Option<u32>,
    pub(super) refused: Vec<(KernelRefusal, u64)>,
    /// The number of denials that are not reported.
    pub(super) left_out: u64,
    /// True if a denial may belong to the previous call.
    pub(super) ambiguous: bool,
    /// True if the settings of the kernel's audit changed while the call ran.
    pub(super) audit_changed: bool,
    /// True once the runner's own denial after the call has arrived, and so all records before it.
    complete: bool,
}

impl CallRecords {
    fn add(&mut self, refused: KernelRefusal) {
        if let Some((_, count)) = self.refused.iter_mut().find(|(known, _)| *known == refused) {
            *count += 1;
        } else if self.refused.len() < MOST {
            self.refused.push((refused, 1));
        } else {
            self.left_out += 1;
        }
    }
}

/// A Landlock domain of one of this broker's calls.
#[derive(Debug)]
struct Domain {
    mark: String,
    seen: u64,
}

/// The denials of all calls.
#[derive(Debug, Default)]
pub(super) struct DenialBook {
    calls: HashMap<String, CallRecords>,
    domains: HashMap<u64, Domain>,
    /// The current call of each audit session.
    sessions: HashMap<u32, String>,
    /// The time, since boot, until which records of an audit session may belong to a call that has
    /// ended.
    ended: HashMap<u32, Duration>,
    unclaimed: VecDeque<(u64, KernelRefusal)>,
    fence: FenceDomain,
    /// The number of the fence's denials that have arrived.
    pub(super) fenced: u64,
    /// True once any runner's own denial has arrived.
    pub(super) runner_denial_arrived: bool,
    /// The number of denials of calls that did not arrive, or arrived too late.
    pub(super) lost: u64,
}

#[derive(Debug, Default)]
struct FenceDomain {
    name: String,
    domain: Option<u64>,
}

impl DenialBook {
    /// Replaces the fence by one with this name.
    pub(super) fn fence(&mut self, name: &str) {
        self.fence = FenceDomain { name: name.to_owned(), domain: None };
        self.fenced = 0;
    }

    /// Registers a call whose program is started, or is started ahead of it.
    pub(super) fn open(&mut self, mark: String) {
        self.calls.insert(mark, CallRecords::default());
    }

    /// Registers that a call begins. Records that were lost before are not its own.
    pub(super) fn begin(&mut self, mark: &str, audit_session: Option<u32>) {
        let Some(claim) = self.calls.get_mut(mark) else { return };
        claim.audit_session = audit_session;
        claim.left_out = 0;
        claim.audit_changed = false;
        if let Some(session) = audit_session {
            self.sessions.insert(session, mark.to_owned());
        }
    }

    /// Returns `true` if a denial of the call has arrived.
    pub(super) fn has_any(&self, mark: &str) -> bool {
        self.calls.get(mark).is_some_and(|claim| !claim.refused.is_empty())
    }

    /// Returns `true` if all denials of a call have arrived, as shown by its runner's own denial
    /// after it.
    pub(super) fn is_complete(&self, mark: &str) -> bool {
        self.calls.get(mark).is_some_and(|claim| claim.complete)
    }

    /// Unregisters a call that has ended and returns its denials.
    ///
    /// `until` is given if records of the call may still arrive. Records of its audit session up to
    /// that time are then not assigned to the next call.
    pub(super) fn close(&mut self, mark: &str, until: Option<Duration>) -> Option<CallRecords> {
        let claim = self.calls.remove(mark)?;
        if let Some(session) = claim.audit_session {
            self.sessions.remove(&session);
            match until {
                None => self.ended.remove(&session),
                Some(until) => {
                    if self.ended.len() >= REMEMBERED {
                        self.ended.retain(|_, at| *at + LATEST > until);
                    }
                    self.ended.insert(session, until)
                }
            };
        }
        if self.domains.len() >= REMEMBERED {
            let calls = &self.calls;
            self.domains.retain(|_, domain| calls.contains_key(&domain.mark));
        }
        Some(claim)
    }

    /// Counts dropped records against every call, since nobody knows whose they were.
    pub(super) fn overflow(&mut self) {
        self.lost += 1;
        self.calls.values_mut().for_each(|claim| claim.left_out += 1);
    }

    /// Enters a record, with the clocks at its arrival.
    pub(super) fn enter(&mut self, record: KernelAuditRecord, came: Clocks) {
        match record {
            KernelAuditRecord::Access { domain, refused } => self.access(domain, refused),
            KernelAuditRecord::Domain { domain, name } => self.domain(domain, name),
            KernelAuditRecord::Changed => {
                self.calls.values_mut().for_each(|claim| claim.audit_changed = true)
            }
            KernelAuditRecord::Over { domain, refusals } => {
                self.unclaimed.retain(|(unclaimed, _)| *unclaimed != domain);
                if let Some(known) = self.domains.remove(&domain) {
                    self.lost += refusals.saturating_sub(known.seen);
                }
            }
            KernelAuditRecord::Call { session, at, name, refused } => {
                match self.calls.get_mut(&name) {
                    Some(claim) => {
                        claim.complete = true;
                        self.runner_denial_arrived = true;
                    }
                    None => self.call(session, came.stamped(at), refused),
                }
            }
        }
    }

    fn access(&mut self, domain: u64, refused: KernelRefusal) {
        if self.fence.domain == Some(domain) {
            self.fenced += 1;
        } else if let Some(known) = self.domains.get_mut(&domain) {
            known.seen += 1;
            match self.calls.get_mut(&known.mark) {
                Some(claim) => claim.add(refused),
                None => self.lost += 1,
            }
        } else {
            if self.unclaimed.len() >= UNCLAIMED {
                self.unclaimed.pop_front();
            }
            self.unclaimed.push_back((domain, refused));
        }
    }

    /// Assigns a domain to its call by the creator's name. This record follows the domain's first
    /// denial.
    fn domain(&mut self, domain: u64, name: String) {
        let waiting = std::mem::take(&mut self.unclaimed);
        let (its, others): (VecDeque<_>, _) =
            waiting.into_iter().partition(|(unclaimed, _)| *unclaimed == domain);
        self.unclaimed = others;
        if name == self.fence.name && self.fence.domain.is_none() {
            self.fence.domain = Some(domain);
        } else if let Some(claim) = self.calls.get_mut(&name)
            // A mark identifies one domain only.
            && claim.domain.is_none()
        {
            claim.domain = Some(domain);
            self.domains.insert(domain, Domain { mark: name, seen: 0 });
        } else {
            return;
        }
        for (domain, refused) in its {
            self.access(domain, refused);
        }
    }

    fn call(&mut self, session: u32, at: Option<Duration>, refused: KernelRefusal) {
        let ended = self.ended.get(&session);
        let late = ended.is_some_and(|until| at.is_none_or(|at| at <= *until));
        match self.sessions.get(&session).and_then(|mark| self.calls.get_mut(mark)) {
            Some(claim) if late => {
                claim.ambiguous = true;
                self.lost += 1;
            }
            Some(claim) => claim.add(refused),
            None if self.ended.contains_key(&session) => self.lost += 1,
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use palisade_policy::refused::{RefusalTarget, Syscall};

    fn refused(path: &str) -> KernelRefusal {
        let rights = vec!["fs.make_reg".to_owned()];
        KernelRefusal::Landlock { rights, target: RefusalTarget::Path(path.to_owned()) }
    }

    fn access(domain: u64, path: &str) -> KernelAuditRecord {
        KernelAuditRecord::Access { domain, refused: refused(path) }
    }

    fn named(domain: u64, name: &str) -> KernelAuditRecord {
        KernelAuditRecord::Domain { domain, name: name.to_owned() }
    }

    const fn millis(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    /// Enters a record that arrives when both clocks, time of day and time since boot, are at one
    /// second.
    fn enter(book: &mut DenialBook, record: KernelAuditRecord) {
        book.enter(record, Clocks::at(millis(1000), millis(1000)));
    }

    fn call(session: u32, at: u64) -> KernelAuditRecord {
        called(session, at, "bash")
    }

    fn called(session: u32, at: u64, name: &str) -> KernelAuditRecord {
        let (name, refused) = (name.to_owned(), KernelRefusal::Seccomp(Syscall::Number(165)));
        KernelAuditRecord::Call { session, at: millis(at), name, refused }
    }

    /// Begins a call.
    fn begin(book: &mut DenialBook, mark: &str, audit_session: Option<u32>) {
        book.open(mark.to_owned());
        book.begin(mark, audit_session);
    }

    fn paths(book: &mut DenialBook, mark: &str) -> Vec<(KernelRefusal, u64)> {
        book.close(mark, None).unwrap().refused
    }

    #[test]
    fn a_refusal_is_the_calls_whose_mark_its_domain_has() {
        let mut book = DenialBook::default();
        begin(&mut book, "one", None);
        begin(&mut book, "two", None);
        for record in [
            access(1, "/a"),
            // Between them, one record of another call and one of no call.
            access(2, "/b"),
            access(3, "/c"),
            named(1, "one"),
            named(3, "somebody"),
            named(2, "two"),
            access(1, "/a"),
            access(3, "/c"),
        ] {
            enter(&mut book, record);
        }
        assert_eq!(paths(&mut book, "one"), [(refused("/a"), 2)]);
        assert_eq!(paths(&mut book, "two"), [(refused("/b"), 1)]);
        assert_eq!(book.lost, 0);
    }

    #[test]
    fn a_second_domain_of_the_same_name_claims_nothing() {
        let mut book = DenialBook::default();
        begin(&mut book, "one", None);
        for record in [access(1, "/a"), named(1, "one"), access(2, "/b"), named(2, "one")] {
            enter(&mut book, record);
        }
        assert_eq!(paths(&mut book, "one"), [(refused("/a"), 1)]);
    }

    #[test]
    fn what_is_missing_when_a_domain_is_over_is_counted() {
        let mut book = DenialBook::default();
        begin(&mut book, "one", None);
        enter(&mut book, access(1, "/a"));
        enter(&mut book, named(1, "one"));
        assert!(book.close("one", None).is_some());
        // This record arrives too late for the call.
        enter(&mut book, access(1, "/b"));
        assert_eq!(book.lost, 1);
        enter(&mut book, KernelAuditRecord::Over { domain: 1, refusals: 5 });
        assert_eq!(book.lost, 4);
        enter(&mut book, KernelAuditRecord::Over { domain: 9, refusals: 5 });
        assert_eq!(book.lost, 4);
    }

    #[test]
    fn a_system_call_is_that_of_the_one_call_that_its_runner_has() {
        let mut book = DenialBook::default();
        begin(&mut book, "one", Some(7));
        enter(&mut book, call(7, 100));
        enter(&mut book, call(8, 100));
        assert_eq!(paths(&mut book, "one").len(), 1);
        // All records of the first call had arrived, so any further one belongs to the next call.
        begin(&mut book, "two", Some(7));
        enter(&mut book, call(7, 100));
        assert_eq!(paths(&mut book, "two").len(), 1);
    }

    #[test]
    fn a_runners_own_refusal_ends_the_records_of_its_call_and_of_no_other() {
        let mut book = DenialBook::default();
        begin(&mut book, "one", Some(7));
        begin(&mut book, "two", Some(8));
        enter(&mut book, called(7, 100, "bash"));
        assert!(!book.is_complete("one") && !book.runner_denial_arrived);
        enter(&mut book, called(7, 100, "one"));
        assert!(book.is_complete("one") && !book.is_complete("two") && book.runner_denial_arrived);
        // The runner's own denial is not counted as one of the call.
        assert_eq!(paths(&mut book, "one").len(), 1);
        assert_eq!(paths(&mut book, "two").len(), 0);
        assert!(!book.is_complete("one"));
    }

    #[test]
    fn a_call_during_which_the_audit_changed_is_not_sure_of_its_records() {
        let mut book = DenialBook::default();
        begin(&mut book, "one", None);
        enter(&mut book, KernelAuditRecord::Changed);
        begin(&mut book, "two", None);
        assert!(book.close("one", None).unwrap().audit_changed);
        assert!(!book.close("two", None).unwrap().audit_changed);
    }

    #[test]
    fn a_record_that_may_be_of_the_call_before_is_not_claimed() {
        let mut book = DenialBook::default();
        begin(&mut book, "one", Some(7));
        assert!(book.close("one", Some(millis(100))).is_some());
        enter(&mut book, call(7, 99));
        assert_eq!(book.lost, 1);
        begin(&mut book, "two", Some(7));
        enter(&mut book, call(7, 100));
        let claim = book.close("two", None).unwrap();
        assert!(claim.refused.is_empty() && claim.ambiguous);
        begin(&mut book, "three", Some(7));
        enter(&mut book, call(7, 101));
        assert_eq!(paths(&mut book, "three").len(), 1);
    }

    #[test]
    fn a_clock_that_is_set_takes_no_record_from_its_call_and_gives_none_to_another() {
        // The host has been up for one second when the first call ends, and the time of day is 100
        // s.
        let day = |seconds: u64| Duration::from_secs(seconds);
        for set in [-90_i64, 90] {
            let mut book = DenialBook::default();
            begin(&mut book, "one", Some(7));
            assert!(book.close("one", Some(millis(1000))).is_some());
            begin(&mut book, "two", Some(7));
            // Two seconds later the clock has been set.
            let now = day(102_u64.checked_add_signed(set).unwrap());
            let came = Clocks::at(millis(3000), now);
            let (name, refused) = ("bash".to_owned(), KernelRefusal::Seccomp(Syscall::Number(165)));
            let at = |at| KernelAuditRecord::Call {
                session: 7,
                at,
                name: name.clone(),
                refused: refused.clone(),
            };
            book.enter(at(now - millis(1)), came);
            // A record of the first call, stamped before the clock was set: it must not go to the
            // second call.
            book.enter(at(day(99)), came);
            let claim = book.close("two", None).unwrap();
            assert_eq!(claim.refused, [(refused.clone(), 1)], "{set}");
            assert!(claim.ambiguous, "{set}");
        }
    }

    #[test]
    fn many_refusals_are_folded_and_bounded() {
        let mut book = DenialBook::default();
        begin(&mut book, "one", None);
        enter(&mut book, access(1, "/0"));
        enter(&mut book, named(1, "one"));
        for number in 0..100 {
            for _ in 0..3 {
                enter(&mut book, access(1, &format!("/{number}")));
            }
        }
        let claim = book.close("one", None).unwrap();
        assert_eq!(claim.refused.len(), MOST);
        assert_eq!(claim.refused[0], (refused("/0"), 4));
        assert_eq!(claim.left_out, 36 * 3);
    }

    #[test]
    fn a_fence_counts_its_own_and_forgets_the_one_before() {
        let mut book = DenialBook::default();
        book.fence("f");
        for record in [access(1, "/"), named(1, "f"), access(1, "/")] {
            enter(&mut book, record);
        }
        assert_eq!(book.fenced, 2);
        book.fence("g");
        enter(&mut book, access(1, "/"));
        assert_eq!(book.fenced, 0);
    }

    #[test]
    fn what_nobody_claims_does_not_pile_up() {
        let mut book = DenialBook::default();
        for number in 0..10_000 {
            enter(&mut book, access(number, "/a"));
        }
        assert_eq!(book.unclaimed.len(), UNCLAIMED);
    }
}
