//! Resuming a session whose connection is gone.

use crate::{Client, Error, Open, Running, Session, client::unexpected};
use palisade_protocol::{Connections, Jobs, Opened, Reply, Request, RequestId, Resume, SessionId};
use std::fmt;

/// The token to resume a session with. It is a secret: any process of the same user that has it can
/// take over the session.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    /// The session's id.
    pub session: SessionId,
    /// The secret itself.
    pub secret: String,
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Token").field("session", &self.session).finish_non_exhaustive()
    }
}

/// A resumed session and its calls.
#[derive(Debug)]
pub struct Resumed {
    /// The session, on its new connection.
    pub session: Session,
    /// Calls that are still running, and calls that ended meanwhile: await their results. Calls
    /// whose results arrived earlier are not included. Dropping a call that is still running
    /// cancels it.
    pub calls: Vec<Running>,
}

impl Session {
    /// Returns the token to resume the session with; `None` if the session ends with its
    /// connection.
    #[must_use]
    pub fn token(&self) -> Option<Token> {
        let secret = self.opened().token.clone()?;
        Some(Token { session: self.id().clone(), secret })
    }

    /// Resumes the session on a new connection, made as the first one was. Also returns the calls
    /// that had no result when the old connection ended.
    ///
    /// # Errors
    /// [`Error::NotResumable`] if the session was not opened as resumable; otherwise as for
    /// [`Client::reconnect`] and [`Client::resume`].
    pub async fn resume(&self) -> Result<Resumed, Error> {
        let token = self.token().ok_or(Error::NotResumable)?;
        let client = self.client().reconnect().await?;
        client.take_over(&token, Some(self.client().link().table.unanswered())).await
    }
}

impl Client {
    /// Resumes a session instead of opening one. It returns all calls whose results the daemon
    /// still has, even those already received: a token does not say which were.
    ///
    /// # Errors
    /// `not_found` if there is no session to resume: its grace time is over, or the token is wrong.
    pub async fn resume(&self, token: &Token) -> Result<Resumed, Error> {
        self.take_over(token, None).await
    }

    async fn take_over(
        &self,
        token: &Token,
        calls: Option<Vec<RequestId>>,
    ) -> Result<Resumed, Error> {
        let Token { session, secret } = token.clone();
        let request = Request::Resume(Resume { session, token: secret.clone(), calls });
        let Reply::Resumed(resumed) = self.ask(request).await? else {
            return Err(unexpected("resume"));
        };
        let link = self.link();
        let calls = link.table.adopted().into_iter();
        let calls = calls.map(|entered| Running::new(self.link(), entered, None)).collect();
        let opened = Opened {
            session: resumed.session,
            workspace: resumed.workspace,
            receipt: resumed.receipt,
            receipt_digest: resumed.receipt_digest,
            token: Some(secret),
            grace_ms: resumed.grace_ms,
            limits: resumed.limits,
        };
        let open = Open::from_wire(resumed.terms);
        Ok(Resumed { session: Session::new(self.clone(), open, opened), calls })
    }

    /// Lists the jobs of this user's sessions.
    ///
    /// # Errors
    /// If the connection is gone.
    pub async fn jobs(&self) -> Result<Jobs, Error> {
        let Reply::Jobs(jobs) = self.ask(Request::Jobs).await? else {
            return Err(unexpected("jobs"));
        };
        Ok(jobs)
    }

    /// Lists the open network connections of this user's sessions.
    ///
    /// # Errors
    /// If the connection is gone.
    pub async fn connections(&self) -> Result<Connections, Error> {
        let Reply::Connections(connections) = self.ask(Request::Connections).await? else {
            return Err(unexpected("connections"));
        };
        Ok(connections)
    }
}
