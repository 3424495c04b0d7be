//! Leave for one call. A `Cleared` is made from the judge's grant and from nothing else. Broker.

use crate::{outcome::Outcome, stages::Checked};
use palisade_policy::{Grant, Judgement};
use palisade_protocol::{Finding, ToolName};

/// A call and what the judge says of it.
#[derive(Debug)]
pub(crate) struct Judged<'a> {
    call: Checked<'a>,
    judgement: Judgement,
}

/// A call that may run.
#[derive(Debug)]
pub(crate) struct Cleared<'a> {
    call: Checked<'a>,
    grant: Grant,
}

impl<'a> Judged<'a> {
    pub(crate) const fn new(call: Checked<'a>, judgement: Judgement) -> Self {
        Self { call, judgement }
    }

    /// The tool, what the judge says and what was noticed, for the log.
    pub(crate) fn summary(&self) -> (&ToolName, palisade_audit::Judgement, &[Finding]) {
        use palisade_audit::Judgement as Said;
        let (said, findings) = match &self.judgement {
            Judgement::Allow(grant) => (Said::Allow, grant.findings()),
            Judgement::Ask(question) => (Said::Ask, question.findings()),
            Judgement::Deny(refusal) => (Said::Deny, refusal.findings.as_slice()),
        };
        (self.call.tool(), said, findings)
    }

    /// What is allowed goes on. A question goes to the handler; there is none, so it is denied.
    pub(crate) fn checkpoint(self) -> Result<Cleared<'a>, Box<Outcome>> {
        match self.judgement {
            Judgement::Allow(grant) => Ok(Cleared { call: self.call, grant }),
            Judgement::Ask(question) => Err(Box::new(question.denied_without_handler().into())),
            Judgement::Deny(refusal) => Err(Box::new(refusal.into())),
        }
    }
}

impl<'a> Cleared<'a> {
    /// The call, to look at.
    pub(crate) const fn call(&self) -> &Checked<'a> {
        &self.call
    }

    /// The call, to run it once, and what was noticed about it.
    pub(crate) fn into_call(self) -> (Checked<'a>, Vec<Finding>) {
        (self.call, self.grant.findings().to_vec())
    }
}
