//! Audit records of approval requests about a call, of their answers, and of remembered approvals.
//! Runs in the broker.

use super::{CallAudit, CheckpointDecision, SentRequest};
use crate::telemetry::audit::{RecordError, granted};
use palisade_audit::{
    Answer, CleanText, Decision, DecisionMaker, Digest, GrantAct, Hash, Judgement, Record,
    RequestContent, RequestKey, RequestRecord, Review,
};
use palisade_protocol::{
    ApprovalOutcome, ApprovalRequest, CallResult, Checkpoint, DecidedBy, Grant, Target,
};
use std::time::Duration;

impl CallAudit {
    /// Writes a decision into the log; only then it takes effect.
    pub(crate) async fn answer(
        &mut self,
        answering: CheckpointDecision<'_>,
    ) -> Result<(), RecordError> {
        let record = answer_record(self.call.call_id.clone(), self.call.session.clone(), answering);
        self.audit.record(self.charged(), record).await.map(drop)?;
        self.answered = true;
        Ok(())
    }

    /// Writes an approval request into the log; only then it is sent.
    pub(crate) async fn request(
        &self,
        asked: &ApprovalRequest,
        key: RequestKey,
        time: Duration,
        handlers: &[String],
    ) -> Result<SentRequest, RecordError> {
        let record = request_record(self.call.session.clone(), (asked, key), time, handlers);
        self.audit.record(self.charged(), record).await.map(drop)?;
        Ok(SentRequest::new(asked))
    }

    /// Writes into the log that an approval is to be remembered; only then it is.
    pub(crate) async fn grant(&self, grant: &Grant) -> Result<(), RecordError> {
        let made = granted(grant, GrantAct::Made, &grant.by, Some(&self.call));
        self.audit.record(self.charged(), made).await.map(drop)
    }

    /// Makes the record of a denial that no approver made: by a rule or by default.
    pub(super) fn decision(&self, result: &CallResult) -> Option<Answer> {
        let rule = || CleanText::new(result.denials.first().map_or("", |denial| &denial.rule));
        let (by, reason) = match (&result.checkpoint, self.call.judgement) {
            (Some(Checkpoint { decision, reason, .. }), _)
                if *decision == ApprovalOutcome::Denied =>
            {
                (DecisionMaker::Default, reason.as_str())
            }
            (None, Judgement::Deny) => (
                DecisionMaker::Rule(rule()),
                result.error.as_ref().map_or("", |error| &error.message),
            ),
            (Some(_), _) | (None, Judgement::Allow | Judgement::Ask | Judgement::Unjudged) => {
                return None;
            }
        };
        Some(Answer {
            request: None,
            call_id: self.call.call_id.clone(),
            session: self.call.session.clone(),
            review: Review::Input,
            decision: Decision::Deny,
            by,
            approvals: Vec::new(),
            reason: CleanText::new(reason),
            digest: None,
            remember: None,
        })
    }
}

/// Makes the record of a decision.
pub(in crate::telemetry::audit) fn answer_record(
    call_id: String,
    session: String,
    answering: CheckpointDecision<'_>,
) -> Record {
    let CheckpointDecision { review, checkpoint, remember, asked } = answering;
    let decision = match checkpoint.decision {
        ApprovalOutcome::Approved => Decision::Approve,
        ApprovalOutcome::Modified => Decision::ApproveModified,
        ApprovalOutcome::Denied => Decision::Deny,
        ApprovalOutcome::Passed => Decision::Pass,
        ApprovalOutcome::Replaced => Decision::Replace,
        ApprovalOutcome::Withheld => Decision::Withhold,
    };
    let approvals = asked.map_or(&[][..], |put| put.approvals_of_several(&checkpoint.by));
    Record::Answer(Answer {
        request: asked.map(|put| put.request.to_string()),
        call_id,
        session,
        review: review_word(review),
        decision,
        by: decision_maker(&checkpoint.by),
        approvals: approvals.iter().map(decision_maker).collect(),
        reason: CleanText::new(&checkpoint.reason),
        digest: asked.and_then(|put| put.digest.parse().ok()),
        remember: remember.map(CleanText::new),
    })
}

/// Names the one who decided, as the log has it. An approver's own name begins with its kind:
/// `person:`, `operator:` or `program:`.
fn decision_maker(by: &DecidedBy) -> DecisionMaker {
    match by {
        DecidedBy::Remembered(id) => DecisionMaker::Remembered(CleanText::new(id)),
        DecidedBy::Approver(name) => match name.split_once(':') {
            Some(("person" | "operator", who)) => DecisionMaker::Person(CleanText::new(who)),
            Some(("program", who)) => DecisionMaker::Program(CleanText::new(who)),
            Some(_) | None => DecisionMaker::Program(CleanText::new(name)),
        },
        DecidedBy::AgentClient(_) => DecisionMaker::Program(CleanText::new(&by.to_string())),
        DecidedBy::Default => DecisionMaker::Default,
    }
}

