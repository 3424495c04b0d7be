//! Decides whether a scope covers an approval request. One function serves waiting requests and
//! those of the audit log. Pure: no I/O.

use super::grants::ApprovalKey;
use crate::base::{path_set::PathSet, preview::Preview};
use palisade_audit::{CleanText, Hash, LostPath, RequestKey};
use palisade_plan::evidence::{EarlierEntry, EarlierKind, GitEvidence};
use palisade_policy::{Commands, DESTRUCTIVE, Facts, RequiredApproval, is_asked};
use palisade_protocol::{LossScope, Scope};
use std::collections::HashSet;

/// The most entries of a list that is recorded; a request with more is not compared later.
const MOST_RECORDED: usize = 64;

/// A loss of a command: a path and the kind of change to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Loss {
    path: Vec<u8>,
    kind: String,
}

/// The losses of a command of which nothing else needs approval, and the programs that it started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CommandLosses {
    losses: Vec<Loss>,
    /// `None` if they are not known.
    programs: Option<Vec<String>>,
}

impl CommandLosses {
    /// Collects the losses of a change set. Returns `None` if a scope can not cover it: something
    /// else needs approval too, undo does not keep what is lost, or a loss is a part of a git
    /// repository, or a directory too large to be listed.
    pub(crate) fn of(
        preview: &Preview,
        request: &RequiredApproval,
        facts: &Facts,
        commands: &Commands,
    ) -> Option<Self> {
        let is_comparable =
            request.is_about_losses() && !facts.is_permanent && preview.conflicts.is_empty();
        if !is_comparable {
            return None;
        }
        let mut targets = HashSet::new();
        for found in request.findings().iter().filter(|found| is_asked(found)) {
            if found.kind != DESTRUCTIVE || found.targets.is_empty() {
                return None;
            }
            targets.extend(found.targets.iter().map(String::as_str));
        }
        let (mut losses, mut unknown) = (Vec::new(), targets.clone());
        // Several names can have the same text. Then all of them have to be covered.
        for effect in &preview.effects {
            let text = String::from_utf8_lossy(&effect.path.0);
            if targets.contains(&*text) {
                unknown.remove(&*text);
                let paths = effect.kind.moved_from().into_iter().chain([&effect.path]);
                let kind = effect.kind.name();
                losses
                    .extend(paths.map(|path| Loss { path: path.0.clone(), kind: kind.to_owned() }));
            }
        }
        let lost: PathSet<'_> = losses.iter().map(|loss: &Loss| loss.path.as_slice()).collect();
        let is_hidden = |earlier: &EarlierEntry| {
            let is_unlisted = matches!(earlier.kind, EarlierKind::Tree { .. });
            (is_unlisted || matches!(earlier.git, GitEvidence::Internal { .. }))
                && lost.covers(&earlier.path.0)
        };
        let is_internal = |loss: &Loss| loss.path.split(|byte| *byte == b'/').any(|p| p == b".git");
        if !unknown.is_empty()
            || losses.iter().any(is_internal)
            || preview.evidence.earlier.iter().any(is_hidden)
        {
            return None;
        }
        let programs = match commands {
            Commands::Known(commands) => {
                commands.iter().map(|words| words.first().cloned()).collect()
            }
            Commands::None | Commands::Unknown => None,
        };
        (!losses.is_empty()).then_some(Self { losses, programs })
    }

    /// The programs that the command started, each once; empty if they are not known.
    pub(super) fn programs(&self) -> Vec<String> {
        let mut programs = self.programs.clone().unwrap_or_default();
        programs.sort();
        programs.dedup();
        programs
    }

    fn are_in(&self, scope: &LossScope) -> bool {
        let fits = |loss: &Loss| {
            below(&loss.path, &scope.path.0)
                && (scope.kinds.is_empty() || scope.kinds.contains(&loss.kind))
        };
        let is_known = |programs: &Vec<String>| {
            !programs.is_empty() && programs.iter().all(|program| scope.programs.contains(program))
        };
        self.losses.iter().all(fits)
            && (scope.programs.is_empty() || self.programs.as_ref().is_some_and(is_known))
    }
}

/// The part of a call that an approval request is about, as scopes see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ReviewedPart {
    /// The call itself, or its output.
    Call,
    /// Its effects; `None` if no scope can cover them.
    Effects(Option<CommandLosses>),
}

/// The parts of an approval request that scopes are compared with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ComparedRequest {
    uid: u32,
    profile: String,
    tool: String,
    exact: Hash,
    /// The commands that need approval, or all if none does alone; `None` if they are not known.
    commands: Option<Vec<Vec<String>>>,
    /// The paths of a file tool.
    paths: Option<Vec<Vec<u8>>>,
    losses: Option<CommandLosses>,
}

