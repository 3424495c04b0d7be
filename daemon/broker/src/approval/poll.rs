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

    /// Takes the one vote of an approver; `None` if it was not asked or has used it.
    pub(crate) fn take(&mut self, handler: &HandlerId) -> Option<AskedApprover> {
        let at = self.asked.iter().position(|asked| asked.handler == *handler)?;
        Some(self.asked.remove(at))
    }

    /// Returns `true` if an approver has approved already.
    pub(crate) fn has_voted(&self, handler: &HandlerId) -> bool {
        self.approved.iter().any(|asked| asked.handler == *handler)
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
        if distinct(&mut self.approved.iter()) >= self.quorum
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

/// The number of different processes, by the kernel's credentials. Names prove nothing: an approver
/// chooses its own.
fn distinct(of: &mut dyn Iterator<Item = &AskedApprover>) -> u64 {
    let mut peers: Vec<_> = of.map(|asked| (asked.from.uid, asked.from.pid)).collect();
    peers.sort_unstable();
    peers.dedup();
    peers.len() as u64
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
        assert!(poll.has_voted(&"a".parse().unwrap()));
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
