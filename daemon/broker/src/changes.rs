//! The changes that calls make in a workspace. Runs in the broker.
//!
//! - Owns: previews and commits of changes, the routes of programs, and how a transaction ends.
//! - May import: approval, cells, tools, telemetry, stores, base.
//! - Imported by: front, pipeline.

pub(crate) mod change;
pub(crate) mod guard;
pub(crate) mod transaction;
