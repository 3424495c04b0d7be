//! Several calls in one message, and their results in one reply, in order. Broker.

use super::{
    Connection,
    made::{Made, send},
};
use crate::{
    flight::{Flight, Landing},
    kept::{Turn, weight},
    outbox::ToClient,
    outcome::Fault,
    server::Server,
    session::Session,
};
use palisade_protocol::{
    Batch, BatchResults, CallResult, ErrorCode, Reply, RequestId, WireError, limits::MAX_FRAME,
};
use std::sync::Arc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// What the results of a batch may take together; JSON can need several bytes for one.
const MOST: usize = MAX_FRAME / 3;

impl Connection {
    /// Starts the calls of a batch; its reply comes when all are done.
    pub(super) async fn batch(&mut self, id: RequestId, batch: Batch) -> Result<(), WireError> {
        let session = self.session()?;
        self.room(batch.calls.len())?;
        let (cancel, calls) = (CancellationToken::new(), batch.calls.len());
        let flight = Flight { cancel: cancel.clone(), input: None, fault: Fault::default(), calls };
        let landing = self.work.flights.start(id, flight)?;
        let mut made = Vec::with_capacity(calls);
        for call in batch.calls {
            made.push(match session.kept.begin(&call)? {
                Turn::First => {
                    let asked = self.asked(id, call, (cancel.clone(), Fault::default(), None));
                    let server = Arc::clone(&self.server);
                    Made::Now { server, asked: Box::new(asked.await?) }
                }
                Turn::Again(repeat) => Made::Before(repeat),
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
    made: Vec<Made>,
    session: Arc<Session>,
    id: RequestId,
    client: ToClient,
    landing: Landing,
) {
    let keys = made.iter().filter_map(Made::key).collect();
    let mut results: Vec<Option<CallResult>> = made.iter().map(|_| None).collect();
    let mut tasks = JoinSet::new();
    for (place, made) in made.into_iter().enumerate() {
        let session = Arc::clone(&session);
        tasks.spawn(async move { (place, made.result(&session).await) });
    }
    let mut failure = None;
    while let Some(done) = tasks.join_next().await {
        match done {
            Ok((place, Ok(result))) => {
                if let Some(slot) = results.get_mut(place) {
                    *slot = Some(result);
                }
            }
            Ok((_, Err(error))) => failure = Some(error),
            Err(crash) => {
                tracing::error!(%crash, "a call of a batch ended by a defect");
                let message = "a call of the batch ended by a defect";
                failure = Some(WireError::new(ErrorCode::Internal, message, ""));
            }
        }
    }
    let reply = match (failure, results.into_iter().collect::<Option<Vec<_>>>()) {
        (None, Some(results)) => Reply::Batch(BatchResults { results: fitting(results) }),
        (Some(error), _) => Reply::Error(error),
        (None, None) => Reply::Error(WireError::new(
            ErrorCode::Internal,
            "a result of the batch is missing",
            "",
        )),
    };
    send(&server, reply, keys, &session, id, &client, landing).await;
}

/// Takes the output from results that do not fit into one frame with those before them.
fn fitting(mut results: Vec<CallResult>) -> Vec<CallResult> {
    let mut room = MOST;
    for result in &mut results {
        match room.checked_sub(weight(result)) {
            Some(left) => room = left,
            None => {
                for text in [&mut result.output, &mut result.stdout, &mut result.stderr] {
                    text.clear();
                }
                (result.data, result.success) = (None, false);
                result.error = Some(WireError::new(
                    ErrorCode::TooLarge,
                    "the call was made, but its result does not fit beside those before it",
                    "make smaller batches, or this a call of its own",
                ));
            }
        }
    }
    results
}
