//! The name and release of this daemon. Runs in the broker. Pure: no I/O.

/// The daemon's name and release.
pub(crate) const NAME: &str = concat!("palisaded ", env!("CARGO_PKG_VERSION"));
