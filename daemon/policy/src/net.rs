//! `[net]`: what there is of the network, as it is written and as it comes to. How profiles go
//! together: `none` is less than `loopback`, which reaches nothing of the host's, and that is less
//! than `ports`.

use crate::source::Said;
use palisade_plan::Network;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use toml::Spanned;

/// What there is of the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum NetMode {
    /// Nothing.
    None,
    /// A loopback of the session's own.
    Loopback,
    /// The host's, to connect to some ports.
    Ports,
}

impl NetMode {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Loopback => "loopback",
            Self::Ports => "ports",
        }
    }
}

/// The number of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "i64")]
pub(crate) struct PortEntry(pub(crate) u16);

impl TryFrom<i64> for PortEntry {
    type Error = String;
    fn try_from(number: i64) -> Result<Self, String> {
        match u16::try_from(number) {
            Ok(port) if port > 0 => Ok(Self(port)),
            Ok(_) | Err(_) => Err(format!("{number} is not a port, from 1 to 65535")),
        }
    }
}

/// A name of a host; with `*.` in front, all names below one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct DomainEntry(pub(crate) String);

impl TryFrom<String> for DomainEntry {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        let wrong = |why: &str| Err(format!("{text:?} is not a domain: {why}"));
        let name = text.strip_prefix("*.").unwrap_or(&text);
        if name.parse::<IpAddr>().is_ok() {
            return wrong("it is an address");
        }
        if name.contains(['/', ':', '@']) {
            return wrong(
                "it is the name of a host alone, such as \"packages.example\" or \"*.packages.example\"",
            );
        }
        if name.contains('*') {
            return wrong("`*.` stands at its beginning or not at all");
        }
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let label = |label: &str| {
            (1..=63).contains(&label.len())
                && label.chars().all(plain)
                && !label.starts_with('-')
                && !label.ends_with('-')
        };
        if name.len() > 253 || !name.split('.').all(label) {
            return wrong("names are of a-z, 0-9 and '-', with dots between them");
        }
        Ok(Self(text))
    }
}

impl DomainEntry {
    /// Whether every name that the other means is one of this.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        match self.0.strip_prefix('*') {
            Some(below) => other.0.ends_with(below),
            None => self == other,
        }
    }
}

/// `[net]` as it is written.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct NetText {
    pub(crate) mode: Option<Spanned<NetMode>>,
    pub(crate) ports: Option<Vec<Spanned<PortEntry>>>,
    pub(crate) domains: Option<Vec<Spanned<DomainEntry>>>,
}

/// What there is of the network.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Net {
    pub(crate) mode: Said<NetMode>,
    /// What can be connected to, with `ports`; never empty then.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) ports: Vec<Said<PortEntry>>,
    /// Names, with `ports`. No layer holds them: they are data for what comes later.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) domains: Option<Vec<DomainEntry>>,
}

impl Default for Net {
    fn default() -> Self {
        Self { mode: Said::default(NetMode::Loopback), ports: Vec::new(), domains: None }
    }
}

impl Net {
    /// The port's own line, if it can be connected to.
    pub(crate) fn port(&self, port: u16) -> Option<&Said<PortEntry>> {
        self.ports.iter().find(|said| said.value.0 == port)
    }

    /// As a plan has it.
    pub(crate) fn planned(&self) -> Network {
        match self.mode.value {
            NetMode::None => Network::None,
            NetMode::Loopback => Network::Loopback,
            NetMode::Ports => Network::Ports(self.ports.iter().map(|said| said.value.0).collect()),
        }
    }

    /// What both allow.
    pub(crate) fn both(&self, other: &Self) -> Self {
        let less = if self.mode.value <= other.mode.value { self } else { other };
        if less.mode.value != NetMode::Ports {
            return less.clone();
        }
        let ports: Vec<_> =
            self.ports.iter().filter(|said| other.port(said.value.0).is_some()).cloned().collect();
        if ports.is_empty() {
            let mode = Said { value: NetMode::None, at: other.mode.at.clone() };
            return Self { mode, ports, domains: None };
        }
        let domains = match (&self.domains, &other.domains) {
            (Some(a), Some(b)) => Some(common(a, b)),
            (one, another) => one.clone().or_else(|| another.clone()),
        };
        Self { mode: self.mode.clone(), ports, domains }
    }
}

/// The names that two lists have in common.
fn common(a: &[DomainEntry], b: &[DomainEntry]) -> Vec<DomainEntry> {
    let within = |list: &[DomainEntry], one: &DomainEntry| list.iter().any(|all| all.covers(one));
    let mut common: Vec<_> = a.iter().filter(|one| within(b, one)).cloned().collect();
    common.extend(b.iter().filter(|one| within(a, one)).cloned());
    common.sort();
    common.dedup();
    common
}

#[cfg(test)]
mod tests {
    use super::*;

    fn domain(text: &str) -> Result<DomainEntry, String> {
        DomainEntry::try_from(text.to_owned())
    }

    #[test]
    fn a_domain_is_a_name_and_nothing_else() {
        for good in [
            "packages.example",
            "*.packages.example",
            "localhost",
            "a-b.x9.org",
            "xn--bcher-kva.example",
        ] {
            assert!(domain(good).is_ok(), "{good}");
        }
        let long = format!("{}.example", "a".repeat(64));
        for bad in [
            "",
            "*",
            "*.",
            ".io",
            "a..b",
            "a.",
            "-a.io",
            "a-.io",
            "A.io",
            "a b",
            "a_b.io",
            "1.2.3.4",
            "::1",
            "https://packages.example",
            "packages.example:443",
            "me@packages.example",
            "a.*.io",
            "*a.io",
            &long,
        ] {
            assert!(domain(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_two_lists_have_in_common_is_the_narrower() {
        let list = |names: &[&str]| names.iter().map(|n| domain(n).unwrap()).collect::<Vec<_>>();
        let a = list(&["*.example.com", "packages.example"]);
        let b = list(&["a.example.com", "*.b.example.com", "*.packages.example", "example.com"]);
        assert_eq!(common(&a, &b), list(&["*.b.example.com", "a.example.com"]));
        assert_eq!(common(&b, &a), common(&a, &b));
    }

    #[test]
    fn ports_are_numbers_from_1_to_65535() {
        for bad in [0, -1, 65536, 70000] {
            assert!(PortEntry::try_from(bad).is_err(), "{bad}");
        }
        assert_eq!(PortEntry::try_from(443), Ok(PortEntry(443)));
    }
}
