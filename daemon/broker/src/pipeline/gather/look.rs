//! Inspects the paths that a call names. Runs in the broker.

use crate::{
    base::error::CallError,
    cells::{
        seen::{InspectedTarget, TargetSnapshot},
        session::Session,
    },
};
use palisade_plan::cell::{Contents, FileErrorKind, Link};

/// Inspects a path that a call only reads, if the profile has path rules; nothing else needs it.
pub(super) async fn inspect_if_ruled(
    session: &Session,
    path: &[u8],
    seen: &mut TargetSnapshot,
) -> Result<(), CallError> {
    if session.profile.has_path_rules() {
        look(session, path, Link::Target, seen).await?;
    }
    Ok(())
}

/// Inspects one path. If that fails for a reason for which the tool will fail too, the path counts
/// as missing.
pub(super) async fn look(
    session: &Session,
    path: &[u8],
    link: Link,
    seen: &mut TargetSnapshot,
) -> Result<(), CallError> {
    let path = session.absolute(path);
    match InspectedTarget::look(session, path.clone(), link, Contents::Closed).await {
        Ok(target) => seen.targets.push(target),
        Err(CallError::File(failure)) if is_final(failure.kind) => {
            seen.targets.push(InspectedTarget { real: path.clone(), path, link, found: None });
        }
        Err(error) => return Err(error),
    }
    Ok(())
}

/// Returns `true` if the tool itself would fail with an error of this kind.
const fn is_final(kind: FileErrorKind) -> bool {
    match kind {
        FileErrorKind::NotFound
        | FileErrorKind::OutsidePolicy
        | FileErrorKind::NotRegular
        | FileErrorKind::Hidden
        | FileErrorKind::Protected
        | FileErrorKind::Unreadable
        | FileErrorKind::Invalid => true,
        FileErrorKind::TooLarge
        | FileErrorKind::AlreadyExists
        | FileErrorKind::FileSystem
        | FileErrorKind::NoMatch
        | FileErrorKind::Conflict
        | FileErrorKind::InterruptedCommit
        | FileErrorKind::StillOpen
        | FileErrorKind::Broken => false,
    }
}
