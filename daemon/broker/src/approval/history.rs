//! Counts the approval requests of the last week that scopes would have covered, from the audit log.
//! Blocks on files. Runs in the broker.

use super::coverage::ComparedRequest;
use palisade_audit::{
    Decision, DecisionMaker, ReadError, Record, Review, ScanBounds, Timestamp, scan,
};
use palisade_protocol::{Scope, ScopeHistory, ScopeUse};
use std::{collections::HashMap, path::Path};

/// The time that is counted.
const PERIOD_MS: i64 = 7 * 24 * 60 * 60 * 1000;

/// The most bytes of the log that are searched.
const MOST_BYTES: u64 = 512 << 20;

/// A waiting approval request whose scopes are compared with earlier requests.
#[derive(Debug)]
pub(crate) struct HistoryQuery {
    /// The id of the waiting request, which is not counted.
    pub(super) id: String,
    pub(super) review: Review,
    pub(super) compared: ComparedRequest,
    pub(super) scopes: Vec<Scope>,
}

impl HistoryQuery {
    /// Counts the earlier requests of the same user, profile and tool.
    pub(crate) fn count(&self, log: &Path, now: Timestamp) -> Result<ScopeHistory, ReadError> {
        let since = Timestamp::from_millis(now.millis().saturating_sub(PERIOD_MS));
        let bounds = ScanBounds { since, most_bytes: MOST_BYTES };
        let mut history = ScopeHistory {
            period_ms: u64::try_from(PERIOD_MS).unwrap_or_default(),
            requests: 0,
            scopes: vec![ScopeUse::default(); self.scopes.len()],
        };
        let mut covered: HashMap<String, Vec<bool>> = HashMap::new();
        let texts = ["\"kind\":\"approval_request\"", "\"kind\":\"answer\""];
        scan(log, bounds, &texts, |entry, _| {
            if entry.time.millis() < since.millis() {
                return;
            }
            if let Record::ApprovalRequest(asked) = entry.record {
                let is_like = |earlier: &ComparedRequest| {
                    asked.request != self.id
                        && asked.review == self.review
                        && earlier.is_like(&self.compared)
                };
                let earlier = asked.key.map(ComparedRequest::from).filter(is_like);
                if let Some(earlier) = earlier {
                    history.requests += 1;
                    let exact = self.compared.exact();
                    let is_in = |scope: &Scope| earlier.is_in(scope, exact);
                    covered.insert(asked.request, self.scopes.iter().map(is_in).collect());
                }
            } else if let Record::Answer(answer) = entry.record
                && answer.decision == Decision::Deny
                && answer.by != DecisionMaker::Default
                && let Some(covered) = answer.request.and_then(|id| covered.get(&id))
            {
                for (count, _) in
                    history.scopes.iter_mut().zip(covered).filter(|(_, covered)| **covered)
                {
                    count.denied += 1;
                }
            }
        })?;
        for covered in covered.values() {
            for (count, covered) in history.scopes.iter_mut().zip(covered) {
                count.covered += u64::from(*covered);
            }
        }
        Ok(history)
    }
}
