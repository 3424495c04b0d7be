//! Makes the findings about losses, for an approver and for the agent. Pure: no I/O.

use super::{Judge, Reason, UndoRecord};
use crate::{entries_of, facts::DESTRUCTIVE};
use palisade_plan::{
    Path,
    change::{Effect, EffectKind},
    evidence::{
        EarlierEntry, EarlierKind, GitEvidence, PlantedPath, RepositoryChange, RepositoryLoss,
        WorkingTreeEvidence,
    },
};
use palisade_protocol::{Finding, Severity, ToolName};
use std::collections::BTreeMap;

/// The number of losses above which there is one finding per directory.
const FOLDED: usize = 1000;

/// The most bytes of paths that findings list; further paths are only counted.
const MOST_NAMED: usize = 2 * 1024 * 1024;

/// A loss, and the effect that causes it.
#[derive(Clone, Copy)]
pub(super) struct CausedLoss<'a> {
    pub(super) earlier: &'a EarlierEntry,
    pub(super) effect: Option<&'a Effect>,
}

impl CausedLoss<'_> {
    /// Returns the path that an approver can exclude from the commit.
    fn target(&self) -> &[u8] {
        self.effect.map_or(&self.earlier.path.0, |effect| &effect.path.0)
    }

    fn verb(&self) -> &'static str {
        match self.effect.map(|effect| &effect.kind) {
            Some(EffectKind::Deleted { .. }) | None => "deletes",
            Some(EffectKind::Moved { .. }) if self.earlier.moved_to.is_some() => "moves away",
            Some(EffectKind::Moved { .. }) => "moves another file over",
            Some(EffectKind::Mode) => "makes unreadable",
            Some(
                EffectKind::Created
                | EffectKind::Replaced
                | EffectKind::Appended
                | EffectKind::Edited
                | EffectKind::Touched
                | EffectKind::Special,
            ) => "replaces",
        }
    }
}

/// Returns a finding for each effect with a loss; one for each directory, if there are many.
pub(super) fn losses(judge: &Judge<'_>, lost: &[CausedLoss<'_>]) -> Vec<Finding> {
    let mut by_target: BTreeMap<&[u8], Vec<CausedLoss<'_>>> = BTreeMap::new();
    for one in lost {
        by_target.entry(one.target()).or_default().push(*one);
    }
    if by_target.len() > FOLDED {
        return folded(judge.context.tool, lost);
    }
    by_target.iter().map(|(target, lost)| finding(judge, target, lost)).collect()
}

fn finding(judge: &Judge<'_>, target: &[u8], lost: &[CausedLoss<'_>]) -> Finding {
    let tool = judge.context.tool;
    let shown = String::from_utf8_lossy(target).into_owned();
    let verb = lost.first().map_or("changes", CausedLoss::verb);
    let entries = lost.first().and_then(|one| one.effect).map_or(1, entries_of);
    let because = lost.first().map_or("", |one| because(judge, one));
    let why = match lost {
        [one] if one.earlier.path.0 == target && entries <= 1 => {
            format!("{tool} {verb} {shown:?}: {because}")
        }
        [one, ..] => {
            let amounts = lost.iter().map(|one| amount(one.earlier));
            let files = amounts.fold(0_u64, u64::saturating_add);
            let example = String::from_utf8_lossy(&one.earlier.path.0);
            format!(
                "{tool} {verb} {shown:?} with {entries} entries, of which {files} would be lost, for \
                 example {example:?}: {because}"
            )
        }
        [] => format!("{tool} {verb} {shown:?}"),
    };
    Finding { targets: vec![shown], ..Finding::new(DESTRUCTIVE, Severity::Warning, why) }
}

/// Returns the number of files and directories that a loss covers.
const fn amount(earlier: &EarlierEntry) -> u64 {
    match earlier.kind {
        EarlierKind::Tree { entries } => entries,
        EarlierKind::File
        | EarlierKind::SymbolicLink
        | EarlierKind::Attributes
        | EarlierKind::Other => 1,
    }
}

