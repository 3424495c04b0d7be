//! The namespaces of a cell.

use crate::Layer;
use bincode::{Decode, Encode};

/// A namespace that a step makes or enters. (The PID namespace is made by the launcher: a
/// process can not move itself into one.)
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum Namespace {
    /// Mounts.
    Mount,
    /// Process ids.
    Pid,
    /// Network.
    Network,
    /// System V and POSIX IPC.
    Ipc,
    /// Host name.
    Uts,
    /// Cgroup root.
    Cgroup,
}

impl Namespace {
    /// Its name in receipts, and the layer it stands for.
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
