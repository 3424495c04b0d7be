//! The launcher: the only room with privilege. It hears plans from the broker and nothing else,
//! holds each against the ceiling, and starts the cells that take the steps. One thread.

pub mod arguments;
pub mod audit;

mod aside;
mod blank;
mod cgroup;
mod error;
mod facts;
mod hierarchy;
mod hindrance;
mod identity;
mod nest;
mod phase;
mod privilege;
mod pulse;
mod serve;
mod session;
mod spawn;
mod store;
mod uids;
mod wanted;

pub use error::LauncherError;
pub use serve::run;
