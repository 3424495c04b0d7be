//! Text of a session's program to a host and port, in the one form that is asked about, looked up
//! and dialled. No other part of the room reads a name from text.

use idna::uts46::{AsciiDenyList, DnsLength, Hyphens, Uts46};
use palisade_egress_protocol::host::{Host, HostName, HostNameError, Target};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Most bytes of a text that is read as a host: a name of the longest kind, in Unicode.
const MAX_TEXT: usize = 1024;

/// Why a text is not a host, or not a host and a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NameError {
    /// The text is too long for any host.
    #[error("the host has more than {MAX_TEXT} bytes")]
    TooLong,
    /// The text is not UTF-8.
    #[error("the host is not UTF-8")]
    NotUtf8,
    /// A character that no host has, such as NUL, `%` or `@`.
    #[error("the host has the character {0:?}, which no host name has")]
    Character(char),
    /// Brackets or colons without an IPv6 address between them.
    #[error("the host is not an IPv6 address, although it has colons or brackets")]
    Ipv6,
    /// The text is not a name by the rules of international host names (UTS 46).
    #[error("the host is not a name by the rules of UTS 46")]
    Unicode,
    /// Programs disagree about the address that the number means.
    #[error("the host is a number; write an address as four decimal numbers")]
    Number,
    /// The text is not a host name.
    #[error("the host is not a host name: {0}")]
    Name(HostNameError),
    /// The port is missing.
    #[error("the port is missing")]
    NoPort,
    /// The port is not a number from 1 to 65535.
    #[error("the port is not a number from 1 to 65535")]
    Port,
}

/// Reads a host: a name, an IPv4 address, or an IPv6 address with or without brackets.
///
/// # Errors
/// If programs could take the text for different hosts, or for none.
pub(crate) fn read_host(text: &[u8]) -> Result<Host, NameError> {
    if text.len() > MAX_TEXT {
        return Err(NameError::TooLong);
    }
    let text = str::from_utf8(text).map_err(|_| NameError::NotUtf8)?;
    if let Some(bad) = text.chars().find(|c| c.is_control() || "%@/\\?# ".contains(*c)) {
        return Err(NameError::Character(bad));
    }
    if text.contains([':', '[', ']']) {
        return read_ipv6(text);
    }
    let ascii = Uts46::new()
        .to_ascii(text.as_bytes(), AsciiDenyList::URL, Hyphens::Allow, DnsLength::Ignore)
        .map_err(|_| NameError::Unicode)?;
    let absolute = ascii.strip_suffix('.').unwrap_or(&ascii);
    // Only the usual form; the others, such as `127.1`, are refused as numbers below.
    if let Ok(address) = absolute.parse::<Ipv4Addr>() {
        return Ok(Host::Address(address.into()));
    }
    match HostName::new(absolute) {
        Ok(name) => Ok(Host::Name(name)),
        Err(HostNameError::Number) => Err(NameError::Number),
        Err(error) => Err(NameError::Name(error)),
    }
}

fn read_ipv6(text: &str) -> Result<Host, NameError> {
    let inner = text.strip_prefix('[').map_or(Some(text), |rest| rest.strip_suffix(']'));
    let address: Ipv6Addr = inner.ok_or(NameError::Ipv6)?.parse().map_err(|_| NameError::Ipv6)?;
    Ok(host_of(address.into()))
}

/// Returns an address as a host. An IPv4 address in the form of IPv6 is the IPv4 address.
#[must_use]
pub(crate) const fn host_of(address: IpAddr) -> Host {
    Host::Address(address.to_canonical())
}

/// Reads `host:port`.
///
/// # Errors
/// If the host is none, or the port is missing or not a port.
pub(crate) fn read_target(text: &str) -> Result<Target, NameError> {
    let (target, port) = read_authority(text)?;
    let port = port.ok_or(NameError::NoPort)?;
    Ok(Target { host: target, port })
}

/// Reads `host:port` or `host`.
///
/// # Errors
/// If the host is none, or the port is not a port.
pub(crate) fn read_target_or(text: &str, default: u16) -> Result<Target, NameError> {
    let (host, port) = read_authority(text)?;
    Ok(Target { host, port: port.unwrap_or(default) })
}

fn read_authority(text: &str) -> Result<(Host, Option<u16>), NameError> {
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, Some(read_port(port)?)),
        _ => (text, None),
    };
    // Without brackets, the last part of an IPv6 address could be the port.
    if host.contains(':') && !host.starts_with('[') {
        return Err(NameError::Ipv6);
    }
    Ok((read_host(host.as_bytes())?, port))
}

fn read_port(text: &str) -> Result<u16, NameError> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let port = if digits { text.parse().unwrap_or(0) } else { 0 };
    if port == 0 { Err(NameError::Port) } else { Ok(port) }
}

#[cfg(test)]
#[path = "name_tests.rs"]
mod tests;
