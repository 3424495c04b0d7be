//! The properties of an effect: its name, the path that it moved from, whether it destroys. Pure.

use crate::{
    Path,
    change::{Effect, EffectKind},
};

impl EffectKind {
    /// The name of this kind, as results, records and approval requests have it.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Replaced => "replaced",
            Self::Appended => "appended",
            Self::Edited => "edited",
            Self::Deleted { .. } => "deleted",
            Self::Moved { .. } => "moved",
            Self::Mode => "mode",
            Self::Touched => "touched",
            Self::Special => "special",
        }
    }

    /// The path that the entry had before it was moved; `None` if it was not moved.
    #[must_use]
    pub const fn moved_from(&self) -> Option<&Path> {
        if let Self::Moved { from } = self { Some(from) } else { None }
    }
}

impl Effect {
    /// Returns `true` if contents that were at the path are gone: deleted, replaced, or moved over.
    #[must_use]
    pub const fn is_loss(&self) -> bool {
        match self.kind {
            EffectKind::Replaced | EffectKind::Deleted { .. } => true,
            EffectKind::Moved { .. } => self.replaces.is_some(),
            EffectKind::Created
            | EffectKind::Appended
            | EffectKind::Edited
            | EffectKind::Mode
            | EffectKind::Touched
            | EffectKind::Special => false,
        }
    }
}
