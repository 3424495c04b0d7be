//! The data stored on disk for users, within quotas. Runs in the broker.
//!
//! - Owns: the output store (spool), the undo store, the age of their entries.
//! - May import: base.
//! - Imported by: boot, front, changes, cells.

pub(crate) mod moment;
pub(crate) mod spool;
pub(crate) mod undo;
