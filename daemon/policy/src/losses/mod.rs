//! Decides which changes are losses. One function serves every tool: commands, jobs, file tools,
//! patches, undo and dry runs. Pure: no I/O; it works on evidence that the cell collected.
//!
//! A change to something that existed is a loss unless one of six rules holds (see [`Reason`]).

mod findings;
mod internal;
mod memory;
mod pairs;

#[cfg(test)]
mod tests;

pub use self::memory::{Lessons, SessionMemory};

use self::{findings::CausedLoss, pairs::Pairs};
use crate::{Profile, transactions::ApprovalNeed};
use palisade_plan::{
    change::{Effect, EffectKind, Version},
    evidence::{
        EarlierEntry, EarlierKind, Evidence, GitEvidence, RepositoryChange, RepositoryLoss,
        WorkingTreeEvidence,
    },
};
use palisade_protocol::{Finding, ToolName};
use std::collections::{HashMap, HashSet};

/// The availability of an undo record for what a change replaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UndoRecord {
    /// An undo record keeps it.
    Kept,
    /// No undo record can keep it.
    Unavailable,
}

/// The context in which a change is assessed.
#[derive(Debug, Clone, Copy)]
pub struct LossContext<'a> {
    /// The session's profile.
    pub profile: &'a Profile,
    /// The tool that makes the change.
    pub tool: &'a ToolName,
    /// The path of the workspace.
    pub workspace: &'a [u8],
    /// The record of the session's earlier committed changes.
    pub memory: &'a SessionMemory,
    /// Files whose loss an approver approved before the call ran.
    pub approved: &'a [Version],
    /// The availability of an undo record for what is replaced.
    pub undo: UndoRecord,
}

/// The reason why a change to something that existed is not a loss.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// A new file of the same change has the same bytes.
    StillHere(Vec<u8>),
    /// The session made the file.
    Own,
    /// The profile lists the path as noise, and git does not track it.
    Noise,
    /// A reachable commit contains the bytes.
    Git(String),
    /// The file is part of a git repository that loses nothing reachable.
    GitInternal,
    /// The file has the state of a git operation, and undo keeps it.
    GitState,
    /// The file is in a directory that git ignores, and undo keeps it.
    Ignored,
    /// The entry is a FIFO, socket or device in a directory that git ignores. It has no bytes.
    NoContent,
    /// The call names the bytes that it replaces, and undo keeps them.
    Named,
    /// The profile does not require approval for this kind of change.
    Unasked,
    /// An approver approved the change before the call ran.
    Approved,
}

impl Reason {
    /// Returns `true` if the bytes exist nowhere but in an undo record.
    const fn needs_undo(&self) -> bool {
        match self {
            Self::GitState | Self::Ignored | Self::Named | Self::Unasked | Self::Approved => true,
            Self::StillHere(_)
            | Self::Own
            | Self::Noise
            | Self::Git(_)
            | Self::GitInternal
            | Self::NoContent => false,
        }
    }

    /// Returns the reason in words that follow a number of paths ("3 kept by git").
    #[must_use]
    pub const fn words(&self) -> &'static str {
        match self {
            Self::StillHere(_) => "still in the workspace",
            Self::Own => "made by this session",
            Self::Noise => "noise",
            Self::Git(_) | Self::GitInternal => "kept by git",
            Self::GitState => "written anew by git and kept by undo",
            Self::Ignored => "ignored by git and kept by undo",
            Self::NoContent => "ignored by git and without content (FIFO, socket or device)",
            Self::Named => "named by the call and kept by undo",
            Self::Unasked => "not asked about by the profile",
            Self::Approved => "approved before the call",
        }
    }

    /// Returns the place of the bytes: a path in the workspace, or a commit.
    #[must_use]
    pub fn place(&self) -> Option<String> {
        match self {
            Self::StillHere(path) => Some(String::from_utf8_lossy(path).into_owned()),
            Self::Git(commit) => Some(commit.clone()),
            Self::Own
            | Self::Noise
            | Self::GitInternal
            | Self::GitState
            | Self::Ignored
            | Self::NoContent
            | Self::Named
            | Self::Unasked
            | Self::Approved => None,
        }
    }
}

/// The assessment of a change: its losses, and why the rest of it loses nothing.
#[derive(Debug, Default)]
pub struct Assessment {
    /// The findings that need approval: losses and plants.
    pub findings: Vec<Finding>,
    /// The reason why each other change to something that existed is not a loss, by path.
    pub reasons: Vec<(Vec<u8>, Reason)>,
    /// True if something that existed is kept only by undo, once the change is committed.
    pub needs_undo: bool,
    /// The facts for the session to remember if the change is committed.
    pub lessons: Lessons,
}

