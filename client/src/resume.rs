//! Going on with a session whose connection is gone.

use crate::{Client, Error, Open, Running, Session, client::unexpected};
use palisade_protocol::{Jobs, Opened, Reply, Request, RequestId, Resume, SessionId};
use std::fmt;

/// What a session is taken over with. A secret: whoever of the same user has it has the session.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    /// Which session.
    pub session: SessionId,
    /// The secret itself.
    pub secret: String,
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Token").field("session", &self.session).finish_non_exhaustive()
    }
}

/// A session that was taken over, and its calls.
#[derive(Debug)]
pub struct Resumed {
    /// The session, on its new connection.
    pub session: Session,
    /// Calls that are under way, and calls that ended meanwhile: await their results. Calls whose
    /// results came before are not among them. Dropped, a call that is under way is cancelled.
    pub calls: Vec<Running>,
}

impl Session {
    /// What it can be taken over with; none if it ends with its connection.
    #[must_use]
    pub fn token(&self) -> Option<Token> {
        let secret = self.opened().token.clone()?;
        Some(Token { session: self.id().clone(), secret })
    }

    /// The same session on a new connection, made as the first one was, and the calls that had no
    /// result when that ended.
    ///
    /// # Errors
    /// [`Error::NotResumable`] if it was not opened for that; else as [`Client::reconnect`] and
    /// [`Client::resume`].
    pub async fn resume(&self) -> Result<Resumed, Error> {
        let token = self.token().ok_or(Error::NotResumable)?;
        let client = self.client().reconnect().await?;
        client.take_over(&token, Some(self.client().link().table.unanswered())).await
    }
}

impl Client {
    /// Takes over a session instead of opening one. The calls that come with it are all whose
    /// results the daemon still has, heard before or not: a token does not say which were.
    ///
    /// # Errors
    /// `not_found` if there is none to resume: its time is over, or the token is not its own.
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
            token: Some(secret),
            grace_ms: resumed.grace_ms,
        };
        let open = Open::from_wire(resumed.terms);
        Ok(Resumed { session: Session::new(self.clone(), open, opened), calls })
    }

    /// The jobs of this user's sessions.
    ///
    /// # Errors
    /// If the connection is gone.
    pub async fn jobs(&self) -> Result<Jobs, Error> {
        let Reply::Jobs(jobs) = self.ask(Request::Jobs).await? else {
            return Err(unexpected("jobs"));
        };
        Ok(jobs)
    }
}
