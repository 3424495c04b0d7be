//! A private daemon whose one client approves what it asks itself: for programs of this command
//! line's own, and never for an agent's.

use crate::{
    failure::Failure,
    operator::answer::{Verdict, answer},
};
use palisade_client::{Client, Embedded, Operator, OperatorEvent, Registration};
use tokio::task::AbortHandle;

/// Whatever is asked is approved until this is dropped.
#[derive(Debug)]
pub(crate) struct Approving(AbortHandle);

impl Drop for Approving {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Starts a private daemon, and approves by this name.
pub(crate) async fn start(private: Embedded, name: &str) -> Result<(Client, Approving), Failure> {
    let (client, operator) = private.with_operator().await?;
    operator.register(Registration::new(name)).await?;
    Ok((client, Approving(tokio::spawn(approve(operator)).abort_handle())))
}

async fn approve(operator: Operator) {
    while let Some(event) = operator.next().await {
        if let OperatorEvent::Question(question) = event {
            let given = answer(&question, Verdict::Approve, "");
            // A question that could not be answered is denied, and the call's result says so.
            drop(operator.answer(&question, given).await);
        }
    }
}
