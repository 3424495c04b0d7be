//! What a command used, and what it comes to.

use crate::access::Reach;
use palisade_plan::record::{Kind, Right};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
};

/// One thing that a command used. What the session did not see is here only if the host has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Access {
    /// How.
    pub right: Right,
    /// An absolute path, or an address with its port.
    pub path: String,
    /// What was there.
    pub kind: Kind,
}

/// A run of a command, and what it used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// The command, as it was typed.
    pub command: String,
    /// What it used, each once.
    pub accesses: Vec<Access>,
    /// Accesses that were not kept.
    pub lost: u64,
    /// The most memory that one process had resident.
    pub memory_bytes: u64,
    /// The most processes that were seen at once.
    pub processes: u64,
    /// How long it took.
    pub elapsed_ms: u64,
}

/// Something that was refused.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Wanted {
    /// How.
    pub right: Right,
    /// What: as the profile language names it, or an address.
    pub target: String,
}

/// What is needed of one target, and why.
#[derive(Debug, Clone, Default)]
pub(super) struct Need {
    pub(super) reach: Option<Reach>,
    /// Names of what was used of it.
    pub(super) used: Vec<String>,
    /// It was asked about and nothing of it was opened.
    pub(super) looked: bool,
    /// It is a link.
    pub(super) link: bool,
}

/// What everything comes to.
#[derive(Debug, Default)]
pub(super) struct Needs {
    pub(super) paths: BTreeMap<PathBuf, Need>,
    pub(super) etc: BTreeMap<String, Need>,
    /// Directories that were only looked at.
    pub(super) looked: Vec<PathBuf>,
    pub(super) workspace_read: bool,
    pub(super) workspace_written: bool,
    pub(super) programs: Vec<PathBuf>,
    /// What was served or connected to on a loopback of the session's own.
    pub(super) loopback: Vec<String>,
    /// What was connected to in the host's network.
    pub(super) ports: BTreeSet<u16>,
    pub(super) refused: Vec<Wanted>,
}
