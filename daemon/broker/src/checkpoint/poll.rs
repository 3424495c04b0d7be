//! Counts what handlers say to one question: any denial denies, the highest priority that was
//! asked decides, and a profile may want several. Broker, pure.

use crate::peer::ConnectionNumber;
use palisade_protocol::HandlerId;
use tokio::time::Instant;

/// Who answers, as the kernel says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Answerer {
    pub(crate) connection: ConnectionNumber,
    pub(crate) uid: u32,
    /// None where it can not be seen from here.
    pub(crate) pid: Option<u32>,
}

/// Somebody who was asked.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) handler: HandlerId,
    pub(crate) from: Answerer,
    pub(crate) name: String,
    pub(crate) priority: i32,
    /// When an answer is too late.
    pub(crate) until: Instant,
}

/// The state of one question.
#[derive(Debug)]
pub(crate) struct Poll {
    quorum: u64,
    asked: Vec<Asked>,
    /// The highest priority that was ever asked.
    top: Option<i32>,
    approved: Vec<Asked>,
}

/// What an approval or a departure leads to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// More answers are needed, and can come.
    Open,
    /// Enough said yes; these.
    Carried(String),
    /// Those who would have to say yes are not there any more.
    Lost(&'static str),
}

impl Poll {
    pub(crate) const fn new(quorum: u64) -> Self {
        Self { quorum, asked: Vec::new(), top: None, approved: Vec::new() }
    }

    /// One more is asked.
    pub(crate) fn ask(&mut self, asked: Asked) {
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

    /// Takes the one vote of a handler; none if it has none, or not any more.
    pub(crate) fn take(&mut self, handler: &HandlerId) -> Option<Asked> {
        let at = self.asked.iter().position(|asked| asked.handler == *handler)?;
        Some(self.asked.remove(at))
    }

    /// Whether a handler has voted.
    pub(crate) fn has_voted(&self, handler: &HandlerId) -> bool {
        self.approved.iter().any(|asked| asked.handler == *handler)
    }

    /// A vote that was taken was a yes.
    pub(crate) fn approve(&mut self, asked: Asked) -> Standing {
        self.top = self.top.max(Some(asked.priority));
        self.approved.push(asked);
        self.standing()
    }

    /// A handler is gone: its vote too, if it was not given yet.
    pub(crate) fn leave(&mut self, handler: &HandlerId) -> Standing {
        match self.take(handler) {
            Some(_) => self.standing(),
            None => Standing::Open,
        }
    }

    /// The highest priority that was asked.
    pub(crate) const fn top(&self) -> Option<i32> {
        self.top
    }

    /// Whether a handler's yes would be of the highest priority.
    pub(crate) fn decides(&self, handler: &HandlerId) -> bool {
        let mut asked = self.asked.iter();
        asked
            .find(|asked| asked.handler == *handler)
            .is_none_or(|asked| Some(asked.priority) == self.top)
    }

    /// Whether those who were asked could carry it.
    pub(crate) fn can_carry(&self) -> bool {
        !self.is_empty() && distinct(&mut self.asked.iter().chain(&self.approved)) >= self.quorum
    }

    /// How it stands.
    pub(crate) fn standing(&self) -> Standing {
        let is_top = |asked: &&Asked| Some(asked.priority) == self.top;
        if distinct(&mut self.approved.iter()) >= self.quorum
            && let Some(by) = self.approved.iter().find(is_top)
        {
            return Standing::Carried(by.name.clone());
        }
        if distinct(&mut self.asked.iter().chain(&self.approved)) < self.quorum {
            return Standing::Lost("fewer handlers are left than the profile wants");
        }
        if !self.asked.iter().chain(&self.approved).any(|asked| is_top(&asked)) {
            return Standing::Lost("the handler disconnected before it answered");
        }
        Standing::Open
    }
}

/// How many different processes there are, as the kernel says. Names prove nothing: who asks for
/// one gets it.
fn distinct(of: &mut dyn Iterator<Item = &Asked>) -> u64 {
    let mut peers: Vec<_> = of.map(|asked| (asked.from.uid, asked.from.pid)).collect();
    peers.sort_unstable();
    peers.dedup();
    peers.len() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(name: &str, priority: i32) -> Asked {
        let handler = name.parse().unwrap();
        // A process for each name.
        let pid = name.bytes().fold(1, |sum, byte| sum * 31 + u32::from(byte));
        let from = Answerer { connection: 0, uid: 0, pid: Some(pid) };
        Asked { handler, from, name: name.to_owned(), priority, until: Instant::now() }
    }

    fn poll(quorum: u64, handlers: &[(&str, i32)]) -> Poll {
        let mut poll = Poll::new(quorum);
        handlers.iter().for_each(|(name, priority)| poll.ask(asked(name, *priority)));
        poll
    }

    fn yes(poll: &mut Poll, name: &str) -> Standing {
        let taken = poll.take(&name.parse().unwrap()).unwrap();
        poll.approve(taken)
    }

    #[tokio::test]
    async fn the_highest_priority_decides() {
        let mut poll = poll(1, &[("low", 1), ("high", 5), ("other", 5)]);
        assert_eq!(yes(&mut poll, "low"), Standing::Open);
        assert_eq!(yes(&mut poll, "other"), Standing::Carried("other".to_owned()));
    }

    #[tokio::test]
    async fn a_vote_is_given_once() {
        let mut poll = poll(1, &[("a", 1), ("b", 2)]);
        assert_eq!(yes(&mut poll, "a"), Standing::Open);
        assert!(poll.take(&"a".parse().unwrap()).is_none());
        assert!(poll.has_voted(&"a".parse().unwrap()));
    }

    #[tokio::test]
    async fn a_quorum_is_of_different_people() {
        let mut poll = poll(2, &[("a", 1), ("b", 1)]);
        assert_eq!(yes(&mut poll, "a"), Standing::Open);
        assert_eq!(yes(&mut poll, "b"), Standing::Carried("a".to_owned()));
        let mut twice = Poll::new(2);
        for name in ["x", "y"] {
            // Another name, another connection, the same process.
            twice.ask(Asked { from: asked("same", 1).from, ..asked(name, 1) });
        }
        assert!(!twice.can_carry());
        assert!(matches!(yes(&mut twice, "x"), Standing::Lost(_)));
    }

    #[tokio::test]
    async fn who_leaves_takes_a_vote_along() {
        let mut poll = poll(1, &[("low", 1), ("high", 5)]);
        let left = poll.leave(&"high".parse().unwrap());
        assert_eq!(left, Standing::Lost("the handler disconnected before it answered"));
        let mut two = super::tests::poll(2, &[("a", 1), ("b", 1)]);
        assert!(matches!(two.leave(&"b".parse().unwrap()), Standing::Lost(_)));
        let mut spare = super::tests::poll(1, &[("a", 1), ("b", 1)]);
        assert_eq!(spare.leave(&"b".parse().unwrap()), Standing::Open);
        assert_eq!(spare.leave(&"unknown".parse().unwrap()), Standing::Open);
    }
}