/// Returns a short reason why nothing keeps the bytes.
fn because(judge: &Judge<'_>, lost: &CausedLoss<'_>) -> &'static str {
    let earlier = lost.earlier;
    if earlier.kind == EarlierKind::Attributes {
        return "its extended attributes would be lost";
    }
    if earlier.links > 1 {
        return "it has other names (hard links), which would keep the old content";
    }
    if matches!(earlier.kind, EarlierKind::Tree { .. }) {
        let is_mode = lost.effect.is_some_and(|effect| effect.kind == EffectKind::Mode);
        return if is_mode {
            "nobody could read what is in it any more"
        } else {
            "it has too many files to look for a copy of each"
        };
    }
    match &earlier.git {
        GitEvidence::Internal { .. } => "it is part of a git repository",
        GitEvidence::WorkingTree(tree) if tree.commit.is_some() && tree.stays_tracked => {
            "it is committed, but git still tracks it: use git rm to delete a tracked file"
        }
        GitEvidence::WorkingTree(tree) if tree.is_tracked => {
            "git tracks it, but no commit has this content: it has uncommitted changes"
        }
        GitEvidence::WorkingTree(WorkingTreeEvidence {
            ignored: Some(ignored), git_dir, ..
        }) => because_ignored(judge, earlier, (git_dir, ignored)),
        GitEvidence::WorkingTree(_) => "git does not track it, and no other copy exists",
        GitEvidence::Tracked => {
            "git tracks it, or may track it, in a repository that can not be read, and no other copy \
             exists"
        }
        GitEvidence::None => "no other copy exists",
    }
}

/// Returns a short reason why a file is lost although git ignores its directory.
fn because_ignored(
    judge: &Judge<'_>,
    earlier: &EarlierEntry,
    (git_dir, ignored): (&Path, &Path),
) -> &'static str {
    let memory = judge.context.memory;
    if judge.context.undo == UndoRecord::Unavailable {
        return "git ignores it, and undo could not restore it";
    }
    if memory.changed_ignore_rules(&git_dir.0, &ignored.0) {
        return "git ignores it, but the session made or changed the rules for that";
    }
    if memory.protects(&earlier.path.0) {
        return "git ignores it, but tracked it earlier in the session";
    }
    "git ignores it, and the session has already deleted or replaced as many ignored files without \
     approval as transactions.unasked_files and unasked_bytes allow"
}

/// The losses in one directory.
#[derive(Debug, Default)]
struct DirectoryLosses {
    entries: u64,
    targets: Vec<String>,
}