/// Assesses a change.
#[must_use]
pub fn assess(context: LossContext<'_>, effects: &[Effect], evidence: &Evidence) -> Assessment {
    let by_path: HashMap<&[u8], &Effect> =
        effects.iter().map(|effect| (effect.path.0.as_slice(), effect)).collect();
    let is_readable = |change: &RepositoryChange| {
        !change.losses.iter().any(|loss| matches!(loss, RepositoryLoss::Unreadable(_)))
    };
    let readable = evidence.repositories.iter().filter(|change| is_readable(change));
    let readable = readable.map(|change| change.git_dir.0.as_slice()).collect();
    let judge = Judge { context, readable };
    let committed = repositories_with_new_tips(effects, evidence);
    let mut assessment = Assessment::default();
    let mut pairs = Pairs::new(&judge, &evidence.copies);
    let mut lost: Vec<CausedLoss<'_>> = Vec::new();
    for earlier in &evidence.earlier {
        let effect = effect_of(&by_path, &earlier.path.0);
        // Appending loses no bytes. What git keeps of the file decides whether it becomes own.
        let is_appended = effect.is_some_and(|effect| effect.kind == EffectKind::Appended);
        if is_appended && !has_more_than_bytes(earlier, false) {
            let is_learned = !judge.is_own(earlier) && !is_in(&committed, earlier);
            let kept = judge.kept_by_git(earlier, false).filter(|_| is_learned);
            kept.iter().for_each(|reason| assessment.lessons.learn(earlier, reason));
            continue;
        }
        match judge.reason(earlier, effect, &mut pairs, &assessment.lessons) {
            Some(reason) => {
                assessment.lessons.learn(earlier, &reason);
                assessment.reasons.push((earlier.path.0.clone(), reason));
            }
            None => lost.push(CausedLoss { earlier, effect }),
        }
    }
    assessment.lessons.note_changes(context.memory, evidence);
    assessment.findings = findings::losses(&judge, &lost);
    assessment.findings.extend(findings::of_repositories(&judge, &evidence.repositories));
    assessment.findings.extend(findings::plants(context.tool, &evidence.plants));
    assessment.needs_undo = !assessment.findings.is_empty()
        || assessment.reasons.iter().any(|(_, reason)| reason.needs_undo());
    assessment.findings.extend(findings::amounts(&judge, effects));
    if !assessment.findings.is_empty() {
        assessment.findings.extend(findings::kept(&assessment.reasons));
    }
    assessment
}

/// Returns the repositories in which references or logs change. What a call adds to a file and also
/// commits is kept by that commit, so that the file need not become own, and pins nothing.
fn repositories_with_new_tips<'a>(effects: &[Effect], evidence: &'a Evidence) -> HashSet<&'a [u8]> {
    let has_new_tips = |git_dir: &&[u8]| {
        effects.iter().filter_map(|effect| effect.path.0.strip_prefix(*git_dir)).any(|rest| {
            [b"/logs/".as_slice(), b"/refs/"].iter().any(|directory| rest.starts_with(directory))
        })
    };
    let changed = evidence.repositories.iter().map(|change| change.git_dir.0.as_slice());
    changed.filter(has_new_tips).collect()
}

/// Returns `true` if a file is in the working tree of one of these repositories.
fn is_in(git_dirs: &HashSet<&[u8]>, earlier: &EarlierEntry) -> bool {
    match &earlier.git {
        GitEvidence::WorkingTree(tree) => git_dirs.contains(tree.git_dir.0.as_slice()),
        GitEvidence::None | GitEvidence::Tracked | GitEvidence::Internal { .. } => false,
    }
}

/// Returns the effect that a path belongs to: its own, or that of a directory above it.
fn effect_of<'a>(by_path: &HashMap<&[u8], &'a Effect>, path: &[u8]) -> Option<&'a Effect> {
    let mut path = path;
    loop {
        if let Some(effect) = by_path.get(path) {
            return Some(effect);
        }
        let slash = path.iter().rposition(|byte| *byte == b'/')?;
        path = path.get(..slash)?;
    }
}

/// Returns `true` if something is lost that neither git nor a copy stores: extended attributes, or
/// the connection with other names (hard links).
fn has_more_than_bytes(earlier: &EarlierEntry, is_deleted: bool) -> bool {
    earlier.kind == EarlierKind::Attributes || (earlier.links > 1 && !is_deleted)
}

/// Assesses one file after another.
struct Judge<'a> {
    context: LossContext<'a>,
    /// The git directories of changed repositories of which both states could be read.
    readable: HashSet<&'a [u8]>,
}

