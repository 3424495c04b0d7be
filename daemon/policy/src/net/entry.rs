//! An entry of `net.allow` or `net.deny`: hosts, by name or by address, and a port. Pure: no I/O.

use crate::keys::noun;
use palisade_egress_protocol::{
    NamedAddresses, THIS_HOST, Tunnel,
    host::{Host, HostName, Target},
};
use palisade_plan::listeners::{SYNTHETIC, SYNTHETIC_BITS};
use serde::{Deserialize, Serialize};
use std::{fmt, net::IpAddr};

/// The ports of an allowed entry that names none.
pub(crate) const WEB_PORTS: [u16; 2] = [80, 443];

/// The fewest leading bits of an allowed range of addresses.
const LEAST_BITS: u8 = 7;

/// Addresses that have a number of leading bits in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct AddressRange {
    first: IpAddr,
    bits: u8,
}

impl AddressRange {
    /// Returns the addresses that share this many leading bits with one of them.
    pub(crate) fn new(address: IpAddr, bits: u8) -> Option<Self> {
        let first = masked(address, bits)?;
        Some(Self { first, bits })
    }

    fn has(&self, address: IpAddr) -> bool {
        let same = self.first.is_ipv4() == address.is_ipv4();
        same && masked(address, self.bits) == Some(self.first)
    }

    fn covers(&self, other: &Self) -> bool {
        self.bits <= other.bits && self.has(other.first)
    }

    fn is_one(&self) -> bool {
        self.bits == width(self.first)
    }
}

impl fmt::Display for AddressRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.is_one() {
            true => self.first.fmt(f),
            false => write!(f, "{}/{}", self.first, self.bits),
        }
    }
}

const fn width(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    }
}

/// Returns the first of the addresses that share this many leading bits; `None` if it has fewer
/// bits.
fn masked(address: IpAddr, bits: u8) -> Option<IpAddr> {
    let rest = u32::from(width(address).checked_sub(bits)?);
    Some(match address {
        IpAddr::V4(v4) => {
            let mask = u32::MAX.checked_shl(rest).unwrap_or(0);
            IpAddr::V4((v4.to_bits() & mask).into())
        }
        IpAddr::V6(v6) => {
            let mask = u128::MAX.checked_shl(rest).unwrap_or(0);
            IpAddr::V6((v6.to_bits() & mask).into())
        }
    })
}

/// The hosts of an entry.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Hosts {
    /// One name.
    Name(HostName),
    /// Every name below this one: `*.name`.
    Below(HostName),
    /// Addresses.
    Addresses(AddressRange),
}

impl Hosts {
    /// Returns `true` if these hosts include a host. A name is never an address, whatever it leads
    /// to.
    fn has(&self, host: &Host) -> bool {
        match (self, host) {
            (Self::Name(name), Host::Name(asked)) => name == asked,
            (Self::Below(parent), Host::Name(asked)) => asked.is_below(parent),
            (Self::Addresses(range), Host::Address(asked)) => range.has(asked.to_canonical()),
            (Self::Name(_) | Self::Below(_), Host::Address(_))
            | (Self::Addresses(_), Host::Name(_)) => false,
        }
    }

    /// Returns `true` if these hosts include all of the others.
    fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Name(a), Self::Name(b)) => a == b,
            (Self::Below(a), Self::Name(b)) => b.is_below(a),
            (Self::Below(a), Self::Below(b)) => b == a || b.is_below(a),
            (Self::Addresses(a), Self::Addresses(b)) => a.covers(b),
            (Self::Name(_), Self::Below(_) | Self::Addresses(_))
            | (Self::Below(_), Self::Addresses(_))
            | (Self::Addresses(_), Self::Name(_) | Self::Below(_)) => false,
        }
    }

    /// Returns `true` if these hosts are `*.parent`, and the public suffix of `name` is longer than
    /// `parent`. Below a public suffix, everybody can have names.
    fn crosses_suffix(&self, name: &HostName) -> bool {
        let Self::Below(parent) = self else { return false };
        suffix_length(name) > parent.as_str().len()
    }
}

/// Returns the length of the public suffix that a name ends in, such as that of `co.uk`.
fn suffix_length(name: &HostName) -> usize {
    psl::suffix(name.as_str().as_bytes()).map_or(0, |suffix| suffix.as_bytes().len())
}

