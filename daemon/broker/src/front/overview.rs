//! The overview of sessions and calls that operators see. Runs in the broker.

use crate::{base::release::NAME, front::server::Server, telemetry::metrics};
use palisade_protocol::Overview;

/// Returns an overview of the daemon, its sessions and its calls.
pub(crate) fn of(server: &Server) -> Overview {
    let mut sessions: Vec<_> =
        server.host.sessions().iter().map(|session| session.overview()).collect();
    sessions.sort_by_key(|session| std::cmp::Reverse(session.time_ms));
    Overview {
        server: NAME.to_owned(),
        launcher: server.host.link.state().is_ok(),
        memory_bytes: metrics::resident(),
        approval_requests: server.calls.approvals.desk.pending().len() as u64,
        lost_records: server.telemetry.audit.lost(),
        sessions,
        calls: server.telemetry.calls_in_progress.overview(),
        kept: server.kept(),
    }
}
