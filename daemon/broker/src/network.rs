//! The network by name: egress rooms, and the decisions about the connections of sessions. Runs in
//! the broker.
//!
//! - Owns: the links to egress rooms, the listeners of sessions while they live, the open
//!   connections and their records.
//! - May import: approval, cells, telemetry, base.
//! - Imported by: boot, front, pipeline.

mod connections;
pub(crate) mod credentials;
mod decide;
pub(crate) mod error;
mod fetch;
mod link;
mod listeners;
mod published;
mod refusals;
mod room;
pub(crate) mod room_process;
pub(crate) mod rooms;
mod session;
pub(crate) mod source;

#[cfg(test)]
mod tests;
