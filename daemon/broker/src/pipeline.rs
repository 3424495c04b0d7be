//! The life of a call, from the request to the result. Runs in the broker.
//!
//! - Owns: the order of the stages, and each stage: resolve, validate, judge, approve, queue,
//!   ticket, execute, effects, review; jobs, which run on after their call.
//! - May import: changes, network, approval, cells, tools, telemetry, base.
//! - Imported by: front.

pub(crate) mod call;
pub(crate) mod cleared;
pub(crate) mod consult;
pub(crate) mod diagnose;
pub(crate) mod dry;
pub(crate) mod errand;
pub(crate) mod fetch;
pub(crate) mod gather;
pub(crate) mod invoke;
pub(crate) mod job;
pub(crate) mod services;
pub(crate) mod stages;
