//! What was really enforced: read back from the kernel, not copied from the request.

use crate::{Denial, Guard, RawPath};
use bincode::{Decode, Encode};
use serde::{Deserialize, Serialize};

/// What a session's cell is held by.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Receipt {
    /// The profile's name.
    pub profile: String,
    /// SHA-256 of the profile as resolved.
    pub profile_digest: String,
    /// Landlock, if in force.
    pub landlock: Option<LandlockReceipt>,
    /// The system call filter, if in force.
    pub seccomp: Option<SeccompReceipt>,
    /// The namespaces that are the session's own: `mount`, `pid`, `network`, …
    pub namespaces: Vec<String>,
    /// Whom the tools run as.
    pub uid: u32,
    /// And their group.
    pub gid: u32,
    /// Supplementary groups.
    pub groups: Vec<u32>,
    /// The five capability sets, as the kernel prints them; all zero.
    pub capabilities: String,
    /// Privilege can not be gained by executing.
    pub no_new_privs: bool,
    /// The securebits word.
    pub securebits: u32,
    /// Each limit and who holds it.
    pub limits: Vec<LimitReceipt>,
    /// Layers that the profile allowed to be missing and that are.
    pub degraded: Vec<Degraded>,
    /// How `bash` is held; `text` where the profile says more and the host has no overlays.
    pub guard: Guard,
    /// Layers whose refusals to programs `denials` does not tell, because the kernel's records of
    /// them can not be had; `records` if some of this call's are missing.
    pub unrecorded: Vec<Degraded>,
    /// What of the network there is.
    pub network: NetworkReceipt,
    /// Whom the session is for, where its uid is one that nothing else has: this user's files are the
    /// session's own where it may write, and what it makes there is this user's.
    pub for_uid: Option<u32>,
    /// The profile is observed and not enforced; none if it is enforced.
    pub observed: Option<Observed>,
    /// The directories of the profile's `fs.unguarded`: what commands change there is held back by
    /// no transaction, and can not be undone.
    pub unguarded: Vec<RawPath>,
}

/// The network as enforced.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NetworkReceipt {
    /// `none` (nothing is up) or `loopback`, in a network of the session's own; `ports` in the
    /// host's; `host` if there is no network namespace, by the profile's leave, and Landlock refuses
    /// TCP where it can.
    pub mode: String,
    /// With `ports`, what TCP connects to, at every address.
    pub ports: Vec<u16>,
}

/// A profile that is observed and not enforced.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Observed {
    /// The profile that is enforced in its place.
    pub under: String,
    /// What it would have refused to this call, and did not.
    pub would_refuse: Vec<Denial>,
}

/// Landlock as enforced.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LandlockReceipt {
    /// The kernel's ABI.
    pub abi: u32,
    /// The rights that are handled, hence denied unless granted.
    pub rights: Vec<String>,
    /// The scopes that are closed.
    pub scopes: Vec<String>,
    /// How many path rules grant something.
    pub rules: u32,
}

/// The filter as installed.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SeccompReceipt {
    /// SHA-256 of the program's instructions.
    pub digest: String,
    /// Its length.
    pub instructions: u32,
    /// How many system calls it lets through, some of them with checked arguments.
    pub syscalls: u32,
}

/// One limit.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LimitReceipt {
    /// `memory`, `processes`, `cpu`, `file_size`, `open_files`, `core`.
    pub name: String,
    /// Its value in its unit.
    pub value: u64,
    /// `cgroup v2`, `cgroup v1` or `rlimit`.
    pub by: String,
}

/// A layer that is missing, by the profile's leave.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Degraded {
    /// The layer's name.
    pub layer: String,
    /// Why it is missing.
    pub why: String,
}
