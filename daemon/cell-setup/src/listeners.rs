//! Makes the listening sockets of a session in its own network namespace. The broker gets them and
//! has an egress room accept on them. Runs in the cell, while it has privilege.

use crate::failure::StepFailure;
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, recv, sendto, socket,
};
use palisade_plan::listeners::{
    Listener, NAMES_PORT, PROXY_PORT, SYNTHETIC, SYNTHETIC_BITS, listeners,
};
use rustix::net::{self, SocketFlags, SocketType, sockopt};
use std::{
    io,
    net::{Ipv4Addr, SocketAddr, SocketAddrV4},
    os::fd::{AsFd, AsRawFd as _, OwnedFd},
};

/// Most connections that wait to be accepted by an egress room, for each listener.
const BACKLOG: i32 = 128;

/// The number that the loopback interface has in every network namespace.
const LOOPBACK_INTERFACE: u32 = 1;

/// Makes the listeners, in their order, the route of the synthetic addresses, and an address that
/// programs count. The namespace must
/// be the session's own, with its loopback up.
pub(crate) fn make(direct: &[u16]) -> Result<Vec<OwnedFd>, StepFailure> {
    ask_kernel(&route_request()).map_err(StepFailure::kernel("route the synthetic addresses"))?;
    ask_kernel(&address_request())
        .map_err(StepFailure::kernel("add an address to the loopback"))?;
    let open = |listener: Listener| {
        listen(listener).map_err(StepFailure::kernel(format!("listen as {listener:?}")))
    };
    listeners(direct).into_iter().map(open).collect()
}

/// Returns the kind of a listener's socket, and its address.
fn place(listener: Listener) -> (SocketType, SocketAddrV4) {
    let (kind, address, port) = match listener {
        Listener::Proxy => (SocketType::STREAM, Ipv4Addr::LOCALHOST, PROXY_PORT),
        Listener::NamesUdp => (SocketType::DGRAM, Ipv4Addr::LOCALHOST, NAMES_PORT),
        Listener::NamesTcp => (SocketType::STREAM, Ipv4Addr::LOCALHOST, NAMES_PORT),
        Listener::Direct(port) => (SocketType::STREAM, Ipv4Addr::UNSPECIFIED, port),
        // Neither bound nor connected.
        Listener::Inward => (SocketType::STREAM, Ipv4Addr::UNSPECIFIED, 0),
        // The broker's, in the host's network.
        Listener::Published(port) => (SocketType::STREAM, Ipv4Addr::LOCALHOST, port),
    };
    (kind, SocketAddrV4::new(address, port))
}

/// Makes one socket. It does not share its port, so that no program of the session can take a part
/// of what it hears.
fn listen(listener: Listener) -> io::Result<OwnedFd> {
    let (kind, address) = place(listener);
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = net::socket_with(net::AddressFamily::INET, kind, flags, None)?;
    net::bind(&socket, &address)?;
    if kind == SocketType::STREAM {
        net::listen(&socket, BACKLOG)?;
    }
    Ok(socket)
}

/// Makes sockets for connections into the session's network, which must be its own.
pub(crate) fn make_inward(count: u8) -> Result<Vec<OwnedFd>, StepFailure> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let make = |_| net::socket_with(net::AddressFamily::INET, SocketType::STREAM, flags, None);
    let made: rustix::io::Result<_> = (0..count).map(make).collect();
    made.map_err(StepFailure::kernel("make a socket for connections into the session"))
}

/// Checks that the kernel has what the step promised: each listener in its place, and a way to the
/// synthetic addresses.
pub(crate) fn check(direct: &[u16], made: &[OwnedFd]) -> Result<(), StepFailure> {
    let wanted = listeners(direct);
    let right = wanted.len() == made.len()
        && wanted.iter().zip(made).all(|(listener, fd)| is_in_place(*listener, fd));
    if !right {
        return Err(StepFailure::NotInForce("a listener of the session is not in place".into()));
    }
    for address in synthetic_ends() {
        look_up_route(address)
            .map_err(StepFailure::kernel(format!("find the route to {address}")))?;
    }
    Ok(())
}

fn is_in_place(listener: Listener, fd: impl AsFd) -> bool {
    let (kind, address) = place(listener);
    let bound = net::getsockname(&fd).ok().and_then(|found| SocketAddr::try_from(found).ok());
    bound == Some(address.into())
        && sockopt::socket_type(&fd) == Ok(kind)
        && sockopt::socket_acceptconn(&fd) == Ok(kind == SocketType::STREAM)
        && sockopt::socket_reuseaddr(&fd) == Ok(false)
}

/// Returns the first and the last synthetic address.
fn synthetic_ends() -> [Ipv4Addr; 2] {
    let rest = u32::MAX.checked_shr(SYNTHETIC_BITS.into()).unwrap_or(0);
    [SYNTHETIC, Ipv4Addr::from_bits(SYNTHETIC.to_bits() | rest)]
}

/// Looks up the route to an address. Nothing is sent.
fn look_up_route(address: Ipv4Addr) -> io::Result<()> {
    let flags = SocketFlags::CLOEXEC;
    let socket = net::socket_with(net::AddressFamily::INET, SocketType::DGRAM, flags, None)?;
    Ok(net::connect(&socket, &SocketAddrV4::new(address, NAMES_PORT))?)
}

