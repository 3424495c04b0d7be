//! The abilities of the host: a plain value that the launcher determines and that planning uses.

use crate::{Access, Layer, Upper};
use bincode::{Decode, Encode};

/// The text reported for the kernel's audit records where they can be received.
pub const KERNEL_RECORDS: &str = "audit records";

/// The availability of a feature, with its version or the reason why not.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Found {
    /// Usable; the text gives the version or details.
    Yes(String),
    /// Not usable; the text gives the reason.
    No(String),
}

impl Found {
    /// Returns `true` if the feature is usable.
    #[must_use]
    pub const fn is_yes(&self) -> bool {
        matches!(self, Self::Yes(_))
    }

    /// Returns the version or the reason.
    #[must_use]
    pub fn detail(&self) -> &str {
        match self {
            Self::Yes(text) | Self::No(text) => text,
        }
    }
}

/// The abilities of the host, as determined by the launcher.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Facts {
    /// The kernel release, as printed by `uname -r`.
    pub kernel: String,
    /// True if the launcher runs as root and can switch to other users' identities.
    pub privileged: bool,
    /// The launcher's own user namespace, or why it could not have one.
    pub user_namespace: Found,
    /// Every layer except those that `overlay` covers, in the order of [`Layer::ALL`].
    pub layers: Vec<(Layer, Found)>,
    /// The kernel's Landlock ABI; 0 if Landlock is unavailable.
    pub landlock_abi: u32,
    /// The kernel's bitmask of Landlock errata that are fixed.
    pub landlock_errata: u32,
    /// The overlays that can be mounted on a workspace.
    pub overlay: OverlayFacts,
    /// The availability of the kernel's audit records of denials. The broker finds out whether any
    /// arrive.
    pub records: Found,
    /// The availability of an audit session for each runner, by which its records of denied system
    /// calls are recognised.
    pub audit_session: Found,
    /// The cgroup controllers that the launcher can use.
    pub cgroup: CgroupFacts,
    /// The ports of the launcher's own network that sessions may connect to, or why there are none.
    pub ports: Found,
}

/// The overlays that can be mounted on a workspace, by the access that programs have to it.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct OverlayFacts {
    /// The ability to hide names in a workspace that programs only read.
    pub read: Found,
    /// The ability to hide and protect names, and to hold back writes in a transaction, where
    /// programs write.
    pub write: Found,
    /// The ability to hold the writes of a transaction in memory.
    pub memory: Found,
}

impl OverlayFacts {
    /// Returns facts with the same finding for every kind of overlay.
    #[must_use]
    pub fn all(found: Found) -> Self {
        Self { read: found.clone(), write: found.clone(), memory: found }
    }

    /// Returns where a transaction's upper layer is stored, given the location that is wanted: on
    /// disk if memory can not be used.
    #[must_use]
    pub const fn upper(&self, wanted: Upper, access: Access) -> Upper {
        match (access, &self.memory) {
            (Access::Write, Found::No(_)) => Upper::Disk,
            (_, _) => wanted,
        }
    }

    /// Returns the finding for a workspace with this access.
    #[must_use]
    pub const fn of(&self, access: Access) -> &Found {
        match access {
            Access::Write => &self.write,
            Access::List | Access::Read | Access::Execute | Access::Device => &self.read,
        }
    }
}

/// The cgroup version that enforces the limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum CgroupVersion {
    /// One hierarchy for all controllers.
    V2,
    /// A hierarchy per controller.
    V1,
}

/// The limits that the launcher can enforce with cgroups.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
pub struct CgroupFacts {
    /// The version in use; with `None`, limits apply to each process only.
    pub version: Option<CgroupVersion>,
    /// Usable controllers: `memory`, `pids`, `cpu`.
    pub controllers: Vec<String>,
}

impl CgroupFacts {
    /// Returns `true` if a controller is usable.
    #[must_use]
    pub fn has(&self, controller: &str) -> bool {
        self.controllers.iter().any(|name| name == controller)
    }
}

/// The first Landlock ABI that also keeps programs from abstract sockets of the network they are
/// in. (Port rules exist since ABI 4.)
const PORTS_ABI: u32 = 6;

impl Facts {
    /// Returns whether the kernel can restrict programs to certain ports in a network that is not
    /// their own.
    #[must_use]
    pub fn port_rules(&self) -> Found {
        match self.landlock_abi {
            abi if abi >= PORTS_ABI => Found::Yes(format!("ABI {abi}")),
            abi => Found::No(format!(
                "net.mode = \"ports\" needs Landlock ABI {PORTS_ABI} (Linux 6.12), and this \
                 kernel has {abi}"
            )),
        }
    }

    /// Returns the finding for one layer.
    #[must_use]
    pub fn layer(&self, layer: Layer) -> Found {
        if matches!(layer, Layer::Hide | Layer::Protect) {
            // Both need an overlay on the workspace. This is the finding for writable workspaces;
            // read-only ones need less.
            return self.overlay.write.clone();
        }
        self.layers
            .iter()
            .find(|(found, _)| *found == layer)
            .map_or_else(|| Found::No("not probed".to_owned()), |(_, found)| found.clone())
    }
}
