//! What is answered from memory: approvals that a handler gave for more than one call, as far as
//! the profile lets them go. Broker, pure but for the clock that is handed in.

use palisade_policy::{Commands, Facts, Handlers, is_asked};
use palisade_protocol::{
    ErrorCode, Grant, GrantId, Remember, Scope, SessionId, ToolName, Until, WireError,
};
use std::time::Duration;
use tokio::time::Instant;

/// How many are kept; the oldest go first.
const MOST: usize = 1024;

/// A call that may be answered from memory, or whose answer is to be remembered.
#[derive(Debug, Clone)]
pub(crate) struct Claim {
    pub(crate) session: SessionId,
    pub(crate) uid: u32,
    pub(crate) profile: String,
    /// A grant ends with the policy it was given under.
    pub(crate) profile_digest: String,
    pub(crate) tool: ToolName,
    /// Tool, arguments, directory: the same for the same call.
    pub(crate) exact: [u8; 32],
    pub(crate) facts: Facts,
}

/// An approval for more than one call. It counts once it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Kept {
    grant: Grant,
    exact: [u8; 32],
    profile_digest: String,
    until: Option<Instant>,
}

/// Everything that is remembered.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    kept: Vec<Kept>,
    count: u64,
}

impl Memory {
    /// The grant that would cover a call. That does not use it.
    pub(crate) fn covering(&self, claim: &Claim) -> Option<GrantId> {
        let kept = self.kept.iter().find(|kept| kept.is_for(claim) && kept.covers(claim))?;
        Some(kept.grant.id.clone())
    }

    /// The grant that covers a call, and who gave it.
    pub(crate) fn find(&mut self, claim: &Claim, now: Instant) -> Option<(GrantId, String)> {
        self.expire(now);
        let kept = self.kept.iter_mut().find(|kept| kept.is_for(claim) && kept.covers(claim))?;
        kept.grant.used += 1;
        Some((kept.grant.id.clone(), kept.grant.by.clone()))
    }

    /// Refuses what the profile does not let anybody remember, and what is not about the call.
    pub(crate) fn check(
        claim: &Claim,
        remember: &Remember,
        limits: &Handlers,
    ) -> Result<(), WireError> {
        let refused = |message: &str, hint: String| {
            Err(WireError::new(ErrorCode::Denied, format!("not remembered: {message}"), hint))
        };
        if !limits.may_remember(&remember.scope) {
            let hint = format!("the profile lets {} be remembered", limits.scopes().join(", "));
            return refused("the profile does not permit this scope", hint);
        }
        if let Until::Ms(ms) = remember.until
            && ms > limits.remember_ms()
        {
            let hint = format!("the profile's remember.ms is {}", limits.remember_ms());
            return refused("the profile does not permit it for so long", hint);
        }
        if let Scope::Path(scope) = &remember.scope
            && !below(&scope.path.0, &claim.facts.workspace)
        {
            return refused("the path is not in the workspace", "choose one that is".to_owned());
        }
        if !covers(&remember.scope, claim) {
            let hint = "choose a scope that the call in question is in".to_owned();
            return refused("the scope does not cover this call", hint);
        }
        Ok(())
    }

