//! Makes an approval request of a call: what would happen, rendered from what would run, and the
//! digest that an answer is bound to. Runs in the broker.

use super::{
    coverage::{CommandLosses, ReviewedPart},
    grants::ApprovalKey,
    prepared::{PreparedRequest, Stakes},
};
use crate::{
    base::{attachment::Attachment, error::CallError, identity::SessionIdentity, task::Task},
    cells::{
        seen::{TargetSnapshot, part},
        session::Session,
    },
};
use palisade_policy::{ADJUSTED, Commands, Facts, Handlers, LOSSES, MUTATING_TOOL, is_asked};
use palisade_protocol::{
    ApprovalId, ApprovalRequest, Asker, Call, CallId, Finding, Guard, NameError, RawPath, Review,
    ToolName,
};
use sha2::{Digest as _, Sha256};
use std::time::Duration;

/// Everything that an approval request is made of.
#[derive(Debug)]
pub(crate) struct Subject<'a> {
    pub(crate) session: &'a Session,
    pub(crate) call_id: &'a CallId,
    pub(crate) tool: &'a ToolName,
    pub(crate) call: &'a Call,
    pub(crate) task: &'a Task,
    /// The attachment of the call, if it has arrived.
    pub(crate) attachment: Option<&'a Attachment>,
    pub(crate) facts: &'a Facts,
    pub(crate) seen: &'a TargetSnapshot,
    pub(crate) findings: &'a [Finding],
    /// The mode or the rule that requires approval.
    pub(crate) why: &'a str,
    pub(crate) review: Review,
    /// The output that the agent would see, in an output review.
    pub(crate) output: Option<String>,
    pub(crate) part: ReviewedPart,
}

/// A temporary id: the desk gives each approval request its own.
pub(crate) fn placeholder() -> Result<ApprovalId, CallError> {
    "new".parse().map_err(|error: NameError| CallError::Cell(error.to_string()))
}

