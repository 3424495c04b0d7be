//! The listening sockets of a session with a network by name: their ports, addresses and order. Its
//! cell makes them in its own network namespace, and an egress room accepts on them.

use bincode::{Decode, Encode};
use std::net::Ipv4Addr;

/// The port of the proxy on a session's loopback: HTTP, `CONNECT` and SOCKS5.
pub const PROXY_PORT: u16 = 61_080;

/// The port of the name server on a session's loopback.
pub const NAMES_PORT: u16 = 53;

/// The first of the addresses that stand for names: 198.18.0.0/15, which is reserved for tests of
/// networks and in use nowhere else. Each session's namespace delivers all of it to its own
/// listeners.
pub const SYNTHETIC: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 0);

/// Returns `true` if an address is synthetic: it stands for a name.
#[must_use]
pub const fn is_synthetic(address: Ipv4Addr) -> bool {
    (address.to_bits() ^ SYNTHETIC.to_bits()) >> (32 - SYNTHETIC_BITS as u32) == 0
}

/// The number of leading bits that all synthetic addresses have in common.
pub const SYNTHETIC_BITS: u8 = 15;

/// Most ports of a session with a listener for synthetic addresses.
pub const MAX_DIRECT_PORTS: usize = 12;

/// Most published ports of a session.
pub const MAX_PUBLISHED: usize = 4;

/// The sockets that a session with published ports has for connections into it: so many can be open
/// at once.
pub const INWARD_SOCKETS: u8 = 16;

/// A socket of a session. Those in its own network namespace are made by its cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum Listener {
    /// TCP on 127.0.0.1, port [`PROXY_PORT`].
    Proxy,
    /// UDP on 127.0.0.1, port [`NAMES_PORT`].
    NamesUdp,
    /// TCP on 127.0.0.1, port [`NAMES_PORT`].
    NamesTcp,
    /// TCP on this port of every address, for connections to synthetic addresses.
    Direct(u16),
    /// TCP, neither bound nor connected, for one connection into the session at a time.
    Inward,
    /// TCP on 127.0.0.1 of the host, made by the broker. Connections to it are carried to this port
    /// of the session's loopback.
    Published(u16),
}

/// Returns the listeners of a session with these direct ports, in the order in which the cell makes
/// them and sends their descriptors.
#[must_use]
pub fn listeners(direct: &[u16]) -> Vec<Listener> {
    let fixed = [Listener::Proxy, Listener::NamesUdp, Listener::NamesTcp];
    fixed.into_iter().chain(direct.iter().copied().map(Listener::Direct)).collect()
}

/// Returns `true` if a port can have a listener for synthetic addresses. The names listener and the
/// proxy of a session have ports of their own.
#[must_use]
pub const fn can_be_direct(port: u16) -> bool {
    !matches!(port, 0 | NAMES_PORT | PROXY_PORT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::MAX_DESCRIPTORS;

    #[test]
    fn the_synthetic_addresses_are_one_range() {
        for (address, synthetic) in [
            ([198, 17, 255, 255], false),
            ([198, 18, 0, 0], true),
            ([198, 19, 255, 255], true),
            ([198, 20, 0, 0], false),
            ([127, 0, 0, 1], false),
        ] {
            assert_eq!(is_synthetic(address.into()), synthetic, "{address:?}");
        }
    }

    #[test]
    fn all_listeners_fit_in_one_message() {
        let most: Vec<u16> = (1..).take(MAX_DIRECT_PORTS).collect();
        let listeners = listeners(&most);
        let all = listeners.len() + usize::from(INWARD_SOCKETS) + MAX_PUBLISHED;
        assert!(all <= MAX_DESCRIPTORS, "{all}");
        let first = [Listener::Proxy, Listener::NamesUdp, Listener::NamesTcp, Listener::Direct(1)];
        assert_eq!(listeners[..4], first);
    }
}