    /// Makes what an approval that was checked is remembered by.
    pub(crate) fn prepare(
        &mut self,
        claim: &Claim,
        remember: Remember,
        by: &str,
        now: Instant,
    ) -> Result<Kept, WireError> {
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
            summary: summary(&claim.tool, &remember.scope),
            scope: remember.scope,
            by: by.to_owned(),
            expires_in_ms: None,
            used: 0,
        };
        let (exact, profile_digest) = (claim.exact, claim.profile_digest.clone());
        Ok(Kept { grant, exact, profile_digest, until })
    }

    /// Remembers an approval from now on.
    pub(crate) fn keep(&mut self, kept: Kept, now: Instant) {
        self.expire(now);
        if self.kept.len() >= MOST {
            self.kept.remove(0);
        }
        self.kept.push(kept);
    }

    /// Whether an approval is remembered.
    pub(crate) fn holds(&self, kept: &Kept) -> bool {
        self.kept.iter().any(|known| known.grant.id == kept.grant.id)
    }

    /// All of it, oldest first.
    pub(crate) fn list(&mut self, now: Instant) -> Vec<Grant> {
        self.expire(now);
        self.kept.iter().map(|kept| kept.grant(now)).collect()
    }

    /// Takes one back, and says what it was.
    pub(crate) fn revoke(&mut self, id: &GrantId) -> Result<Grant, WireError> {
        if let Some(at) = self.kept.iter().position(|kept| kept.grant.id == *id) {
            return Ok(self.kept.remove(at).grant);
        }
        let hint = "`palisade grants list` shows what there is";
        Err(WireError::new(ErrorCode::NotFound, format!("there is no grant {id}"), hint))
    }

    /// Forgets what was for a session that is over.
    pub(crate) fn end_session(&mut self, session: &SessionId) {
        self.kept.retain(|kept| kept.grant.session.as_ref() != Some(session));
    }

    fn expire(&mut self, now: Instant) {
        self.kept.retain(|kept| kept.until.is_none_or(|until| now < until));
    }
}

impl Kept {
    pub(crate) fn id(&self) -> GrantId {
        self.grant.id.clone()
    }

    /// As operators see it.
    pub(crate) fn grant(&self, now: Instant) -> Grant {
        let left = |until: Instant| {
            u64::try_from(until.saturating_duration_since(now).as_millis()).unwrap_or(u64::MAX)
        };
        Grant { expires_in_ms: self.until.map(left), ..self.grant.clone() }
    }

    fn is_for(&self, claim: &Claim) -> bool {
        self.grant.uid == claim.uid
            && self.profile_digest == claim.profile_digest
            && self.grant.tool == claim.tool
            && self.grant.session.as_ref().is_none_or(|session| *session == claim.session)
    }

    fn covers(&self, claim: &Claim) -> bool {
        match &self.grant.scope {
            Scope::ExactCall => self.exact == claim.exact,
            scope @ (Scope::CommandPrefix(_) | Scope::Path(_)) => covers(scope, claim),
        }
    }
}

/// Whether a call is in a scope. What can not be known is in none but its own.
fn covers(scope: &Scope, claim: &Claim) -> bool {
    let facts = &claim.facts;
    match scope {
        Scope::ExactCall => true,
        Scope::CommandPrefix(prefix) => {
            let Commands::Known(commands) = &facts.commands else { return false };
            let begins = |words: &[String]| words.starts_with(&prefix.words);
            let asked: Vec<_> = facts.findings.iter().filter(|found| is_asked(found)).collect();
            if asked.is_empty() {
                return !commands.is_empty() && commands.iter().all(|words| begins(words));
            }
            asked.iter().all(|found| {
                let words: Vec<String> =
                    std::iter::once(&found.program).chain(&found.arguments).cloned().collect();
                found.kind == "destructive" && begins(&words)
            })
        }
        Scope::Path(scope) => {
            facts.commands == Commands::None
                && !facts.paths.is_empty()
                && facts.paths.iter().all(|path| below(path, &scope.path.0))
        }
    }
}

/// Whether a path is another or below it, as text without `..`.
fn below(path: &[u8], top: &[u8]) -> bool {
    let top = top.strip_suffix(b"/").unwrap_or(top);
    !path.split(|byte| *byte == b'/').any(|part| part == b"..")
        && path.strip_prefix(top).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
}

fn summary(tool: &ToolName, scope: &Scope) -> String {
    let what = match scope {
        Scope::ExactCall => "this exact call".to_owned(),
        Scope::CommandPrefix(prefix) => format!("{} …", prefix.words.join(" ")),
        Scope::Path(scope) => format!("{} and below", String::from_utf8_lossy(&scope.path.0)),
    };
    super::visible::line(&format!("{tool}: {what}"))
}

#[cfg(test)]
mod tests;
