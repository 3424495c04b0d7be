//! What the log is told of a change before it is committed, whether anybody was asked or not. Broker.

use super::{Audit, Charged, Unrecorded};
use crate::{change, session::Session};
use palisade_audit::{CleanText, CommittedEffect, Effects, Hash, Record};
use palisade_plan::{
    Path,
    change::{Effect, EffectKind, Print},
};
use palisade_protocol::CallId;

impl Audit {
    /// Records what a call is about to change; only then it may be committed.
    pub(crate) async fn committing(
        &self,
        session: &Session,
        call: &CallId,
        (effects, digest): (&[Effect], [u8; 32]),
    ) -> Result<(), Unrecorded> {
        let ids = (call.to_string(), session.id.to_string());
        let effects = Effects::new(ids, Hash::from(digest), effects.iter().map(committed))
            .map_err(|error| Unrecorded(error.to_string()))?;
        self.record(Charged::User(session.peer.uid), Record::Effects(effects)).await.map(drop)
    }
}

fn text(path: &Path) -> CleanText {
    CleanText::new(&String::from_utf8_lossy(&path.0))
}

fn committed(effect: &Effect) -> CommittedEffect {
    let (from, gone) = match &effect.kind {
        EffectKind::Moved { from } => (Some(text(from)), None),
        EffectKind::Deleted { entries } => (None, Some(*entries)),
        EffectKind::Created
        | EffectKind::Replaced
        | EffectKind::Appended
        | EffectKind::Edited
        | EffectKind::Mode
        | EffectKind::Touched
        | EffectKind::Special => (None, None),
    };
    let mut committed = CommittedEffect {
        path: text(&effect.path),
        effect: change::word(&effect.kind).to_owned(),
        from,
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
