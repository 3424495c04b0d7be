//! A part of what a command did: what is left out, and whether the rest was shown. Broker, pure.

use palisade_plan::{
    Path,
    change::{Effect, EffectKind},
};
use palisade_protocol::Part;
use std::collections::HashMap;

/// The paths of what is left out. Of what was moved, the old name: then both are there.
pub(super) fn left_out(effects: &[Effect], part: &Part) -> Vec<Vec<u8>> {
    let mut paths: Vec<Vec<u8>> = part.without.iter().map(|path| path.0.clone()).collect();
    if part.without_deletions {
        paths.extend(effects.iter().filter_map(|effect| match &effect.kind {
            EffectKind::Deleted { .. } => Some(effect.path.0.clone()),
            EffectKind::Moved { from } => Some(from.0.clone()),
            EffectKind::Created
            | EffectKind::Replaced
            | EffectKind::Appended
            | EffectKind::Edited
            | EffectKind::Mode
            | EffectKind::Touched
            | EffectKind::Special => None,
        }));
    }
    paths
}

/// Whether every effect was shown. What was moved is made where it was moved to.
pub(super) fn is_part(rest: &[Effect], shown: &[Effect]) -> bool {
    let mut by_path: HashMap<&Path, Vec<&Effect>> = HashMap::new();
    for one in shown {
        by_path.entry(&one.path).or_default().push(one);
    }
    rest.iter().all(|effect| {
        by_path.get(&effect.path).into_iter().flatten().any(|one| {
            let made = matches!(one.kind, EffectKind::Moved { .. })
                && matches!(effect.kind, EffectKind::Created | EffectKind::Replaced);
            one.print == effect.print && (one.kind == effect.kind || made)
        })
    })
}
