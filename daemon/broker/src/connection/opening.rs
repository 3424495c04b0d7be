//! A connection gets its session: a new one, or one that waits for it. Broker.

use super::{Connection, Next};
use crate::{
    lobby,
    session::{Session, open},
    transaction::resolve,
    wire::Reader,
};
use palisade_protocol::{
    Open, Opened, Reply, RequestId, Resume, Resumed, ServerMessage, WireError,
};
use std::os::fd::AsFd as _;

impl Connection {
    /// Opens a session.
    pub(super) async fn open(&mut self, open: Open, reader: &Reader) -> Result<Reply, WireError> {
        let live = self.server.live();
        self.server.audit.room(self.peer.uid, live.quotas.audit_per_day)?;
        if open.options.record {
            live.roles.let_record(&self.who)?;
        }
        let client = reader.stream().as_ref().as_fd();
        let session = open::open(&self.server, &self.who, client, open).await?;
        if let Err(error) = self.server.audit.opened(&session).await {
            session.close().await;
            return Err(error.into());
        }
        if session.profile.writes_workspace() {
            match resolve::resolve(&session).await {
                Ok(taken) => session.tell(taken.findings),
                // Transactions there say so, and try again.
                Err(error) => tracing::warn!(%error, "what was cut off is not taken back"),
            }
        }
        let opened = Opened {
            session: session.id.clone(),
            workspace: session.workspace.clone(),
            receipt: session.receipt(),
            token: session.survival.as_ref().map(|survival| survival.token.clone()),
            grace_ms: grace_ms(&session),
        };
        self.work.session = Some(session);
        Ok(Reply::Opened(Box::new(opened)))
    }

    /// Takes over a session; says of which calls the replies are wanted.
    pub(super) async fn take_over(
        &mut self,
        resume: Resume,
    ) -> Result<(Box<Resumed>, Vec<RequestId>), WireError> {
        let session = self.server.session(&resume.session);
        self.work = self.server.lobby.take(session, &resume, self.peer).await?;
        let session = self.session()?;
        let calls = resume.calls.as_deref();
        let wanted = |id: &RequestId| calls.is_none_or(|calls| calls.contains(id));
        let mut running = self.work.flights.ids();
        running.retain(wanted);
        let mut finished: Vec<RequestId> =
            session.kept.replies(calls).into_iter().map(|(id, _)| id).collect();
        finished.retain(|id| !running.contains(id));
        let resumed = Resumed {
            session: session.id.clone(),
            workspace: session.workspace.clone(),
            receipt: session.receipt(),
            grace_ms: grace_ms(&session),
            terms: terms(&session)?,
            running: running.clone(),
            finished: finished.clone(),
        };
        running.append(&mut finished);
        Ok((Box::new(resumed), running))
    }

    /// Tells of it, and then what became of the calls. What ends in between is kept, and so told.
    pub(super) async fn resumed(
        &mut self,
        id: RequestId,
        resumed: Box<Resumed>,
        wanted: &[RequestId],
    ) -> Next {
        let next = self.reply(id, Reply::Resumed(resumed)).await;
        self.work.client.redirect(self.outbox.clone());
        let Ok(session) = self.session() else { return next };
        if wanted.is_empty() {
            return next;
        }
        let (kept, outbox) = (session.kept.replies(Some(wanted)), self.outbox.clone());
        self.work.calls.spawn(async move {
            for (id, reply) in kept {
                let message = ServerMessage::Reply { id: Some(id), reply: Reply::clone(&reply) };
                // A client that is gone again may come once more.
                outbox.send(message).await.ok();
            }
        });
        next
    }
}

fn grace_ms(session: &Session) -> u64 {
    let grace = session.survival.as_ref().map_or_else(Default::default, |survival| survival.grace);
    u64::try_from(grace.as_millis()).unwrap_or(u64::MAX)
}

/// What a session was opened with that was resumed, and so can be.
fn terms(session: &Session) -> Result<Open, WireError> {
    let survival = session.survival.as_ref().ok_or_else(lobby::refused)?;
    Ok(survival.terms.clone())
}
