//! What a command did in its transaction, judged before it counts: which of it is a loss, and what
//! the rules say of the paths. Pure.

use crate::{
    Facts, Grant, Judgement, Profile,
    judge::Question,
    rules::{self, Ruling},
    transactions::Held,
};
use palisade_plan::change::{Effect, EffectKind, Print, Version};
use palisade_protocol::{Ask, Finding, Severity, ToolName, ToolSpec};
use std::collections::BTreeMap;

/// The kind of a finding of what somebody else changed as well.
pub const CONFLICT: &str = "conflict";

/// What of a change set is asked about. `own` says whether the session itself wrote a file.
#[must_use]
pub fn losses(
    profile: &Profile,
    tool: &ToolName,
    workspace: &[u8],
    effects: &[Effect],
    own: &dyn Fn(Version) -> bool,
) -> Vec<Finding> {
    let settings = &profile.settings.transactions;
    let relative = |path: &[u8]| {
        let rest = path.strip_prefix(workspace).unwrap_or(path);
        rest.strip_prefix(b"/").unwrap_or(rest).to_vec()
    };
    let loud = |effect: &&Effect| !settings.is_noise(&relative(&effect.path.0));
    let mut lost = Vec::new();
    let (mut entries, mut bytes) = (0_u64, 0_u64);
    for effect in effects.iter().filter(loud) {
        entries = entries.saturating_add(entries_of(effect));
        bytes = bytes.saturating_add(effect.size_after.max(effect.size_before));
        let is_own = effect.replaces.is_some_and(own) || is_own_directory(effect, own);
        let asked = match effect.kind {
            EffectKind::Deleted { .. } => settings.deletions == Held::Ask && !is_own,
            EffectKind::Moved { .. } => {
                effect.replaces.is_some() && settings.replacements == Held::Ask && !is_own
            }
            EffectKind::Replaced | EffectKind::Edited => {
                let rewritten = settings.is_rewritten(&relative(&effect.path.0));
                settings.replacements == Held::Ask && !is_own && !rewritten
            }
            EffectKind::Created
            | EffectKind::Appended
            | EffectKind::Mode
            | EffectKind::Touched
            | EffectKind::Special => false,
        };
        if asked {
            lost.push(effect);
        }
    }
    let mut found = match lost.len() {
        0..=FOLDED => lost.iter().map(|effect| loss(tool, effect)).collect(),
        _ => folded(tool, &lost),
    };
    let much = [
        (entries, settings.most_files.get(), "entries", "most_files"),
        (bytes, settings.most_bytes.bytes(), "bytes", "most_bytes"),
    ];
    for (count, most, what, key) in much {
        if count > most {
            let why = format!("{tool} changes {count} {what}; transactions.{key} is {most}");
            found.push(Finding::new("destructive", Severity::Warning, why));
        }
    }
    found
}

/// More losses than this are told by directory.
const FOLDED: usize = 1000;

/// The most bytes of paths that findings name; the rest are counted.
const MOST_NAMED: usize = 2 * 1024 * 1024;

/// Losses of one directory.
#[derive(Debug, Default)]
struct Folded {
    entries: u64,
    targets: Vec<String>,
}

/// Losses as one finding for each directory and deed, with exact counts.
fn folded(tool: &ToolName, lost: &[&Effect]) -> Vec<Finding> {
    let mut by: BTreeMap<(&[u8], &str), Folded> = BTreeMap::new();
    let mut named = 0;
    for effect in lost {
        let path = effect.path.0.as_slice();
        let slash = path.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
        let deed = match effect.kind {
            EffectKind::Deleted { .. } => "deleted",
            EffectKind::Moved { .. } => "moved something over",
            EffectKind::Created
            | EffectKind::Replaced
            | EffectKind::Appended
            | EffectKind::Edited
            | EffectKind::Mode
            | EffectKind::Touched
            | EffectKind::Special => "replaced what was in",
        };
        let fold = by.entry((path.get(..slash).unwrap_or(path), deed)).or_default();
        fold.entries = fold.entries.saturating_add(entries_of(effect));
        named += path.len();
        if named <= MOST_NAMED {
            fold.targets.push(String::from_utf8_lossy(path).into_owned());
        }
    }
    let mut found = Vec::with_capacity(by.len());
    for ((directory, deed), Folded { entries, targets }) in by {
        let shown = String::from_utf8_lossy(directory);
        let why = format!("{tool} {deed} {entries} entries in {shown:?}");
        found.push(Finding { targets, ..Finding::new("destructive", Severity::Warning, why) });
    }
    found
}

/// Whether a directory that is gone had nothing in it but files that the session itself wrote.
fn is_own_directory(effect: &Effect, own: &dyn Fn(Version) -> bool) -> bool {
    let EffectKind::Deleted { entries } = effect.kind else { return false };
    let Some(files) = effect.below.as_ref().filter(|files| !files.is_empty()) else { return false };
    files.len() as u64 + 1 == entries && files.iter().all(|file| own(*file))
}

/// How many entries an effect is about.
#[must_use]
pub const fn entries_of(effect: &Effect) -> u64 {
    match (&effect.kind, &effect.print) {
        (EffectKind::Deleted { entries }, _) | (_, Print::Tree { entries, .. }) => *entries,
        (_, _) => 1,
    }
}

fn loss(tool: &ToolName, effect: &Effect) -> Finding {
    let shown = String::from_utf8_lossy(&effect.path.0).into_owned();
    let why = match effect.kind {
        EffectKind::Deleted { entries } if entries > 1 => {
            format!("{tool} deleted {shown:?} with everything in it, {entries} entries")
        }
        EffectKind::Deleted { .. } => format!("{tool} deleted {shown:?}"),
        EffectKind::Moved { .. } => format!("{tool} moved something over {shown:?}"),
        EffectKind::Created
        | EffectKind::Replaced
        | EffectKind::Appended
        | EffectKind::Edited
        | EffectKind::Mode
        | EffectKind::Touched
        | EffectKind::Special => format!("{tool} replaced what was in {shown:?}"),
    };
    Finding { targets: vec![shown], ..Finding::new("destructive", Severity::Warning, why) }
}

/// Judges what a command did. `facts` has the paths that it touched, and as findings what it would
/// lose. The mode and the rules about tools and commands had their say before it ran.
#[must_use]
pub fn judge_effects(profile: &Profile, ask: Ask, tool: &ToolSpec, facts: &Facts) -> Judgement {
    let name = tool.name.clone();
    match rules::ruling_of_paths(&profile.settings.rules, tool, facts) {
        Ruling::Deny(rule) => {
            return Judgement::Deny(crate::judge::denied_by(profile, tool, rule, facts));
        }
        Ruling::Ask(rule) => {
            return Judgement::Ask(Question::new(name, rule.name(), facts.findings.clone()));
        }
        Ruling::Allow | Ruling::Silent => {}
    }
    if ask.max(profile.ask()) == Ask::Never || facts.findings.is_empty() {
        return Judgement::Allow(Grant::new(name, facts.findings.clone()));
    }
    let contested = facts.findings.iter().any(|found| found.kind == CONFLICT);
    let rule = if contested {
        "transactions: what somebody else changed as well is asked about"
    } else {
        "transactions: what it destroyed is asked about"
    }
    .to_owned();
    Judgement::Ask(Question::new(name, rule, facts.findings.clone()))
}
