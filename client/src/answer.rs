//! The registration of an approver, and its answers. Runs in the operator's process.

use crate::Error;
use palisade_protocol::{
    ApprovalRequest, Decision, Deny, JsonText, Modified, Part, RawPath, Register, Remember,
    Replace, Review, Scope, SessionId, ToolName, Until, Withhold,
};
use serde::Serialize;
use std::time::Duration;

/// The registration of an approver: its name, what it reviews, and how it may be asked. By default
/// it reviews calls before they run, and the effects of transactions before they are committed.
#[derive(Debug, Clone)]
#[must_use = "an approver is registered by Operator::register"]
pub struct Registration {
    name: String,
    reviews: Vec<Review>,
    tools: Vec<String>,
    priority: i32,
    deadline: Option<Duration>,
    heartbeat: Option<Duration>,
    session: Option<SessionId>,
}

impl Registration {
    /// Creates a registration for calls of every tool. The name is recorded in the audit log:
    /// `person:ann`, `program:/usr/bin/judge`.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            reviews: vec![Review::Input, Review::Effects],
            tools: Vec::new(),
            priority: 0,
            deadline: None,
            heartbeat: None,
            session: None,
        }
    }

    /// Sets the kinds of review, instead of the default.
    pub fn reviews(mut self, reviews: impl IntoIterator<Item = Review>) -> Self {
        self.reviews = reviews.into_iter().collect();
        self
    }

    /// Restricts the approver to this tool; may be called several times.
    pub fn tool(mut self, name: impl Into<String>) -> Self {
        self.tools.push(name.into());
        self
    }

    /// Sets the priority: approvers with a higher number are asked first.
    pub fn priority(mut self, priority: i32) -> Self {
        self.priority = priority;
        self
    }

    /// Sets how long an answer may take; the profile may allow less.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// Promises to send something ([`Operator::ping`](crate::Operator::ping) is enough) at least
    /// this often. An approver that does not is asked nothing more.
    pub fn heartbeat(mut self, heartbeat: Duration) -> Self {
        self.heartbeat = Some(heartbeat);
        self
    }

    /// Restricts the approver to the calls of one session. Registering fails with `not_found` if the
    /// daemon has no such session.
    pub fn session(mut self, session: &SessionId) -> Self {
        self.session = Some(session.clone());
        self
    }

    pub(crate) fn promised_heartbeat(&self) -> Option<Duration> {
        self.heartbeat
    }

    pub(crate) fn to_wire(&self) -> Result<Register, Error> {
        let tools: Result<Vec<ToolName>, _> = self.tools.iter().map(|name| name.parse()).collect();
        Ok(Register {
            name: self.name.clone(),
            reviews: self.reviews.clone(),
            tools: tools?,
            priority: self.priority,
            deadline_ms: self.deadline.map(milliseconds),
            heartbeat_ms: self.heartbeat.map(milliseconds),
            session: self.session.clone(),
        })
    }
}

/// An answer to an approval request: a decision, and whether to remember it.
///
/// ```
/// # use palisade_client::{Answer, Scope, Until};
/// let yes = Answer::approve().remember(Scope::ExactCall, Until::Session);
/// let no = Answer::deny("the build directory is shared").guidance("remove build/mine only");
/// # assert_ne!(yes, no);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "an answer is given by Operator::answer"]
pub struct Answer {
    pub(crate) decision: Decision,
    pub(crate) remember: Option<Remember>,
}

impl Answer {
    /// Approves the call as it was shown.
    pub fn approve() -> Self {
        Decision::Approve.into()
    }

    /// Approves the call with these arguments instead, which are validated and judged again.
    ///
    /// # Errors
    /// [`Error::Arguments`] if they have no JSON form.
    pub fn approve_modified<A: Serialize>(arguments: &A) -> Result<Self, Error> {
        let arguments = JsonText::render(arguments).map_err(Error::Arguments)?;
        Ok(Decision::ApproveModified(Modified { arguments }).into())
    }

    /// In a review of effects: commits all changes except those to these paths of the change set.
    pub fn approve_without(paths: impl IntoIterator<Item = RawPath>) -> Self {
        let without = paths.into_iter().collect();
        Decision::ApprovePart(Part { without_deletions: false, without }).into()
    }

    /// In a review of effects: also leaves out every deletion. A moved file then exists under both
    /// names.
    pub fn without_deletions(mut self) -> Self {
        if let Decision::ApprovePart(part) = &mut self.decision {
            part.without_deletions = true;
        } else if self.decision == Decision::Approve {
            self.decision =
                Decision::ApprovePart(Part { without_deletions: true, without: Vec::new() });
        }
        self
    }

    /// Denies the call; the agent is told the reason.
    pub fn deny(reason: impl Into<String>) -> Self {
        Decision::Deny(Deny { reason: reason.into(), guidance: String::new() }).into()
    }

    /// In an output review: gives the agent the output unchanged.
    pub fn pass() -> Self {
        Decision::Pass.into()
    }

    /// In an output review: gives the agent this output instead.
    pub fn replace(output: impl Into<String>) -> Self {
        Decision::Replace(Replace { output: output.into(), data: None }).into()
    }

    /// With a replaced output: also replaces the structured result, by the fields of an object.
    /// Without it the agent gets no structured result.
    ///
    /// # Errors
    /// If the data can not be written as JSON.
    pub fn with_data(mut self, data: &impl Serialize) -> Result<Self, Error> {
        if let Decision::Replace(replace) = &mut self.decision {
            replace.data = Some(JsonText::render(data).map_err(Error::Arguments)?);
        }
        Ok(self)
    }

    /// In an output review: gives the agent no output, and the reason for that.
    pub fn withhold(reason: impl Into<String>) -> Self {
        Decision::Withhold(Withhold { reason: reason.into() }).into()
    }

    /// Returns the decision.
    #[must_use]
    pub fn decision(&self) -> &Decision {
        &self.decision
    }

    /// With a denial: tells the agent what to do instead.
    pub fn guidance(mut self, text: impl Into<String>) -> Self {
        if let Decision::Deny(deny) = &mut self.decision {
            deny.guidance = text.into();
        }
        self
    }

    /// Binds the answer to an approval request, by its digest.
    pub(crate) fn to_wire(&self, request: &ApprovalRequest) -> palisade_protocol::Answer {
        palisade_protocol::Answer {
            request: request.id.clone(),
            digest: request.digest.clone(),
            decision: self.decision.clone(),
            remember: self.remember.clone(),
        }
    }

    /// With an approval: remembers it for later calls in this scope.
    pub fn remember(mut self, scope: Scope, until: Until) -> Self {
        self.remember = Some(Remember { scope, until });
        self
    }
}

impl From<Decision> for Answer {
    fn from(decision: Decision) -> Self {
        Self { decision, remember: None }
    }
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