/// An entry of `net.allow` or `net.deny`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct HostEntry {
    pub(crate) hosts: Hosts,
    /// The port that the entry names. Without one, an allowed entry means [`WEB_PORTS`], and a
    /// denied one every port.
    pub(crate) port: Option<u16>,
}

impl HostEntry {
    /// Returns the ports that this entry opens if it is allowed.
    pub(crate) fn open_ports(&self) -> Vec<u16> {
        self.port.map_or_else(|| WEB_PORTS.to_vec(), |port| vec![port])
    }

    /// Returns `true` if allowing this entry opens a target.
    pub(crate) fn allows(&self, target: &Target) -> bool {
        self.open_ports().contains(&target.port) && self.allows_host(&target.host)
    }

    /// Returns `true` if allowing this entry opens some port of a host.
    pub(crate) fn allows_host(&self, host: &Host) -> bool {
        let crosses = match host {
            Host::Name(name) => self.hosts.crosses_suffix(name),
            Host::Address(_) => false,
        };
        self.hosts.has(host) && !crosses
    }

    /// Returns `true` if denying this entry closes a target.
    pub(crate) fn denies(&self, target: &Target) -> bool {
        self.port.is_none_or(|port| port == target.port) && self.hosts.has(&target.host)
    }

    /// Returns `true` if denying this entry closes every port of a host.
    pub(crate) fn denies_host(&self, host: &Host) -> bool {
        self.port.is_none() && self.hosts.has(host)
    }

    /// Returns `true` if denying this entry closes everything that `allowed` opens.
    pub(crate) fn denies_all_of(&self, allowed: &Self) -> bool {
        let ports = allowed.open_ports();
        self.port.is_none_or(|port| ports == [port]) && self.hosts.covers(&allowed.hosts)
    }

    /// Returns `true` if allowing this entry opens all hosts of another one.
    pub(crate) fn covers_hosts(&self, other: &Self) -> bool {
        let crosses = match &other.hosts {
            Hosts::Name(name) | Hosts::Below(name) => self.hosts.crosses_suffix(name),
            Hosts::Addresses(_) => false,
        };
        self.hosts.covers(&other.hosts) && !crosses
    }

    /// Returns the hosts and ports that two allowed entries both open.
    pub(crate) fn common(&self, other: &Self) -> Vec<Self> {
        let hosts = if other.covers_hosts(self) {
            &self.hosts
        } else if self.covers_hosts(other) {
            &other.hosts
        } else {
            return Vec::new();
        };
        let ports = other.open_ports();
        Self { hosts: hosts.clone(), port: self.port }.at_ports(|port| ports.contains(&port))
    }

    /// Returns the part of an allowed entry that has ports of a kind.
    pub(crate) fn at_ports(&self, kept: impl Fn(u16) -> bool) -> Vec<Self> {
        let ports: Vec<u16> = self.open_ports().into_iter().filter(|port| kept(*port)).collect();
        if ports.len() == self.open_ports().len() {
            return vec![self.clone()];
        }
        ports.into_iter().map(|port| Self { hosts: self.hosts.clone(), port: Some(port) }).collect()
    }

    /// Returns the addresses of the entry at a port, for the egress room; `None` if it has names.
    pub(crate) fn addresses(&self, port: Option<u16>) -> Option<NamedAddresses> {
        match &self.hosts {
            Hosts::Addresses(range) => {
                Some(NamedAddresses { first: range.first, bits: range.bits, port })
            }
            Hosts::Name(_) | Hosts::Below(_) => None,
        }
    }

    /// Says why this entry would allow too much.
    pub(crate) fn too_wide(&self) -> Option<String> {
        match &self.hosts {
            Hosts::Name(name) if name.as_str() == THIS_HOST => {
                Some("services of this host are listed in net.host.ports".to_owned())
            }
            Hosts::Name(_) => None,
            Hosts::Below(parent) if suffix_length(parent) >= parent.as_str().len() => {
                Some(format!("everybody can register names below \"{parent}\""))
            }
            Hosts::Below(_) => None,
            Hosts::Addresses(range) => {
                let own = AddressRange { first: SYNTHETIC.into(), bits: SYNTHETIC_BITS };
                if range.bits < LEAST_BITS {
                    Some(format!("a range has at least {LEAST_BITS} leading bits"))
                } else if range.covers(&own) || own.covers(range) {
                    Some(format!("{own} stands for names in a session and is on no network"))
                } else if range.first.is_unspecified() || range.first.is_multicast() {
                    Some("no host has such an address".to_owned())
                } else {
                    None
                }
            }
        }
    }
}

