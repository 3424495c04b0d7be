//! Sessions and the processes that serve them. Runs in the broker.
//!
//! - Owns: the links to the launcher and the analyst, sessions, file channels, runners,
//!   transactions' processes, the list of jobs, streams, denials and their explanation.
//! - May import: telemetry, stores, base.
//! - Imported by: boot, front, pipeline, changes, network, approval.

pub(crate) mod analysis_cache;
pub(crate) mod analyst;
pub(crate) mod channel;
pub(crate) mod checkers;
pub(crate) mod commit_lock;
pub(crate) mod context;
pub(crate) mod file;
pub(crate) mod files;
pub(crate) mod hidden_names;
pub(crate) mod host;
pub(crate) mod job;
pub(crate) mod kept;
pub(crate) mod launcher;
pub(crate) mod link;
pub(crate) mod lookup;
pub(crate) mod observe;
pub(crate) mod oom;
pub(crate) mod output;
pub(crate) mod receipt;
pub(crate) mod records;
pub(crate) mod refused;
pub(crate) mod run;
pub(crate) mod runner;
pub(crate) mod scene;
pub(crate) mod seen;
pub(crate) mod session;
pub(crate) mod spare;
pub(crate) mod streams;
pub(crate) mod survival;
pub(crate) mod todos;
pub(crate) mod transaction;
pub(crate) mod turn;
pub(crate) mod used_hosts;
pub(crate) mod watchdog;
pub(crate) mod why;
