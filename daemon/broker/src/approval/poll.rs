//! Counts the answers of approvers to one request. Any denial denies; an approver of the highest
//! asked priority must approve; a profile may want several approvals. Pure: no I/O.

use crate::base::peer::ConnectionNumber;
use palisade_protocol::{DecidedBy, HandlerId};
use tokio::time::Instant;

/// The connection that an answer comes from, with its credentials from the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Answerer {
    pub(crate) connection: ConnectionNumber,
    pub(crate) uid: u32,
    /// The process id; `None` where it can not be seen from here.
    pub(crate) pid: Option<u32>,
}

/// An approver that was asked.
#[derive(Debug, Clone)]
pub(crate) struct AskedApprover {
    pub(crate) handler: HandlerId,
    pub(crate) from: Answerer,
    pub(crate) by: DecidedBy,
    pub(crate) priority: i32,
    /// The time after which an answer is too late.
    pub(crate) until: Instant,
}

impl AskedApprover {
    /// Returns `true` if this is the same approver: the same process, or the same user under the same
    /// name.
    fn is_same(&self, from: Answerer, by: &DecidedBy) -> bool {
        self.from.uid == from.uid && (self.from.pid == from.pid || self.by == *by)
    }
}

/// The votes on one approval request.
#[derive(Debug)]
pub(crate) struct Poll {
    quorum: u64,
    asked: Vec<AskedApprover>,
    /// The highest priority that was ever asked.
    top: Option<i32>,
    approved: Vec<AskedApprover>,
}

/// The state of a poll after an approval or after an approver has left.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum PollState {
    /// More answers are needed, and can come.
    Open,
    /// Enough approvers approved; this is the one that decided.
    Carried(DecidedBy),
    /// Approvers whose approval is needed are not connected any more.
    Lost(&'static str),
}

impl Poll {
    pub(crate) const fn new(quorum: u64) -> Self {
        Self { quorum, asked: Vec::new(), top: None, approved: Vec::new() }
    }

    /// Adds an approver that was asked.
    pub(crate) fn ask(&mut self, asked: AskedApprover) {
        self.top = self.top.max(Some(asked.priority));
        self.asked.push(asked);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.asked.is_empty() && self.approved.is_empty()
    }

    /// The latest time at which an answer is still in time.
    pub(crate) fn until(&self) -> Option<Instant> {
        self.asked.iter().map(|asked| asked.until).max()
    }

    pub(crate) fn handlers(&self) -> impl Iterator<Item = &HandlerId> {
        self.asked.iter().chain(&self.approved).map(|asked| &asked.handler)
    }

    /// The approvers that have not answered yet.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = &HandlerId> {
        self.asked.iter().map(|asked| &asked.handler)
    }

    /// Takes the one vote of an approver; `None` if it was not asked or has used it.
    pub(crate) fn take(&mut self, handler: &HandlerId) -> Option<AskedApprover> {
        let at = self.asked.iter().position(|asked| asked.handler == *handler)?;
        Some(self.asked.remove(at))
    }

    /// Returns `true` if this approver has approved already.
    pub(crate) fn has_voted(&self, handler: &HandlerId, from: Answerer, by: &DecidedBy) -> bool {
        let of = |asked: &&AskedApprover| asked.handler == *handler;
        let priority = self.asked.iter().find(of).map(|asked| asked.priority).or(self.top);
        self.approved.iter().any(|asked| of(&asked))
            || priority.is_some_and(|priority| self.has_approval_of(from, by, priority))
    }

    /// Returns `true` if this approver has approved already from another connection. An approval of a
    /// lower priority may be followed by one that decides.
    pub(crate) fn has_approval_of(&self, from: Answerer, by: &DecidedBy, priority: i32) -> bool {
        self.approved.iter().any(|asked| asked.is_same(from, by) && asked.priority >= priority)
    }

    /// Those who have approved.
    pub(crate) fn approved(&self) -> impl Iterator<Item = &DecidedBy> {
        self.approved.iter().map(|asked| &asked.by)
    }

    /// The number of different approvers who have approved.
    pub(crate) fn given(&self) -> u64 {
        distinct(&mut self.approved.iter())
    }

    /// The number of approvals that an open poll still needs.
    pub(crate) fn missing(&self) -> u64 {
        // With enough of them, that of the highest priority is missing.
        self.quorum.saturating_sub(self.given()).max(1)
    }

    /// Counts a vote that was taken as an approval.
    pub(crate) fn approve(&mut self, asked: AskedApprover) -> PollState {
        self.top = self.top.max(Some(asked.priority));
        self.approved.push(asked);
        self.state()
    }

    /// Removes an approver that has left, with its vote if it was not given yet.
    pub(crate) fn leave(&mut self, handler: &HandlerId) -> PollState {
        match self.take(handler) {
            Some(_) => self.state(),
            None => PollState::Open,
        }
    }

    /// The highest priority that was asked.
    pub(crate) const fn top(&self) -> Option<i32> {
        self.top
    }

    /// Returns `true` if an approver has the highest priority of those asked, or was not asked.
    pub(crate) fn decides(&self, handler: &HandlerId) -> bool {
        let mut asked = self.asked.iter();
        asked
            .find(|asked| asked.handler == *handler)
            .is_none_or(|asked| Some(asked.priority) == self.top)
    }

    /// Returns `true` if those who approved and those who can still answer are enough for the
    /// quorum.
    pub(crate) fn can_carry(&self) -> bool {
        !self.is_empty() && distinct(&mut self.asked.iter().chain(&self.approved)) >= self.quorum
    }

    /// The current state of the poll.
    pub(crate) fn state(&self) -> PollState {
        let is_top = |asked: &&AskedApprover| Some(asked.priority) == self.top;
        if self.given() >= self.quorum
            && let Some(asked) = self.approved.iter().find(is_top)
        {
            return PollState::Carried(asked.by.clone());
        }
        if distinct(&mut self.asked.iter().chain(&self.approved)) < self.quorum {
            return PollState::Lost("fewer approvers are left than the profile requires");
        }
        if !self.asked.iter().chain(&self.approved).any(|asked| is_top(&asked)) {
            return PollState::Lost("the approver disconnected before it answered");
        }
        PollState::Open
    }
}

