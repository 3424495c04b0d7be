//! The layers of confinement, by the names used in profiles, receipts and `doctor`.

use bincode::{Decode, Encode};
use std::{fmt, str::FromStr};

/// One layer of confinement. A profile requires every layer that it does not name as optional.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
pub enum Layer {
    /// The session has its own small root.
    Mount,
    /// The session sees and signals only its own processes, and the whole tree can be killed.
    Pid,
    /// The session has its own, empty network.
    Network,
    /// The session has its own System V and POSIX IPC.
    Ipc,
    /// The session has its own host name.
    Uts,
    /// The session sees its own cgroup as the root.
    Cgroup,
    /// Landlock, the kernel's path rules.
    Landlock,
    /// The system call filter.
    Seccomp,
    /// Memory, processes and CPU bounded for the session as a whole, not per process.
    Limits,
    /// Names in the workspace that do not exist for the session.
    Hide,
    /// Names in the workspace that the session can not change.
    Protect,
}

impl Layer {
    /// All layers, in the order in which they are shown.
    pub const ALL: [Self; 11] = [
        Self::Mount,
        Self::Pid,
        Self::Network,
        Self::Ipc,
        Self::Uts,
        Self::Cgroup,
        Self::Landlock,
        Self::Seccomp,
        Self::Limits,
        Self::Hide,
        Self::Protect,
    ];

    /// Returns the name used in profiles and receipts.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mount => "mount",
            Self::Pid => "pid",
            Self::Network => "network",
            Self::Ipc => "ipc",
            Self::Uts => "uts",
            Self::Cgroup => "cgroup",
            Self::Landlock => "landlock",
            Self::Seccomp => "seccomp",
            Self::Limits => "limits",
            Self::Hide => "hide",
            Self::Protect => "protect",
        }
    }
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Layer {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|layer| layer.name() == text).ok_or_else(|| {
            let names: Vec<_> = Self::ALL.iter().map(|layer| layer.name()).collect();
            format!("there is no layer {text:?}; the layers are {}", names.join(", "))
        })
    }
}
