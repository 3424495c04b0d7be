//! The parts of the daemon that the stages of a call need. Runs in the broker.

use crate::{
    approval::service::ApprovalService, cells::analyst::Analyst, network::rooms::EgressRooms,
    tools::Registry,
};
use std::sync::Arc;

/// The services that the stages of a call need, besides the call itself.
#[derive(Debug)]
pub(crate) struct CallServices {
    pub(crate) registry: Registry,
    /// Parses shell lines; without it every line counts as opaque.
    pub(crate) analyst: Analyst,
    pub(crate) approvals: Arc<ApprovalService>,
    /// The egress rooms, which get pages.
    pub(crate) rooms: Arc<EgressRooms>,
}
