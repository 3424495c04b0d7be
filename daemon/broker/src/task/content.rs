//! What comes along with a call. Broker, pure.

/// Bytes that came with the call, or that will follow it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Content {
    Inline(String),
    Attached,
}
