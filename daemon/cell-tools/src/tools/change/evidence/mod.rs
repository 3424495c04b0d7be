//! Collects evidence about a change: what existed at its paths, and what preserves those bytes.
//! Runs in the cell.
//!
//! Nothing here fails: what can not be found out is not evidence, and then nothing counts as
//! preserved.

mod copies;
mod git_configuration;
mod git_directories;
mod git_files;
mod ignored;
mod linked;
mod lost;
mod noticed;
mod obeyed;
mod object_files;
mod operations;
mod renamed;
mod repositories;
mod tracked;
mod trees;
mod working_tree;

pub(crate) use self::working_tree::tracked_below;
pub(super) use self::{lost::LostEntry, noticed::NameEvidence, trees::EarlierTrees};

use self::{repositories::Repositories, trees::Trees};
use super::stage::Stage;
use palisade_plan::{
    Path,
    change::{Act, Change, Effect, EffectKind, EvidenceDepth},
    codec,
    evidence::Evidence,
};
use std::{collections::BTreeMap, os::unix::ffi::OsStrExt as _};

/// Collects the evidence about a change and makes it a part of the change's digest. `before` is the
/// workspace without the change, if the workspace already shows it.
pub(super) fn collect(stage: &mut Stage<'_>, before: Option<EarlierTrees>) -> Evidence {
    let top = stage.workspace.as_os_str().as_bytes().to_vec();
    let is_made = before.is_some();
    let mut noticed = std::mem::take(&mut stage.noticed);
    for effect in &stage.effects {
        noticed.effect(effect, &top);
    }
    let main = stage.view.main.as_ref().map(|main| &main.path);
    if let Some(main) = main {
        noticed.outside_repository(&stage.effects, main);
    }
    if !is_made {
        // Before the change is made, repositories can not be compared. So every file that a file
        // tool writes in one counts as a plant.
        noticed.plant_git_files(&stage.effects, &top, main);
    }
    let mut unmet = Vec::new();
    let lost = std::mem::take(&mut stage.lost);
    let meet = |to: &Path, kind| noticed.look(to, kind, &top);
    let lost = lost::expanded(lost, meet, |to| unmet.push(to.clone()));
    unmet.into_iter().for_each(|to| noticed.unexamined(to));
    let mut evidence =
        Evidence { earlier: lost.iter().map(LostEntry::evidence).collect(), ..Evidence::default() };
    if stage.change.evidence == EvidenceDepth::Full
        && (!lost.is_empty()
            || noticed.has_repositories()
            || stage.effects.iter().any(obeyed::writes))
        && let Ok(trees) = Trees::open(stage.view, before, is_whole(stage.change))
    {
        evidence.plants = noticed.git_plants(&trees, is_made);
        let git_dirs = noticed.repositories().keys().cloned().chain(noticed.operations(&trees));
        evidence.plants.extend(operations::new_commands(&trees, git_dirs.collect()));
        evidence.plants.extend(obeyed::led_to(&trees, stage.view.main.as_ref(), &stage.effects));
        let compared = if is_made { noticed.repositories().clone() } else { BTreeMap::new() };
        let mut repositories =
            Repositories::new(&trees, compared, (&lost, &stage.effects), is_made);
        for (earlier, lost) in evidence.earlier.iter_mut().zip(&lost) {
            earlier.git = repositories.place_of(lost);
        }
        repositories.ask_git(&mut evidence.earlier, &lost);
        copies::note_ignored(&trees, &mut evidence.earlier);
        evidence.copies = copies::find(&trees, &stage.effects, &mut evidence.earlier, &lost);
        evidence.repositories = repositories.into_changes();
    }
    noticed.into_evidence(&mut evidence);
    // The evidence is part of what is shown and approved.
    for part in evidence.clone().into_parts() {
        match codec::encode(&part) {
            Ok(bytes) => stage.note_part(&bytes),
            Err(_) => stage.note_part(b"evidence that is too large"),
        }
    }
    evidence
}

/// Returns `true` if the commit includes everything that the program did. Only then does git keep
/// afterwards what it keeps where the program ran.
const fn is_whole(change: &Change) -> bool {
    match &change.act {
        Act::Settle { leave, .. } => leave.is_empty(),
        Act::Write { .. }
        | Act::Edit { .. }
        | Act::Patch { .. }
        | Act::Delete { .. }
        | Act::Move { .. }
        | Act::MakeDir { .. }
        | Act::Restore { .. }
        | Act::Resolve { .. } => true,
    }
}

/// Returns `true` if an effect makes a new entry. A renamed entry does not count, since it keeps
/// its own bytes.
const fn is_new(effect: &Effect) -> bool {
    matches!(effect.kind, EffectKind::Created)
}
