//! A confined cell, before a session is made of it. Runs in the broker.

use crate::cells::channel::Channel;
use palisade_plan::Runs;
use std::os::fd::OwnedFd;

/// A cell that has confined itself, with all that a session is made from.
#[derive(Debug)]
pub(crate) struct ConfinedCell {
    pub(crate) channels: Vec<Channel>,
    /// The listeners of its network, if that is by name.
    pub(crate) listeners: Vec<OwnedFd>,
    pub(crate) ready: Box<palisade_plan::CellReceipt>,
    /// The user it runs as, and the client it runs for.
    pub(crate) runs: Runs,
    pub(crate) limits: Vec<palisade_plan::HeldLimit>,
    pub(crate) absent: Vec<palisade_plan::Absent>,
    pub(crate) oom_file: String,
}
