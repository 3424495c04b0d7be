//! Batches: several calls in one message.

use crate::{Call, CallResult, Error, Session, table::Events};
use palisade_protocol::{Batch as Wire, Reply, Request, limits::MAX_BATCH};
use serde::Serialize;

/// Several calls in one message, at most [`MAX_BATCH`]. They run as if made one after another;
/// read-only calls may run in parallel. The results are in the order of the calls.
///
/// ```
/// # use palisade_client::{Client, Open};
/// # use serde_json::json;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let directory = tempfile::tempdir()?;
/// # let client = Client::embedded().await?;
/// # let session = client.open(Open::new(directory.path())).await?;
/// let results = session
///     .batch()
///     .with(session.bash("echo one"))?
///     .with(session.call("list_files", json!({})))?
///     .run()
///     .await?;
/// assert_eq!(results[0].output, "one\n");
/// assert!(results[1].success);
/// # client.shutdown().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "a batch is made by `run`"]
pub struct Batch {
    session: Session,
    calls: Vec<palisade_protocol::Call>,
}

impl Session {
    /// Creates an empty batch.
    pub fn batch(&self) -> Batch {
        Batch { session: self.clone(), calls: Vec::new() }
    }
}

impl Batch {
    /// Adds a call; it may neither stream nor have an attachment.
    ///
    /// # Errors
    /// If its arguments have no JSON form, or its tool name is not valid.
    pub fn with<A: Serialize>(mut self, call: Call<A>) -> Result<Self, Error> {
        self.calls.push(call.to_wire()?);
        Ok(self)
    }

    /// Makes the calls and returns a result for each, in order.
    ///
    /// # Errors
    /// [`Error::Remote`] if they could not be made at all.
    pub async fn run(self) -> Result<Vec<CallResult>, Error> {
        let link = self.session.client().link();
        let calls = u32::try_from(self.calls.len().min(MAX_BATCH)).unwrap_or(0);
        let request = Request::Batch(Wire { calls: self.calls });
        let entered = link.submit(request, Events::Unwanted, calls).await?;
        match entered.answer.await {
            Ok(Ok(Reply::Batch(batch))) => {
                Ok(batch.results.into_iter().map(|result| link.with_receipt(result)).collect())
            }
            Ok(Ok(Reply::Error(error))) => Err(Error::Remote(error)),
            Ok(Ok(_)) => Err(Error::Protocol("a batch was answered without results".to_owned())),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(link.table.ended()),
        }
    }
}
