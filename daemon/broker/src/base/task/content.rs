//! The content that comes with a call. Runs in the broker. Pure: no I/O.

/// Content that is in the arguments, or follows as an attachment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Content {
    Inline(String),
    Attached,
}