impl Subject<'_> {
    /// The call in the form that remembered approvals are compared with.
    pub(crate) fn claim(&self) -> ApprovalKey {
        let mut hash = Sha256::new();
        if self.review == Review::Effects {
            // An approval of the call itself is none of what it turns out to do.
            part(&mut hash, b"palisade effects");
        }
        part(&mut hash, self.tool.as_str().as_bytes());
        part(&mut hash, canonical(self.call).as_bytes());
        part(&mut hash, &self.seen.cwd);
        part(&mut hash, &self.attached());
        part(&mut hash, &provider_of(self.task));
        ApprovalKey {
            session: self.session.id.clone(),
            uid: self.session.uid(),
            profile: self.session.profile.name().to_owned(),
            profile_digest: self.session.profile.digest().to_owned(),
            tool: self.tool.clone(),
            exact: hash.finalize().into(),
            exact_words: None,
            facts: self.facts.clone(),
            part: self.part.clone(),
        }
    }

    /// Makes the approval request.
    pub(crate) fn prepare(self, placeholder: ApprovalId) -> PreparedRequest {
        let (claim, stakes) = (self.claim(), self.stakes());
        let limits = self.session.profile.handlers().clone();
        let most = self.session.profile.max_timeout_ms();
        let patience =
            self.call.options.timeout_ms.map(|asked| Duration::from_millis(asked.min(most)));
        let request = ApprovalRequest {
            id: placeholder,
            digest: self.digest(),
            review: self.review,
            asker: asker(self.session),
            call_id: self.call_id.clone(),
            tool: self.tool.clone(),
            arguments: self.call.arguments.clone(),
            cwd: RawPath(self.seen.cwd.clone()),
            reason: self.call.reason.clone(),
            reverse_thinking: self.call.options.reverse_thinking.clone(),
            findings: self.findings.iter().map(visible_finding).collect(),
            why: palisade_text::escape_line(self.why),
            view: self.view(),
            scopes: self.scopes(&limits),
            prefix: self.prefix(),
            remember_ms: limits.remember_ms(),
            quorum: limits.quorum(),
            approved_by: Vec::new(),
            output: self.output,
            expires_in_ms: 0,
        };
        PreparedRequest { request, claim, limits, patience, stakes }
    }

    /// Returns whether something may be lost if the request is approved. What is not known to be harmless
    /// counts as a loss.
    fn stakes(&self) -> Stakes {
        let profile = &self.session.profile;
        // The effects of a program are reviewed apart, unless it writes where no transaction is.
        let is_held = match self.task {
            Task::Run(_) | Task::Check { .. } => {
                self.session.guard() >= Guard::Auto && !profile.writes_beyond()
            }
            Task::Provided { .. } => false,
            Task::Read { .. }
            | Task::Look { .. }
            | Task::Change(_)
            | Task::List { .. }
            | Task::Glob(_)
            | Task::Grep(_)
            | Task::Job(_)
            | Task::Errand(_)
            | Task::Fetch(_) => true,
        };
        let is_harmless =
            |found: &Finding| [MUTATING_TOOL, ADJUSTED].contains(&found.kind.as_str());
        let is_input = self.review == Review::Input;
        match is_input && is_held && self.findings.iter().all(is_harmless) {
            true => Stakes::NoLoss,
            false => Stakes::Loss,
        }
    }

    /// SHA-256, in hexadecimal, over everything that would run and what it would touch.
    fn digest(&self) -> String {
        let mut hash = Sha256::new();
        let review: &[u8] = match self.review {
            Review::Input => b"palisade input 1",
            Review::Output => b"palisade output 1",
            Review::Effects => b"palisade effects 1",
        };
        for bytes in [
            review,
            self.session.id.as_str().as_bytes(),
            self.session.profile.digest().as_bytes(),
            self.tool.as_str().as_bytes(),
            canonical(self.call).as_bytes(),
            self.output.as_deref().unwrap_or_default().as_bytes(),
            &self.attached(),
        ] {
            part(&mut hash, bytes);
        }
        part(&mut hash, &provider_of(self.task));
        self.seen.digest(&mut hash);
        palisade_text::hex(&hash.finalize())
    }

    /// The size and digest of the attachment; empty if there is none.
    fn attached(&self) -> Vec<u8> {
        let held = self.attachment.map(|attachment| attachment.tally().digest());
        held.map(|digest| attached_line(&digest).into_bytes()).unwrap_or_default()
    }

    /// The names of the scopes for which an approval may be remembered.
    fn scopes(&self, limits: &Handlers) -> Vec<String> {
        let mut scopes = limits.scopes();
        scopes.retain(|scope| match &self.part {
            ReviewedPart::Call => scope != LOSSES,
            // What a command did once says nothing about what it does next time, but for its losses.
            ReviewedPart::Effects(losses) => losses.is_some() && scope == LOSSES,
        });
        scopes
    }

    /// The first two words of the command that needs approval; of effects, the programs.
    fn prefix(&self) -> Vec<String> {
        if let ReviewedPart::Effects(losses) = &self.part {
            return losses.as_ref().map(CommandLosses::programs).unwrap_or_default();
        }
        let finding =
            self.findings.iter().find(|found| is_asked(found) && !found.program.is_empty());
        let words: Vec<String> = match (finding, &self.facts.commands) {
            (Some(found), _) => {
                std::iter::once(&found.program).chain(&found.arguments).cloned().collect()
            }
            (None, Commands::Known(commands)) => commands.first().cloned().unwrap_or_default(),
            (None, Commands::None | Commands::Unknown) => Vec::new(),
        };
        words.into_iter().take(2).collect()
    }
}

/// Describes the client of a session.
pub(super) fn asker(session: &SessionIdentity) -> Asker {
    let pid = session.peer.pid.unwrap_or(0);
    Asker {
        uid: session.uid(),
        pid,
        unit: unit(pid),
        session: session.id.clone(),
        profile: session.profile.name().to_owned(),
        workspace: session.workspace.clone(),
    }
}

/// The number of the provider: an approval for one provider does not hold for another of the same
/// name.
fn provider_of(task: &Task) -> Vec<u8> {
    if let Task::Provided { provider, .. } = task {
        return provider.to_le_bytes().to_vec();
    }
    Vec::new()
}

fn visible_finding(finding: &Finding) -> Finding {
    let line = |text: &String| palisade_text::escape_line(text);
    Finding {
        why: line(&finding.why),
        program: line(&finding.program),
        arguments: finding.arguments.iter().map(line).collect(),
        targets: finding.targets.iter().map(line).collect(),
        ..finding.clone()
    }
}

/// The arguments with their keys in a fixed order, so that the same call has one text.
pub(super) fn canonical(call: &Call) -> String {
    match serde_json::from_str::<serde_json::Value>(call.arguments.as_str()) {
        Ok(value) => value.to_string(),
        Err(_) => call.arguments.as_str().to_owned(),
    }
}

/// Describes an attachment that is not shown itself.
pub(super) fn attached_line(digest: &palisade_audit::Digest) -> String {
    format!("{} bytes, SHA-256 {}", digest.bytes, digest.sha256)
}

/// The systemd unit of a process, by its control group.
fn unit(pid: u32) -> Option<String> {
    let groups = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    let last = groups
        .lines()
        .last()?
        .rsplit('/')
        .find(|part| part.ends_with(".service") || part.ends_with(".scope"))?;
    (last.len() <= 256).then(|| palisade_text::escape_line(last))
}
