//! What a profile says of checkpoint handlers: how long to wait, how many, what to remember.

use crate::entries::ToolEntry;
use palisade_protocol::Scope;
use serde::{Deserialize, Serialize};
use std::num::NonZeroU64;

/// `[handlers]` and `[remember]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Handlers {
    /// How long a question waits for its answer at most.
    pub(crate) deadline_ms: NonZeroU64,
    /// How long it waits for a handler to attach, if there is none.
    pub(crate) grace_ms: u64,
    /// How many handlers must approve.
    pub(crate) quorum: NonZeroU64,
    /// How many questions of one session may wait at once.
    pub(crate) max_pending: NonZeroU64,
    /// What may be remembered.
    pub(crate) remember: Vec<Rememberable>,
    /// How long beyond a session; 0 for not at all.
    pub(crate) remember_ms: u64,
    /// Tools whose output a handler sees before the agent does.
    pub(crate) review_output: Vec<ToolEntry>,
}

/// What may be remembered.
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
        }
    }
}

impl Handlers {
    /// How long a question waits for its answer at most.
    #[must_use]
    pub const fn deadline_ms(&self) -> u64 {
        self.deadline_ms.get()
    }

    /// How long it waits for a handler to attach, if there is none.
    #[must_use]
    pub const fn grace_ms(&self) -> u64 {
        self.grace_ms
    }

    /// How many handlers must approve.
    #[must_use]
    pub const fn quorum(&self) -> u64 {
        self.quorum.get()
    }

    /// How many questions of one session may wait at once.
    #[must_use]
    pub const fn max_pending(&self) -> u64 {
        self.max_pending.get()
    }

    /// How long beyond a session something may be remembered; 0 for not at all.
    #[must_use]
    pub const fn remember_ms(&self) -> u64 {
        self.remember_ms
    }

    /// Whether something of this scope may be remembered.
    #[must_use]
    pub fn may_remember(&self, scope: &Scope) -> bool {
        self.remember.contains(&match scope {
            Scope::ExactCall => Rememberable::Exact,
            Scope::CommandPrefix(_) => Rememberable::Prefix,
            Scope::Path(_) => Rememberable::Path,
        })
    }

    /// The scopes that may be remembered, as questions name them.
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
