//! A private daemon whose only client approves its own calls. It is for programs that this command
//! line runs itself, never for an agent's.

use crate::{
    failure::Failure,
    operator::answer::{Verdict, answer},
};
use palisade_client::{Client, Embedded, Operator, OperatorEvent, Registration};
use tokio::task::AbortHandle;

/// While this value lives, every approval request is approved.
#[derive(Debug)]
pub(crate) struct AutoApprover(AbortHandle);

impl Drop for AutoApprover {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Starts a private daemon, and approves everything under this approver name.
pub(crate) async fn start(
    private: Embedded,
    name: &str,
) -> Result<(Client, AutoApprover), Failure> {
    let (client, operator) = private.with_operator().await?;
    operator.register(Registration::new(name)).await?;
    Ok((client, AutoApprover(tokio::spawn(approve(operator)).abort_handle())))
}

async fn approve(operator: Operator) {
    while let Some(event) = operator.next().await {
        if let OperatorEvent::Question(question) = event {
            let given = answer(&question, Verdict::Approve, "");
            // A request that could not be answered is denied, and the call's result says so.
            drop(operator.answer(&question, given).await);
        }
    }
}
