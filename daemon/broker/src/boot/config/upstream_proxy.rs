//! The HTTP proxy of the operator's network, as it is configured. Pure: no I/O.

use palisade_egress_protocol::host::{Host, HostName, Target};
use serde::{Deserialize, Serialize};
use std::{net::IpAddr, str::FromStr};

/// The HTTP proxy through which egress rooms connect to other hosts: `proxy.example:3128`, also written
/// as `http://proxy.example:3128/`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct UpstreamProxy(Target);

impl FromStr for UpstreamProxy {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // The text may have a password, so no message repeats it.
        if text.contains('@') {
            return Err("a proxy that wants a password is not supported; write HOST:PORT".into());
        }
        let bare = text.strip_prefix("http://").unwrap_or(text);
        let bare = bare.strip_suffix('/').unwrap_or(bare);
        let wrong = || format!("{text:?} is not the HOST:PORT of an HTTP proxy");
        let (host, port) = bare.rsplit_once(':').ok_or_else(wrong)?;
        let port = port.parse().ok().filter(|port| *port > 0).ok_or_else(wrong)?;
        let bracketed = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let host = match (bracketed, host.parse::<IpAddr>()) {
            (Some(address), _) => Host::Address(IpAddr::V6(address.parse().map_err(|_| wrong())?)),
            (None, Ok(IpAddr::V4(address))) => Host::Address(address.into()),
            (None, Ok(IpAddr::V6(_))) => return Err(wrong()),
            (None, Err(_)) => {
                Host::Name(HostName::new(host.to_ascii_lowercase()).map_err(|_| wrong())?)
            }
        };
        Ok(Self(Target { host, port }))
    }
}

impl TryFrom<String> for UpstreamProxy {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<UpstreamProxy> for String {
    fn from(proxy: UpstreamProxy) -> Self {
        proxy.0.to_string()
    }
}

impl From<UpstreamProxy> for Target {
    fn from(proxy: UpstreamProxy) -> Self {
        proxy.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_is_a_host_and_a_port() {
        for (text, shown) in [
            ("proxy.example:3128", "proxy.example:3128"),
            ("http://Proxy.Example:3128/", "proxy.example:3128"),
            ("10.0.0.1:80", "10.0.0.1:80"),
            ("[fd00::1]:8080", "[fd00::1]:8080"),
        ] {
            assert_eq!(String::from(text.parse::<UpstreamProxy>().unwrap()), shown);
        }
        for text in [
            "",
            "proxy",
            "proxy:",
            "proxy:0",
            "proxy:65536",
            ":80",
            "fd00::1:80",
            "[10.0.0.1]:80",
            "https://proxy:443",
            "socks5://proxy:1080",
            "http://proxy:80/path",
            "127.1:80",
        ] {
            let refused = text.parse::<UpstreamProxy>().unwrap_err();
            assert_eq!(refused, format!("{text:?} is not the HOST:PORT of an HTTP proxy"));
        }
    }

    #[test]
    fn a_password_is_refused_and_not_repeated() {
        let refused = "http://me:secret@proxy:80".parse::<UpstreamProxy>().unwrap_err();
        assert!(!refused.contains("secret") && refused.contains("password"), "{refused}");
    }
}
