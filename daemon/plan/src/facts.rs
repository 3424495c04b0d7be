//! What the host can enforce: a plain value, found by the launcher, handed to whoever plans.

use crate::{Access, Layer, Upper};
use bincode::{Decode, Encode};

/// What is said of the kernel's audit records where they can be listened for.
pub const KERNEL_RECORDS: &str = "audit records";

/// Whether something is there, and its version or the reason why not.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Found {
    /// Usable; the text says what exactly.
    Yes(String),
    /// Not usable; the text says why.
    No(String),
}

impl Found {
    /// Usable or not.
    #[must_use]
    pub const fn is_yes(&self) -> bool {
        matches!(self, Self::Yes(_))
    }

    /// Version or reason.
    #[must_use]
    pub fn detail(&self) -> &str {
        match self {
            Self::Yes(text) | Self::No(text) => text,
        }
    }
}

/// The host as the launcher found it.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Facts {
    /// `uname -r`.
    pub kernel: String,
    /// The launcher runs as root and may take on other users' identities.
    pub privileged: bool,
    /// Whether the launcher stands in a user namespace of its own, or why it could not.
    pub user_namespace: Found,
    /// Every layer but those that `overlay` says, in the order of [`Layer::ALL`].
    pub layers: Vec<(Layer, Found)>,
    /// 0 if there is none.
    pub landlock_abi: u32,
    /// The kernel's bitmask of fixed errata.
    pub landlock_errata: u32,
    /// What can be laid over a workspace.
    pub overlay: OverlayFacts,
    /// Whether the kernel's records of what it refuses can be listened for. That any come is for
    /// the broker to find out.
    pub records: Found,
    /// Whether a runner can have an audit session of its own, by which records of system calls that
    /// were refused can be told apart.
    pub audit_session: Found,
    /// Which cgroup controllers the launcher can use.
    pub cgroup: CgroupFacts,
    /// Which ports of its own network the launcher lets sessions connect to, or why none.
    pub ports: Found,
}

/// What can be laid over a workspace, by what programs may do in it.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct OverlayFacts {
    /// Whether names can be hidden where programs only read.
    pub read: Found,
    /// Whether names can be hidden and protected, and what programs do be held back, where they
    /// write.
    pub write: Found,
    /// Whether what programs write can be held back in memory.
    pub memory: Found,
}

impl OverlayFacts {
    /// The same of all.
    #[must_use]
    pub fn all(found: Found) -> Self {
        Self { read: found.clone(), write: found.clone(), memory: found }
    }

    /// Where the layer of a transaction is that is wanted there.
    #[must_use]
    pub const fn upper(&self, wanted: Upper, access: Access) -> Upper {
        match (access, &self.memory) {
            (Access::Write, Found::No(_)) => Upper::Disk,
            (_, _) => wanted,
        }
    }

    /// For a workspace with this access.
    #[must_use]
    pub const fn of(&self, access: Access) -> &Found {
        match access {
            Access::Write => &self.write,
            Access::List | Access::Read | Access::Execute | Access::Device => &self.read,
        }
    }
}

/// Which cgroup hierarchy holds the limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum CgroupVersion {
    /// One hierarchy for all.
    V2,
    /// A hierarchy per controller.
    V1,
}

/// What the launcher can limit by cgroup.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
pub struct CgroupFacts {
    /// None: limits are per process only.
    pub version: Option<CgroupVersion>,
    /// Usable controllers: `memory`, `pids`, `cpu`.
    pub controllers: Vec<String>,
}

impl CgroupFacts {
    /// Whether a controller is usable.
    #[must_use]
    pub fn has(&self, controller: &str) -> bool {
        self.controllers.iter().any(|name| name == controller)
    }
}

/// The first ABI of Landlock that keeps programs from the abstract sockets of the network that they
/// are in. (Ports it knows since 4.)
const PORTS_ABI: u32 = 6;

impl Facts {
    /// Whether the kernel can hold programs to ports in a network that is not their own.
    #[must_use]
    pub fn port_rules(&self) -> Found {
        match self.landlock_abi {
            abi if abi >= PORTS_ABI => Found::Yes(format!("ABI {abi}")),
            abi => Found::No(format!(
                "net.mode = \"ports\" takes ABI {PORTS_ABI} (Linux 6.12), and this is {abi}"
            )),
        }
    }

    /// What was found of one layer.
    #[must_use]
    pub fn layer(&self, layer: Layer) -> Found {
        if matches!(layer, Layer::Hide | Layer::Protect) {
            // Both are held by what lies over the workspace; less is asked where it is only read.
            return self.overlay.write.clone();
        }
        self.layers
            .iter()
            .find(|(found, _)| *found == layer)
            .map_or_else(|| Found::No("not looked for".to_owned()), |(_, found)| found.clone())
    }
}
