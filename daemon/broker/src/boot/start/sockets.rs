//! The daemon's sockets: those it creates, those that the service manager passes, or standard input
//! and output. Runs in the broker, before privilege is given up.

use super::error::StartError;
use crate::{
    boot::{
        privilege::{self, PrivilegeError},
        settings::{ClientEndpoint, OperatorEndpoint, Settings},
    },
    front::{
        listen::{self, BoundSocket, SocketAccess},
        scrape,
    },
};
use std::{
    ffi::OsString,
    os::{
        fd::{BorrowedFd, OwnedFd},
        unix::net::{UnixListener, UnixStream},
    },
    path::{Path, PathBuf},
    time::Duration,
};

/// The number of clients that may wait to be accepted by a lingering daemon.
const BACKLOG: i32 = 128;

/// The sockets for others than clients.
#[derive(Debug, Default)]
pub(super) struct OtherSockets {
    pub(super) operators: Option<ServiceSocket>,
    pub(super) providers: Option<ServiceSocket>,
    pub(super) scrapes: Option<scrape::Socket>,
}

/// A socket on which clients, operators or providers connect.
#[derive(Debug)]
pub(super) enum ServiceSocket {
    Bound(BoundSocket),
    Activated(UnixListener),
    Embedded(UnixStream),
    /// The socket of a daemon that a command left running, and the time after which it ends.
    Lingering(UnixListener, Duration),
}

impl ServiceSocket {
    /// Returns the directory of a lingering daemon's socket, in which other such sockets may be.
    pub(super) fn lingering_directory(&self) -> Option<PathBuf> {
        match self {
            Self::Lingering(listener, _) => {
                let address = listener.local_addr().ok()?;
                address.as_pathname().and_then(Path::parent).map(Path::to_owned)
            }
            Self::Bound(_) | Self::Activated(_) | Self::Embedded(_) => None,
        }
    }

    /// The option by which the launcher learns from which connections it may take a client's
    /// identity. A listener without a path has none, and the launcher then refuses.
    pub(super) fn launcher_option(&self) -> Result<Option<(&'static str, OsString)>, StartError> {
        let accepted_on = |path: &Path| Some(("--agent-socket", path.as_os_str().to_owned()));
        match self {
            Self::Bound(bound) => Ok(accepted_on(&bound.path)),
            Self::Activated(listener) | Self::Lingering(listener, _) => {
                let address = listener
                    .local_addr()
                    .map_err(|error| StartError::Io("inspect the listening socket", error))?;
                Ok(address.as_pathname().and_then(accepted_on))
            }
            Self::Embedded(client) => {
                let cookie = rustix::net::sockopt::socket_cookie(client).map_err(|errno| {
                    StartError::Io("identify the client's socket", errno.into())
                })?;
                Ok(Some(("--client-cookie", cookie.to_string().into())))
            }
        }
    }
}

/// Opens the sockets of clients, operators, providers and scrapes.
pub(super) fn open(settings: &Settings) -> Result<(ServiceSocket, OtherSockets), StartError> {
    let path = match &settings.client_endpoint {
        ClientEndpoint::Socket(path) => path,
        ClientEndpoint::Embedded => {
            let operators = match &settings.operator_endpoint {
                OperatorEndpoint::Stdout => Some(ServiceSocket::Embedded(take_stdout()?)),
                OperatorEndpoint::Socket(_) | OperatorEndpoint::None => None,
            };
            let beside = OtherSockets { operators, ..OtherSockets::default() };
            let clients = match settings.linger {
                Some(rest) => ServiceSocket::Lingering(take_listener()?, rest),
                None => ServiceSocket::Embedded(take_client()?),
            };
            return Ok((clients, beside));
        }
    };
    if let Some(handed) = passed_sockets()? {
        return match &settings.metrics {
            Some(_) => Err(StartError::MetricsOfService),
            None => Ok(handed),
        };
    }
    let audience = |group: fn() -> Result<Option<u32>, PrivilegeError>| match settings.account {
        Some(_) => group().map(SocketAccess::Group),
        None => Ok(SocketAccess::Owner),
    };
    let clients = ServiceSocket::Bound(listen::bind(path, audience(privilege::client_group)?)?);
    let operators = match &settings.operator_endpoint {
        OperatorEndpoint::Socket(path) => {
            let audience = audience(privilege::operator_group)?;
            Some(ServiceSocket::Bound(listen::bind(path, audience)?))
        }
        OperatorEndpoint::Stdout | OperatorEndpoint::None => None,
    };
    let providers = match &settings.provider_socket {
        Some(path) => {
            let audience = audience(privilege::provider_group)?;
            Some(ServiceSocket::Bound(listen::bind(path, audience)?))
        }
        None => None,
    };
    let scrapes = match &settings.metrics {
        Some(address) => Some(scrape::bind(address, audience(privilege::operator_group)?)?),
        None => None,
    };
    Ok((clients, OtherSockets { operators, providers, scrapes }))
}

