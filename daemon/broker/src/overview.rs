//! What goes on now, as operators see it. Broker.

use crate::{metrics, release::NAME, server::Server};
use palisade_protocol::Overview;

/// Everything that goes on.
pub(crate) fn of(server: &Server) -> Overview {
    let mut sessions: Vec<_> = server.sessions().iter().map(|session| session.overview()).collect();
    sessions.sort_by_key(|session| std::cmp::Reverse(session.time_ms));
    Overview {
        server: NAME.to_owned(),
        launcher: server.link.state().is_ok(),
        memory_bytes: metrics::resident(),
        questions: server.desk.pending().len() as u64,
        lost_records: server.audit.lost(),
        sessions,
        calls: server.courses.overview(),
        kept: server.kept(),
    }
}