impl Judge<'_> {
    fn relative<'p>(&self, path: &'p [u8]) -> &'p [u8] {
        let rest = path.strip_prefix(self.context.workspace).unwrap_or(path);
        rest.strip_prefix(b"/").unwrap_or(rest)
    }

    /// Returns the reason why a change to something that existed is not a loss; `None` if it is
    /// one.
    fn reason(
        &self,
        earlier: &EarlierEntry,
        effect: Option<&Effect>,
        pairs: &mut Pairs<'_>,
        lessons: &Lessons,
    ) -> Option<Reason> {
        let settings = &self.context.profile.settings.transactions;
        let is_deleted = effect.is_none_or(|effect| match effect.kind {
            EffectKind::Deleted { .. } => true,
            // A file that another one is moved over is replaced, not deleted.
            EffectKind::Moved { .. } => earlier.moved_to.is_some(),
            EffectKind::Created
            | EffectKind::Replaced
            | EffectKind::Appended
            | EffectKind::Edited
            | EffectKind::Mode
            | EffectKind::Touched
            | EffectKind::Special => false,
        });
        let asked = if is_deleted { settings.deletions } else { settings.replacements };
        if asked == ApprovalNeed::Allow {
            return Some(Reason::Unasked);
        }
        if self.context.approved.contains(&earlier.version) {
            return Some(Reason::Approved);
        }
        match &earlier.git {
            GitEvidence::Internal { git_dir, is_compared } => {
                let is_compared = *is_compared && self.readable.contains(git_dir.0.as_slice());
                return self.internal(earlier, &git_dir.0, is_compared);
            }
            GitEvidence::None | GitEvidence::Tracked | GitEvidence::WorkingTree(_) => {}
        }
        if self.is_own(earlier) {
            return Some(Reason::Own);
        }
        if self.is_noise(earlier) {
            return Some(Reason::Noise);
        }
        if has_more_than_bytes(earlier, is_deleted) {
            return None;
        }
        if let Some(reason) = self.kept_by_git(earlier, is_deleted) {
            return Some(reason);
        }
        if let Some(path) = pairs.take(earlier) {
            return Some(Reason::StillHere(path));
        }
        if earlier.kind == EarlierKind::Other {
            // Undo can not make it again, but it has no bytes that could be lost.
            return self.is_ignored(earlier, lessons).then_some(Reason::NoContent);
        }
        if self.context.undo == UndoRecord::Unavailable {
            return None;
        }
        if effect.is_some_and(|effect| effect.kind == EffectKind::Edited) {
            return Some(Reason::Named);
        }
        self.is_ignored(earlier, lessons).then_some(Reason::Ignored)
    }

    /// Rule 2: whether the session made the file. A directory too large to be listed does not
    /// count.
    fn is_own(&self, earlier: &EarlierEntry) -> bool {
        let memory = self.context.memory;
        match earlier.kind {
            EarlierKind::Tree { .. } => false,
            EarlierKind::Attributes => memory.made_attributes(earlier.version),
            EarlierKind::File | EarlierKind::SymbolicLink | EarlierKind::Other => {
                memory.wrote(earlier.version)
            }
        }
    }

    /// Rule 4: whether git keeps the bytes. If the file is deleted, the new git index must not list
    /// it any more.
    fn kept_by_git(&self, earlier: &EarlierEntry, is_deleted: bool) -> Option<Reason> {
        let GitEvidence::WorkingTree(tree) = &earlier.git else { return None };
        let is_tracked_still = is_deleted && tree.stays_tracked;
        let is_kept = !is_tracked_still && !has_more_than_bytes(earlier, is_deleted);
        tree.commit.clone().filter(|_| is_kept).map(Reason::Git)
    }

    /// Rule 3: whether the path is noise, and git does not track it.
    fn is_noise(&self, earlier: &EarlierEntry) -> bool {
        let path = self.relative(&earlier.path.0);
        let is_directory = matches!(earlier.kind, EarlierKind::Tree { .. });
        let settings = &self.context.profile.settings.transactions;
        settings.is_noise(path, is_directory) && !self.is_tracked(earlier)
    }

    /// Returns `true` if git tracks a path, or tracked it when the session began.
    fn is_tracked(&self, earlier: &EarlierEntry) -> bool {
        let now = match &earlier.git {
            GitEvidence::WorkingTree(tree) => tree.is_tracked,
            GitEvidence::Tracked => true,
            GitEvidence::None | GitEvidence::Internal { .. } => false,
        };
        now || self.context.memory.protects(&earlier.path.0)
    }

    /// Rule 5: whether git ignores the file's directory, and the session may still delete or
    /// replace such files without approval.
    fn is_ignored(&self, earlier: &EarlierEntry, lessons: &Lessons) -> bool {
        let GitEvidence::WorkingTree(WorkingTreeEvidence {
            ignored: Some(ignored), git_dir, ..
        }) = &earlier.git
        else {
            return false;
        };
        let memory = self.context.memory;
        let settings = &self.context.profile.settings.transactions;
        let is_few = memory.allows_unasked(settings, lessons, earlier.size);
        is_few
            && !matches!(earlier.kind, EarlierKind::Tree { .. })
            && !self.is_tracked(earlier)
            && !memory.changed_ignore_rules(&git_dir.0, &ignored.0)
    }
}