/// Sends a request of rtnetlink(7), and waits for its acknowledgement.
fn ask_kernel(request: &[u8]) -> io::Result<()> {
    let route = SockProtocol::NetlinkRoute;
    let socket = socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, route)?;
    let kernel = NetlinkAddr::new(0, 0);
    sendto(socket.as_raw_fd(), request, &kernel, MsgFlags::empty())?;
    let mut reply = [0_u8; 512];
    let length = recv(socket.as_raw_fd(), &mut reply, MsgFlags::empty())?;
    match acknowledged(reply.get(..length).unwrap_or_default()) {
        Some(0) => Ok(()),
        Some(error) => Err(io::Error::from_raw_os_error(error)),
        None => Err(io::Error::from(io::ErrorKind::InvalidData)),
    }
}

/// Returns the request for the route `local 198.18.0.0/15 dev lo`: the namespace itself has all of
/// these addresses.
fn route_request() -> Vec<u8> {
    let body = [
        // Family, bits of the destination, bits of the source, type of service.
        &[libc::AF_INET as u8, SYNTHETIC_BITS, 0, 0][..],
        // Table, origin, scope, type; then no flags.
        &[libc::RT_TABLE_LOCAL, libc::RTPROT_STATIC, libc::RT_SCOPE_HOST, libc::RTN_LOCAL],
        &[0; 4],
        &attribute(libc::RTA_DST, SYNTHETIC.octets()),
        &attribute(libc::RTA_OIF, LOOPBACK_INTERFACE.to_ne_bytes()),
    ];
    request(libc::RTM_NEWROUTE, &body.concat())
}

/// Returns the request for the address `198.18.0.0/32 dev lo scope global`, which stands for no name.
/// Programs that look up only addresses of families that the host has an address of (`AI_ADDRCONFIG`)
/// do not count 127.0.0.1.
fn address_request() -> Vec<u8> {
    let body = [
        // Family, bits, flags, scope.
        &[libc::AF_INET as u8, 32, 0, libc::RT_SCOPE_UNIVERSE][..],
        &LOOPBACK_INTERFACE.to_ne_bytes(),
        &attribute(libc::IFA_LOCAL, SYNTHETIC.octets()),
    ];
    request(libc::RTM_NEWADDR, &body.concat())
}

fn attribute(kind: u16, value: [u8; 4]) -> [u8; 8] {
    let ([a, b], [c, d], [e, f, g, h]) = (8_u16.to_ne_bytes(), kind.to_ne_bytes(), value);
    [a, b, c, d, e, f, g, h]
}

/// Returns a request to add something that must not exist, as rtnetlink(7) describes it.
fn request(kind: u16, body: &[u8]) -> Vec<u8> {
    let flags = libc::NLM_F_REQUEST | libc::NLM_F_ACK | libc::NLM_F_CREATE | libc::NLM_F_EXCL;
    let length = u32::try_from(16 + body.len()).unwrap_or(u32::MAX);
    // Sequence number and sender are not needed: one request has one answer.
    let header =
        [&length.to_ne_bytes()[..], &kind.to_ne_bytes(), &(flags as u16).to_ne_bytes(), &[0; 8]];
    [&header.concat(), body].concat()
}

/// Returns the error number of an acknowledgement, 0 for success; `None` if it is another message.
fn acknowledged(reply: &[u8]) -> Option<i32> {
    let kind = u16::from_ne_bytes(reply.get(4..6)?.try_into().ok()?);
    let error = i32::from_ne_bytes(reply.get(16..20)?.try_into().ok()?);
    (i32::from(kind) == libc::NLMSG_ERROR).then(|| error.saturating_neg())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_is_the_one_that_stands_for_no_name() {
        let request = address_request();
        assert_eq!(request[..4], u32::try_from(request.len()).unwrap().to_ne_bytes());
        assert_eq!(request[16..24], [2, 32, 0, 0, 1, 0, 0, 0]);
        assert_eq!(request[24..], [8, 0, 2, 0, 198, 18, 0, 0]);
    }

    #[test]
    fn the_request_is_as_long_as_it_says_and_names_the_range() {
        let request = route_request();
        let length = u32::try_from(request.len()).unwrap();
        assert_eq!(request[..4], length.to_ne_bytes());
        assert_eq!(length % 4, 0);
        assert_eq!(request[16..24], [2, 15, 0, 0, 255, 4, 254, 2]);
        assert_eq!(request[28..36], [8, 0, 1, 0, 198, 18, 0, 0]);
        assert_eq!(synthetic_ends().map(|end| end.to_string()), ["198.18.0.0", "198.19.255.255"]);
    }

    #[test]
    fn only_an_acknowledgement_says_that_the_route_is_there() {
        let reply = |kind: u16, error: i32| {
            [&[0; 4][..], &kind.to_ne_bytes(), &[0; 10], &error.to_ne_bytes()].concat()
        };
        assert_eq!(acknowledged(&reply(2, 0)), Some(0));
        assert_eq!(acknowledged(&reply(2, -1)), Some(libc::EPERM));
        assert_eq!(acknowledged(&reply(3, 0)), None);
        assert_eq!(acknowledged(&reply(2, 0)[..18]), None);
    }

    #[test]
    fn a_listener_that_is_missing_or_elsewhere_is_noticed() {
        let failed =
            |made: &[OwnedFd]| matches!(check(&[80], made), Err(StepFailure::NotInForce(_)));
        assert!(failed(&[]));
        let other = || OwnedFd::from(std::net::TcpListener::bind("127.0.0.1:0").unwrap());
        assert!(failed(&[other(), other(), other(), other()]));
    }
}