/// Returns the check of what a program sends to a port that is allowed. Any protocol is allowed only
/// at a port that an entry, or an approval, names.
pub(crate) fn tunnel(port: u16) -> Tunnel {
    if WEB_PORTS.contains(&port) { Tunnel::Checked } else { Tunnel::Any }
}

noun! { HostEntry: "host", "hosts"; }

impl fmt::Display for HostEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.hosts, self.port) {
            (Hosts::Name(name), _) => name.fmt(f)?,
            (Hosts::Below(name), _) => write!(f, "*.{name}")?,
            (Hosts::Addresses(range), Some(_)) if range.first.is_ipv6() => write!(f, "[{range}]")?,
            (Hosts::Addresses(range), _) => range.fmt(f)?,
        }
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

impl From<HostEntry> for String {
    fn from(entry: HostEntry) -> Self {
        entry.to_string()
    }
}

impl TryFrom<String> for HostEntry {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        parse(&text).map_err(|why| format!("{text:?} is not a host: {why}"))
    }
}

fn parse(text: &str) -> Result<HostEntry, String> {
    if text.contains("://") || text.contains('@') {
        return Err("give a name, not a URL, such as \"packages.example\"".to_owned());
    }
    if let Some(rest) = text.strip_prefix('[') {
        let (inside, after) = rest.split_once(']').ok_or("the bracket is not closed")?;
        let six = addresses(inside).filter(|_| inside.contains(':'));
        let hosts = six.ok_or("brackets are for IPv6 addresses")??;
        let port = match after.strip_prefix(':') {
            Some(port) => Some(parse_port(port)?),
            None if after.is_empty() => None,
            None => return Err("after the bracket comes a port, such as \"[::1]:443\"".to_owned()),
        };
        return Ok(HostEntry { hosts: Hosts::Addresses(hosts), port });
    }
    let (host, port) = match text.split_once(':') {
        // An IPv6 address has two colons at least, and brackets if a port follows.
        Some((_, rest)) if rest.contains(':') => (text, None),
        Some((host, port)) => (host, Some(parse_port(port)?)),
        None => (text, None),
    };
    let hosts = match addresses(host) {
        Some(range) => Hosts::Addresses(range?),
        None if host.contains('/') => {
            return Err("give a name, not a URL, such as \"packages.example\"".to_owned());
        }
        None => names(host)?,
    };
    Ok(HostEntry { hosts, port })
}

fn names(text: &str) -> Result<Hosts, String> {
    let below = text.strip_prefix("*.");
    let name = below.unwrap_or(text);
    if name.contains('*') {
        return Err("`*.` is allowed only at its beginning".to_owned());
    }
    let name = HostName::new(name).map_err(|error| error.to_string())?;
    Ok(if below.is_some() { Hosts::Below(name) } else { Hosts::Name(name) })
}

fn parse_port(text: &str) -> Result<u16, String> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    let port = text.parse::<u16>().ok().filter(|port| digits && *port > 0);
    port.ok_or_else(|| format!("{text:?} is not a port (1 to 65535)"))
}

/// Parses an address or a range; `None` if the text is neither.
fn addresses(text: &str) -> Option<Result<AddressRange, String>> {
    let (address, bits) = match text.split_once('/') {
        Some((address, bits)) => (address, Some(bits)),
        None => (text, None),
    };
    let address = address.parse::<IpAddr>().ok()?;
    Some(range(address, bits))
}

fn range(address: IpAddr, bits: Option<&str>) -> Result<AddressRange, String> {
    let most = width(address);
    if address.to_canonical() != address {
        return Err(format!("write it as {}", address.to_canonical()));
    }
    let Some(bits) = bits else { return Ok(AddressRange { first: address, bits: most }) };
    let digits = bits.bytes().all(|byte| byte.is_ascii_digit());
    let number = bits
        .parse::<u8>()
        .ok()
        .filter(|_| digits)
        .and_then(|bits| AddressRange::new(address, bits));
    let range = number.ok_or_else(|| format!("after the slash comes a number from 0 to {most}"))?;
    if range.first != address {
        return Err(format!("the range begins at {}", range.first));
    }
    Ok(range)
}

#[cfg(test)]
mod tests;
