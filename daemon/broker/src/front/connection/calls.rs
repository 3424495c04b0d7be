//! Starts the calls of a connection, which then run in parallel, and passes on their attachments.
//! Runs in the broker.

use super::{
    Connection, LOOK, Next,
    made::{CountedCall, NewOrRepeatedCall, answer},
    peer_closed,
};
use crate::{
    base::{attachment::Attachment, census::HeldBytes, outcome::Fault, quotas::SOON},
    cells::{
        context::{Context, ProgressReports, Streaming},
        kept::IdempotencyCheck,
        session::Session,
    },
    front::{flight::CallHandle, wire::Reader},
    pipeline::stages::asked::RequestedCall,
    telemetry::observers::EventAudience,
};
use palisade_protocol::{
    Call, CallId, ErrorCode, Input, RequestId, WireError, limits::MAX_CALLS_IN_FLIGHT,
};
use std::sync::{Arc, atomic::Ordering};
use tokio::{sync::mpsc, time::sleep};
use tokio_util::sync::CancellationToken;

/// The number of pieces of an attachment that are queued for a slow program.
const PIECES: usize = 8;

impl Connection {
    /// Refuses calls over the limits: those under way and the user's quotas.
    pub(super) fn room(&self, more: usize) -> Result<(), WireError> {
        // A call whose result has no place in the queue yet, because the client does not read, is one
        // of them.
        if self.work.flights.count() + more > MAX_CALLS_IN_FLIGHT {
            return Err(WireError::new(
                ErrorCode::LimitReached,
                format!("{MAX_CALLS_IN_FLIGHT} calls are already under way"),
                "wait for one of them to end",
            )
            .retry_after(SOON));
        }
        let live = self.server.live();
        self.server.telemetry.audit.room(self.peer.uid, live.quotas.audit_per_day)?;
        if live.quotas.calls.is_none() {
            return Ok(());
        }
        let sessions = self.server.host.sessions_of(self.peer.uid);
        let running =
            sessions.iter().map(|session| session.calls.in_flight.load(Ordering::Relaxed));
        live.quotas.check_calls(running.sum(), u32::try_from(more).unwrap_or(u32::MAX))
    }

    /// Counts the bytes of a call as its session's and its user's, until the call has ended.
    pub(super) fn hold_bytes(
        &self,
        session: &Session,
        call: &Call,
    ) -> Result<HeldBytes, WireError> {
        let bytes = u64::try_from(call.arguments.as_str().len()).unwrap_or(u64::MAX);
        let census = &self.server.host.census;
        census.hold_bytes(self.peer.uid, session.number(), bytes).map_err(WireError::from)
    }

    /// Starts a call; the reply is sent when it has ended.
    pub(super) async fn call(&mut self, id: RequestId, call: Call) -> Result<(), WireError> {
        let session = self.session()?;
        self.room(1)?;
        let bytes = self.hold_bytes(&session, &call)?;
        let (sender, input) = call.options.attach.then(|| mpsc::channel(PIECES)).unzip();
        let input = input.map(Attachment::new);
        let (cancel, fault) = (CancellationToken::new(), Fault::default());
        let flight =
            CallHandle { cancel: cancel.clone(), input: sender, fault: fault.clone(), calls: 1 };
        let landing = self.work.flights.start(id, flight)?;
        let made = match session.calls.replies.begin(&call)? {
            IdempotencyCheck::First => {
                let underway = CountedCall::new(&session, &call, bytes);
                let asked = Box::new(self.asked(id, call, (cancel, fault, input)).await?);
                NewOrRepeatedCall::Now { server: Arc::clone(&self.server), asked, underway }
            }
            IdempotencyCheck::Again(repeat) => {
                NewOrRepeatedCall::Before { repeat, session: Arc::clone(&session) }
            }
        };
        let server = Arc::clone(&self.server);
        let task = answer(server, made, session, id, self.work.client.clone(), landing);
        let task = self.work.calls.spawn(task);
        self.work.tasks.insert(task.id(), id);
        Ok(())
    }

    /// Gives a call its id and its place in the order of its session's calls.
    pub(super) async fn asked(
        &self,
        id: RequestId,
        call: Call,
        (cancel, fault, input): (CancellationToken, Fault, Option<Attachment>),
    ) -> Result<RequestedCall, WireError> {
        let started = std::time::Instant::now();
        let session = self.session()?;
        session.calls.total.fetch_add(1, Ordering::Relaxed);
        let place = session.calls.turns.enqueue();
        let context = Context {
            spools: self.server.spools.clone(),
            call_id: call_id()?,
            request: id,
            cancel,
            client: self.work.client.clone(),
            streaming: if call.options.stream { Streaming::Live } else { Streaming::ResultOnly },
            reports: if call.options.progress {
                ProgressReports::All
            } else {
                ProgressReports::WithOutput
            },
            input,
            tap: None,
            observers: Arc::clone(&self.server.telemetry.observers),
            audience: EventAudience::Everybody,
            room: session.calls.result_room(),
            session,
        };
        Ok(RequestedCall { call, context, place, started, fault })
    }

    /// Passes a piece of an attachment to its call. While the call can not take it, nothing else is
    /// read from this client, which slows the client down. A disconnect is still noticed.
    pub(super) async fn input(&self, input: Input, reader: &Reader) -> Next {
        let Some(sender) = self.work.flights.input(&input) else { return Next::Continue };
        loop {
            tokio::select! {
                permit = sender.reserve() => {
                    // A call that has ended takes no more pieces; its result says why.
                    if let Ok(permit) = permit {
                        permit.send(input);
                    }
                    return Next::Continue;
                }
                () = sleep(LOOK) => {
                    if peer_closed(reader.stream().as_ref()) {
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
