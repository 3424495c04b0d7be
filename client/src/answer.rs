//! What a handler is attached for, and what it answers. Runs in the operator's process.

use crate::Error;
use palisade_protocol::{
    Decision, Deny, JsonText, Modified, Part, RawPath, Register, Remember, Replace, Review, Scope,
    ToolName, Until, Withhold,
};
use serde::Serialize;
use std::time::Duration;

/// How a handler attaches: its name, what it reviews, and how it may be asked. It reviews calls
/// before they run, and what commands did in their transactions before it counts, unless it is told
/// to review something else.
#[derive(Debug, Clone)]
#[must_use = "a handler is attached by Operator::register"]
pub struct Registration {
    name: String,
    reviews: Vec<Review>,
    tools: Vec<String>,
    priority: i32,
    deadline: Option<Duration>,
    heartbeat: Option<Duration>,
}

impl Registration {
    /// A handler for calls of every tool. The name is kept in the audit: `person:ann`,
    /// `program:/usr/bin/judge`.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            reviews: vec![Review::Input, Review::Effects],
            tools: Vec::new(),
            priority: 0,
            deadline: None,
            heartbeat: None,
        }
    }

    /// Reviews these instead.
    pub fn reviews(mut self, reviews: impl IntoIterator<Item = Review>) -> Self {
        self.reviews = reviews.into_iter().collect();
        self
    }

    /// Only for this tool; may be said several times.
    pub fn tool(mut self, name: impl Into<String>) -> Self {
        self.tools.push(name.into());
        self
    }

    /// Higher is asked first.
    pub fn priority(mut self, priority: i32) -> Self {
        self.priority = priority;
        self
    }

    /// How long an answer may take; the profile may allow less.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// Promises to say something ([`Operator::ping`](crate::Operator::ping) will do) at least this
    /// often; a handler that does not is asked nothing more.
    pub fn heartbeat(mut self, heartbeat: Duration) -> Self {
        self.heartbeat = Some(heartbeat);
        self
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
        })
    }
}

/// An answer to a question: a decision, and whether to remember it.
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
    /// It may run as it was shown.
    pub fn approve() -> Self {
        Decision::Approve.into()
    }

    /// It may run with these arguments instead, which are validated and judged again.
    ///
    /// # Errors
    /// [`Error::Arguments`] if they have no JSON form.
    pub fn approve_modified<A: Serialize>(arguments: &A) -> Result<Self, Error> {
        let arguments = JsonText::render(arguments).map_err(Error::Arguments)?;
        Ok(Decision::ApproveModified(Modified { arguments }).into())
    }

    /// In a review of effects: all counts but what becomes of these paths, which the change set
    /// names.
    pub fn approve_without(paths: impl IntoIterator<Item = RawPath>) -> Self {
        let without = paths.into_iter().collect();
        Decision::ApprovePart(Part { without_deletions: false, without }).into()
    }

    /// In a review of effects: nothing is deleted, either. What was moved then has both names.
    pub fn without_deletions(mut self) -> Self {
        if let Decision::ApprovePart(part) = &mut self.decision {
            part.without_deletions = true;
        } else if self.decision == Decision::Approve {
            self.decision =
                Decision::ApprovePart(Part { without_deletions: true, without: Vec::new() });
        }
        self
    }

    /// It may not run; the agent is told why.
    pub fn deny(reason: impl Into<String>) -> Self {
        Decision::Deny(Deny { reason: reason.into(), guidance: String::new() }).into()
    }

    /// In an output review: the agent gets the output as it is.
    pub fn pass() -> Self {
        Decision::Pass.into()
    }

    /// In an output review: the agent gets this instead.
    pub fn replace(output: impl Into<String>) -> Self {
        Decision::Replace(Replace { output: output.into() }).into()
    }

    /// In an output review: the agent gets no output, and is told why.
    pub fn withhold(reason: impl Into<String>) -> Self {
        Decision::Withhold(Withhold { reason: reason.into() }).into()
    }

    /// What was decided.
    #[must_use]
    pub fn decision(&self) -> &Decision {
        &self.decision
    }

    /// With a denial: what the agent should do instead.
    pub fn guidance(mut self, text: impl Into<String>) -> Self {
        if let Decision::Deny(deny) = &mut self.decision {
            deny.guidance = text.into();
        }
        self
    }

    /// With an approval: answer the like of it from memory.
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
