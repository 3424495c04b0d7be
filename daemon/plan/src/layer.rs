//! The layers of confinement, by the names that profiles, receipts and `doctor` use.

use bincode::{Decode, Encode};
use std::{fmt, str::FromStr};

/// One layer. A profile requires each of them unless it names it as optional.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
pub enum Layer {
    /// A small root of its own.
    Mount,
    /// Sees and signals only its own processes; the whole tree can be killed.
    Pid,
    /// An empty network.
    Network,
    /// System V and POSIX IPC of its own.
    Ipc,
    /// A host name of its own.
    Uts,
    /// Sees its cgroup as the root.
    Cgroup,
    /// The kernel's path rules.
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
    /// All of them, in the order they are shown.
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

    /// The name in profiles and receipts.
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
            format!("no layer is called {text:?}; there are {}", names.join(", "))
        })
    }
}
