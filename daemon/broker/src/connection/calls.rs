//! A connection's calls: started one by one, side by side, with what is sent along. Broker.

use super::{
    Connection, LOOK, Next, hung_up,
    made::{Made, answer},
};
use crate::{
    attachment::Attachment,
    context::{Context, Streaming},
    flight::Flight,
    kept::Turn,
    observers::Audience,
    outcome::Fault,
    quotas::SOON,
    stages::asked::Asked,
    wire::Reader,
};
use palisade_protocol::{
    Call, CallId, ErrorCode, Input, RequestId, WireError, limits::MAX_CALLS_IN_FLIGHT,
};
use std::sync::{Arc, atomic::Ordering};
use tokio::{sync::mpsc, time::sleep};
use tokio_util::sync::CancellationToken;

/// How many pieces of an attachment wait for a slow program.
const PIECES: usize = 8;

impl Connection {
    /// Refuses more calls than may be under way.
    pub(super) fn room(&self, more: usize) -> Result<(), WireError> {
        if self.work.flights.count() + more > MAX_CALLS_IN_FLIGHT {
            return Err(WireError::new(
                ErrorCode::LimitReached,
                format!("{MAX_CALLS_IN_FLIGHT} calls are under way already"),
                "wait for one of them to end",
            )
            .retry_after(SOON));
        }
        let live = self.server.live();
        self.server.audit.room(self.peer.uid, live.quotas.audit_per_day)?;
        if live.quotas.calls.is_none() {
            return Ok(());
        }
        let sessions = self.server.sessions_of(self.peer.uid);
        let running = sessions.iter().map(|session| session.in_flight.load(Ordering::Relaxed));
        live.quotas.check_calls(running.sum(), u32::try_from(more).unwrap_or(u32::MAX))
    }

    /// Starts a call; its reply comes when it is done.
    pub(super) async fn call(&mut self, id: RequestId, call: Call) -> Result<(), WireError> {
        let session = self.session()?;
        self.room(1)?;
        let (sender, input) = call.options.attach.then(|| mpsc::channel(PIECES)).unzip();
        let input = input.map(Attachment::new);
        let (cancel, fault) = (CancellationToken::new(), Fault::default());
        let flight =
            Flight { cancel: cancel.clone(), input: sender, fault: fault.clone(), calls: 1 };
        let landing = self.work.flights.start(id, flight)?;
        let made = match session.kept.begin(&call)? {
            Turn::First => {
                let asked = self.asked(id, call, (cancel, fault, input)).await?;
                Made::Now { server: Arc::clone(&self.server), asked: Box::new(asked) }
            }
            Turn::Again(repeat) => Made::Before(repeat),
        };
        let server = Arc::clone(&self.server);
        let task = answer(server, made, session, id, self.work.client.clone(), landing);
        let task = self.work.calls.spawn(task);
        self.work.tasks.insert(task.id(), id);
        Ok(())
    }

    /// A call with its place among those of its session.
    pub(super) async fn asked(
        &self,
        id: RequestId,
        call: Call,
        (cancel, fault, input): (CancellationToken, Fault, Option<Attachment>),
    ) -> Result<Asked, WireError> {
        let started = std::time::Instant::now();
        let session = self.session()?;
        session.calls.fetch_add(1, Ordering::Relaxed);
        session.in_flight.fetch_add(1, Ordering::Relaxed);
        let place = session.turns.line_up().await;
        let context = Context {
            spools: self.server.spools.clone(),
            call_id: call_id()?,
            request: id,
            cancel,
            client: self.work.client.clone(),
            streaming: if call.options.stream { Streaming::Live } else { Streaming::ResultOnly },
            input,
            tap: None,
            observers: Arc::clone(&self.server.observers),
            audience: Audience::Everybody,
            session,
        };
        Ok(Asked { call, context, place, started, fault })
    }

    /// Hands a piece of an attachment to its call. While the call can not take it nothing else is
    /// read from this client, which is what slows it down; but its leaving is noticed.
    pub(super) async fn input(&self, input: Input, reader: &Reader) -> Next {
        let Some(sender) = self.work.flights.input(&input) else { return Next::Continue };
        loop {
            tokio::select! {
                permit = sender.reserve() => {
                    // A call that ended takes no more; that is its own result's to tell.
                    if let Ok(permit) = permit {
                        permit.send(input);
                    }
                    return Next::Continue;
                }
                () = sleep(LOOK) => {
                    if hung_up(reader.stream().as_ref()) {
                        return Next::End;
                    }
                }
            }
        }
    }
}

fn call_id() -> Result<CallId, WireError> {
    CallId::try_from(uuid::Uuid::now_v7().to_string())
        .map_err(|error| WireError::new(ErrorCode::Internal, error.to_string(), ""))
}
