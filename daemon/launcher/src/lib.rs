//! The launcher: the only process with privilege. It receives plans from the broker and nothing
//! else, checks each against the ceiling, and starts the cells that run the steps. It has one
//! thread.

pub mod arguments;
pub mod audit;

mod aside;
mod blank;
mod cgroup;
mod descriptors;
mod error;
mod facts;
mod hierarchy;
mod hindrance;
mod identity;
mod nest;
mod overlays;
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
