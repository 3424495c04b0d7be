//! Confines the process of a cell. It starts with the launcher's privilege and gives it up step by
//! step. Everything here runs before privilege is gone, except what prepares and starts a program
//! under the same restrictions. Runs in the cell.

pub mod failure;
pub mod kernel;
pub mod landlock;
pub mod oom_score;
mod outer_repository;
pub mod program;
pub mod recording;
pub mod records;
pub mod steps;

mod accounts;
mod borrowed;
mod certificates;
mod descriptors;
mod detach;
mod enter;
mod fixed;
mod git_configuration;
mod host_support;
mod listeners;
mod mapping;
mod mounts;
mod namespaces;
mod overlay;
mod own_mounts;
mod privilege;
mod receipt;
mod root;
mod seccomp;
mod start_identity;
mod store;
mod tree_place;
mod whiteouts;
mod worktree;

pub use enter::{ConfinedProcess, SetupError, enter};
pub use git_configuration::GitConfiguration;
pub use start_identity::StartIdentity;
