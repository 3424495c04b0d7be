//! The receipt: which confinement is really in force, read back from the kernel and not copied from
//! the request.

use crate::{Denial, Guard, RawPath};
use bincode::{Decode, Encode};
use serde::{Deserialize, Serialize};

/// The confinement of a session's cell.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Receipt {
    /// The profile's name.
    pub profile: String,
    /// SHA-256 of the resolved profile.
    pub profile_digest: String,
    /// Landlock; `None` if it is not in force.
    pub landlock: Option<LandlockReceipt>,
    /// The system call filter; `None` if it is not in force.
    pub seccomp: Option<SeccompReceipt>,
    /// The session's own namespaces: `mount`, `pid`, `network`, …
    pub namespaces: Vec<String>,
    /// The user id that the tools run as.
    pub uid: u32,
    /// The group id that the tools run as.
    pub gid: u32,
    /// Supplementary groups.
    pub groups: Vec<u32>,
    /// The five capability sets, as the kernel prints them; all are zero.
    pub capabilities: String,
    /// True if `no_new_privs` is set: executing a program can not gain privilege.
    pub no_new_privs: bool,
    /// The securebits word.
    pub securebits: u32,
    /// Each resource limit and the mechanism that enforces it.
    pub limits: Vec<LimitReceipt>,
    /// Missing layers that the profile marks as optional.
    pub degraded: Vec<Degraded>,
    /// The guard of `bash`. It is `text` if the profile asks for a stricter one and the host has no
    /// overlays.
    pub guard: Guard,
    /// Layers whose refusals to programs are not in `denials`, because the kernel's records of them
    /// are unavailable. The entry `records` means that some records of this call are missing.
    pub unrecorded: Vec<Degraded>,
    /// The network access in force.
    pub network: NetworkReceipt,
    /// The user that the session works for, if the session runs under a uid of its own. This user's
    /// files belong to the session where it may write, and files it creates there belong to this
    /// user.
    pub for_uid: Option<u32>,
    /// Set if the profile is observed and not enforced; `None` if it is enforced.
    pub observed: Option<Observed>,
    /// The directories of the profile's `fs.unguarded`. Changes that commands make there take
    /// effect without a transaction, and can not be undone.
    pub unguarded: Vec<RawPath>,
}

/// The network access in force.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NetworkReceipt {
    /// The network mode:
    /// - `none` (no interface is up) or `loopback`, in a network namespace of the session's own;
    /// - `domains`, in a network namespace of the session's own, from which Palisade connects to the
    ///   hosts that the profile allows;
    /// - `ports`, in the host's network namespace;
    /// - `host` if there is no network namespace, because the profile allows that. Landlock then
    ///   refuses TCP where it can.
    pub mode: String,
    /// With `ports`, the TCP ports that may be connected to, at every address. With `domains`, the
    /// TCP ports that programs without support for proxies can use.
    pub ports: Vec<u16>,
}

/// A profile that is observed and not enforced: violations are recorded only.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Observed {
    /// The profile that is enforced in its place.
    pub under: String,
    /// The denials that the observed profile would have caused for this call; the call was allowed.
    pub would_refuse: Vec<Denial>,
}

/// The Landlock rules in force.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LandlockReceipt {
    /// The kernel's Landlock ABI version.
    pub abi: u32,
    /// The handled access rights, which are denied unless a rule grants them.
    pub rights: Vec<String>,
    /// The Landlock scopes in force.
    pub scopes: Vec<String>,
    /// The number of path rules that grant something.
    pub rules: u32,
}

/// The seccomp filter in force.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SeccompReceipt {
    /// SHA-256 of the filter program's instructions.
    pub digest: String,
    /// The number of instructions.
    pub instructions: u32,
    /// The number of system calls that the filter allows, some of them with checked arguments.
    pub syscalls: u32,
}

/// One resource limit.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LimitReceipt {
    /// `memory`, `processes`, `cpu`, `file_size`, `open_files`, `core`.
    pub name: String,
    /// The limit's value, in its unit.
    pub value: u64,
    /// The mechanism that enforces it: `cgroup v2`, `cgroup v1` or `rlimit`.
    pub by: String,
}

/// A missing layer that the profile marks as optional.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Degraded {
    /// The layer's name.
    pub layer: String,
    /// The reason that it is missing.
    pub why: String,
}
