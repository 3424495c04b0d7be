//! `palisade answer`: one question, answered from a script.

use crate::{
    failure::Failure,
    operator::{self, OperatorOptions},
    print,
    visible::visible,
};
use clap::{Args, ValueEnum};
use palisade_client::{Answer, Question, Review};

/// Answer a question that waits
#[derive(Debug, Args)]
#[command(after_help = "\
The answer is to the question as it is now and to nothing else. Exit status: 0 it was taken; 1 no
such question waits; 125 it was not taken.

Examples:
  palisade answer q-0192f0d1 approve
  palisade answer q-0192f0d1 deny --reason 'that directory is shared'")]
pub(crate) struct GiveAnswer {
    /// The question's id, from `palisade pending`
    id: String,
    /// Yes or no
    #[arg(value_enum)]
    verdict: Verdict,
    /// With deny: what the agent is told
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// With deny: what the agent should do instead
    #[arg(long, value_name = "TEXT")]
    guidance: Option<String>,
    #[command(flatten)]
    operator: OperatorOptions,
}

/// Yes or no.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Verdict {
    /// It may run; what it did counts; in an output review, the agent may see it
    Approve,
    /// It may not
    Deny,
}

impl GiveAnswer {
    pub(crate) async fn perform(self) -> Result<u8, Failure> {
        if self.verdict == Verdict::Approve && (self.reason.is_some() || self.guidance.is_some()) {
            let hint = "leave --reason and --guidance out, or deny";
            return Err(Failure::new("an approval has no reason that anybody is told", hint));
        }
        let operator = operator::connect(&self.operator).await?;
        let waiting = operator.pending().await?;
        let Some(question) = waiting.iter().find(|q| q.question.as_str() == self.id) else {
            let told = format!("no question {} waits for an answer", visible(&self.id));
            let hint = "it was answered, expired or never was; palisade pending shows what waits";
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

/// Yes or no, as the kind of review has it.
pub(crate) fn answer(question: &Question, verdict: Verdict, reason: &str) -> Answer {
    let reason = if reason.is_empty() { "the operator said no" } else { reason };
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
        assert_eq!(answer(&question, Verdict::Deny, ""), Answer::deny("the operator said no"));
        question.review = Review::Output;
        assert_eq!(answer(&question, Verdict::Approve, ""), Answer::pass());
        assert_eq!(answer(&question, Verdict::Deny, "no"), Answer::withhold("no"));
    }
}
