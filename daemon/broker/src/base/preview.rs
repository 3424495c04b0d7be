//! The preview of a change: the effects that it would have. Pure: no I/O.

use palisade_plan::{
    change::{Conflict, Effect, Prepared},
    evidence::Evidence,
};

/// The effects that a change would have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Preview {
    pub(crate) effects: Vec<Effect>,
    pub(crate) digest: [u8; 32],
    pub(crate) diff: String,
    pub(crate) complete: bool,
    /// Paths that somebody else has changed meanwhile.
    pub(crate) conflicts: Vec<Conflict>,
    /// The evidence of what existed before, and of what keeps its bytes.
    pub(crate) evidence: Evidence,
}

impl From<Prepared> for Preview {
    fn from(prepared: Prepared) -> Self {
        let Prepared { effects, digest, diff, diff_complete, conflicts, evidence } = prepared;
        Self { effects, digest, diff, complete: diff_complete, conflicts, evidence: *evidence }
    }
}

impl Preview {
    /// Every path that would be touched, including those that would not exist afterwards.
    pub(crate) fn paths(&self) -> Vec<Vec<u8>> {
        touched(&self.effects).map(<[u8]>::to_vec).collect()
    }
}

/// The paths of effects, including those that something is moved from.
pub(crate) fn touched(effects: &[Effect]) -> impl Iterator<Item = &[u8]> {
    effects.iter().flat_map(|effect| {
        let from = effect.kind.moved_from().map(|from| from.0.as_slice());
        std::iter::once(effect.path.0.as_slice()).chain(from)
    })
}
