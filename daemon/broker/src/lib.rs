//! palisaded, the broker: hears clients and tool output, and has no privilege.
//!
//! [`start`] makes what needs privilege and gives that up; [`Started::serve`] hears clients.
//! `call` has the life of a call, stage by stage.

mod analyst;
mod audit;
mod call;
mod capture;
mod census;
mod channel;
mod checkpoint;
mod cleared;
mod connection;
mod context;
mod diagnose;
mod errand;
mod error;
mod file;
mod files;
mod flight;
mod gather;
mod invoke;
mod job;
mod launcher;
mod launcher_process;
mod link;
mod listen;
mod news;
mod observers;
mod oom;
mod options;
mod order;
mod outcome;
mod output;
mod own;
mod privilege;
mod provider;
mod receipt;
mod run;
mod runner;
mod scene;
mod seen;
mod serve;
mod server;
mod session;
mod settings;
mod spool;
mod stages;
mod start;
mod state;
mod status;
mod streams;
mod task;
mod thinking;
mod tools;
mod turn;
mod watchdog;
mod wire;

pub use launcher::LauncherError;
pub use launcher_process::LauncherProcessError;
pub use listen::ListenError;
pub use options::{ConfigError, Options};
pub use privilege::PrivilegeError;
pub use settings::SettingsError;
pub use start::{StartError, Started, start};
pub use state::StateError;
pub use tools::RegistryError;
