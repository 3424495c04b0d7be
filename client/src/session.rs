//! A session: one workspace, one profile, one cell, and the calls that can be made in it.

use crate::{Call, Client, Error, Open, client::unexpected};
use palisade_protocol::{
    Opened, Receipt, Reply, Request, SessionId, SessionLimits, arguments::Bash,
};
use serde::Serialize;
use std::{path::Path, sync::Arc};

/// A session. It is cheap to clone. It lives at most as long as its connection, unless it was
/// opened [`resumable`](Open::resumable). After [`Error::Disconnected`], create a new one with
/// [`reconnect`](Self::reconnect) or continue with [`resume`](Self::resume).
#[derive(Debug, Clone)]
pub struct Session {
    client: Client,
    open: Open,
    opened: Arc<Opened>,
}

impl Session {
    pub(crate) fn new(client: Client, open: Open, opened: Opened) -> Self {
        client.link().set_receipt(&opened.receipt_digest, &opened.receipt);
        Self { client, open, opened: Arc::new(opened) }
    }

    pub(crate) fn opened(&self) -> &Opened {
        &self.opened
    }

    /// Returns the session's id, as used in the audit log and status.
    #[must_use]
    pub fn id(&self) -> &SessionId {
        &self.opened.session
    }

    /// Returns the session's workspace, with symbolic links resolved. Calls start there.
    #[must_use]
    pub fn workspace(&self) -> &Path {
        self.opened.workspace.as_path()
    }

    /// Returns the confinement in force, as read back from the kernel.
    #[must_use]
    pub fn receipt(&self) -> &Receipt {
        &self.opened.receipt
    }

    /// Returns the limits of the session's calls.
    #[must_use]
    pub fn limits(&self) -> &SessionLimits {
        &self.opened.limits
    }

    /// Returns the options that the session was opened with, which [`reconnect`](Self::reconnect)
    /// uses again. For a resumed session they come from the daemon.
    pub const fn terms(&self) -> &Open {
        &self.open
    }

    /// Returns the session's connection.
    #[must_use]
    pub const fn client(&self) -> &Client {
        &self.client
    }

    /// Prepares a call of a shell line, run by `bash -c`.
    pub fn bash(&self, command: impl Into<String>) -> Call<Bash> {
        let arguments = Bash { command: Some(command.into()), ..Bash::default() };
        Call::new(self.client.link(), "bash", arguments)
    }

    /// Prepares a call of a program with arguments, run without a shell.
    pub fn exec<I>(&self, argv: I) -> Call<Bash>
    where
        I: IntoIterator,
        I::Item: Into<String>,
    {
        let argv = argv.into_iter().map(Into::into).collect();
        Call::new(self.client.link(), "bash", Bash { argv: Some(argv), ..Bash::default() })
    }

    /// Prepares a call of any tool, by name or alias. The arguments must serialize to a JSON
    /// object.
    ///
    /// ```
    /// # use palisade_client::{Client, Open, arguments::ListFiles};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let directory = tempfile::tempdir()?;
    /// # let client = Client::embedded().await?;
    /// # let session = client.open(Open::new(directory.path())).await?;
    /// let typed = session.call("list_files", ListFiles::default()).await?;
    /// let loose = session.call("LS", serde_json::json!({"recursive": true})).await?;
    /// assert!(typed.success && loose.success);
    /// # client.shutdown().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn call<A: Serialize>(&self, tool: impl AsRef<str>, arguments: A) -> Call<A> {
        Call::new(self.client.link(), tool.as_ref(), arguments)
    }

    /// Subscribes to this session's calls on its own connection; [`Client::heard`] returns the
    /// events.
    ///
    /// # Errors
    /// If the connection or the session is gone.
    pub async fn subscribe(&self) -> Result<(), Error> {
        self.client.subscribe(self.id()).await
    }

    /// Ends the session and waits until all its processes are gone.
    ///
    /// # Errors
    /// If the connection is gone, and with it the session.
    pub async fn close(&self) -> Result<(), Error> {
        let Reply::Done = self.client.ask(Request::Close).await? else {
            return Err(unexpected("close"));
        };
        Ok(())
    }

    /// Opens a new session on a new connection, with the same options. The old session's state
    /// (current directory, private `/tmp`, running commands) is not carried over.
    ///
    /// # Errors
    /// As for [`Client::reconnect`] and [`Client::open`].
    pub async fn reconnect(&self) -> Result<Self, Error> {
        self.client.reconnect().await?.open(self.open.clone()).await
    }
}
