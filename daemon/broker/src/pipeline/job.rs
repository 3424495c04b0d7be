//! Calls that become jobs, and the tools for jobs. A job's effects are reviewed like those of a
//! call, when it ends or when a call asks for it. Runs in the broker.

mod attend;
mod commit;
pub(crate) mod place;
pub(crate) mod serve;
pub(crate) mod start;