/// Returns one finding for each directory and kind of change, with exact counts.
fn folded(tool: &ToolName, lost: &[CausedLoss<'_>]) -> Vec<Finding> {
    let mut by: BTreeMap<(&[u8], &str), DirectoryLosses> = BTreeMap::new();
    let (mut named, mut left_out) = (0, 0_u64);
    for one in lost {
        let path = one.earlier.path.0.as_slice();
        let slash = path.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
        let fold = by.entry((path.get(..slash).unwrap_or(path), one.verb())).or_default();
        fold.entries = fold.entries.saturating_add(amount(one.earlier));
        let target = String::from_utf8_lossy(one.target()).into_owned();
        named += target.len();
        if named > MOST_NAMED {
            left_out += 1;
        } else if fold.targets.last() != Some(&target) {
            fold.targets.push(target);
        }
    }
    let mut found = Vec::with_capacity(by.len());
    for ((directory, verb), DirectoryLosses { entries, targets }) in by {
        let shown = String::from_utf8_lossy(directory);
        let why =
            format!("{tool} {verb} {entries} entries in {shown:?} of which no other copy exists");
        found.push(Finding { targets, ..Finding::new(DESTRUCTIVE, Severity::Warning, why) });
    }
    if left_out > 0 {
        let why = format!("the paths of {left_out} of these losses are not listed");
        found.push(Finding::new(DESTRUCTIVE, Severity::Warning, why));
    }
    found
}

/// Returns the findings about losses in repositories, and about git configuration that is a plant.
pub(super) fn of_repositories(judge: &Judge<'_>, changes: &[RepositoryChange]) -> Vec<Finding> {
    let tool = judge.context.tool;
    let mut found = Vec::new();
    for change in changes {
        let shown = String::from_utf8_lossy(&change.git_dir.0).into_owned();
        let memory = judge.context.memory;
        let is_own = |loss: &RepositoryLoss| {
            let is_stored =
                matches!(loss, RepositoryLoss::Staged(content) if memory.stored(content));
            is_stored || memory.owns_repository(&change.git_dir.0)
        };
        for loss in change.losses.iter().filter(|loss| !is_own(loss)) {
            let why = format!("{tool} changes {shown:?}: {}", text(loss));
            let targets = vec![shown.clone()];
            found.push(Finding { targets, ..Finding::new(DESTRUCTIVE, Severity::Warning, why) });
        }
        for setting in change.configuration.iter().filter(|setting| !memory.permits(setting)) {
            let verb = if setting.before.is_some() { "changes" } else { "sets" };
            let why = format!("{tool} {verb} the git setting {} in {shown:?}", setting.key);
            let targets = vec![String::from_utf8_lossy(&setting.file.0).into_owned()];
            found.push(Finding { targets, ..Finding::new("plant", Severity::Warning, why) });
        }
    }
    found
}

fn text(loss: &RepositoryLoss) -> String {
    match loss {
        RepositoryLoss::Commit { reference, id } => {
            let id = id.get(..12).unwrap_or(id);
            format!("commit {id}, which {reference} pointed to, is no longer reachable")
        }
        RepositoryLoss::Branch { reference, id } => {
            let id = id.get(..12).unwrap_or(id);
            format!("{reference} is deleted, and no other branch contains its commit {id}")
        }
        RepositoryLoss::Log(name) => format!("the reflog of {name} loses entries"),
        RepositoryLoss::Reference(name) => format!("{name} can no longer be read"),
        RepositoryLoss::Objects { count, example } => {
            format!("{count} objects can no longer be read, for example {example}")
        }
        RepositoryLoss::Link(name) if name.ends_with(".bitmap") => {
            format!("{name} tells git's maintenance which objects to keep, and can not be verified")
        }
        RepositoryLoss::Link(name) => format!("{name} points git to other objects"),
        RepositoryLoss::Staged(content) => {
            let path = String::from_utf8_lossy(&content.path.0);
            format!("the staged content of {path:?} is in no commit and not in the working tree")
        }
        RepositoryLoss::Unreadable(why) => {
            format!("it can not be compared with its earlier state ({why})")
        }
    }
}

/// Returns the findings about plants: files that a program outside would run or obey.
pub(super) fn plants(tool: &ToolName, plants: &[PlantedPath]) -> Vec<Finding> {
    let finding = |plant: &PlantedPath| {
        let shown = String::from_utf8_lossy(&plant.path.0).into_owned();
        let why = format!(
            "{tool} writes {shown:?}, which {} runs or obeys outside the sandbox",
            plant.reader
        );
        Finding { targets: vec![shown], ..Finding::new("plant", Severity::Warning, why) }
    };
    plants.iter().map(finding).collect()
}

/// Returns the findings about the size of the change set, which alone can require approval.
pub(super) fn amounts(judge: &Judge<'_>, effects: &[Effect]) -> Vec<Finding> {
    let (tool, settings) = (judge.context.tool, &judge.context.profile.settings.transactions);
    let (mut entries, mut bytes) = (0_u64, 0_u64);
    for effect in effects {
        let is_directory = entries_of(effect) > 1;
        if settings.is_noise(judge.relative(&effect.path.0), is_directory) {
            continue;
        }
        entries = entries.saturating_add(entries_of(effect));
        bytes = bytes.saturating_add(effect.size_after.max(effect.size_before));
    }
    let much = [
        (entries, settings.most_files.get(), "entries", "most_files"),
        (bytes, settings.most_bytes.bytes(), "bytes", "most_bytes"),
    ];
    let much = much.into_iter().filter(|(count, most, _, _)| count > most);
    much.map(|(count, most, what, key)| {
        let why = format!("{tool} changes {count} {what}, more than transactions.{key} = {most}");
        Finding::new(DESTRUCTIVE, Severity::Warning, why)
    })
    .collect()
}

/// Returns the finding that says why the other changes of a change set lose nothing.
pub(super) fn kept(reasons: &[(Vec<u8>, Reason)]) -> Option<Finding> {
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for (_, reason) in reasons {
        *counts.entry(reason.words()).or_default() += 1;
    }
    let parts: Vec<String> =
        counts.iter().map(|(words, count)| format!("{count} {words}")).collect();
    let why = format!("nothing else is lost: {}", parts.join(", "));
    (!parts.is_empty()).then(|| Finding::new("kept", Severity::Notice, why))
}
