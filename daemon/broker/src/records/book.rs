//! Which record is of which call. Broker, pure.

use super::{record::Record, stamp::Clocks};
use palisade_policy::refused::Refused;
use std::{
    collections::{HashMap, VecDeque},
    time::Duration,
};

/// How many different refusals of one call are kept; the rest is counted.
const MOST: usize = 64;
/// How many refusals wait to learn whose domain it was; the record of that follows at once.
const UNCLAIMED: usize = 256;
/// How long after a call its records may come; they take well under a millisecond.
const LATEST: Duration = Duration::from_secs(1);
/// How many domains and audit sessions of calls that ended are remembered.
const REMEMBERED: usize = 1024;

/// What is known of a call.
#[derive(Debug, Default)]
pub(super) struct Claim {
    domain: Option<u64>,
    audit_session: Option<u32>,
    pub(super) refused: Vec<(Refused, u64)>,
    /// Refusals that are not told.
    pub(super) left_out: u64,
    /// A refusal may be of the call before.
    pub(super) mixed: bool,
    /// The audit's settings changed while it ran.
    pub(super) unsettled: bool,
    /// The runner's own refusal after the call has come, and so has all that was before.
    whole: bool,
}

impl Claim {
    fn add(&mut self, refused: Refused) {
        if let Some((_, count)) = self.refused.iter_mut().find(|(known, _)| *known == refused) {
            *count += 1;
        } else if self.refused.len() < MOST {
            self.refused.push((refused, 1));
        } else {
            self.left_out += 1;
        }
    }
}

/// A domain of one of this broker's calls.
#[derive(Debug)]
struct Domain {
    mark: String,
    seen: u64,
}

/// What is known of all calls.
#[derive(Debug, Default)]
pub(super) struct Book {
    calls: HashMap<String, Claim>,
    domains: HashMap<u64, Domain>,
    /// Which call an audit session has now.
    sessions: HashMap<u32, String>,
    /// Until when records of an audit session may be of a call that has ended, since the start of
    /// the host.
    ended: HashMap<u32, Duration>,
    unclaimed: VecDeque<(u64, Refused)>,
    fence: Fence,
    /// How many of the fence's refusals have come.
    pub(super) fenced: u64,
    /// Whether a runner's own refusal ever came.
    pub(super) heard: bool,
    /// Refusals of calls that did not come, or too late.
    pub(super) lost: u64,
}

#[derive(Debug, Default)]
struct Fence {
    name: String,
    domain: Option<u64>,
}

impl Book {
    /// A fence of this name takes the place of the one before.
    pub(super) fn fence(&mut self, name: &str) {
        self.fence = Fence { name: name.to_owned(), domain: None };
        self.fenced = 0;
    }

    /// A call begins.
    pub(super) fn open(&mut self, mark: String, audit_session: Option<u32>) {
        if let Some(session) = audit_session {
            self.sessions.insert(session, mark.clone());
        }
        self.calls.insert(mark, Claim { audit_session, ..Claim::default() });
    }

    /// Whether anything was refused to a call.
    pub(super) fn has_any(&self, mark: &str) -> bool {
        self.calls.get(mark).is_some_and(|claim| !claim.refused.is_empty())
    }

    /// Whether all that was refused to a call is known, by its runner's own refusal after it.
    pub(super) fn is_whole(&self, mark: &str) -> bool {
        self.calls.get(mark).is_some_and(|claim| claim.whole)
    }