/// The number of different approvers. Different names prove nothing, because an approver chooses its
/// own: they must be different processes, by the kernel's credentials. One user under one name is one
/// approver, so that nobody counts twice by starting `palisade approve` again.
fn distinct(of: &mut dyn Iterator<Item = &AskedApprover>) -> u64 {
    let mut counted: Vec<&AskedApprover> = Vec::new();
    for asked in of {
        if !counted.iter().any(|other| other.is_same(asked.from, &asked.by)) {
            counted.push(asked);
        }
    }
    counted.len() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn approver(name: &str) -> DecidedBy {
        DecidedBy::Approver(name.to_owned())
    }

    fn asked(name: &str, priority: i32) -> AskedApprover {
        let handler = name.parse().unwrap();
        // Each name has its own process.
        let pid = name.bytes().fold(1, |sum, byte| sum * 31 + u32::from(byte));
        let from = Answerer { connection: 0, uid: 0, pid: Some(pid) };
        AskedApprover { handler, from, by: approver(name), priority, until: Instant::now() }
    }

    fn poll(quorum: u64, handlers: &[(&str, i32)]) -> Poll {
        let mut poll = Poll::new(quorum);
        handlers.iter().for_each(|(name, priority)| poll.ask(asked(name, *priority)));
        poll
    }

    fn yes(poll: &mut Poll, name: &str) -> PollState {
        let taken = poll.take(&name.parse().unwrap()).unwrap();
        poll.approve(taken)
    }

    #[tokio::test]
    async fn the_highest_priority_decides() {
        let mut poll = poll(1, &[("low", 1), ("high", 5), ("other", 5)]);
        assert_eq!(yes(&mut poll, "low"), PollState::Open);
        assert_eq!(yes(&mut poll, "other"), PollState::Carried(approver("other")));
    }

    #[tokio::test]
    async fn a_vote_is_given_once() {
        let mut poll = poll(1, &[("a", 1), ("b", 2)]);
        assert_eq!(yes(&mut poll, "a"), PollState::Open);
        assert!(poll.take(&"a".parse().unwrap()).is_none());
        let (voter, later) = (asked("a", 1), "later".parse().unwrap());
        assert!(poll.has_voted(&voter.handler, voter.from, &voter.by));
        // The same process may approve with the priority that decides.
        assert!(!poll.has_voted(&later, voter.from, &voter.by));
        assert!(!poll.has_approval_of(voter.from, &voter.by, 2));
    }

    #[tokio::test]
    async fn a_quorum_is_of_different_people() {
        let mut poll = poll(2, &[("a", 1), ("b", 1)]);
        assert_eq!(yes(&mut poll, "a"), PollState::Open);
        assert_eq!(yes(&mut poll, "b"), PollState::Carried(approver("a")));
        let mut twice = Poll::new(2);
        for name in ["x", "y"] {
            // Different names and connections of the same process.
            twice.ask(AskedApprover { from: asked("same", 1).from, ..asked(name, 1) });
        }
        assert!(!twice.can_carry());
        assert!(matches!(yes(&mut twice, "x"), PollState::Lost(_)));
        // One user under one name, in two processes.
        let mut again = super::tests::poll(2, &[("a", 1), ("b", 1)]);
        assert_eq!(yes(&mut again, "a"), PollState::Open);
        let from = asked("far", 1).from;
        assert!(again.has_voted(&"a-2".parse().unwrap(), from, &approver("a")));
        let restarted = AskedApprover { from, ..asked("a", 1) };
        assert_eq!(again.approve(restarted), PollState::Open);
        assert_eq!(again.missing(), 1);
        // Another user may have the same name.
        let other = AskedApprover { from: Answerer { uid: 7, ..from }, ..asked("a", 1) };
        assert_eq!(again.approve(other), PollState::Carried(approver("a")));
    }

    #[tokio::test]
    async fn who_leaves_takes_a_vote_along() {
        let mut poll = poll(1, &[("low", 1), ("high", 5)]);
        let left = poll.leave(&"high".parse().unwrap());
        assert_eq!(left, PollState::Lost("the approver disconnected before it answered"));
        let mut two = super::tests::poll(2, &[("a", 1), ("b", 1)]);
        assert!(matches!(two.leave(&"b".parse().unwrap()), PollState::Lost(_)));
        let mut spare = super::tests::poll(1, &[("a", 1), ("b", 1)]);
        assert_eq!(spare.leave(&"b".parse().unwrap()), PollState::Open);
        assert_eq!(spare.leave(&"unknown".parse().unwrap()), PollState::Open);
    }
}
