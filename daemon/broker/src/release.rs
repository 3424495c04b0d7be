//! Which daemon this is. Broker, pure.

/// The daemon's name and release.
pub(crate) const NAME: &str = concat!("palisaded ", env!("CARGO_PKG_VERSION"));
