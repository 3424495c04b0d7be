//! The error for a setting that is laxer than the extended profile's. Pure: no I/O.

use crate::{ProfileError, document::Document};

/// The suggestion for a setting that would widen.
pub(crate) const WIDEN: &str = "a profile can only narrow what it extends; to widen it, set \
                                `widen = true` in a file owned by root, or in a file of yours \
                                if the daemon is your own";

/// Makes an error about a key that would widen.
pub(crate) fn laxer(document: &Document<'_>, key: &str, why: &str) -> ProfileError {
    document.wrong(key, why, WIDEN)
}
