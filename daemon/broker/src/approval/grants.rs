//! Remembered approvals: those that an approver gave for more than one call, as far as the profile
//! allows. Pure: the clock is passed in.

use super::coverage::{ComparedRequest, ReviewedPart, below};
use palisade_audit::Hash;
use palisade_policy::{Facts, Handlers};
use palisade_protocol::{
    ErrorCode, Grant, GrantId, LossScope, Remember, Scope, SessionId, ToolName, Until, WireError,
};
use std::time::Duration;
use tokio::time::Instant;

/// The most approvals that are remembered; the oldest are dropped first.
const MOST: usize = 1024;

/// A call that a remembered approval may cover, or whose approval is to be remembered.
#[derive(Debug, Clone)]
pub(crate) struct ApprovalKey {
    pub(crate) session: SessionId,
    pub(crate) uid: u32,
    pub(crate) profile: String,
    /// The digest of the profile: a remembered approval ends when the policy it was given under
    /// changes.
    pub(crate) profile_digest: String,
    pub(crate) tool: ToolName,
    /// A hash of tool, arguments and directory: identical calls have the same one.
    pub(crate) exact: [u8; 32],
    /// Words for what exactly is asked, if it is not the call itself.
    pub(crate) exact_words: Option<String>,
    pub(crate) facts: Facts,
    pub(crate) part: ReviewedPart,
}

/// An approval for more than one call. It counts once it is in [`RememberedApprovals`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RememberedApproval {
    grant: Grant,
    exact: Hash,
    profile_digest: String,
    until: Option<Instant>,
}

/// All remembered approvals.
#[derive(Debug, Default)]
pub(crate) struct RememberedApprovals {
    kept: Vec<RememberedApproval>,
    count: u64,
}

impl RememberedApprovals {
    /// The remembered approval that would cover a call; its use is not counted.
    pub(crate) fn covering(&self, claim: &ApprovalKey) -> Option<GrantId> {
        let kept = self.kept.iter().find(|kept| kept.is_for(claim) && kept.covers(claim))?;
        Some(kept.grant.id.clone())
    }

    /// The remembered approval that covers a call, and who gave it; its use is counted.
    pub(crate) fn find(&mut self, claim: &ApprovalKey, now: Instant) -> Option<(GrantId, String)> {
        self.expire(now);
        let kept = self.kept.iter_mut().find(|kept| kept.is_for(claim) && kept.covers(claim))?;
        kept.grant.used += 1;
        Some((kept.grant.id.clone(), kept.grant.by.clone()))
    }

    /// Refuses a scope or a time that the profile does not allow, and a scope that does not cover
    /// the call.
    pub(crate) fn check(
        claim: &ApprovalKey,
        remember: &Remember,
        limits: &Handlers,
    ) -> Result<(), WireError> {
        let refused = |message: &str, hint: String| {
            Err(WireError::new(ErrorCode::Denied, format!("not remembered: {message}"), hint))
        };
        if !limits.may_remember(&remember.scope) {
            let hint = format!("scopes that the profile allows: {}", limits.scopes().join(", "));
            return refused("the profile does not allow this scope", hint);
        }
        if let Until::Ms(ms) = remember.until
            && ms > limits.remember_ms()
        {
            let hint =
                format!("the profile allows at most {} ms (remember.ms)", limits.remember_ms());
            return refused("the time is longer than the profile allows", hint);
        }
        let path = match &remember.scope {
            Scope::Path(scope) => Some(&scope.path.0),
            Scope::Losses(scope) => Some(&scope.path.0),
            Scope::ExactCall | Scope::CommandPrefix(_) => None,
        };
        if path.is_some_and(|path| !below(path, &claim.facts.workspace)) {
            return refused(
                "the path is not in the workspace",
                "choose a path in the workspace".to_owned(),
            );
        }
        let is_covered = match (&claim.part, &remember.scope) {
            // The effects of one run do not predict those of the next.
            (ReviewedPart::Effects(_), Scope::ExactCall) => false,
            (ReviewedPart::Effects(_) | ReviewedPart::Call, scope) => {
                ComparedRequest::of(claim).is_in(scope, &claim.exact.into())
            }
        };
        if !is_covered {
            let hint = "choose a scope that covers the call, and is in its `scopes`".to_owned();
            return refused("the scope does not cover this call", hint);
        }
        Ok(())
    }

