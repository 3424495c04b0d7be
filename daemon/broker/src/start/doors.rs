//! The doors of a daemon: sockets of its own, those that the service manager hands over, or standard
//! input and output. Broker, before privilege is given up.

use super::error::StartError;
use crate::{
    listen::{self, Audience, Bound},
    privilege::{self, PrivilegeError},
    scrape,
    settings::{Door, OperatorDoor, Settings},
};
use std::os::{fd::BorrowedFd, unix::net::UnixStream};

/// Where others than clients come in.
#[derive(Debug, Default)]
pub(super) struct Besides {
    pub(super) operators: Option<Entrance>,
    pub(super) providers: Option<Entrance>,
    pub(super) scrapes: Option<scrape::Socket>,
}

/// Where clients come in.
#[derive(Debug)]
pub(super) enum Entrance {
    Bound(Bound),
    Activated(std::os::unix::net::UnixListener),
    Embedded(UnixStream),
}

/// The doors of clients, of operators and of providers.
pub(super) fn open(settings: &Settings) -> Result<(Entrance, Besides), StartError> {
    let path = match &settings.door {
        Door::Socket(path) => path,
        Door::Embedded => {
            let operators = match &settings.operator_door {
                OperatorDoor::Stdout => Some(Entrance::Embedded(take_stdout()?)),
                OperatorDoor::Socket(_) | OperatorDoor::None => None,
            };
            let beside = Besides { operators, ..Besides::default() };
            return Ok((Entrance::Embedded(take_stdin()?), beside));
        }
    };
    if let Some(handed) = handed_doors()? {
        return Ok(handed);
    }
    let audience = |group: fn() -> Result<Option<u32>, PrivilegeError>| match settings.account {
        Some(_) => group().map(Audience::Group),
        None => Ok(Audience::Owner),
    };
    let clients = Entrance::Bound(listen::bind(path, audience(privilege::client_group)?)?);
    let operators = match &settings.operator_door {
        OperatorDoor::Socket(path) => {
            let audience = audience(privilege::operator_group)?;
            Some(Entrance::Bound(listen::bind(path, audience)?))
        }
        OperatorDoor::Stdout | OperatorDoor::None => None,
    };
    let providers = match &settings.provider_door {
        Some(path) => {
            let audience = audience(privilege::provider_group)?;
            Some(Entrance::Bound(listen::bind(path, audience)?))
        }
        None => None,
    };
    let scrapes = match &settings.metrics {
        Some(address) => Some(scrape::bind(address, audience(privilege::operator_group)?)?),
        None => None,
    };
    Ok((clients, Besides { operators, providers, scrapes }))
}

/// The doors that the service manager hands over, by their names. One without a name that is known
/// is the agents'.
fn handed_doors() -> Result<Option<(Entrance, Besides)>, StartError> {
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
        tracing::warn!("no operator socket was handed over: whatever is asked is denied");
    }
    let beside = Besides {
        operators: operators.map(Entrance::Activated),
        providers: providers.map(Entrance::Activated),
        scrapes: handed_scrapes(&mut handed, scrapes)?,
    };
    Ok(Some((Entrance::Activated(agents), beside)))
}

/// The socket for scrapes that the service manager hands over, of either kind.
fn handed_scrapes(
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

/// A second descriptor of the client's socket on standard input, to tell it why it is not served.
pub(super) fn client() -> Option<UnixStream> {
    let stdin = rustix::stdio::stdin();
    let stream = is_stream(stdin).then(|| rustix::io::fcntl_dupfd_cloexec(stdin, 3));
    stream?.ok().map(UnixStream::from)
}

/// The client's socket from standard input, which is closed for everything else.
fn take_stdin() -> Result<UnixStream, StartError> {
    let failed =
        |errno: rustix::io::Errno| StartError::Io("take over standard input", errno.into());
    let stdin = rustix::stdio::stdin();
    if !is_stream(stdin) {
        return Err(StartError::NotEmbedded);
    }
    let client = rustix::io::fcntl_dupfd_cloexec(stdin, 3).map_err(failed)?;
    let flags = rustix::fs::OFlags::RDONLY;
    let null = rustix::fs::open("/dev/null", flags, rustix::fs::Mode::empty()).map_err(failed)?;
    rustix::stdio::dup2_stdin(&null).map_err(failed)?;
    Ok(client.into())
}

/// The operator's socket from standard output, in the same way.
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
