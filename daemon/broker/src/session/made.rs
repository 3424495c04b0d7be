//! A cell that is confined, before a session is made of it. Broker.

use crate::channel::Channel;
use palisade_plan::Runs;

/// A cell that is confined.
#[derive(Debug)]
pub(crate) struct Made {
    pub(crate) channels: Vec<Channel>,
    pub(crate) ready: Box<palisade_plan::CellReceipt>,
    /// Whom it runs as, and for whom.
    pub(crate) runs: Runs,
    pub(crate) limits: Vec<palisade_plan::HeldLimit>,
    pub(crate) absent: Vec<palisade_plan::Absent>,
    pub(crate) oom_file: String,
}
