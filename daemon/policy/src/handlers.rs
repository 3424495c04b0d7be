//! A profile's settings for approvers: the deadline, the quorum, and which approvals may be
//! remembered. Pure: no I/O.

use crate::entries::ToolEntry;
use palisade_protocol::Scope;
use serde::{Deserialize, Serialize, Serializer, ser::SerializeStruct as _};
use std::num::NonZeroU64;

/// The profile sections `[handlers]` and `[remember]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Handlers {
    /// The longest time that an approval request waits for an answer.
    pub(crate) deadline_ms: NonZeroU64,
    /// The time that an approval request waits for an approver to connect, if there is none.
    pub(crate) grace_ms: u64,
    /// The number of approvers that must approve.
    pub(crate) quorum: NonZeroU64,
    /// The number of approval requests of one session that may wait at the same time.
    pub(crate) max_pending: NonZeroU64,
    /// The scopes in which an approval may be remembered.
    pub(crate) remember: Vec<Rememberable>,
    /// The time that an approval may be remembered after its session has ended; 0 if it may not.
    pub(crate) remember_ms: u64,
    /// Tools whose output an approver sees before the agent does.
    pub(crate) review_output: Vec<ToolEntry>,
    /// True if the agent's own client may answer requests of its session that lose nothing.
    pub(crate) agent_client: bool,
}

impl Serialize for Handlers {
    /// Writes the two sections as in a profile.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Waiting<'a> {
            deadline_ms: NonZeroU64,
            grace_ms: u64,
            quorum: NonZeroU64,
            max_pending: NonZeroU64,
            review_output: &'a [ToolEntry],
            agent_client: bool,
        }
        #[derive(Serialize)]
        struct Remembering<'a> {
            scopes: &'a [Rememberable],
            ms: u64,
        }
        let handlers = Waiting {
            deadline_ms: self.deadline_ms,
            grace_ms: self.grace_ms,
            quorum: self.quorum,
            max_pending: self.max_pending,
            review_output: &self.review_output,
            agent_client: self.agent_client,
        };
        let remember = Remembering { scopes: &self.remember, ms: self.remember_ms };
        let mut sections = serializer.serialize_struct("Handlers", 2)?;
        sections.serialize_field("handlers", &handlers)?;
        sections.serialize_field("remember", &remember)?;
        sections.end()
    }
}

/// A scope in which an approval may be remembered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Rememberable {
    Exact,
    Prefix,
    Path,
}

const fn count(value: u32) -> NonZeroU64 {
    match NonZeroU64::new(value as u64) {
        Some(value) => value,
        None => NonZeroU64::MIN,
    }
}

impl Default for Handlers {
    fn default() -> Self {
        Self {
            deadline_ms: count(300_000),
            grace_ms: 0,
            quorum: NonZeroU64::MIN,
            max_pending: count(16),
            remember: vec![Rememberable::Exact],
            remember_ms: 0,
            review_output: Vec::new(),
            agent_client: false,
        }
    }
}

impl Handlers {
    /// Returns how long an approval request waits for an answer, at most.
    #[must_use]
    pub const fn deadline_ms(&self) -> u64 {
        self.deadline_ms.get()
    }

    /// Returns how long an approval request waits for an approver to connect, if there is none.
    #[must_use]
    pub const fn grace_ms(&self) -> u64 {
        self.grace_ms
    }

    /// Returns the number of approvers that must approve.
    #[must_use]
    pub const fn quorum(&self) -> u64 {
        self.quorum.get()
    }

    /// Returns the number of approval requests of one session that may wait at the same time.
    #[must_use]
    pub const fn max_pending(&self) -> u64 {
        self.max_pending.get()
    }

    /// Returns `true` if the agent's own client may answer requests of its session that lose nothing.
    #[must_use]
    pub const fn agent_client(&self) -> bool {
        self.agent_client
    }

    /// Returns how long an approval may be remembered after its session has ended; 0 if it may not.
    #[must_use]
    pub const fn remember_ms(&self) -> u64 {
        self.remember_ms
    }

    /// Returns `true` if an approval of this scope may be remembered.
    #[must_use]
    pub fn may_remember(&self, scope: &Scope) -> bool {
        self.remember.contains(&match scope {
            Scope::ExactCall => Rememberable::Exact,
            Scope::CommandPrefix(_) => Rememberable::Prefix,
            Scope::Path(_) => Rememberable::Path,
        })
    }

    /// Returns the names of the scopes that may be remembered, as in approval requests.
    #[must_use]
    pub fn scopes(&self) -> Vec<String> {
        let name = |kind: &Rememberable| match kind {
            Rememberable::Exact => "exact_call",
            Rememberable::Prefix => "command_prefix",
            Rememberable::Path => "path",
        };
        self.remember.iter().map(|kind| name(kind).to_owned()).collect()
    }
}
