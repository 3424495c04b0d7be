//! The process of a cell. It starts with the launcher's privilege, gives it up step by step, and
//! serves one session's calls once it is confined. Runs in the cell.

pub mod files;
mod fixed;
pub mod kernel;
pub mod steps;
pub mod tools;

mod accounts;
mod beginning;
mod borrowed;
mod detach;
mod enter;
mod failure;
mod freeze;
mod hidden;
mod landlock;
mod listeners;
mod lookup;
mod mapping;
mod moment;
mod mounts;
mod namespaces;
mod overlay;
mod parts;
mod privilege;
mod receipt;
mod record;
mod records;
mod root;
mod runner;
mod seccomp;
mod spare;
mod store;
mod streams;
mod tree;
mod tree_place;
mod trial;
mod usage;
mod victim;
mod view;
mod whiteouts;
mod worktree;

pub(crate) use palisade_channel as channel;

pub use beginning::Beginning;
pub use enter::{EnterError, enter};
pub use failure::StepFailure;
pub use view::View;
