//! The listening sockets of a session, which the broker keeps beside the egress room. While no room
//! serves them, they refuse connections, and their ports stay taken. Runs in the broker.

use super::error::NetworkError;
use palisade_plan::listeners::{Listener, NAMES_PORT, PROXY_PORT, listeners};
use rustix::net::{
    AddressFamily, Shutdown, SocketType, getsockname, ipproto, listen, shutdown, sockopt,
};
use std::{
    io::ErrorKind,
    net::{Ipv4Addr, SocketAddrV4, TcpListener},
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
};

/// The number of connections that wait to be accepted.
const BACKLOG: i32 = 128;

/// The listening sockets of a session, each with what it is.
#[derive(Debug)]
pub(super) struct SessionListeners(Vec<(Listener, OwnedFd)>);

impl SessionListeners {
    /// Checks that the descriptors which a cell sent are the listeners for these direct ports, in
    /// their order, and then this number of sockets for connections into the session.
    pub(super) fn check(
        direct: &[u16],
        inward: u8,
        came: Vec<OwnedFd>,
    ) -> Result<Self, NetworkError> {
        let mut wanted = listeners(direct);
        wanted.extend((0..inward).map(|_| Listener::Inward));
        if wanted.len() != came.len() {
            return Err(NetworkError::Count { came: came.len(), wanted: wanted.len() });
        }
        let all: Vec<_> = wanted.into_iter().zip(came).collect();
        for (listener, socket) in &all {
            let listener = *listener;
            check_kind(listener, socket.as_fd())
                .map_err(|why| NetworkError::Listener { listener, why })?;
        }
        let checked = Self(all);
        checked.serve()?;
        Ok(checked)
    }

    /// Listens on the host's loopback for each of these ports of the session: on the same port, or
    /// on another one if that is taken or reserved for root.
    pub(super) fn publish(&mut self, ports: &[u16]) -> Result<(), NetworkError> {
        for port in ports.iter().copied() {
            let listener = match TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
                Err(error) if is_taken(&error) => TcpListener::bind((Ipv4Addr::LOCALHOST, 0)),
                bound => bound,
            };
            let listener = listener.map_err(|source| NetworkError::Publish { port, source })?;
            listener.set_nonblocking(true)?;
            self.0.push((Listener::Published(port), listener.into()));
        }
        Ok(())
    }

    /// Returns the published ports of the session, each with its address on the host.
    pub(super) fn published(&self) -> Vec<(u16, SocketAddrV4)> {
        let published = self.0.iter().filter_map(|(listener, socket)| match listener {
            Listener::Published(port) => Some((*port, bound_to(socket.as_fd())?)),
            Listener::Proxy
            | Listener::NamesUdp
            | Listener::NamesTcp
            | Listener::Direct(_)
            | Listener::Inward => None,
        });
        published.collect()
    }

    /// Returns what the sockets are, in order.
    pub(super) fn kinds(&self) -> Vec<Listener> {
        self.0.iter().map(|(listener, _)| *listener).collect()
    }

    /// Returns the sockets, in order.
    pub(super) fn sockets(&self) -> Vec<BorrowedFd<'_>> {
        self.0.iter().map(|(_, socket)| socket.as_fd()).collect()
    }

    /// Refuses connections from now on, and resets those that nobody has accepted.
    pub(super) fn refuse(&self) {
        for socket in self.streams() {
            // Without the option no program of the session can bind the port while it does not
            // listen.
            if let Err(error) = sockopt::set_socket_reuseaddr(socket, false) {
                tracing::error!(%error, "a listener keeps SO_REUSEADDR");
            }
            if let Err(error) = shutdown(socket, Shutdown::Read) {
                // A socket that refuses already is not connected.
                tracing::debug!(%error, "a listener refuses connections already");
            }
        }
    }

    /// Takes connections, also after they were refused. Connections that have ended keep the port
    /// for a while, and only `SO_REUSEADDR`, which they inherit, lets it listen again before that is
    /// over. A port that listens can be bound by nobody else in any case.
    pub(super) fn serve(&self) -> Result<(), NetworkError> {
        for socket in self.streams() {
            sockopt::set_socket_reuseaddr(socket, true).map_err(std::io::Error::from)?;
            listen(socket, BACKLOG).map_err(std::io::Error::from)?;
        }
        Ok(())
    }

    /// Returns the sockets that take connections.
    fn streams(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let streams = self.0.iter().filter(|(listener, _)| match listener {
            Listener::Proxy | Listener::NamesTcp | Listener::Direct(_) | Listener::Published(_) => {
                true
            }
            Listener::NamesUdp | Listener::Inward => false,
        });
        streams.map(|(_, socket)| socket.as_fd())
    }
}

