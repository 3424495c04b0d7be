//! The kernel namespaces of a cell.

use crate::Layer;
use bincode::{Decode, Encode};

/// A namespace that a step creates or enters. The launcher creates the PID namespace, because a
/// process can not move itself into one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum Namespace {
    /// The mount namespace.
    Mount,
    /// The PID namespace.
    Pid,
    /// The network namespace.
    Network,
    /// The namespace of System V and POSIX IPC.
    Ipc,
    /// The namespace of the host name.
    Uts,
    /// The cgroup namespace.
    Cgroup,
}

impl Namespace {
    /// Returns the layer that this namespace provides.
    #[must_use]
    pub const fn layer(self) -> Layer {
        match self {
            Self::Mount => Layer::Mount,
            Self::Pid => Layer::Pid,
            Self::Network => Layer::Network,
            Self::Ipc => Layer::Ipc,
            Self::Uts => Layer::Uts,
            Self::Cgroup => Layer::Cgroup,
        }
    }
}
