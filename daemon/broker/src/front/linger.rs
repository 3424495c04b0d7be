//! Sessions without a connection: they wait for the next connection, or end. Runs in the broker.

use crate::front::{lobby::SessionWork, server::Server};
use std::sync::atomic::Ordering;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

impl SessionWork {
    /// Ends the calls under way, and then the session.
    pub(crate) async fn end(mut self, server: &Server) {
        self.calls.shutdown().await;
        self.close(server).await;
    }

    /// Ends the session; returns when none of its processes are left.
    pub(crate) async fn close(&mut self, server: &Server) {
        if let Some(session) = self.session.take() {
            server.calls.approvals.desk.end_session(&session.id);
            session.close().await;
            server.rooms.close(&session).await;
            server
                .telemetry
                .audit
                .closed(&session, session.calls.total.load(Ordering::Relaxed))
                .await;
        }
    }

    /// Keeps the session for its next connection until its grace time is over, then ends it.
    pub(crate) async fn linger(mut self, server: &Server, shutdown: &CancellationToken) {
        let Some(session) = self.session.clone() else { return self.end(server).await };
        let Some(survival) = &session.survival else { return self.end(server).await };
        let until = Instant::now() + survival.grace;
        let mut claimed = server.lobby.enter(&session.id);
        loop {
            tokio::select! {
                biased;
                claim = &mut claimed => {
                    let Ok(claim) = claim else { break };
                    match claim.send(self) {
                        Ok(()) => return,
                        // The connection that asked for the session is gone again.
                        Err(work) => self = work,
                    }
                    claimed = server.lobby.enter(&session.id);
                }
                Some(done) = self.calls.join_next_with_id() => {
                    let task = done.map_or_else(|error| error.id(), |(task, ())| task);
                    self.tasks.remove(&task);
                }
                () = session.over() => break,
                () = sleep_until(until) => break,
                () = server.draining.cancelled(), if self.calls.is_empty() => break,
                () = shutdown.cancelled() => break,
            }
        }
        server.lobby.leave(&session.id);
        self.end(server).await;
    }
}
