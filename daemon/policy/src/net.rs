//! `[net]`: network access, as it is written and as it applies. The modes are ordered for combining
//! profiles: `none` allows less than `loopback`, which can not reach the host, and that allows less
//! than `ports`. Pure: no I/O.

use crate::source::WithOrigin;
use palisade_plan::Network;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use toml::Spanned;

/// The network mode of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum NetMode {
    /// No network at all.
    None,
    /// A private loopback interface.
    Loopback,
    /// The host's network, with outbound connections to listed ports only.
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

/// A TCP port number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "i64")]
pub(crate) struct PortEntry(pub(crate) u16);

impl TryFrom<i64> for PortEntry {
    type Error = String;
    fn try_from(number: i64) -> Result<Self, String> {
        match u16::try_from(number) {
            Ok(port) if port > 0 => Ok(Self(port)),
            Ok(_) | Err(_) => Err(format!("{number} is not a port (1 to 65535)")),
        }
    }
}

/// A host name; with a leading `*.`, all names below it.
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
                "give only a host name, such as \"packages.example\" or \"*.packages.example\"",
            );
        }
        if name.contains('*') {
            return wrong("`*.` is allowed only at its beginning");
        }
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let label = |label: &str| {
            (1..=63).contains(&label.len())
                && label.chars().all(plain)
                && !label.starts_with('-')
                && !label.ends_with('-')
        };
        if name.len() > 253 || !name.split('.').all(label) {
            return wrong("names consist of a-z, 0-9 and '-', separated by dots");
        }
        Ok(Self(text))
    }
}

impl DomainEntry {
    /// Whether this entry matches every name that the other matches.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        match self.0.strip_prefix('*') {
            Some(below) => other.0.ends_with(below),
            None => self == other,
        }
    }
}

/// The section `[net]` as it is written in a profile.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct NetText {
    pub(crate) mode: Option<Spanned<NetMode>>,
    pub(crate) ports: Option<Vec<Spanned<PortEntry>>>,
    pub(crate) domains: Option<Vec<Spanned<DomainEntry>>>,
}

/// The network access of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Net {
    pub(crate) mode: WithOrigin<NetMode>,
    /// The ports that may be connected to in mode `ports`; never empty in that mode.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) ports: Vec<WithOrigin<PortEntry>>,
    /// The host names for mode `ports`. No layer enforces them yet: they are only data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) domains: Option<Vec<DomainEntry>>,
}

impl Default for Net {
    fn default() -> Self {
        Self { mode: WithOrigin::default(NetMode::Loopback), ports: Vec::new(), domains: None }
    }
}

impl Net {
    /// Returns the entry of a port, if the port may be connected to.
    pub(crate) fn port(&self, port: u16) -> Option<&WithOrigin<PortEntry>> {
        self.ports.iter().find(|said| said.value.0 == port)
    }

    /// Converts the settings to their form in a launch plan.
    pub(crate) fn planned(&self) -> Network {
        match self.mode.value {
            NetMode::None => Network::None,
            NetMode::Loopback => Network::Loopback,
            NetMode::Ports => Network::Ports(self.ports.iter().map(|said| said.value.0).collect()),
        }
    }

    /// Returns the network access that both profiles allow.
    pub(crate) fn both(&self, other: &Self) -> Self {
        let less = if self.mode.value <= other.mode.value { self } else { other };
        if less.mode.value != NetMode::Ports {
            return less.clone();
        }
        let ports: Vec<_> =
            self.ports.iter().filter(|said| other.port(said.value.0).is_some()).cloned().collect();
        if ports.is_empty() {
            let mode = WithOrigin { value: NetMode::None, at: other.mode.at.clone() };
            return Self { mode, ports, domains: None };
        }
        let domains = match (&self.domains, &other.domains) {
            (Some(a), Some(b)) => Some(common(a, b)),
            (one, another) => one.clone().or_else(|| another.clone()),
        };
        Self { mode: self.mode.clone(), ports, domains }
    }
}

/// Returns the names that both lists match.
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
