//! The address that a server listens on: loopback, or a Unix socket.

use std::{fmt, net::SocketAddr, path::PathBuf, str::FromStr};

/// An address that only this host can reach.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListenAddress {
    /// A loopback address and a port.
    Loopback(SocketAddr),
    /// The path of a Unix socket.
    Unix(PathBuf),
}

impl FromStr for ListenAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.contains('/') {
            return std::path::absolute(text).map(Self::Unix).map_err(|error| error.to_string());
        }
        match text.parse::<SocketAddr>() {
            Ok(address) if address.ip().is_loopback() => Ok(Self::Loopback(address)),
            Ok(_) => Err("other hosts could connect: give 127.0.0.1:PORT or [::1]:PORT".to_owned()),
            Err(_) => Err("give 127.0.0.1:PORT, [::1]:PORT or the path of a socket".to_owned()),
        }
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Loopback(address) => address.fmt(f),
            Self::Unix(path) => path.display().fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_host_can_be_listened_to() {
        for text in ["127.0.0.1:0", "127.8.8.8:80", "[::1]:3000"] {
            assert_eq!(text.parse(), Ok(ListenAddress::Loopback(text.parse().unwrap())));
        }
        assert_eq!("/run/x".parse(), Ok(ListenAddress::Unix("/run/x".into())));
        for text in ["0.0.0.0:80", "[::]:80", "192.0.2.1:80", "localhost:80", "80", ""] {
            assert!(text.parse::<ListenAddress>().is_err(), "{text}");
        }
    }
}
