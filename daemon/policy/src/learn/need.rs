//! The accesses of a command, and the needs that follow from them.

use crate::access::PathAccess;
use palisade_egress_protocol::host::Target;
use palisade_plan::record::{Right, TargetKind};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
};

/// One access of a command. A path that the session did not see is included only if the host has
/// it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Access {
    /// The kind of access.
    pub right: Right,
    /// An absolute path, an address with its port, or the name of a host with its port.
    pub path: String,
    /// The kind of file that was found.
    pub kind: TargetKind,
}

/// A run of a command, with its accesses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// The command as it was typed.
    pub command: String,
    /// The accesses, without duplicates.
    pub accesses: Vec<Access>,
    /// The number of accesses that were not recorded.
    pub lost: u64,
    /// The largest resident memory of one process.
    pub memory_bytes: u64,
    /// The largest number of processes at the same time.
    pub processes: u64,
    /// The duration of the run.
    pub elapsed_ms: u64,
}

/// An access that was refused.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RefusedAccess {
    /// The kind of access.
    pub right: Right,
    /// The target: a path in the profile language, or an address.
    pub target: String,
}

/// The access that is needed to one target, and the reason.
#[derive(Debug, Clone, Default)]
pub(super) struct Need {
    pub(super) reach: Option<PathAccess>,
    /// The names of the files in it that were used.
    pub(super) used: Vec<String>,
    /// True if the target was only looked up, and nothing in it was opened.
    pub(super) lookup_only: bool,
    /// True if the target is a symbolic link.
    pub(super) link: bool,
}

/// All needs of a run.
#[derive(Debug, Default)]
pub(super) struct Needs {
    pub(super) paths: BTreeMap<PathBuf, Need>,
    pub(super) etc: BTreeMap<String, Need>,
    /// Directories that were only listed or looked up.
    pub(super) looked_up: Vec<PathBuf>,
    pub(super) workspace_read: bool,
    pub(super) workspace_written: bool,
    pub(super) programs: Vec<PathBuf>,
    /// Addresses on the private loopback that were served or connected to.
    pub(super) loopback: Vec<String>,
    /// True if an egress room was asked for something in mode `domains`.
    pub(super) egress: bool,
    /// Hosts that were connected to in mode `domains`.
    pub(super) hosts: BTreeSet<Target>,
    /// Ports that were connected to in the host's network.
    pub(super) ports: BTreeSet<u16>,
    pub(super) refused: Vec<RefusedAccess>,
}
