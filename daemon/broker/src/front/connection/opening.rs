//! Gives a connection its session: a new one, or an earlier one that it resumes. Runs in the
//! broker.

use super::{Connection, Next};
use crate::{
    cells::session::{Session, enforced},
    changes::transaction::resolve,
    front::{lobby, open, wire::Reader},
};
use palisade_policy::Profile;
use palisade_protocol::{
    Open, Opened, Reply, RequestId, Resume, Resumed, ServerMessage, SessionLimits, WireError,
};
use std::os::fd::AsFd as _;

impl Connection {
    /// Opens a new session.
    pub(super) async fn open(&mut self, open: Open, reader: &Reader) -> Result<Reply, WireError> {
        let live = self.server.live();
        self.server.telemetry.audit.room(self.peer.uid, live.quotas.audit_per_day)?;
        if open.options.record {
            live.roles.check_may_record(&self.who)?;
        }
        let client = reader.stream().as_ref().as_fd();
        let session = open::open(&self.server, &self.who, client, open).await?;
        if let Err(error) = self.server.rooms.open(&session).await {
            session.close().await;
            return Err(error.into());
        }
        if let Err(error) = self.server.telemetry.audit.opened(&session, &session.receipt()).await {
            session.close().await;
            self.server.rooms.close(&session).await;
            return Err(error.into());
        }
        if session.profile.writes_workspace() {
            // A commit that is under way in another session was not interrupted.
            if let Some(_commit) = session.files.commits.try_lock().await {
                match resolve::resolve(&session).await {
                    Ok(taken) => session.tell(taken.findings),
                    // A transaction in this session reports it, and tries the rollback again.
                    Err(error) => {
                        tracing::warn!(%error, "an interrupted commit could not be rolled back yet")
                    }
                }
            }
        }
        let (receipt, receipt_digest) = session.opening_receipt().clone();
        let opened = Opened {
            session: session.id.clone(),
            workspace: session.workspace.clone(),
            receipt,
            receipt_digest,
            token: session.survival.as_ref().map(|survival| survival.token.clone()),
            grace_ms: grace_ms(&session),
            limits: limits(&session.profile),
        };
        self.work.session = Some(session);
        Ok(Reply::Opened(Box::new(opened)))
    }

    /// Takes over a session. Also returns the ids of the calls whose replies the client wants.
    pub(super) async fn take_over(
        &mut self,
        resume: Resume,
    ) -> Result<(Box<Resumed>, Vec<RequestId>), WireError> {
        let session = self.server.host.session(&resume.session);
        self.work = self.server.lobby.take(session, &resume, self.peer).await?;
        let session = self.session()?;
        let calls = resume.calls.as_deref();
        let wanted = |id: &RequestId| calls.is_none_or(|calls| calls.contains(id));
        let mut running = self.work.flights.ids();
        running.retain(wanted);
        let mut finished: Vec<RequestId> =
            session.calls.replies.replies(calls).into_iter().map(|(id, _)| id).collect();
        finished.retain(|id| !running.contains(id));
        let receipt = session.receipt();
        let resumed = Resumed {
            session: session.id.clone(),
            workspace: session.workspace.clone(),
            receipt_digest: enforced::digest(&receipt),
            receipt,
            grace_ms: grace_ms(&session),
            terms: terms(&session)?,
            running: running.clone(),
            finished: finished.clone(),
            limits: limits(&session.profile),
        };
        running.append(&mut finished);
        Ok((Box::new(resumed), running))
    }

    /// Replies that the session is resumed, and then sends the results of the calls. The result of
    /// a call that ends in between is stored, and so is sent too.
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
        let (kept, outbox) = (session.calls.replies.replies(Some(wanted)), self.outbox.clone());
        self.work.calls.spawn(async move {
            for (id, reply) in kept {
                let message = ServerMessage::Reply { id: Some(id), reply: Reply::clone(&reply) };
                // A client that is gone again may reconnect once more.
                outbox.send(message.into()).await.ok();
            }
        });
        next
    }
}

fn grace_ms(session: &Session) -> u64 {
    let grace = session.survival.as_ref().map_or_else(Default::default, |survival| survival.grace);
    u64::try_from(grace.as_millis()).unwrap_or(u64::MAX)
}

/// The limits that a profile sets for calls.
fn limits(profile: &Profile) -> SessionLimits {
    SessionLimits {
        timeout_ms: profile.timeout_ms().min(profile.max_timeout_ms()),
        max_timeout_ms: profile.max_timeout_ms(),
        output_bytes: profile.output_bytes(),
        file_bytes: profile.file_bytes(),
        spool_bytes: profile.spool_bytes(),
        jobs: profile.max_jobs(),
        parallel: profile.parallel_calls(),
    }
}

/// The options with which a resumed session was opened.
fn terms(session: &Session) -> Result<Open, WireError> {
    let survival = session.survival.as_ref().ok_or_else(lobby::refused)?;
    Ok(survival.terms.clone())
}
