//! `[net]`: network access, as it is written and as it applies. The modes are ordered for combining
//! profiles: `none` allows less than `loopback`, which can not reach the host, that allows less than
//! `domains`, and that allows less than `ports`. Pure: no I/O.

pub(crate) mod entry;
pub(crate) mod host;
pub(crate) mod publish;
pub(crate) mod rule;

use crate::{
    diff::{Difference, Direction, list, ordered},
    keys::{noun, text, words},
    source::WithOrigin,
};
use entry::{HostEntry, WEB_PORTS};
use host::{HostServices, HostText};
use palisade_egress_protocol::host::Target;
use palisade_plan::Network;
use publish::{PublishText, PublishedPorts};
use rule::{HostRule, HostRuleText};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeSet, fmt};
use toml::Spanned;

words! {
    /// The network mode of a session.
    pub(crate) enum NetMode {
        /// No network at all.
        None = "none",
        /// A private loopback interface.
        Loopback = "loopback",
        /// A private network from which an egress room connects to listed hosts.
        Domains = "domains",
        /// The host's network, with outbound connections to listed ports only.
        Ports = "ports",
    }
}

noun! { PortEntry: "port", "ports"; }

/// A TCP port number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "i64")]
pub(crate) struct PortEntry(pub(crate) u16);

impl fmt::Display for PortEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl TryFrom<i64> for PortEntry {
    type Error = String;
    fn try_from(number: i64) -> Result<Self, String> {
        match u16::try_from(number) {
            Ok(port) if port > 0 => Ok(Self(port)),
            Ok(_) | Err(_) => Err(format!("{number} is not a port (1 to 65535)")),
        }
    }
}

text! {
    /// The section `[net]` as it is written in a profile.
    #[derive(Debug, Default, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    "net." pub(crate) struct NetText {
        /// which network the session has; see below
        mode: Option<Spanned<NetMode>>, "`loopback`";
        /// the ports to which TCP may connect with `mode = "ports"`, from 1 to 65535
        ports: Option<Vec<Spanned<PortEntry>>>, "must be there with `ports`";
        /// with `mode = "domains"`: the hosts to which the session may connect; see below
        allow: Option<Vec<Spanned<HostEntry>>>, "none";
        /// with `mode = "domains"`: hosts that stay closed, whatever allows them
        deny: Option<Vec<Spanned<HostEntry>>>, "none";
        /// with `mode = "domains"`: hosts from which [`web_fetch`](network.md#pages-for-a-model)
        /// may get pages, besides those of `net.allow`. Programs do not reach them
        fetch: Option<Vec<Spanned<HostEntry>>> ["list of names"], "none";
        /// with `mode = "domains"`: whether approvers are asked about a host that is in neither
        /// list. `false`: it is denied
        ask: Option<bool>, "`false`";
        sections {
            host: HostText,
            publish: PublishText,
            rule: Option<Vec<Spanned<HostRuleText>>>,
        }
    }
}

/// The network access of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Net {
    pub(crate) mode: WithOrigin<NetMode>,
    /// The ports that may be connected to in mode `ports`; never empty in that mode.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) ports: Vec<WithOrigin<PortEntry>>,
    /// The hosts that may be connected to in mode `domains`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) allow: Vec<WithOrigin<HostEntry>>,
    /// The hosts that may not be connected to in mode `domains`, whatever allows them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) deny: Vec<WithOrigin<HostEntry>>,
    /// The hosts that `web_fetch` may also get pages from in mode `domains`. Programs can not reach
    /// them by this.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) fetch: Vec<WithOrigin<HostEntry>>,
    /// True if approvers are asked about a host that is neither allowed nor denied.
    #[serde(skip_serializing_if = "is_false")]
    pub(crate) ask: bool,
    /// The services of this host that may be used.
    #[serde(skip_serializing_if = "HostServices::is_empty")]
    pub(crate) host: HostServices,
    /// The ports of the session that programs of the host may connect to.
    #[serde(skip_serializing_if = "PublishedPorts::is_empty")]
    pub(crate) publish: PublishedPorts,
    /// The hosts whose requests are judged one by one in mode `domains`. For them these count, and
    /// not `allow`.
    #[serde(rename = "rule", skip_serializing_if = "Vec::is_empty")]
    pub(crate) rules: Vec<WithOrigin<HostRule>>,
}