/// Checks that a descriptor is the listening socket that it should be.
fn check_kind(listener: Listener, socket: BorrowedFd<'_>) -> Result<(), &'static str> {
    let (kind, address, port) = match listener {
        Listener::Proxy => (SocketType::STREAM, Ipv4Addr::LOCALHOST, PROXY_PORT),
        Listener::NamesUdp => (SocketType::DGRAM, Ipv4Addr::LOCALHOST, NAMES_PORT),
        Listener::NamesTcp => (SocketType::STREAM, Ipv4Addr::LOCALHOST, NAMES_PORT),
        Listener::Direct(port) => (SocketType::STREAM, Ipv4Addr::UNSPECIFIED, port),
        Listener::Inward => (SocketType::STREAM, Ipv4Addr::UNSPECIFIED, 0),
        Listener::Published(port) => (SocketType::STREAM, Ipv4Addr::LOCALHOST, port),
    };
    let protocol = if kind == SocketType::STREAM { ipproto::TCP } else { ipproto::UDP };
    if sockopt::socket_domain(socket) != Ok(AddressFamily::INET) {
        return Err("it is not an IPv4 socket");
    }
    if sockopt::socket_type(socket) != Ok(kind)
        || sockopt::socket_protocol(socket) != Ok(Some(protocol))
    {
        return Err("it is of another protocol");
    }
    let listens = kind == SocketType::STREAM && listener != Listener::Inward;
    if sockopt::socket_acceptconn(socket) != Ok(listens) {
        return Err(if listens { "it does not listen" } else { "it listens" });
    }
    match bound_to(socket) {
        Some(bound) if bound == SocketAddrV4::new(address, port) => Ok(()),
        Some(_) | None => Err("it is bound to another address"),
    }
}

fn bound_to(socket: BorrowedFd<'_>) -> Option<SocketAddrV4> {
    getsockname(socket).ok().and_then(|bound| SocketAddrV4::try_from(bound).ok())
}

/// Returns `true` if a port can not be listened on, but another one can.
fn is_taken(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::AddrInUse | ErrorKind::PermissionDenied)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use rustix::net::{bind, socket};
    use std::net::{TcpStream, UdpSocket};

    impl SessionListeners {
        /// Makes listeners of sockets on other ports than a session's.
        pub(in crate::network) fn of(sockets: Vec<(Listener, OwnedFd)>) -> Self {
            Self(sockets)
        }
    }

    /// Makes a listener as a cell does: its port was asked for, and may not be shared. Each process
    /// of the host that runs this has its own address.
    pub(in crate::network) fn listener() -> (OwnedFd, SocketAddrV4) {
        let [_, a, b, c] = std::process::id().to_be_bytes();
        let first = Ipv4Addr::new(127, a | 0x80, b, c);
        let made = (10_000..).find_map(|port| {
            let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
            let address = SocketAddrV4::new(first, port);
            bind(&socket, &address).ok().map(|()| (socket, address))
        });
        let (socket, address) = made.unwrap();
        listen(&socket, BACKLOG).unwrap();
        (socket, address)
    }

    #[test]
    fn only_the_expected_sockets_are_taken() {
        let tcp = |address: &str| TcpListener::bind(address).unwrap();
        let port = |socket: &TcpListener| socket.local_addr().unwrap().port();
        let direct = tcp("0.0.0.0:0");
        let listener = Listener::Direct(port(&direct));
        assert_eq!(check_kind(listener, direct.as_fd()), Ok(()));
        let local = tcp("127.0.0.1:0");
        let wrong = check_kind(Listener::Direct(port(&local)), local.as_fd());
        assert_eq!(wrong, Err("it is bound to another address"));
        assert_eq!(
            check_kind(Listener::Proxy, direct.as_fd()),
            Err("it is bound to another address")
        );
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        assert_eq!(check_kind(listener, udp.as_fd()), Err("it is of another protocol"));
        let client = TcpStream::connect(local.local_addr().unwrap()).unwrap();
        assert_eq!(check_kind(listener, client.as_fd()), Err("it does not listen"));
        let unix = std::os::unix::net::UnixStream::pair().unwrap().0;
        assert_eq!(check_kind(listener, unix.as_fd()), Err("it is not an IPv4 socket"));
        let file = std::fs::File::open("/dev/null").unwrap();
        assert_eq!(check_kind(listener, file.as_fd()), Err("it is not an IPv4 socket"));
        let new = || socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        assert_eq!(check_kind(Listener::Inward, new().as_fd()), Ok(()));
        assert_eq!(check_kind(Listener::Inward, local.as_fd()), Err("it listens"));
        let connected = check_kind(Listener::Inward, client.as_fd());
        assert_eq!(connected, Err("it is bound to another address"));
        let count = SessionListeners::check(&[80], 2, vec![direct.into()]).unwrap_err();
        assert_eq!(count.to_string(), "the cell sent 1 listeners, but its network has 6");
    }

    #[test]
    fn a_port_is_published_on_the_loopback_and_elsewhere_if_it_is_taken() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = taken.local_addr().unwrap().port();
        let mut listeners = SessionListeners(Vec::new());
        listeners.publish(&[port]).unwrap();
        let published = listeners.published();
        let (of, at) = published[0];
        assert_eq!((of, *at.ip()), (port, Ipv4Addr::LOCALHOST));
        assert_ne!(at.port(), port);
        assert_eq!(check_kind(Listener::Published(at.port()), listeners.sockets()[0]), Ok(()));
        TcpStream::connect(at).unwrap();
        drop(listeners);
        let gone = TcpStream::connect(at).unwrap_err();
        assert_eq!(gone.kind(), ErrorKind::ConnectionRefused);
    }

    #[test]
    fn a_port_stays_taken_while_its_connections_are_refused() {
        let (socket, address) = listener();
        let listeners = SessionListeners(vec![(Listener::Proxy, socket)]);
        listeners.serve().unwrap();
        // The server ends a connection first, and its end of it waits on the port.
        let client = TcpStream::connect(address).unwrap();
        drop(rustix::net::accept(listeners.sockets()[0]).unwrap());
        drop(client);
        listeners.refuse();
        listeners.refuse();
        let refused = TcpStream::connect(address).unwrap_err();
        assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
        let taken = TcpListener::bind(address).unwrap_err();
        assert_eq!(taken.kind(), std::io::ErrorKind::AddrInUse, "even with SO_REUSEADDR");
        listeners.serve().unwrap();
        TcpStream::connect(address).unwrap();
    }
}
