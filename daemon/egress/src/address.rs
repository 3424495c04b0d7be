//! The addresses that sessions may reach: those of the public internet, and those that the profile
//! names. An IPv6 address that has an IPv4 address inside is judged by that one, too.

use palisade_egress_protocol::NamedAddresses;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Ranges of IPv4 that are not on the public internet.
const PRIVATE_V4: [(Ipv4Addr, u8); 17] = [
    // "This network".
    (Ipv4Addr::new(0, 0, 0, 0), 8),
    (Ipv4Addr::new(10, 0, 0, 0), 8),
    // Carrier-grade NAT; also the metadata service of a cloud.
    (Ipv4Addr::new(100, 64, 0, 0), 10),
    (Ipv4Addr::new(127, 0, 0, 0), 8),
    // The metadata service and the agents' host of a cloud, inside a public range.
    (Ipv4Addr::new(168, 63, 129, 16), 32),
    // Link-local, with the metadata services of most clouds.
    (Ipv4Addr::new(169, 254, 0, 0), 16),
    (Ipv4Addr::new(172, 16, 0, 0), 12),
    // Protocol assignments.
    (Ipv4Addr::new(192, 0, 0, 0), 24),
    // Documentation.
    (Ipv4Addr::new(192, 0, 2, 0), 24),
    // Relays of 6to4, which are gone.
    (Ipv4Addr::new(192, 88, 99, 0), 24),
    (Ipv4Addr::new(192, 168, 0, 0), 16),
    // Benchmarks, and the synthetic addresses.
    (Ipv4Addr::new(198, 18, 0, 0), 15),
    // Documentation.
    (Ipv4Addr::new(198, 51, 100, 0), 24),
    (Ipv4Addr::new(203, 0, 113, 0), 24),
    // Multicast.
    (Ipv4Addr::new(224, 0, 0, 0), 4),
    // Reserved, and broadcast.
    (Ipv4Addr::new(240, 0, 0, 0), 4),
    (Ipv4Addr::new(255, 255, 255, 255), 32),
];

/// The range of IPv6 that is used on the public internet.
const PUBLIC_V6: (Ipv6Addr, u8) = (Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3);

/// Parts of that range that are not.
const PRIVATE_V6: [(Ipv6Addr, u8); 3] = [
    // Protocol assignments.
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23),
    // Documentation.
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32),
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20),
];

/// Returns `true` if an address is on the public internet.
#[must_use]
pub(crate) fn is_global(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => !PRIVATE_V4.iter().any(|range| has_v4(*range, address)),
        IpAddr::V6(address) => match embedded(address) {
            Some(inner) => inner.into_iter().all(|inner| is_global(inner.into())),
            None => {
                has_v6(PUBLIC_V6, address)
                    && !PRIVATE_V6.iter().any(|range| has_v6(*range, address))
            }
        },
    }
}

/// The reason why an address is not dialled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum AddressError {
    /// The profile denies the address.
    #[error("{0} is denied by net.deny of the profile")]
    Denied(IpAddr),
    /// The address is not on the public internet, and the profile does not name it.
    #[error("{0} is not on the public internet; name this address in net.allow to permit it")]
    NotGlobal(IpAddr),
    /// The address belongs to this host.
    #[error("{0} is an address of this host; name this address in net.allow to permit it")]
    ThisHost(IpAddr),
    /// The profile does not list this port of the host.
    #[error("net.host.ports of the profile does not include {0}")]
    NoService(u16),
}

/// The addresses that a session's names may lead to.
#[derive(Debug, Clone, Default)]
pub(crate) struct AddressRules {
    /// Addresses that are allowed although they are not on the public internet.
    pub(crate) named: Vec<NamedAddresses>,
    /// Addresses that are denied, even if they are named.
    pub(crate) denied: Vec<NamedAddresses>,
    /// The ports of this host's loopback that [`THIS_HOST`](palisade_egress_protocol::THIS_HOST) has.
    pub(crate) host_ports: Vec<u16>,
}

impl AddressRules {
    /// Checks that an address may be dialled.
    ///
    /// # Errors
    /// If it is denied, or neither global nor named.
    pub(crate) fn check(&self, to: SocketAddr) -> Result<(), AddressError> {
        let address = to.ip().to_canonical();
        let mut forms = vec![address];
        if let IpAddr::V6(address) = address {
            forms.extend(embedded(address).into_iter().flatten().map(IpAddr::V4));
        }
        let among = |ranges: &[NamedAddresses], form: IpAddr| {
            ranges.iter().any(|range| contains(range, form, to.port()))
        };
        if forms.iter().any(|form| among(&self.denied, *form)) {
            return Err(AddressError::Denied(address));
        }
        if !is_global(address) && !self.names(to) {
            return Err(AddressError::NotGlobal(address));
        }
        Ok(())
    }

    /// Returns the address of a port of this host, by its name in sessions.
    ///
    /// # Errors
    /// If the profile denies the address, or does not list the port.
    pub(crate) fn this_host(&self, port: u16) -> Result<SocketAddr, AddressError> {
        let to = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        if self.denied.iter().any(|range| contains(range, to.ip(), port)) {
            return Err(AddressError::Denied(to.ip()));
        }
        if self.host_ports.contains(&port) { Ok(to) } else { Err(AddressError::NoService(port)) }
    }

    /// Returns `true` if the profile names exactly this address.
    #[must_use]
    pub(crate) fn names(&self, to: SocketAddr) -> bool {
        let address = to.ip().to_canonical();
        self.named.iter().any(|range| contains(range, address, to.port()))
    }
}

fn contains(range: &NamedAddresses, address: IpAddr, port: u16) -> bool {
    range.port.is_none_or(|only| only == port)
        && match (range.first, address) {
            (IpAddr::V4(first), IpAddr::V4(address)) => has_v4((first, range.bits), address),
            (IpAddr::V6(first), IpAddr::V6(address)) => has_v6((first, range.bits), address),
            _ => false,
        }
}

fn has_v4((first, bits): (Ipv4Addr, u8), address: Ipv4Addr) -> bool {
    // A shift by all 32 bits leaves nothing to compare, and more bits than there are match nothing.
    bits <= 32
        && (first.to_bits() ^ address.to_bits()).checked_shr(32 - u32::from(bits)).unwrap_or(0) == 0
}

fn has_v6((first, bits): (Ipv6Addr, u8), address: Ipv6Addr) -> bool {
    bits <= 128
        && (first.to_bits() ^ address.to_bits()).checked_shr(128 - u32::from(bits)).unwrap_or(0)
            == 0
}

/// Returns the IPv4 addresses that packets to an IPv6 address end up at.
fn embedded(address: Ipv6Addr) -> Option<[Ipv4Addr; 2]> {
    let joined = |high: u16, low: u16| Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low));
    match address.segments() {
        // NAT64.
        [0x64, 0xff9b, 0, 0, 0, 0, g, h] => Some([joined(g, h); 2]),
        // 6to4.
        [0x2002, b, c, ..] => Some([joined(b, c); 2]),
        // Teredo: the server, and the client with its bits inverted.
        [0x2001, 0, c, d, _, _, g, h] => Some([joined(c, d), joined(!g, !h)]),
        _ => None,
    }
}

#[cfg(test)]
#[path = "address_tests.rs"]
mod tests;
