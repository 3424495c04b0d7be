//! The broker's shared vocabulary. Runs in the broker.
//!
//! - Owns: tasks, outcomes, errors, peers and their roles, quotas, and other types that every
//!   folder speaks of.
//! - May import: nothing.
//! - Imported by: boot, front, pipeline, changes, network, approval, cells, tools, telemetry, stores.

pub(crate) mod attachment;
pub(crate) mod capture;
pub(crate) mod census;
pub(crate) mod dial;
pub(crate) mod ended;
pub(crate) mod error;
pub(crate) mod fair;
pub(crate) mod identity;
pub(crate) mod live;
pub(crate) mod media;
pub(crate) mod outbox;
pub(crate) mod outcome;
pub(crate) mod own;
pub(crate) mod path_set;
pub(crate) mod peer;
pub(crate) mod preview;
pub(crate) mod quotas;
pub(crate) mod reach;
pub(crate) mod recorded;
pub(crate) mod release;
pub(crate) mod results;
pub(crate) mod roles;
pub(crate) mod services;
pub(crate) mod task;
pub(crate) mod who;
