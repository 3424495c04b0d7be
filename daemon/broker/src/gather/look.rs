//! Looks at the paths that a call names. Broker.

use crate::{
    error::CallError,
    seen::{Seen, SeenTarget},
    session::Session,
};
use palisade_plan::cell::{Contents, FileErrorKind, Link};

/// What is only looked at is of interest to rules alone.
pub(super) async fn look_if_ruled(
    session: &Session,
    path: &[u8],
    seen: &mut Seen,
) -> Result<(), CallError> {
    if session.profile.has_path_rules() {
        look(session, path, Link::Target, seen).await?;
    }
    Ok(())
}

/// Looks at one path. What can not be looked at for a reason of its own, the tool will refuse.
pub(super) async fn look(
    session: &Session,
    path: &[u8],
    link: Link,
    seen: &mut Seen,
) -> Result<(), CallError> {
    let path = session.absolute(path);
    match SeenTarget::look(session, path.clone(), link, Contents::Closed).await {
        Ok(target) => seen.targets.push(target),
        Err(CallError::File(failure)) if is_final(failure.kind) => {
            seen.targets.push(SeenTarget { real: path.clone(), path, link, found: None });
        }
        Err(error) => return Err(error),
    }
    Ok(())
}

/// Whether the tool itself would be refused for the same reason.
const fn is_final(kind: FileErrorKind) -> bool {
    match kind {
        FileErrorKind::NotFound
        | FileErrorKind::OutsidePolicy
        | FileErrorKind::NotRegular
        | FileErrorKind::Hidden
        | FileErrorKind::Protected
        | FileErrorKind::Invalid => true,
        FileErrorKind::TooLarge
        | FileErrorKind::AlreadyExists
        | FileErrorKind::FileSystem
        | FileErrorKind::NoMatch
        | FileErrorKind::Conflict
        | FileErrorKind::Broken => false,
    }
}
