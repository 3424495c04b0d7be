//! What becomes of a session without a connection: it waits for its next, or it ends. Broker.

use crate::{lobby::Work, server::Server};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

impl Work {
    /// Ends what is under way, and the session.
    pub(crate) async fn end(mut self, server: &Server) {
        self.calls.shutdown().await;
        self.close(server).await;
    }

    /// Ends the session; returns when nothing of it is left.
    pub(crate) async fn close(&mut self, server: &Server) {
        if let Some(session) = self.session.take() {
            server.desk.end_session(&session.id);
            session.close().await;
            server.audit.closed(&session).await;
        }
    }

    /// Lets the session wait for its next connection, for as long as it may.
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
                        // Who wanted it is gone again.
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
