//! palisaded, the broker: it talks to clients, reads tool output, and has no privilege.
//!
//! [`start`] does what needs privilege and then gives the privilege up; [`StartedDaemon::serve`]
//! serves clients. The life of a tool call is in `pipeline::call`, stage by stage.
//!
//! Each folder has one responsibility, which its first lines state. A folder imports only folders
//! that are listed after it:
//!
//! 1. `boot`: options, configuration, start and reload
//! 2. `front`: sockets, connections, requests and replies
//! 3. `pipeline`: the stages of a call
//! 4. `changes`: changes of files, transactions, review of effects
//! 5. `network`: egress rooms, and the decisions about connections
//! 6. `approval`: approval requests, approvers, answers
//! 7. `cells`: sessions and the processes that serve them
//! 8. `tools`: the tools, one file each
//! 9. `telemetry`: audit log, journal, metrics, traces, observers
//! 10. `stores`: output and undo on disk
//! 11. `base`: the vocabulary that all of them share

mod approval;
mod base;
mod boot;
mod cells;
mod changes;
mod front;
mod network;
mod pipeline;
mod stores;
mod telemetry;
mod tools;

pub use base::services::{AllowedServices, HostService};
pub use boot::config::{AllowedPorts, ConfigError, ConfigPosition, LogFilter, UpstreamProxy};
pub use boot::launcher_process::LauncherProcessError;
pub use boot::options::Options;
pub use boot::ownership::UnsafePlace;
pub use boot::privilege::PrivilegeError;
pub use boot::settings::SettingsError;
pub use boot::start::{StartError, StartedDaemon, start};
pub use boot::state::StateError;
pub use cells::launcher::LauncherError;
pub use front::listen::ListenError;
pub use tools::RegistryError;