/// Makes the record of an approval request.
pub(in crate::telemetry::audit) fn request_record(
    session: String,
    (asked, key): (&ApprovalRequest, RequestKey),
    time: Duration,
    handlers: &[String],
) -> Record {
    let lines: Vec<&str> = asked.view.lines.iter().map(|line| line.text.as_str()).collect();
    let target = |target: &Target| {
        let there = target.there.as_deref().unwrap_or("nothing there");
        let lost = if target.lost { ", lost" } else { "" };
        let path = String::from_utf8_lossy(&target.path.0);
        format!("{path} ({there}, {} bytes{lost})", target.size)
    };
    let output = |output: &String| Digest {
        bytes: output.len() as u64,
        sha256: Hash::of(output.as_bytes()),
    };
    Record::ApprovalRequest(RequestRecord {
        request: asked.id.to_string(),
        call_id: asked.call_id.to_string(),
        session,
        review: review_word(asked.review),
        digest: asked.digest.parse().unwrap_or(Hash::ZERO),
        handlers: CleanText::list(handlers),
        deadline_ms: u64::try_from(time.as_millis()).unwrap_or(u64::MAX),
        shown: RequestContent {
            why: CleanText::new(&asked.why),
            lines: CleanText::new(&lines.join("\n")),
            targets: CleanText::list(&asked.view.targets.iter().map(target).collect::<Vec<_>>()),
            diff: asked.view.diff.as_deref().map(CleanText::new),
            output: asked.output.as_ref().map(output),
        },
        key: Some(key),
    })
}

/// The word for a kind of review in the log.
pub(crate) const fn review_word(review: palisade_protocol::Review) -> Review {
    match review {
        palisade_protocol::Review::Input => Review::Input,
        palisade_protocol::Review::Output => Review::Output,
        palisade_protocol::Review::Effects => Review::Effects,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_decided_is_in_the_log() {
        let (name, text) = (|name: &str| name.to_owned(), CleanText::new);
        for (by, recorded) in [
            (DecidedBy::Approver(name("person:ann")), DecisionMaker::Person(text("ann"))),
            (DecidedBy::Approver(name("operator:0")), DecisionMaker::Person(text("0"))),
            (DecidedBy::Approver(name("program:x")), DecisionMaker::Program(text("x"))),
            (DecidedBy::Approver(name("policy:x")), DecisionMaker::Program(text("policy:x"))),
            (DecidedBy::Approver(name("default")), DecisionMaker::Program(text("default"))),
            (DecidedBy::AgentClient(name("x")), DecisionMaker::Program(text("agent-client:x"))),
            (DecidedBy::Remembered(name("g-1 of x")), DecisionMaker::Remembered(text("g-1 of x"))),
            (DecidedBy::Default, DecisionMaker::Default),
        ] {
            assert_eq!(decision_maker(&by), recorded);
        }
    }

    #[test]
    fn everyone_who_approved_is_in_the_log_unless_that_is_the_one_who_decided() {
        let approver = |name: &str| DecidedBy::Approver(format!("person:{name}"));
        let person = |name: &str| DecisionMaker::Person(CleanText::new(name));
        for (by, approvals, recorded) in [
            (approver("ann"), vec![approver("ann")], Vec::new()),
            (
                approver("ann"),
                vec![approver("ann"), approver("bob")],
                vec![person("ann"), person("bob")],
            ),
            (DecidedBy::Default, vec![approver("ann")], vec![person("ann")]),
            (DecidedBy::Default, Vec::new(), Vec::new()),
        ] {
            let (decision, reason) = (ApprovalOutcome::Approved, String::new());
            let checkpoint = Checkpoint { decision, by, reason };
            let (request, digest) = ("q-1".parse().unwrap(), "0".repeat(64));
            let asked = SentRequest { request, digest, approvals };
            let answering = CheckpointDecision {
                review: palisade_protocol::Review::Input,
                checkpoint: &checkpoint,
                remember: None,
                asked: Some(&asked),
            };
            let record = answer_record("c".to_owned(), "s".to_owned(), answering);
            let Record::Answer(answer) = record else { panic!("{record:?}") };
            assert_eq!(answer.approvals, recorded);
        }
    }
}
