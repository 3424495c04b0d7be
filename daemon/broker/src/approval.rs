//! Approval requests to people and programs, and the only place that makes them. Runs in the
//! broker.
//!
//! - Owns: requests and what they show, approvers, answers, remembered approvals.
//! - May import: cells, tools, telemetry, base.
//! - Imported by: front, pipeline, changes, network.

pub(crate) mod answer;
mod changes;
pub(crate) mod connection;
pub(crate) mod coverage;
pub(crate) mod desk;
pub(crate) mod effects;
pub(crate) mod grants;
mod history;
mod open;
pub(crate) mod poll;
pub(crate) mod prepared;
pub(crate) mod request;
pub(crate) mod review;
pub(crate) mod service;
pub(crate) mod verdict;
pub(crate) mod view;