// The form that serde wants.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_false(ask: &bool) -> bool {
    !*ask
}

impl Default for Net {
    fn default() -> Self {
        Self::without_hosts(WithOrigin::default(NetMode::Loopback))
    }
}

impl Net {
    /// Returns a mode that has neither ports nor hosts.
    pub(crate) const fn without_hosts(mode: WithOrigin<NetMode>) -> Self {
        Self {
            mode,
            ports: Vec::new(),
            allow: Vec::new(),
            deny: Vec::new(),
            fetch: Vec::new(),
            ask: false,
            host: HostServices { ports: Vec::new(), sockets: Vec::new() },
            publish: PublishedPorts { ports: Vec::new() },
            rules: Vec::new(),
        }
    }

    /// Returns the entry of a port, if the port may be connected to.
    pub(crate) fn port(&self, port: u16) -> Option<&WithOrigin<PortEntry>> {
        self.ports.iter().find(|said| said.value.0 == port)
    }

    /// Converts the settings to their form in a launch plan.
    pub(crate) fn planned(&self) -> Network {
        match self.mode.value {
            NetMode::None => Network::None,
            NetMode::Loopback => Network::Loopback,
            NetMode::Domains => Network::Domains(self.direct_ports()),
            NetMode::Ports => Network::Ports(self.ports.iter().map(|said| said.value.0).collect()),
        }
    }

    /// Returns the ports with a listener for programs that know no proxy, in order: those of web
    /// servers, and those that allowed entries and the host's services have.
    pub(crate) fn direct_ports(&self) -> Vec<u16> {
        let named = self.allow.iter().filter_map(|said| said.value.port);
        let inspected = self.rules.iter().map(|said| said.value.port());
        let of_host = self.host.ports.iter().map(|said| said.value.0);
        let named = named.chain(inspected).chain(of_host);
        let ports: BTreeSet<u16> = WEB_PORTS.into_iter().chain(named).collect();
        ports.into_iter().collect()
    }

    /// Returns the rule for a target, if its requests are judged one by one.
    pub(crate) fn rule(&self, target: &Target) -> Option<&WithOrigin<HostRule>> {
        self.rules.iter().find(|said| said.value.is_for(target))
    }

    /// Returns `true` if the settings allow every request that a rule allows.
    pub(crate) fn covers_rule(&self, rule: &HostRule) -> bool {
        match self.rules.iter().find(|said| said.value.is_for_host_of(rule)) {
            Some(said) => said.value.covers(rule),
            None => rule.credential.is_none() && self.covers(&rule.entry()),
        }
    }

    /// Returns `true` if the settings allow all hosts and ports of an entry without approval.
    pub(crate) fn covers(&self, entry: &HostEntry) -> bool {
        let covers = |port: u16| match self.mode.value {
            NetMode::None | NetMode::Loopback => false,
            NetMode::Domains => self.allow.iter().any(|said| {
                said.value.covers_hosts(entry) && said.value.open_ports().contains(&port)
            }),
            // Every address of the port, so also those of the entry.
            NetMode::Ports => self.port(port).is_some(),
        };
        entry.open_ports().into_iter().all(covers)
    }

    /// Returns `true` if `web_fetch` may get pages from all hosts and ports of an entry without
    /// approval.
    pub(crate) fn covers_fetch(&self, entry: &HostEntry) -> bool {
        let lists = |port: u16| {
            self.fetch.iter().any(|said| {
                said.value.covers_hosts(entry) && said.value.open_ports().contains(&port)
            })
        };
        entry.open_ports().into_iter().all(|port| {
            lists(port) || self.covers(&HostEntry { hosts: entry.hosts.clone(), port: Some(port) })
        })
    }

