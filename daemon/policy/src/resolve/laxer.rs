//! The error for what would be laxer than what a profile extends.

use crate::{ProfileError, document::Document};

/// What to do about something that would widen.
pub(super) const WIDEN: &str =
    "a profile narrows what it extends; to widen, say `widen = true` in a file of root's";

/// An error about a key that would widen.
pub(super) fn laxer(document: &Document<'_>, key: &str, why: &str) -> ProfileError {
    document.wrong(key, why, WIDEN)
}