impl ComparedRequest {
    pub(crate) fn of(claim: &ApprovalKey) -> Self {
        let (commands, paths, losses) = match &claim.part {
            ReviewedPart::Call => {
                let facts = &claim.facts;
                let is_file_tool = facts.commands == Commands::None && !facts.paths.is_empty();
                (commands(facts), is_file_tool.then(|| facts.paths.clone()), None)
            }
            ReviewedPart::Effects(losses) => (None, None, losses.clone()),
        };
        Self {
            uid: claim.uid,
            profile: claim.profile.clone(),
            tool: claim.tool.to_string(),
            exact: claim.exact.into(),
            commands,
            paths,
            losses,
        }
    }

    /// Returns `true` if the request is in a scope. `exact` is what the scope of an exact call means.
    pub(crate) fn is_in(&self, scope: &Scope, exact: &Hash) -> bool {
        match scope {
            Scope::ExactCall => self.exact == *exact,
            Scope::CommandPrefix(prefix) => self.commands.as_ref().is_some_and(|commands| {
                !commands.is_empty()
                    && commands.iter().all(|words| words.starts_with(&prefix.words))
            }),
            Scope::Path(scope) => self
                .paths
                .as_ref()
                .is_some_and(|paths| paths.iter().all(|path| below(path, &scope.path.0))),
            Scope::Losses(scope) => self.losses.as_ref().is_some_and(|losses| losses.are_in(scope)),
        }
    }

    /// The digest that an approval of exactly this call is compared by.
    pub(crate) const fn exact(&self) -> &Hash {
        &self.exact
    }

    /// Returns `true` if two requests are of the same user, profile and tool.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        self.uid == other.uid && self.profile == other.profile && self.tool == other.tool
    }

    /// The form in which it is recorded. Secrets are removed from it, so that it is for counts only.
    pub(crate) fn recorded(&self) -> RequestKey {
        let few = |count: usize| count <= MOST_RECORDED;
        let text = |bytes: &Vec<u8>| CleanText::new(&String::from_utf8_lossy(bytes));
        let commands = self.commands.as_ref().filter(|commands| few(commands.len()));
        let paths = self.paths.as_ref().filter(|paths| few(paths.len()));
        let losses = self.losses.as_ref().filter(|losses| few(losses.losses.len()));
        let programs = losses.and_then(|losses| losses.programs.as_ref());
        let lost = |loss: &Loss| LostPath { path: text(&loss.path), effect: loss.kind.clone() };
        RequestKey {
            uid: self.uid,
            profile: self.profile.clone(),
            tool: self.tool.clone(),
            exact: self.exact,
            commands: commands
                .map(|commands| commands.iter().map(|words| CleanText::list(words)).collect()),
            paths: paths.map(|paths| paths.iter().map(text).collect()),
            losses: losses.map(|losses| losses.losses.iter().map(lost).collect()),
            programs: programs
                .filter(|programs| few(programs.len()))
                .map(|all| CleanText::list(all)),
        }
    }
}

impl From<RequestKey> for ComparedRequest {
    fn from(recorded: RequestKey) -> Self {
        let texts = |texts: Vec<CleanText>| -> Vec<String> {
            texts.iter().map(|text| text.as_str().to_owned()).collect()
        };
        let bytes = |text: &CleanText| text.as_str().as_bytes().to_vec();
        let programs = recorded.programs.clone().map(texts);
        let losses = recorded.losses.as_ref().map(|losses| CommandLosses {
            losses: losses
                .iter()
                .map(|lost| Loss { path: bytes(&lost.path), kind: lost.effect.clone() })
                .collect(),
            programs,
        });
        let commands = recorded.commands.clone();
        let commands = commands.map(|all| all.into_iter().map(texts).collect());
        let paths = recorded.paths.as_ref().map(|paths| paths.iter().map(bytes).collect());
        let RequestKey { uid, profile, tool, exact, .. } = recorded;
        Self { uid, profile, tool, exact, commands, paths, losses }
    }
}

/// The commands that a remembered prefix has to fit: those that need approval, or all if none does
/// alone. `None` if they are not known.
fn commands(facts: &Facts) -> Option<Vec<Vec<String>>> {
    let Commands::Known(commands) = &facts.commands else { return None };
    let asked: Vec<_> = facts.findings.iter().filter(|found| is_asked(found)).collect();
    if asked.is_empty() {
        return Some(commands.clone());
    }
    if asked.iter().any(|found| found.kind != DESTRUCTIVE) {
        return None;
    }
    let words = asked
        .iter()
        .map(|found| std::iter::once(&found.program).chain(&found.arguments).cloned().collect());
    Some(words.collect())
}

/// Returns `true` if a path is `top` or below it, compared as text. A path with `..` never is.
pub(super) fn below(path: &[u8], top: &[u8]) -> bool {
    let top = top.strip_suffix(b"/").unwrap_or(top);
    !path.split(|byte| *byte == b'/').any(|part| part == b"..")
        && path.strip_prefix(top).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
}

#[cfg(test)]
mod tests;
