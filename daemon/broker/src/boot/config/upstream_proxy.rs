//! The HTTP proxy of the operator's network, as it is configured. Pure: no I/O.

use palisade_egress_protocol::{
    OperatorProxy, ProxyTransport,
    host::{Host, HostName, Target},
};
use serde::{Deserialize, Serialize};
use std::{net::IpAddr, str::FromStr};

/// The HTTP proxy through which egress rooms connect to other hosts: `proxy.example:3128`, also written
/// as `http://proxy.example:3128/`; `https://` for one that speaks TLS, and `credential:NAME@` before
/// the host for one that wants a password.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct UpstreamProxy(OperatorProxy);

impl FromStr for UpstreamProxy {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (transport, bare) = match text.strip_prefix("https://") {
            Some(rest) => (ProxyTransport::Tls, rest),
            None => (ProxyTransport::Plain, text.strip_prefix("http://").unwrap_or(text)),
        };
        let (credential, bare) = match bare.rsplit_once('@') {
            Some((user, rest)) => (Some(read_credential(user)?), rest),
            None => (None, bare),
        };
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
        Ok(Self(OperatorProxy { target: Target { host, port }, transport, credential }))
    }
}

/// Reads the name of the credential before the host. The text may be a password, so no message
/// repeats it.
fn read_credential(user: &str) -> Result<String, String> {
    let plain = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-');
    let name = user.strip_prefix("credential:").filter(|name| !name.is_empty());
    let name = name.filter(|name| name.bytes().all(plain));
    name.map(str::to_owned).ok_or_else(|| {
        "a password does not belong here; write it to a credential, and credential:NAME@ before the \
         host, with a NAME of a-z, 0-9 and '-'"
            .to_owned()
    })
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

impl From<UpstreamProxy> for OperatorProxy {
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
            ("https://proxy.example:3128", "https://proxy.example:3128"),
            ("credential:corporate@proxy:80", "credential:corporate@proxy:80"),
            ("https://credential:a-1@Proxy:443/", "https://credential:a-1@proxy:443"),
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
        for text in [
            "http://me:secret@proxy:80",
            "https://secret@proxy:80",
            "credential:me:secret@proxy:80",
            "credential:@proxy:80",
            "credential:Secret@proxy:80",
        ] {
            let refused = text.parse::<UpstreamProxy>().unwrap_err();
            assert!(!refused.to_lowercase().contains("secret"), "{refused}");
            assert!(refused.contains("password"), "{refused}");
        }
    }
}
