//! `palisade answer`: answers one approval request from a script.

use crate::{
    approve::card,
    failure::Failure,
    operator::{self, OperatorOptions},
    print,
    visible::visible,
};
use clap::{Args, ValueEnum};
use palisade_client::{Answer, ApprovalRequest, Review};

/// Answer an approval request
#[derive(Debug, Args)]
#[command(after_help = "\
The answer applies only to the approval request as it is now. Exit status: 0 accepted; 1 no such
approval request is waiting; 126 it has ended meanwhile, or this user may not answer it; 125
Palisade failed.

Examples:
  palisade answer q-0192f0d1 approve
  palisade answer q-0192f0d1 deny --reason 'that directory is shared'")]
pub(crate) struct AnswerCommand {
    /// The approval request's id, from `palisade pending`, or its beginning if no other has it
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
        let request = named(&self.id, &waiting, &REQUEST)?;
        let reason = self.reason.unwrap_or_default();
        let mut answer = answer(request, self.verdict, &reason);
        if let Some(guidance) = self.guidance {
            answer = answer.guidance(guidance);
        }
        let answered = operator.answer(request, answer).await?;
        let done = match self.verdict {
            Verdict::Approve => "approved",
            Verdict::Deny => "denied",
        };
        let line = format!("{done} {}", request.id);
        print::line(&card::with_missing(line, answered.missing))?;
        Ok(0)
    }
}

/// The words for approval requests in a message, and the command that lists them.
#[derive(Debug)]
pub(crate) struct RequestWords {
    pub(crate) one: &'static str,
    pub(crate) listed_by: &'static str,
}

const REQUEST: RequestWords =
    RequestWords { one: "approval request", listed_by: "palisade pending" };

/// Finds the approval request with an id, or the only one whose id begins with it.
pub(crate) fn named<'a>(
    id: &str,
    waiting: &'a [ApprovalRequest],
    words: &RequestWords,
) -> Result<&'a ApprovalRequest, Failure> {
    let RequestWords { one, listed_by } = words;
    if let Some(exact) = waiting.iter().find(|request| request.id.as_str() == id) {
        return Ok(exact);
    }
    // The letters alone would name any request.
    let is_beginning = id.strip_prefix("q-").is_some_and(|rest| !rest.is_empty());
    let begins = |request: &&ApprovalRequest| is_beginning && request.id.as_str().starts_with(id);
    let found: Vec<&ApprovalRequest> = waiting.iter().filter(begins).collect();
    match found.as_slice() {
        [one] => Ok(one),
        [] => Err(Failure::absent(
            format!("no {one} {} is waiting", visible(id)),
            format!("it was answered, has expired or never existed; see {listed_by}"),
        )),
        several => {
            let ids: Vec<&str> = several.iter().map(|one| one.id.as_str()).collect();
            let (count, id, ids) = (ids.len(), visible(id), ids.join(", "));
            let told = format!("{count} {one}s begin with {id}: {ids}");
            Err(Failure::absent(told, "give more characters of the id"))
        }
    }
}

/// Returns the approval or denial that fits the kind of review.
pub(crate) fn answer(request: &ApprovalRequest, verdict: Verdict, reason: &str) -> Answer {
    let reason = if reason.is_empty() { "no reason given" } else { reason };
    match (request.review, verdict) {
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
    fn a_request_is_named_by_its_id_or_a_beginning_that_no_other_has() {
        let request = |id: &str| {
            let mut request = crate::approve::card::tests::request();
            request.id = id.parse().unwrap();
            request
        };
        let waiting = ["q-1", "q-12", "q-134"].map(request);
        let named = |id: &str| named(id, &waiting, &REQUEST).map(|found| found.id.to_string());
        for (id, expected) in [("q-1", "q-1"), ("q-12", "q-12"), ("q-13", "q-134")] {
            assert_eq!(named(id).unwrap(), expected);
        }
        for absent in ["", "q", "q-", "1", "q-2", "q-1345"] {
            let told = named(absent).unwrap_err().to_json()["error"]["message"].to_string();
            assert!(told.contains("no approval request"), "{absent}: {told}");
        }
        let two = ["q-51", "q-52"].map(request);
        let told = super::named("q-5", &two, &REQUEST).unwrap_err().to_json()["error"]["message"]
            .to_string();
        assert!(told.contains("2 approval requests begin with q-5: q-51, q-52"), "{told}");
    }

    #[test]
    fn a_verdict_fits_its_review() {
        let mut request = crate::approve::card::tests::request();
        assert_eq!(answer(&request, Verdict::Approve, ""), Answer::approve());
        assert_eq!(answer(&request, Verdict::Deny, "no"), Answer::deny("no"));
        assert_eq!(answer(&request, Verdict::Deny, ""), Answer::deny("no reason given"));
        request.review = Review::Output;
        assert_eq!(answer(&request, Verdict::Approve, ""), Answer::pass());
        assert_eq!(answer(&request, Verdict::Deny, "no"), Answer::withhold("no"));
    }
}
