//! A cell's report of its own confinement, read back from the kernel.

use crate::{Layer, Namespace};
use bincode::{Decode, Encode};

/// The confinement that is in force in a cell.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
pub struct CellReceipt {
    /// The kernel's Landlock ABI; 0 if Landlock is not in force.
    pub landlock_abi: u32,
    /// The Landlock rights that are handled.
    pub landlock_rights: Vec<String>,
    /// The Landlock scopes that are restricted.
    pub landlock_scopes: Vec<String>,
    /// The number of Landlock rules.
    pub landlock_rules: u32,
    /// The bytes of the installed filter, for the broker to digest; empty if there is none.
    pub filter: Vec<u8>,
    /// The number of system calls that the filter allows.
    pub filter_syscalls: u32,
    /// The namespaces that the cell has to itself.
    pub namespaces: Vec<Namespace>,
    /// The real, effective, saved and file-system uid, which are all the same.
    pub uid: u32,
    /// The gid, likewise all the same.
    pub gid: u32,
    /// Supplementary groups.
    pub groups: Vec<u32>,
    /// `CapInh CapPrm CapEff CapBnd CapAmb` as the kernel prints them.
    pub capabilities: String,
    /// True if `no_new_privs` is set, from `/proc/self/status`.
    pub no_new_privs: bool,
    /// The securebits, from `prctl`.
    pub securebits: u32,
    /// The limits in force.
    pub limits: Vec<HeldLimit>,
    /// The path of the workspace as the kernel names it inside the cell.
    pub workspace: crate::Path,
    /// The directory trees of the host that commits of the session change: the workspace, and the
    /// main repository of a linked worktree. Empty if that is not known.
    pub trees: Vec<TreePlace>,
    /// The place where a transaction's writes are stored; `None` outside a transaction.
    pub upper: Option<crate::Upper>,
    /// The reason that no overlay can be mounted on the workspace, if that is known and allowed.
    pub uncovered: Option<String>,
    /// The number of the audit session that the kernel's records of system calls show for the
    /// process and all that it starts. `None` if it does not have its own.
    pub audit_session: Option<u32>,
    /// The network that is in force.
    pub network: HeldNetwork,
}

/// The identity of a directory of the host, which all of its names share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct DirectoryIdentity {
    /// The number of its file system's device.
    pub device: u64,
    /// The number of its inode.
    pub inode: u64,
}

/// The place of a directory tree on the host: its top directory, then each directory above that, up
/// to the root.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct TreePlace(pub Vec<DirectoryIdentity>);

impl TreePlace {
    /// Returns `true` if one of two trees is the other, or lies in it. A place that is not known may
    /// be anywhere.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        self.lies_in(other) || other.lies_in(self)
    }

    fn lies_in(&self, other: &Self) -> bool {
        other.0.first().is_none_or(|top| self.0.contains(top))
    }
}

/// The network that is in force in a cell.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
pub enum HeldNetwork {
    /// The launcher's own network. TCP is refused if Landlock handles it.
    #[default]
    Host,
    /// The cell's own network, in which nothing is up.
    None,
    /// The cell's own network, with a loopback.
    Loopback,
    /// The cell's own network, with a loopback and the listeners of an egress room. These ports have
    /// one for synthetic addresses.
    Domains(Vec<u16>),
    /// The launcher's own network, where TCP may connect to these ports.
    Ports(Vec<u16>),
}

/// A limit and what enforces it.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct HeldLimit {
    /// The name of the limit.
    pub name: String,
    /// The value of the limit.
    pub value: u64,
    /// The mechanism that enforces it: `cgroup v2`, `cgroup v1` or `rlimit`.
    pub by: String,
}

/// A layer that is missing.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Absent {
    /// The layer.
    pub layer: Layer,
    /// The reason that it is missing.
    pub why: String,
}
