//! Starting the daemon and keeping its configuration in force. Runs in the broker.
//!
//! - Owns: options, configuration, state directories, giving up privilege, the launcher's
//!   process, start, moving to the background, reload, reports to the service manager.
//! - May import: front, network, cells, tools, telemetry, stores, base.
//! - Imported by: nothing.

pub(crate) mod background;
pub(crate) mod config;
pub(crate) mod confine;
pub(crate) mod effective;
pub(crate) mod launcher_process;
pub(crate) mod options;
pub(crate) mod ownership;
pub(crate) mod privilege;
pub(crate) mod reload;
pub(crate) mod service;
pub(crate) mod settings;
pub(crate) mod start;
pub(crate) mod state;
