//! How others come in, and what is told of calls. Broker.

use crate::traces::Export;
use std::path::PathBuf;

/// How clients come in.
#[derive(Debug)]
pub(crate) enum Door {
    /// By a socket at a path, or the one that the service manager hands over.
    Socket(PathBuf),
    /// One client, connected to standard input.
    Embedded,
}

/// How operators come in.
#[derive(Debug)]
pub(crate) enum OperatorDoor {
    /// By a socket at a path, or the one that the service manager hands over.
    Socket(PathBuf),
    /// One operator, connected to standard output.
    Stdout,
    /// Not at all: whatever would be asked is denied.
    None,
}

/// What is told of calls besides the audit log.
#[derive(Debug, Default)]
pub(crate) struct Telling {
    /// The journal has a line for each.
    pub(crate) journal: bool,
    /// A collector has a trace of each.
    pub(crate) traces: Option<Export>,
}
