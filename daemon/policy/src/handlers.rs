//! A profile's settings for approvers: the deadline, the quorum, and which approvals may be
//! remembered. Pure: no I/O.

use crate::{
    ProfileError,
    access::Widening,
    document::Document,
    entries::ToolEntry,
    keys::{Choosing, Greater, Neutral, Restricting, Section as _, Smaller, section, words},
    limits::count,
};
use palisade_protocol::Scope;
use serde::Serialize;
use std::num::NonZeroU64;

/// The name of the scope of losses in approval requests.
pub const LOSSES: &str = "losses";

/// The profile sections `[handlers]` and `[remember]`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Handlers {
    /// The section `[handlers]`.
    #[serde(rename = "handlers")]
    pub(crate) waiting: WaitingSettings,
    /// The section `[remember]`.
    pub(crate) remember: RememberSettings,
}

section! {
    /// The profile section `[handlers]`.
    "handlers." pub(crate) struct WaitingSettings, written as HandlersText {
        /// how long an approval request waits for its answer; then it is denied
        deadline_ms: NonZeroU64 = count(300_000), Neutral::SmallerApplies;
        /// how long it waits for an approver to connect, if there is none
        grace_ms: u64 = 0, Neutral::SmallerApplies;
        /// how many approvers must approve
        quorum: NonZeroU64 = count(1), Greater;
        /// how many approval requests of one session may wait at once
        max_pending: NonZeroU64 = count(16), Smaller;
        /// tools whose output an approver sees before the agent does
        review_output: Vec<ToolEntry> = Vec::new(), Restricting;
        /// the agent's own client may [answer](agents.md#approval-in-the-agents-client) approval
        /// requests of its session in which nothing can be lost. It never counts for a quorum above 1
        agent_client: bool = false, Smaller;
    }
}

section! {
    /// The profile section `[remember]`.
    "remember." pub(crate) struct RememberSettings, written as RememberText {
        /// what an approval may be [remembered](approvals.md#remembering-an-approval) for: exactly
        /// that call, a command's first words, a path, losses of commands that undo keeps
        scopes: Vec<Rememberable> = vec![Rememberable::Exact], Choosing("is not remembered in");
        /// how long beyond the session; 0 means not at all
        ms: u64 = 0, Smaller;
    }
}

words! {
    /// A scope in which an approval may be remembered.
    pub(crate) enum Rememberable {
        Exact = "exact",
        Prefix = "prefix",
        Path = "path",
        Losses = "losses",
    }
}

impl RememberSettings {
    /// Returns the settings without a time, if nothing is remembered.
    fn consistent(self) -> Self {
        let ms = if self.scopes.is_empty() { 0 } else { self.ms };
        Self { ms, ..self }
    }
}

impl Handlers {
    /// Returns the sections of two profiles that are combined.
    pub(crate) fn both(&self, other: &Self) -> Self {
        let waiting = self.waiting.both(&other.waiting);
        Self { waiting, remember: self.remember.both(&other.remember).consistent() }
    }

    /// Returns the sections of a file that extends a profile with these.
    pub(crate) fn resolve(
        &self,
        (handlers, remember): (&HandlersText, &RememberText),
        document: &Document<'_>,
        widening: Widening,
    ) -> Result<Self, ProfileError> {
        let waiting = self.waiting.over(handlers, document, widening)?;
        let own = self.remember.over(remember, document, widening)?;
        let is_empty = remember.scopes.as_ref().is_some_and(Vec::is_empty);
        if is_empty && remember.ms.is_some_and(|ms| ms > 0) {
            let why = "is above 0, but remember.scopes is empty, so nothing is remembered";
            return Err(document.wrong("remember.ms", why, "leave it out"));
        }
        Ok(Self { waiting, remember: own.consistent() })
    }

    /// Returns how long an approval request waits for an answer, at most.
    #[must_use]
    pub const fn deadline_ms(&self) -> u64 {
        self.waiting.deadline_ms.get()
    }

    /// Returns how long an approval request waits for an approver to connect, if there is none.
    #[must_use]
    pub const fn grace_ms(&self) -> u64 {
        self.waiting.grace_ms
    }

    /// Returns the number of approvers that must approve.
    #[must_use]
    pub const fn quorum(&self) -> u64 {
        self.waiting.quorum.get()
    }

    /// Returns the number of approval requests of one session that may wait at the same time.
    #[must_use]
    pub const fn max_pending(&self) -> u64 {
        self.waiting.max_pending.get()
    }

    /// Returns `true` if the agent's own client may answer requests of its session that lose nothing.
    #[must_use]
    pub const fn agent_client(&self) -> bool {
        self.waiting.agent_client
    }

    /// Returns how long an approval may be remembered after its session has ended; 0 if it may not.
    #[must_use]
    pub const fn remember_ms(&self) -> u64 {
        self.remember.ms
    }

    /// Returns `true` if an approval of this scope may be remembered.
    #[must_use]
    pub fn may_remember(&self, scope: &Scope) -> bool {
        self.remember.scopes.contains(&match scope {
            Scope::ExactCall => Rememberable::Exact,
            Scope::CommandPrefix(_) => Rememberable::Prefix,
            Scope::Path(_) => Rememberable::Path,
            Scope::Losses(_) => Rememberable::Losses,
        })
    }

    /// Returns the names of the scopes that may be remembered, as in approval requests.
    #[must_use]
    pub fn scopes(&self) -> Vec<String> {
        let name = |kind: &Rememberable| match kind {
            Rememberable::Exact => "exact_call",
            Rememberable::Prefix => "command_prefix",
            Rememberable::Path => "path",
            Rememberable::Losses => LOSSES,
        };
        self.remember.scopes.iter().map(|kind| name(kind).to_owned()).collect()
    }
}