    /// A call has ended. If it is not known that all its records have come, they may until then be
    /// taken for another's, and are not.
    pub(super) fn close(&mut self, mark: &str, until: Option<Duration>) -> Option<Claim> {
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

    /// Records were dropped: nobody knows whose.
    pub(super) fn overflow(&mut self) {
        self.lost += 1;
        self.calls.values_mut().for_each(|claim| claim.left_out += 1);
    }

    /// Enters a record that came at a moment.
    pub(super) fn enter(&mut self, record: Record, came: Clocks) {
        match record {
            Record::Access { domain, refused } => self.access(domain, refused),
            Record::Domain { domain, name } => self.domain(domain, name),
            Record::Changed => self.calls.values_mut().for_each(|claim| claim.unsettled = true),
            Record::Over { domain, refusals } => {
                self.unclaimed.retain(|(unclaimed, _)| *unclaimed != domain);
                if let Some(known) = self.domains.remove(&domain) {
                    self.lost += refusals.saturating_sub(known.seen);
                }
            }
            Record::Call { session, at, name, refused } => match self.calls.get_mut(&name) {
                Some(claim) => {
                    claim.whole = true;
                    self.heard = true;
                }
                None => self.call(session, came.stamped(at), refused),
            },
        }
    }

    fn access(&mut self, domain: u64, refused: Refused) {
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

    /// The record of a domain follows its first refusal.
    fn domain(&mut self, domain: u64, name: String) {
        let waiting = std::mem::take(&mut self.unclaimed);
        let (its, others): (VecDeque<_>, _) =
            waiting.into_iter().partition(|(unclaimed, _)| *unclaimed == domain);
        self.unclaimed = others;
        if name == self.fence.name && self.fence.domain.is_none() {
            self.fence.domain = Some(domain);
        } else if let Some(claim) = self.calls.get_mut(&name)
            // A mark is for one domain.
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

    fn call(&mut self, session: u32, at: Option<Duration>, refused: Refused) {
        let ended = self.ended.get(&session);
        let late = ended.is_some_and(|until| at.is_none_or(|at| at <= *until));
        match self.sessions.get(&session).and_then(|mark| self.calls.get_mut(mark)) {
            Some(claim) if late => {
                claim.mixed = true;
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
    use palisade_policy::refused::{Syscall, Target};

    fn refused(path: &str) -> Refused {
        let rights = vec!["fs.make_reg".to_owned()];
        Refused::Landlock { rights, target: Target::Path(path.to_owned()) }
    }

    fn access(domain: u64, path: &str) -> Record {
        Record::Access { domain, refused: refused(path) }
    }

    fn named(domain: u64, name: &str) -> Record {
        Record::Domain { domain, name: name.to_owned() }
    }

    const fn millis(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    /// Enters a record that comes when the host's time of day is how long it has been up, and one
    /// second.
    fn enter(book: &mut Book, record: Record) {
        book.enter(record, Clocks::at(millis(1000), millis(1000)));
    }

    fn call(session: u32, at: u64) -> Record {
        called(session, at, "bash")
    }

    fn called(session: u32, at: u64, name: &str) -> Record {
        let (name, refused) = (name.to_owned(), Refused::Seccomp(Syscall::Number(165)));
        Record::Call { session, at: millis(at), name, refused }
    }

    fn paths(book: &mut Book, mark: &str) -> Vec<(Refused, u64)> {
        book.close(mark, None).unwrap().refused
    }

    #[test]
    fn a_refusal_is_the_calls_whose_mark_its_domain_has() {
        let mut book = Book::default();
        book.open("one".into(), None);
        book.open("two".into(), None);
        for record in [
            access(1, "/a"),
            // Another's, in between, and nobody's.
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
        let mut book = Book::default();
        book.open("one".into(), None);
        for record in [access(1, "/a"), named(1, "one"), access(2, "/b"), named(2, "one")] {
            enter(&mut book, record);
        }
        assert_eq!(paths(&mut book, "one"), [(refused("/a"), 1)]);
    }

    #[test]
    fn what_is_missing_when_a_domain_is_over_is_counted() {
        let mut book = Book::default();
        book.open("one".into(), None);
        enter(&mut book, access(1, "/a"));
        enter(&mut book, named(1, "one"));
        assert!(book.close("one", None).is_some());
        // Too late for the call.
        enter(&mut book, access(1, "/b"));
        assert_eq!(book.lost, 1);
        enter(&mut book, Record::Over { domain: 1, refusals: 5 });
        assert_eq!(book.lost, 4);
        enter(&mut book, Record::Over { domain: 9, refusals: 5 });
        assert_eq!(book.lost, 4);
    }

    #[test]
    fn a_system_call_is_that_of_the_one_call_that_its_runner_has() {
        let mut book = Book::default();
        book.open("one".into(), Some(7));
        enter(&mut book, call(7, 100));
        enter(&mut book, call(8, 100));
        assert_eq!(paths(&mut book, "one").len(), 1);
        // All of its records had come: whatever comes now is the next call's.
        book.open("two".into(), Some(7));
        enter(&mut book, call(7, 100));
        assert_eq!(paths(&mut book, "two").len(), 1);
    }

    #[test]
    fn a_runners_own_refusal_ends_the_records_of_its_call_and_of_no_other() {
        let mut book = Book::default();
        book.open("one".into(), Some(7));
        book.open("two".into(), Some(8));
        enter(&mut book, called(7, 100, "bash"));
        assert!(!book.is_whole("one") && !book.heard);
        enter(&mut book, called(7, 100, "one"));
        assert!(book.is_whole("one") && !book.is_whole("two") && book.heard);
        // It is no refusal of the call's.
        assert_eq!(paths(&mut book, "one").len(), 1);
        assert_eq!(paths(&mut book, "two").len(), 0);
        assert!(!book.is_whole("one"));
    }

    #[test]
    fn a_call_during_which_the_audit_changed_is_not_sure_of_its_records() {
        let mut book = Book::default();
        book.open("one".into(), None);
        enter(&mut book, Record::Changed);
        book.open("two".into(), None);
        assert!(book.close("one", None).unwrap().unsettled);
        assert!(!book.close("two", None).unwrap().unsettled);
    }

    #[test]
    fn a_record_that_may_be_of_the_call_before_is_not_claimed() {
        let mut book = Book::default();
        book.open("one".into(), Some(7));
        assert!(book.close("one", Some(millis(100))).is_some());
        enter(&mut book, call(7, 99));
        assert_eq!(book.lost, 1);
        book.open("two".into(), Some(7));
        enter(&mut book, call(7, 100));
        let claim = book.close("two", None).unwrap();
        assert!(claim.refused.is_empty() && claim.mixed);
        book.open("three".into(), Some(7));
        enter(&mut book, call(7, 101));
        assert_eq!(paths(&mut book, "three").len(), 1);
    }

    #[test]
    fn a_clock_that_is_set_takes_no_record_from_its_call_and_gives_none_to_another() {
        // The host has been up for a second when the first call ends, at a time of day of 100 s.
        let day = |seconds: u64| Duration::from_secs(seconds);
        for set in [-90_i64, 90] {
            let mut book = Book::default();
            book.open("one".into(), Some(7));
            assert!(book.close("one", Some(millis(1000))).is_some());
            book.open("two".into(), Some(7));
            // Two seconds later the clock is another.
            let now = day(102_u64.checked_add_signed(set).unwrap());
            let came = Clocks::at(millis(3000), now);
            let (name, refused) = ("bash".to_owned(), Refused::Seccomp(Syscall::Number(165)));
            let at =
                |at| Record::Call { session: 7, at, name: name.clone(), refused: refused.clone() };
            book.enter(at(now - millis(1)), came);
            // Of the first call, and stamped before the clock was set: in no case the second's.
            book.enter(at(day(99)), came);
            let claim = book.close("two", None).unwrap();
            assert_eq!(claim.refused, [(refused.clone(), 1)], "{set}");
            assert!(claim.mixed, "{set}");
        }
    }

    #[test]
    fn many_refusals_are_folded_and_bounded() {
        let mut book = Book::default();
        book.open("one".into(), None);
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
        let mut book = Book::default();
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
        let mut book = Book::default();
        for number in 0..10_000 {
            enter(&mut book, access(number, "/a"));
        }
        assert_eq!(book.unclaimed.len(), UNCLAIMED);
    }
}