    /// Returns the network access that both profiles allow.
    pub(crate) fn both(&self, other: &Self) -> Self {
        let (less, more) =
            if self.mode.value <= other.mode.value { (self, other) } else { (other, self) };
        let host = self.host.both(&other.host, less.mode.value);
        let publish = self.publish.both(&other.publish, less.mode.value);
        let common = match (less.mode.value, more.mode.value) {
            (NetMode::None | NetMode::Loopback, _) => less.clone(),
            (NetMode::Domains, _) => {
                less.with_hosts_of(more, host.ports.len() + publish.ports.len() > 0)
            }
            (NetMode::Ports, _) => self.with_ports_of(other),
        };
        let (host, publish) = (host.within(common.mode.value), publish.within(common.mode.value));
        Self { host, publish, ..common }
    }

    fn with_ports_of(&self, other: &Self) -> Self {
        let ports: Vec<_> =
            self.ports.iter().filter(|said| other.port(said.value.0).is_some()).cloned().collect();
        if ports.is_empty() {
            let mode = WithOrigin { value: NetMode::None, at: other.mode.at.clone() };
            return Self::without_hosts(mode);
        }
        Self { ports, ..self.clone() }
    }

    /// Returns the hosts of mode `domains` that another profile allows too. An approval of one
    /// profile does not stand for the other, so approvers are asked only if both ask.
    fn with_hosts_of(&self, other: &Self, has_services: bool) -> Self {
        let allow = sorted(self.allow.iter().flat_map(|said| other.allowed_of(said)).collect());
        let fetch = self.fetch_with(other);
        let ask = self.ask && other.ask;
        let rules = self.rules_with(other);
        let has_hosts = !allow.is_empty() || !fetch.is_empty() || !rules.is_empty();
        if !has_hosts && !ask && !has_services {
            let mode = WithOrigin { value: NetMode::Loopback, at: other.mode.at.clone() };
            return Self::without_hosts(mode);
        }
        let mut deny = self.deny.clone();
        let more = other.deny.iter().filter(|said| self.deny.iter().all(|d| d.value != said.value));
        deny.extend(more.cloned());
        deny.sort_by(|a, b| a.value.cmp(&b.value));
        Self { allow, deny, fetch, ask, rules, ..self.clone() }
    }

    /// Returns the parts of an allowed entry that these settings allow, too.
    fn allowed_of(&self, said: &WithOrigin<HostEntry>) -> Vec<WithOrigin<HostEntry>> {
        let found: Vec<HostEntry> = match self.mode.value {
            NetMode::None | NetMode::Loopback => Vec::new(),
            NetMode::Domains => common(said, &self.allow),
            NetMode::Ports => said.value.at_ports(|port| self.port(port).is_some()),
        };
        found.into_iter().map(|value| WithOrigin { value, at: said.at.clone() }).collect()
    }

    /// Returns the hosts that `web_fetch` may get pages from by both settings, and programs by one of
    /// them at most.
    fn fetch_with(&self, other: &Self) -> Vec<WithOrigin<HostEntry>> {
        let both = |said: &WithOrigin<HostEntry>| {
            let found = common(said, &other.fetch).into_iter();
            found.map(|value| WithOrigin { value, at: said.at.clone() }).collect::<Vec<_>>()
        };
        let mut fetch: Vec<_> = self.fetch.iter().flat_map(both).collect();
        fetch.extend(self.fetch.iter().flat_map(|said| other.allowed_of(said)));
        fetch.extend(other.fetch.iter().flat_map(|said| self.allowed_of(said)));
        sorted(fetch)
    }

