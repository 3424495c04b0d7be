//! Records a change set in the audit log before it is committed, whether it was approved or needed
//! no approval. Runs in the broker.

use super::{Audit, RecordError, VolumeOwner};
use crate::base::identity::SessionIdentity;
use palisade_audit::{CleanText, CommittedEffect, Effects, Hash, Record};
use palisade_plan::{
    Path,
    change::{Effect, EffectKind, Print},
};
use palisade_policy::UndoRecord;
use palisade_protocol::CallId;

impl Audit {
    /// Records what a call is about to change, and whether it can be undone; only then it may be
    /// committed.
    pub(crate) async fn committing(
        &self,
        session: &SessionIdentity,
        call: &CallId,
        (effects, digest): (&[Effect], [u8; 32]),
        undo: UndoRecord,
    ) -> Result<(), RecordError> {
        let ids = (call.to_string(), session.id.to_string());
        let effects = Effects::new(ids, Hash::from(digest), effects.iter().map(committed))
            .map_err(|error| RecordError(error.to_string()))?;
        let effects = Effects { no_undo: undo == UndoRecord::Unavailable, ..effects };
        self.record(VolumeOwner::User(session.peer.uid), Record::Effects(effects)).await.map(drop)
    }
}

fn text(path: &Path) -> CleanText {
    CleanText::new(&String::from_utf8_lossy(&path.0))
}

fn committed(effect: &Effect) -> CommittedEffect {
    let gone = if let EffectKind::Deleted { entries } = effect.kind { Some(entries) } else { None };
    let mut committed = CommittedEffect {
        path: text(&effect.path),
        effect: effect.kind.name().to_owned(),
        from: effect.kind.moved_from().map(text),
        entries: gone,
        size_before: effect.size_before,
        size: effect.size_after,
        ..CommittedEffect::default()
    };
    match &effect.print {
        Print::File { mode, digest } => {
            (committed.mode, committed.sha256) = (Some(*mode), Some(Hash::from(*digest)));
        }
        Print::Tree { entries, digest } => {
            (committed.entries, committed.sha256) = (Some(*entries), Some(Hash::from(*digest)));
        }
        Print::Symlink { target } => committed.target = Some(text(target)),
        Print::Absent | Print::Directory | Print::Node { .. } => {}
    }
    committed
}