    /// Makes the remembered approval of an answer that [`check`](Self::check) has accepted.
    pub(crate) fn prepare(
        &mut self,
        claim: &ApprovalKey,
        remember: Remember,
        by: &str,
        now: Instant,
    ) -> Result<RememberedApproval, WireError> {
        self.count += 1;
        let id = GrantId::try_from(format!("g-{}", self.count))
            .map_err(|error| WireError::new(ErrorCode::Internal, error.to_string(), ""))?;
        let (session, until) = match remember.until {
            Until::Session => (Some(claim.session.clone()), None),
            Until::Ms(ms) => (None, Some(now + Duration::from_millis(ms))),
        };
        let grant = Grant {
            id: id.clone(),
            session,
            uid: claim.uid,
            profile: claim.profile.clone(),
            tool: claim.tool.clone(),
            summary: summary(claim, &remember.scope),
            scope: remember.scope,
            by: by.to_owned(),
            expires_in_ms: None,
            used: 0,
        };
        let (exact, profile_digest) = (claim.exact.into(), claim.profile_digest.clone());
        Ok(RememberedApproval { grant, exact, profile_digest, until })
    }

    /// Remembers an approval from now on.
    pub(crate) fn keep(&mut self, kept: RememberedApproval, now: Instant) {
        self.expire(now);
        if self.kept.len() >= MOST {
            self.kept.remove(0);
        }
        self.kept.push(kept);
    }

    /// Returns `true` if an approval is remembered.
    pub(crate) fn holds(&self, kept: &RememberedApproval) -> bool {
        self.kept.iter().any(|known| known.grant.id == kept.grant.id)
    }

    /// When a remembered approval expires, or `None` in its place if it does not; `None` if it has ended.
    pub(crate) fn lifetime(&self, id: &GrantId) -> Option<Option<Instant>> {
        self.kept.iter().find(|kept| kept.grant.id == *id).map(|kept| kept.until)
    }

    /// All remembered approvals, oldest first.
    pub(crate) fn list(&mut self, now: Instant) -> Vec<Grant> {
        self.expire(now);
        self.kept.iter().map(|kept| kept.grant(now)).collect()
    }

    /// Revokes a remembered approval and returns it.
    pub(crate) fn revoke(&mut self, id: &GrantId) -> Result<Grant, WireError> {
        if let Some(at) = self.kept.iter().position(|kept| kept.grant.id == *id) {
            return Ok(self.kept.remove(at).grant);
        }
        let hint = "`palisade grants list` shows the remembered approvals";
        Err(WireError::new(
            ErrorCode::NotFound,
            format!("there is no remembered approval {id}"),
            hint,
        ))
    }

    /// Drops the approvals that were remembered for a session that has ended.
    pub(crate) fn end_session(&mut self, session: &SessionId) {
        self.kept.retain(|kept| kept.grant.session.as_ref() != Some(session));
    }

    fn expire(&mut self, now: Instant) {
        self.kept.retain(|kept| kept.until.is_none_or(|until| now < until));
    }
}

impl RememberedApproval {
    pub(crate) fn id(&self) -> GrantId {
        self.grant.id.clone()
    }

    /// The form that operators see, with the time left.
    pub(crate) fn grant(&self, now: Instant) -> Grant {
        let left = |until: Instant| {
            u64::try_from(until.saturating_duration_since(now).as_millis()).unwrap_or(u64::MAX)
        };
        Grant { expires_in_ms: self.until.map(left), ..self.grant.clone() }
    }

    fn is_for(&self, claim: &ApprovalKey) -> bool {
        self.grant.uid == claim.uid
            && self.profile_digest == claim.profile_digest
            && self.grant.tool == claim.tool
            && self.grant.session.as_ref().is_none_or(|session| *session == claim.session)
    }

    fn covers(&self, claim: &ApprovalKey) -> bool {
        ComparedRequest::of(claim).is_in(&self.grant.scope, &self.exact)
    }
}

fn summary(claim: &ApprovalKey, scope: &Scope) -> String {
    let exactly = || claim.exact_words.clone().unwrap_or_else(|| "this exact call".to_owned());
    let tool = &claim.tool;
    let what = match scope {
        Scope::ExactCall => exactly(),
        Scope::CommandPrefix(prefix) => format!("{} …", prefix.words.join(" ")),
        Scope::Path(scope) => format!("{} and below", String::from_utf8_lossy(&scope.path.0)),
        Scope::Losses(scope) => losses(scope),
    };
    palisade_text::escape_line(&format!("{tool}: {what}"))
}

fn losses(scope: &LossScope) -> String {
    let mut text = format!("losses in {}", String::from_utf8_lossy(&scope.path.0));
    for (word, list) in [("kinds", &scope.kinds), ("by", &scope.programs)] {
        if !list.is_empty() {
            text += &format!(", {word} {}", list.join(" "));
        }
    }
    text
}

#[cfg(test)]
mod tests;
