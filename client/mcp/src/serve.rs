//! The life of the server: it starts, serves until the end of its input or a signal, and ends the
//! session with everything that runs in it.

use crate::{
    http,
    listen::{self, ListenError, Listener},
    server::{Server, Shared},
    servers::{Servers, ServersError},
    sessions::{ClientApproval, Sessions},
    transport::Lines,
};
use palisade_options::{McpOptions, WorkspaceError};
use rmcp::service::{ServerInitializeError, serve_server};
use std::{io, sync::Arc, time::Duration};
use tokio::{
    signal::unix::{SignalKind, signal},
    time::timeout,
};
use tokio_util::sync::CancellationToken;

/// The time that the processes of a session may take to end with it.
const GRACE: Duration = Duration::from_secs(10);

/// The reason the server can not serve.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ServeError {
    #[error("can not start: {0}")]
    Start(#[source] io::Error),
    #[error("{0}; {hint}", hint = WorkspaceError::HINT)]
    Workspace(#[from] WorkspaceError),
    #[error(transparent)]
    Listen(#[from] ListenError),
    #[error(transparent)]
    Servers(#[from] ServersError),
    #[error("the client's first message is not understood: {0}")]
    Handshake(#[source] Box<ServerInitializeError>),
}

/// Serves until the end of standard input, or a signal.
pub(crate) fn run(options: McpOptions) -> Result<(), ServeError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(ServeError::Start)?;
    let served = runtime.block_on(serve(options));
    // A pending read of standard input must not delay the exit.
    runtime.shutdown_background();
    served
}

async fn serve(options: McpOptions) -> Result<(), ServeError> {
    let approval = match options.elicit {
        true => ClientApproval::Elicited,
        false => ClientApproval::Off,
    };
    let sessions = Sessions::new(&options.terms, approval)?;
    let ended = CancellationToken::new();
    let max_output = usize::try_from(options.max_output).unwrap_or(usize::MAX);
    let file = options.servers.as_deref();
    let servers = Servers::start(file, &options.terms.connection, max_output)?;
    let shared = Arc::new(Shared::new(&options, (sessions, servers), ended.clone()));
    let signalled = signalled().map_err(ServeError::Start)?;
    let served = if let Some(address) = &options.listen {
        let token = listen::token(address, options.token_file.as_deref())?;
        let listener = Listener::bind(address).await?;
        tokio::select! {
            () = http::serve(&listener, token, Arc::clone(&shared)) => {}
            () = signalled => {}
        }
        Ok(())
    } else {
        let lines = Lines::new(tokio::io::stdin(), tokio::io::stdout(), ended.clone());
        tokio::select! {
            served = converse(Server::new(Arc::clone(&shared)), lines) => served,
            () = signalled => Ok(()),
        }
    };
    ended.cancel();
    if timeout(GRACE, shared.close()).await.is_err() {
        eprintln!(
            "warning: the session did not end within {GRACE:?}; the daemon goes on ending it"
        );
    }
    served
}

async fn converse(
    server: Server,
    lines: Lines<tokio::io::Stdin, tokio::io::Stdout>,
) -> Result<(), ServeError> {
    match serve_server(server, lines).await {
        Ok(running) => {
            // The reason for its end makes no difference: the session ends with it.
            drop(running.waiting().await);
            Ok(())
        }
        // A client may look at the program and leave.
        Err(ServerInitializeError::ConnectionClosed(_)) => Ok(()),
        Err(error) => Err(ServeError::Handshake(Box::new(error))),
    }
}

/// Watches for the signals that end a program; the future is ready at the first.
pub(crate) fn signalled() -> io::Result<impl Future<Output = ()>> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hangup = signal(SignalKind::hangup())?;
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
        }
    })
}
