//! The endpoints for clients and operators, and the targets of reports. Runs in the broker.

use crate::telemetry::{logs::LogExport, traces::Export};
use std::path::PathBuf;

/// The way in which clients connect.
#[derive(Debug)]
pub(crate) enum ClientEndpoint {
    /// A socket at this path, or the one that the service manager passes.
    Socket(PathBuf),
    /// One client, connected to standard input.
    Embedded,
}

/// The way in which operators connect.
#[derive(Debug)]
pub(crate) enum OperatorEndpoint {
    /// A socket at this path, or the one that the service manager passes.
    Socket(PathBuf),
    /// One operator, connected to standard output.
    Stdout,
    /// No operator can connect: every approval request is denied.
    None,
}

/// The places where calls are reported besides the audit log.
#[derive(Debug, Default)]
pub(crate) struct ReportTargets {
    /// True if the journal gets a line for each call.
    pub(crate) journal: bool,
    /// The collector that gets a trace of each call, if any.
    pub(crate) traces: Option<Export>,
    /// The collector that gets each record of the audit log, if any.
    pub(crate) logs: Option<LogExport>,
}