    /// Returns the rules of both settings, each as narrow as the other makes it. A rule whose host the
    /// other does not allow at all is left out.
    fn rules_with(&self, other: &Self) -> Vec<WithOrigin<HostRule>> {
        let narrowed = |said: &WithOrigin<HostRule>, by: &Self| -> Option<WithOrigin<HostRule>> {
            let value = match by.rules.iter().find(|one| one.value.is_for_host_of(&said.value)) {
                Some(one) => said.value.common(&one.value)?,
                None if by.covers(&said.value.entry()) => {
                    HostRule { credential: None, ..said.value.clone() }
                }
                None => return None,
            };
            Some(WithOrigin { value, at: said.at.clone() })
        };
        let mut rules: Vec<_> =
            self.rules.iter().filter_map(|said| narrowed(said, other)).collect();
        let is_new = |said: &&WithOrigin<HostRule>| {
            self.rules.iter().all(|one| !one.value.is_for_host_of(&said.value))
        };
        rules.extend(other.rules.iter().filter(is_new).filter_map(|said| narrowed(said, self)));
        rules.sort_by(|a, b| a.value.cmp(&b.value));
        rules
    }

    /// Returns the differences of another profile's network access from this one.
    pub(crate) fn differences(&self, other: &Self) -> Vec<Difference> {
        let (more, less) = (Direction::More, Direction::Less);
        let (from, to) = (self.mode.value, other.mode.value);
        let texts = (from.name().to_owned(), to.name().to_owned());
        let mut found = Vec::from_iter(ordered("net.mode", to.cmp(&from), texts));
        let texts = (self.ask.to_string(), other.ask.to_string());
        found.extend(ordered("net.ask", other.ask.cmp(&self.ask), texts));
        for (one, other, (within, beyond), word) in
            [(self, other, (less, more), "with"), (other, self, (more, less), "without")]
        {
            let mut push = |direction, key, what: &dyn fmt::Display| {
                found.push(Difference::new(direction, key, format!("{word} {what}")));
            };
            for said in other.allow.iter().filter(|said| !one.covers(&said.value)) {
                push(beyond, "net.allow", &said.value);
            }
            for said in other.fetch.iter().filter(|said| !one.covers_fetch(&said.value)) {
                push(beyond, "net.fetch", &said.value);
            }
            for rule in other.rules.iter().map(|said| &said.value) {
                if one.rules.iter().all(|said| said.value != *rule) {
                    let direction = if one.covers_rule(rule) { within } else { beyond };
                    push(direction, "net.rule", &format_args!("{}: {rule}", rule.host));
                }
            }
        }
        found.extend(entries("net.ports", more, &self.ports, &other.ports));
        found.extend(entries("net.deny", less, &self.deny, &other.deny));
        found.extend(entries("net.host.ports", more, &self.host.ports, &other.host.ports));
        let sockets = (&self.host.sockets, &other.host.sockets);
        found.extend(entries("net.host.sockets", more, sockets.0, sockets.1));
        let ports = (&self.publish.ports, &other.publish.ports);
        found.extend(entries("net.publish.ports", more, ports.0, ports.1));
        found
    }
}

/// Compares a list without the source positions of its entries.
fn entries<T: PartialEq + fmt::Display>(
    key: &str,
    entry: Direction,
    a: &[WithOrigin<T>],
    b: &[WithOrigin<T>],
) -> Vec<Difference> {
    let [a, b] = [a, b].map(|list| list.iter().map(|said| &said.value).collect::<Vec<_>>());
    list(key, entry, (&a, &b), ToString::to_string)
}

/// Returns the parts of an entry that are also in a list.
fn common(said: &WithOrigin<HostEntry>, list: &[WithOrigin<HostEntry>]) -> Vec<HostEntry> {
    list.iter().flat_map(|one| said.value.common(&one.value)).collect()
}

/// Returns entries in order, each once.
fn sorted(mut entries: Vec<WithOrigin<HostEntry>>) -> Vec<WithOrigin<HostEntry>> {
    entries.sort_by(|a, b| a.value.cmp(&b.value));
    entries.dedup_by(|a, b| a.value == b.value);
    entries
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_numbers_from_1_to_65535() {
        for bad in [0, -1, 65536, 70000] {
            assert!(PortEntry::try_from(bad).is_err(), "{bad}");
        }
        assert_eq!(PortEntry::try_from(443), Ok(PortEntry(443)));
    }
}
