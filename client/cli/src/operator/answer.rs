//! `palisade answer`: answers one approval request from a script.

use crate::{
    failure::Failure,
    operator::{self, OperatorOptions},
    print,
    visible::visible,
};
use clap::{Args, ValueEnum};
use palisade_client::{Answer, Question, Review};

/// Answer an approval request
#[derive(Debug, Args)]
#[command(after_help = "\
The answer applies only to the approval request as it is now. Exit status: 0 accepted; 1 no such
approval request is waiting; 125 not accepted.

Examples:
  palisade answer q-0192f0d1 approve
  palisade answer q-0192f0d1 deny --reason 'that directory is shared'")]
pub(crate) struct AnswerCommand {
    /// The approval request's id, from `palisade pending`
    id: String,
    /// The decision
    #[arg(value_enum)]
    verdict: Verdict,
    /// With deny: the reason, which the agent is told
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// With deny: what the agent should do instead
    #[arg(long, value_name = "TEXT")]
    guidance: Option<String>,
    #[command(flatten)]
    operator: OperatorOptions,
}

/// The decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Verdict {
    /// Run the call; commit its changes; in an output review, show the agent the output
    Approve,
    /// Deny it
    Deny,
}

impl AnswerCommand {
    pub(crate) async fn perform(self) -> Result<u8, Failure> {
        if self.verdict == Verdict::Approve && (self.reason.is_some() || self.guidance.is_some()) {
            let hint = "omit --reason and --guidance, or deny";
            return Err(Failure::new("--reason and --guidance apply only to a denial", hint));
        }
        let operator = operator::connect(&self.operator).await?;
        let waiting = operator.pending().await?;
        let Some(question) = waiting.iter().find(|q| q.question.as_str() == self.id) else {
            let told = format!("no approval request {} is waiting", visible(&self.id));
            let hint = "it was answered, has expired or never existed; see palisade pending";
            return Err(Failure::absent(told, hint));
        };
        let reason = self.reason.unwrap_or_default();
        let mut answer = answer(question, self.verdict, &reason);
        if let Some(guidance) = self.guidance {
            answer = answer.guidance(guidance);
        }
        operator.answer(question, answer).await?;
        let done = match self.verdict {
            Verdict::Approve => "approved",
            Verdict::Deny => "denied",
        };
        print::line(&format!("{done} {}", question.question))?;
        Ok(0)
    }
}

/// Returns the approval or denial that fits the kind of review.
pub(crate) fn answer(question: &Question, verdict: Verdict, reason: &str) -> Answer {
    let reason = if reason.is_empty() { "no reason given" } else { reason };
    match (question.review, verdict) {
        (Review::Input | Review::Effects, Verdict::Approve) => Answer::approve(),
        (Review::Input | Review::Effects, Verdict::Deny) => Answer::deny(reason),
        (Review::Output, Verdict::Approve) => Answer::pass(),
        (Review::Output, Verdict::Deny) => Answer::withhold(reason),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_fits_its_review() {
        let mut question = crate::approve::card::tests::question();
        assert_eq!(answer(&question, Verdict::Approve, ""), Answer::approve());
        assert_eq!(answer(&question, Verdict::Deny, "no"), Answer::deny("no"));
        assert_eq!(answer(&question, Verdict::Deny, ""), Answer::deny("no reason given"));
        question.review = Review::Output;
        assert_eq!(answer(&question, Verdict::Approve, ""), Answer::pass());
        assert_eq!(answer(&question, Verdict::Deny, "no"), Answer::withhold("no"));
    }
}