/// Returns the sockets that the service manager passes, by their names. One without a known name is
/// taken as the agent socket.
fn passed_sockets() -> Result<Option<(ServiceSocket, OtherSockets)>, StartError> {
    let names = std::env::var("LISTEN_FDNAMES").unwrap_or_default();
    let mut handed = listenfd::ListenFd::from_env();
    if handed.len() == 0 {
        return Ok(None);
    }
    let place = |name: &str| names.split(':').position(|known| known == name);
    let mut take = |index| {
        let taken = handed
            .take_unix_listener(index)
            .map_err(|error| StartError::Io("use the socket of the service manager", error))?;
        let address = taken.as_ref().and_then(|listener| listener.local_addr().ok());
        if let Some(path) = address.as_ref().and_then(|address| address.as_pathname()) {
            listen::check(path)?;
        }
        Ok::<_, StartError>(taken)
    };
    let (operators, providers) = (place("operator"), place("provider"));
    let scrapes = place("metrics");
    let named = [operators, providers, scrapes];
    let nameless = (0..4).find(|index| !named.contains(&Some(*index)));
    let agents = place("agent").or(nameless).unwrap_or(0);
    let agents = take(agents)?.ok_or(StartError::NotHanded)?;
    let operators = operators.map(&mut take).transpose()?.flatten();
    let providers = providers.map(&mut take).transpose()?.flatten();
    if operators.is_none() {
        tracing::warn!(
            "the service manager passed no operator socket: every call that needs approval is \
             denied"
        );
    }
    let beside = OtherSockets {
        operators: operators.map(ServiceSocket::Activated),
        providers: providers.map(ServiceSocket::Activated),
        scrapes: passed_metrics_socket(&mut handed, scrapes)?,
    };
    Ok(Some((ServiceSocket::Activated(agents), beside)))
}

/// Returns the socket for scrapes that the service manager passes, Unix or TCP.
fn passed_metrics_socket(
    handed: &mut listenfd::ListenFd,
    place: Option<usize>,
) -> Result<Option<scrape::Socket>, StartError> {
    let Some(index) = place else { return Ok(None) };
    let taken = match handed.take_unix_listener(index) {
        Ok(unix) => Ok(unix.map(scrape::Socket::Unix)),
        Err(_) => handed.take_tcp_listener(index).map(|tcp| tcp.map(scrape::Socket::Tcp)),
    };
    taken.map_err(|error| StartError::Io("use the metrics socket of the service manager", error))
}

/// Duplicates the client's socket on standard input, to report why the client is not served.
pub(super) fn client() -> Option<UnixStream> {
    let stdin = rustix::stdio::stdin();
    let stream = is_stream(stdin).then(|| rustix::io::fcntl_dupfd_cloexec(stdin, 3));
    stream?.ok().map(UnixStream::from)
}

/// Takes the client's socket from standard input.
fn take_client() -> Result<UnixStream, StartError> {
    match is_stream(rustix::stdio::stdin()) {
        true => Ok(take_stdin()?.into()),
        false => Err(StartError::NotEmbedded),
    }
}

/// Takes the listening socket of a lingering daemon from standard input. Refuses one that another user
/// could replace.
fn take_listener() -> Result<UnixListener, StartError> {
    let stdin = rustix::stdio::stdin();
    let is_listening = rustix::net::sockopt::socket_domain(stdin)
        == Ok(rustix::net::AddressFamily::UNIX)
        && rustix::net::sockopt::socket_acceptconn(stdin) == Ok(true);
    if !is_listening {
        return Err(StartError::NotListening);
    }
    let listener = UnixListener::from(take_stdin()?);
    let failed = |error| StartError::Io("use the listening socket", error);
    let address = listener.local_addr().map_err(failed)?;
    listen::check(address.as_pathname().ok_or(StartError::NotListening)?)?;
    // From here on, the kernel names this process to those who connect, not the one that made the socket.
    rustix::net::listen(&listener, BACKLOG).map_err(|errno| failed(errno.into()))?;
    Ok(listener)
}

/// Takes the socket from standard input, which becomes `/dev/null`.
fn take_stdin() -> Result<OwnedFd, StartError> {
    let failed =
        |errno: rustix::io::Errno| StartError::Io("take over standard input", errno.into());
    let stdin = rustix::stdio::stdin();
    let socket = rustix::io::fcntl_dupfd_cloexec(stdin, 3).map_err(failed)?;
    let flags = rustix::fs::OFlags::RDONLY;
    let null = rustix::fs::open("/dev/null", flags, rustix::fs::Mode::empty()).map_err(failed)?;
    rustix::stdio::dup2_stdin(&null).map_err(failed)?;
    Ok(socket)
}

/// Takes the operator's socket from standard output, which becomes `/dev/null`.
fn take_stdout() -> Result<UnixStream, StartError> {
    let failed =
        |errno: rustix::io::Errno| StartError::Io("take over standard output", errno.into());
    let stdout = rustix::stdio::stdout();
    if !is_stream(stdout) {
        return Err(StartError::NotOperator);
    }
    let operator = rustix::io::fcntl_dupfd_cloexec(stdout, 3).map_err(failed)?;
    let flags = rustix::fs::OFlags::WRONLY;
    let null = rustix::fs::open("/dev/null", flags, rustix::fs::Mode::empty()).map_err(failed)?;
    rustix::stdio::dup2_stdout(&null).map_err(failed)?;
    Ok(operator.into())
}

fn is_stream(socket: BorrowedFd<'_>) -> bool {
    rustix::net::sockopt::socket_domain(socket)
        .is_ok_and(|domain| domain == rustix::net::AddressFamily::UNIX)
        && rustix::net::sockopt::socket_type(socket)
            .is_ok_and(|kind| kind == rustix::net::SocketType::STREAM)
        && rustix::net::getpeername(socket).is_ok()
}
