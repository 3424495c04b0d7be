//! Approves the calls that this command line makes itself, never those of an agent: all calls of a
//! private daemon, or those of one session.

use crate::{
    failure::Failure,
    operator::answer::{Verdict, answer},
};
use palisade_client::{Client, Embedded, Error, Operator, OperatorEvent, Registration, SessionId};
use tokio::task::AbortHandle;

/// While this value lives, every approval request that reaches it is approved.
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

/// Approves the calls of one session under this approver name. The daemon asks about no other
/// session.
pub(crate) async fn approve_session(
    operator: Operator,
    session: &SessionId,
    name: &str,
) -> Result<AutoApprover, Error> {
    // The highest priority: other approvers need not answer.
    operator.register(Registration::new(name).session(session).priority(i32::MAX)).await?;
    Ok(AutoApprover(tokio::spawn(approve(operator)).abort_handle()))
}

async fn approve(operator: Operator) {
    while let Some(event) = operator.next().await {
        if let OperatorEvent::ApprovalRequest(request) = event {
            let given = answer(&request, Verdict::Approve, "");
            // A request that could not be answered is denied, and the call's result says so.
            drop(operator.answer(&request, given).await);
        }
    }
}
