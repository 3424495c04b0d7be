//! Answers approval requests of a session on its own connection, where the profile lets the agent's
//! client do that. Runs in the agent's process.

use crate::{Answer, Error, Registration, Session, client::unexpected};
use palisade_protocol::{ApprovalRequest, HandlerId, Reply, Request};

impl Session {
    /// Registers this connection as an approver for requests of this session.
    /// [`Client::heard`](crate::Client::heard) returns them. It is asked only where nothing can be lost,
    /// below every other approver, and never for a quorum.
    ///
    /// # Errors
    /// `forbidden` if the profile does not have `handlers.agent_client`.
    pub async fn register(&self, registration: Registration) -> Result<HandlerId, Error> {
        let request = Request::Register(registration.to_wire()?);
        let Reply::Registered(registered) = self.client().ask(request).await? else {
            return Err(unexpected("register"));
        };
        Ok(registered.handler)
    }

    /// Answers an approval request of this session, with yes or no.
    ///
    /// # Errors
    /// `stale_approval` if the request is over; `forbidden` if this connection is not registered, or
    /// the answer is more than yes or no.
    pub async fn answer(
        &self,
        request: &ApprovalRequest,
        answer: impl Into<Answer>,
    ) -> Result<(), Error> {
        let request = Request::Answer(Box::new(answer.into().to_wire(request)));
        let Reply::Answered(_) = self.client().ask(request).await? else {
            return Err(unexpected("answer"));
        };
        Ok(())
    }

    /// Removes this connection as an approver.
    ///
    /// # Errors
    /// If the connection is gone, and the approver with it.
    pub async fn withdraw(&self) -> Result<(), Error> {
        let Reply::Done = self.client().ask(Request::Withdraw).await? else {
            return Err(unexpected("withdraw"));
        };
        Ok(())
    }
}
