//! What a cell reports of its own confinement, read back from the kernel.

use crate::{Layer, Namespace};
use bincode::{Decode, Encode};

/// What is in force in a cell.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
pub struct CellReceipt {
    /// The kernel's Landlock ABI; 0 if it is not in force.
    pub landlock_abi: u32,
    /// Rights handled.
    pub landlock_rights: Vec<String>,
    /// Scopes closed.
    pub landlock_scopes: Vec<String>,
    /// Rules that grant something.
    pub landlock_rules: u32,
    /// The filter as installed, for the broker to digest; empty if none.
    pub filter: Vec<u8>,
    /// System calls it lets through.
    pub filter_syscalls: u32,
    /// Namespaces of its own.
    pub namespaces: Vec<Namespace>,
    /// Real, effective, saved and file-system uid; all alike.
    pub uid: u32,
    /// And gid.
    pub gid: u32,
    /// Supplementary groups.
    pub groups: Vec<u32>,
    /// `CapInh CapPrm CapEff CapBnd CapAmb` as the kernel prints them.
    pub capabilities: String,
    /// From `/proc/self/status`.
    pub no_new_privs: bool,
    /// From `prctl`.
    pub securebits: u32,
    /// Limits in force.
    pub limits: Vec<HeldLimit>,
    /// The workspace as the kernel names it from inside.
    pub workspace: crate::Path,
    /// Where what a transaction's program writes is kept; none for others.
    pub upper: Option<crate::Upper>,
    /// Why nothing can be laid over it, where that is known and may be.
    pub uncovered: Option<String>,
    /// The number by which the kernel's audit records of system calls know the process and all that
    /// it starts; none if it has none of its own.
    pub audit_session: Option<u32>,
    /// What of the network there is.
    pub network: HeldNetwork,
}

/// What of the network is in force.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
pub enum HeldNetwork {
    /// The launcher's own; TCP is refused if Landlock handles it.
    #[default]
    Host,
    /// One of its own in which nothing is up.
    None,
    /// One of its own with a loopback.
    Loopback,
    /// The launcher's own, and TCP connects to these ports.
    Ports(Vec<u16>),
}

/// A limit and who holds it.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct HeldLimit {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: u64,
    /// `cgroup v2`, `cgroup v1` or `rlimit`.
    pub by: String,
}

/// A layer that is missing by the plan's leave.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Absent {
    /// Which.
    pub layer: Layer,
    /// Why.
    pub why: String,
}
