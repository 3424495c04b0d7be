//! A session: one workspace, one profile, one cell; what can be called in it.

use crate::{Call, Client, Error, Open, client::unexpected};
use palisade_protocol::{Opened, Receipt, Reply, Request, SessionId, arguments::Bash};
use serde::Serialize;
use std::{path::Path, sync::Arc};

/// A session. Cheap to clone. It lives as long as its connection, at most, unless it was opened
/// [`resumable`](Open::resumable): after [`Error::Disconnected`] make a new one with
/// [`reconnect`](Self::reconnect), or go on with [`resume`](Self::resume).
#[derive(Debug, Clone)]
pub struct Session {
    client: Client,
    open: Open,
    opened: Arc<Opened>,
}

impl Session {
    pub(crate) fn new(client: Client, open: Open, opened: Opened) -> Self {
        Self { client, open, opened: Arc::new(opened) }
    }

    pub(crate) fn opened(&self) -> &Opened {
        &self.opened
    }

    /// Its id, as audit and status name it.
    #[must_use]
    pub fn id(&self) -> &SessionId {
        &self.opened.session
    }

    /// Its workspace with symbolic links resolved: where calls start.
    #[must_use]
    pub fn workspace(&self) -> &Path {
        self.opened.workspace.as_path()
    }

    /// What is enforced, as read back from the kernel.
    #[must_use]
    pub fn receipt(&self) -> &Receipt {
        &self.opened.receipt
    }

    /// What it was asked to be, which [`reconnect`](Self::reconnect) asks for again. Of a resumed
    /// session the daemon says it.
    pub const fn terms(&self) -> &Open {
        &self.open
    }

    /// Its connection.
    #[must_use]
    pub const fn client(&self) -> &Client {
        &self.client
    }

    /// A shell line, run by `bash -c`.
    pub fn bash(&self, command: impl Into<String>) -> Call<Bash> {
        let arguments = Bash { command: Some(command.into()), ..Bash::default() };
        Call::new(self.client.link(), "bash", arguments)
    }

    /// A program and its arguments, run without a shell.
    pub fn exec<I>(&self, argv: I) -> Call<Bash>
    where
        I: IntoIterator,
        I::Item: Into<String>,
    {
        let argv = argv.into_iter().map(Into::into).collect();
        Call::new(self.client.link(), "bash", Bash { argv: Some(argv), ..Bash::default() })
    }

    /// Any tool, by name or alias, with arguments that become a JSON object.
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

    /// Wants to hear of this session's calls on its own connection; [`Client::heard`] has the
    /// events.
    ///
    /// # Errors
    /// If the connection or the session is gone.
    pub async fn subscribe(&self) -> Result<(), Error> {
        self.client.subscribe(self.id()).await
    }

    /// Ends the session and waits until nothing of it is left.
    ///
    /// # Errors
    /// If the connection is gone, and with it the session.
    pub async fn close(&self) -> Result<(), Error> {
        let Reply::Done = self.client.ask(Request::Close).await? else {
            return Err(unexpected("close"));
        };
        Ok(())
    }

    /// A new session on a new connection, both made as these were. What the old one had (current
    /// directory, private `/tmp`, running commands) does not come along.
    ///
    /// # Errors
    /// As for [`Client::reconnect`] and [`Client::open`].
    pub async fn reconnect(&self) -> Result<Self, Error> {
        self.client.reconnect().await?.open(self.open.clone()).await
    }
}
