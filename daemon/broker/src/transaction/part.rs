//! A part of what a command did: what is left out, and whether the rest was shown. Broker, pure.

use palisade_plan::change::{Effect, EffectKind};
use palisade_protocol::Part;

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
    rest.iter().all(|effect| {
        shown.iter().any(|one| {
            let made = matches!(one.kind, EffectKind::Moved { .. })
                && matches!(effect.kind, EffectKind::Created | EffectKind::Replaced);
            one.path == effect.path
                && one.print == effect.print
                && (one.kind == effect.kind || made)
        })
    })
}
