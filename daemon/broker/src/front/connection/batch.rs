//! Several calls in one message, and their results in one reply, in order. Runs in the broker.

use super::{
    Connection,
    made::{CountedCall, NewOrRepeatedCall, send},
};
use crate::{
    base::{outbox::ClientOutbox, outcome::Fault},
    cells::{
        kept::{IdempotencyCheck, size, weight},
        session::Session,
    },
    front::{
        flight::{CallHandle, CallHandleGuard},
        server::Server,
    },
};
use palisade_protocol::{
    Batch, BatchResults, CallResult, ErrorCode, Reply, RequestId, WireError, limits::MAX_FRAME,
};
use std::sync::Arc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// The most bytes of all results of a batch together; JSON can need several bytes for one.
const MOST: usize = MAX_FRAME / 3;

impl Connection {
    /// Starts the calls of a batch; the reply is sent when all have ended.
    pub(super) async fn batch(&mut self, id: RequestId, batch: Batch) -> Result<(), WireError> {
        let session = self.session()?;
        self.room(batch.calls.len())?;
        let (cancel, calls) = (CancellationToken::new(), batch.calls.len());
        let flight =
            CallHandle { cancel: cancel.clone(), input: None, fault: Fault::default(), calls };
        let landing = self.work.flights.start(id, flight)?;
        let mut made = Vec::with_capacity(calls);
        for call in batch.calls {
            let bytes = self.hold_bytes(&session, &call)?;
            made.push(match session.calls.replies.begin(&call)? {
                IdempotencyCheck::First => {
                    let underway = CountedCall::new(&session, &call, bytes);
                    let asked = self.asked(id, call, (cancel.clone(), Fault::default(), None));
                    let server = Arc::clone(&self.server);
                    NewOrRepeatedCall::Now { server, asked: Box::new(asked.await?), underway }
                }
                IdempotencyCheck::Again(repeat) => {
                    NewOrRepeatedCall::Before { repeat, session: Arc::clone(&session) }
                }
            });
        }
        let server = Arc::clone(&self.server);
        let task = answer(server, made, session, id, self.work.client.clone(), landing);
        let task = self.work.calls.spawn(task);
        self.work.tasks.insert(task.id(), id);
        Ok(())
    }
}

/// Serves the calls of a batch and sends their results.
async fn answer(
    server: Arc<Server>,
    made: Vec<NewOrRepeatedCall>,
    session: Arc<Session>,
    id: RequestId,
    client: ClientOutbox,
    landing: CallHandleGuard,
) {
    let keys = made.iter().filter_map(NewOrRepeatedCall::key).collect();
    let mut results: Vec<Option<CallResult>> = made.iter().map(|_| None).collect();
    let mut tasks = JoinSet::new();
    for (place, made) in made.into_iter().enumerate() {
        tasks.spawn(async move { (place, made.result().await) });
    }
    let mut failure = None;
    while let Some(done) = tasks.join_next().await {
        match done {
            Ok((place, Ok((result, _held)))) => {
                if let Some(slot) = results.get_mut(place) {
                    *slot = Some(result);
                }
                // What can not be sent does not wait for the other calls in memory.
                fit(results.iter_mut().flatten());
            }
            Ok((_, Err(error))) => failure = Some(error),
            Err(crash) => {
                tracing::error!(%crash, "a call of a batch failed because of a bug in the daemon");
                let message = "a call of the batch failed because of a bug in the daemon";
                failure = Some(WireError::new(ErrorCode::Internal, message, ""));
            }
        }
    }
    let reply = match (failure, results.into_iter().collect::<Option<Vec<_>>>()) {
        (None, Some(results)) => Reply::Batch(BatchResults { results }),
        (Some(error), _) => Reply::Error(error),
        (None, None) => Reply::Error(WireError::new(
            ErrorCode::Internal,
            "a result of the batch is missing",
            "",
        )),
    };
    let held = session.calls.results.hold(size(&reply));
    send(&server, (reply, Some(held)), keys, &session, id, &client, landing).await;
}

/// Removes the output from results that do not fit into one frame together with those before them.
fn fit<'a>(results: impl Iterator<Item = &'a mut CallResult>) {
    let mut room = MOST;
    for result in results {
        match room.checked_sub(weight(result)) {
            Some(left) => room = left,
            None => {
                for text in [&mut result.output, &mut result.stdout, &mut result.stderr] {
                    text.clear();
                }
                (result.data, result.success) = (None, false);
                result.error = Some(WireError::new(
                    ErrorCode::TooLarge,
                    "the call was made, but its result does not fit into the reply of the batch",
                    "make smaller batches, or make this call on its own",
                ));
            }
        }
    }
}
