//! Splits the report of a change into as many messages as it takes. Runs in the cell.

use crate::tools::failure;
use palisade_plan::{
    cell::{FileError, FileErrorKind, FileReply},
    change::{Changed, Conflict, Effect, Prepared},
    parts::{ListEntry as _, MOST_EFFECTS, MOST_REPORT_BYTES, parts},
};

/// The maximum number of reported paths that were also changed from outside.
const MOST_CONFLICTS: usize = 4096;

/// Refuses a change with more effects than can be reported.
pub(super) fn refuse_many(effects: &[Effect], conflicts: &[Conflict]) -> Result<(), FileError> {
    let bytes: usize = effects.iter().map(Effect::max_encoded_len).sum();
    let message = if effects.len() > MOST_EFFECTS || bytes > MOST_REPORT_BYTES {
        format!(
            "it would change {} paths, whose names take {bytes} bytes. The maximum is \
             {MOST_EFFECTS} paths and {MOST_REPORT_BYTES} bytes: nothing was changed; split it into \
             several calls",
            effects.len()
        )
    } else if conflicts.len() > MOST_CONFLICTS {
        format!(
            "other programs changed {} of the same paths meanwhile, more than the {MOST_CONFLICTS} \
             that an approval request can list: nothing was changed; try again",
            conflicts.len()
        )
    } else {
        return Ok(());
    };
    Err(failure(FileErrorKind::TooLarge, None, message))
}

/// Returns the messages that report what a change would do.
pub(super) fn prepared(mut prepared: Prepared) -> Vec<FileReply> {
    let mut messages = effects(&mut prepared.effects);
    let evidence = std::mem::take(&mut prepared.evidence);
    messages.extend(evidence.into_parts().into_iter().map(Box::new).map(FileReply::Evidence));
    messages.push(FileReply::Prepared(prepared));
    messages
}

/// Returns the messages that report what a change did.
pub(super) fn changed(mut changed: Changed) -> Vec<FileReply> {
    let mut messages = effects(&mut changed.effects);
    let mut wrote = parts(std::mem::take(&mut changed.wrote));
    changed.wrote = wrote.pop().unwrap_or_default();
    messages.extend(wrote.into_iter().map(FileReply::Wrote));
    messages.push(FileReply::Changed(changed));
    messages
}

/// Returns the messages for all parts of a list but the last, which stays in `list`.
fn effects(list: &mut Vec<Effect>) -> Vec<FileReply> {
    let mut parts = parts(std::mem::take(list));
    *list = parts.pop().unwrap_or_default();
    parts.into_iter().map(FileReply::Effects).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use palisade_plan::{
        Path,
        change::{EffectKind, Print},
        codec,
    };

    fn effect(path: Vec<u8>) -> Effect {
        let (kind, print) = (EffectKind::Created, Print::Directory);
        let path = Path(path);
        Effect { path, kind, size_before: 0, size_after: 0, print, replaces: None }
    }

    #[test]
    fn too_many_paths_and_too_long_ones_are_refused_with_the_bound() {
        let some = vec![effect(b"/w/f".to_vec()); MOST_EFFECTS];
        assert_eq!(refuse_many(&some, &[]), Ok(()));
        for many in [
            vec![effect(b"/w/f".to_vec()); MOST_EFFECTS + 1],
            vec![effect(vec![b'n'; 4000]); MOST_REPORT_BYTES / 4000],
        ] {
            let error = refuse_many(&many, &[]).unwrap_err();
            assert_eq!(error.kind, FileErrorKind::TooLarge);
            assert!(error.message.contains(&MOST_EFFECTS.to_string()), "{}", error.message);
        }
    }

    #[test]
    fn every_message_of_the_most_effects_can_be_sent() {
        let effects: Vec<Effect> =
            (0..MOST_EFFECTS).map(|n| effect(format!("/w/{n}").into_bytes())).collect();
        let messages = changed(Changed { effects, ..Changed::default() });
        assert!(messages.len() > 4);
        assert!(messages.iter().all(|message| codec::encode(message).is_ok()));
    }
}
