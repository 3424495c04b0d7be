//! Decides about the connections and lookups of a session in mode `domains`, one at a time. The
//! broker asks; the egress room carries the bytes. Pure: no I/O.

pub(crate) mod fetch;

use crate::{
    Profile,
    net::{
        NetMode,
        entry::{HostEntry, Hosts, tunnel},
        host::is_this_host,
        rule::HostRule,
    },
    source::WithOrigin,
};
use palisade_egress_protocol::{
    EgressBudget, NamedAddresses, Tunnel, WebRequest,
    host::{Host, HostName, Target},
};
use palisade_plan::listeners::can_be_direct;
use std::path::PathBuf;

/// A decision about one connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EgressDecision {
    /// It may go there.
    Allow {
        /// The entry of the profile that allows it.
        rule: String,
        /// The check of what is sent.
        tunnel: Tunnel,
    },
    /// Approvers decide.
    Ask {
        /// The check of what is sent, if they approve.
        tunnel: Tunnel,
    },
    /// It may not.
    Deny {
        /// The reason, with the profile key to change.
        reason: String,
    },
}

/// The network access of a session in mode `domains`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EgressPolicy {
    profile: String,
    allow: Vec<HostEntry>,
    deny: Vec<HostEntry>,
    fetch: Vec<HostEntry>,
    ask: bool,
    rules: Vec<HostRule>,
    ports: Vec<u16>,
    host_ports: Vec<u16>,
    published: Vec<u16>,
    budget: EgressBudget,
}

impl Profile {
    /// Returns the rules for a session's connections; `None` unless `net.mode` is `domains`.
    #[must_use]
    pub fn egress(&self) -> Option<EgressPolicy> {
        let net = &self.settings.net;
        match net.mode.value {
            NetMode::Domains => {}
            NetMode::None | NetMode::Loopback | NetMode::Ports => return None,
        }
        let entries = |list: &[WithOrigin<HostEntry>]| -> Vec<HostEntry> {
            list.iter().map(|said| said.value.clone()).collect()
        };
        let limits = &self.settings.limits;
        let budget = EgressBudget {
            connections: u32::try_from(limits.connections.get()).unwrap_or(u32::MAX),
            upload_bytes: limits.upload.bytes(),
        };
        Some(EgressPolicy {
            profile: self.name().to_owned(),
            allow: entries(&net.allow),
            deny: entries(&net.deny),
            fetch: entries(&net.fetch),
            ask: net.ask,
            rules: net.rules.iter().map(|said| said.value.clone()).collect(),
            ports: net.direct_ports(),
            host_ports: self.host_ports(),
            published: self.published_ports(),
            budget,
        })
    }
}

impl Profile {
    /// Returns the ports of this host's loopback that sessions may connect to.
    #[must_use]
    pub fn host_ports(&self) -> Vec<u16> {
        self.settings.net.host.ports.iter().map(|said| said.value.0).collect()
    }

    /// Returns the Unix sockets of this host that sessions may connect to.
    #[must_use]
    pub fn host_sockets(&self) -> Vec<PathBuf> {
        self.settings.net.host.sockets.iter().map(|said| said.value.path().to_owned()).collect()
    }
}

impl EgressPolicy {
    /// Decides about a connection: denied entries first, then rules, then allowed entries, then
    /// approvers.
    #[must_use]
    pub fn decide(&self, target: &Target) -> EgressDecision {
        if let Some(entry) = self.deny.iter().find(|entry| entry.denies(target)) {
            return EgressDecision::Deny { reason: self.denied(&target.host, entry) };
        }
        if is_this_host(&target.host) {
            return self.service(target.port);
        }
        if let Some(rule) = self.rules.iter().find(|rule| rule.is_for(target)) {
            let rule = format!("net.rule \"{}\"", rule.host);
            return EgressDecision::Allow { rule, tunnel: Tunnel::Inspected };
        }
        if let Some(entry) = self.allow.iter().find(|entry| entry.allows(target)) {
            return EgressDecision::Allow { rule: rule(entry), tunnel: tunnel(target.port) };
        }
        if self.ask {
            return EgressDecision::Ask { tunnel: tunnel(target.port) };
        }
        EgressDecision::Deny { reason: self.missing(target) }
    }

    /// Decides about a request to an inspected host. A request that the host's rule does not allow is
    /// denied; approvers are not asked.
    #[must_use]
    pub fn decide_request(&self, target: &Target, request: &WebRequest) -> EgressDecision {
        if let Some(entry) = self.deny.iter().find(|entry| entry.denies(target)) {
            return EgressDecision::Deny { reason: self.denied(&target.host, entry) };
        }
        let Some(rule) = self.rules.iter().find(|rule| rule.is_for(target)) else {
            let profile = &self.profile;
            let reason = format!("profile {profile:?} has no net.rule for {target}");
            return EgressDecision::Deny { reason };
        };
        match rule.judge(request) {
            Ok(pattern) => EgressDecision::Allow {
                rule: format!("net.rule \"{}\" with \"{pattern}\"", rule.host),
                tunnel: Tunnel::Checked,
            },
            Err(why) => EgressDecision::Deny {
                reason: format!(
                    "the net.rule of profile {:?} for \"{}\" does not allow this request: {why}",
                    self.profile, rule.host
                ),
            },
        }
    }

    /// Returns the names of the inspected hosts; none: the session needs no authority.
    #[must_use]
    pub fn inspected(&self) -> Vec<HostName> {
        let name = |rule: &HostRule| match &rule.host.hosts {
            Hosts::Name(name) => Some(name.clone()),
            Hosts::Below(_) | Hosts::Addresses(_) => None,
        };
        self.rules.iter().filter_map(name).collect()
    }

    /// Returns the credentials of inspected hosts: each host, the name of the credential, and the
    /// variable in which programs find its placeholder.
    #[must_use]
    pub fn credentials(&self) -> Vec<(Target, String, String)> {
        let of = |rule: &HostRule| match (&rule.host.hosts, &rule.credential) {
            (Hosts::Name(name), Some(credential)) => {
                let target = Target { host: Host::Name(name.clone()), port: rule.port() };
                Some((target, credential.0.clone(), credential.variable()))
            }
            (Hosts::Name(_) | Hosts::Below(_) | Hosts::Addresses(_), _) => None,
        };
        self.rules.iter().filter_map(of).collect()
    }

    /// Decides about a query for the addresses of a name. It is allowed if a connection to some port
    /// could be allowed or asked about, and never asked about itself.
    #[must_use]
    pub fn lookup(&self, name: &HostName) -> EgressDecision {
        let host = Host::Name(name.clone());
        if let Some(entry) = self.deny.iter().find(|entry| entry.denies_host(&host)) {
            return EgressDecision::Deny { reason: self.denied(&host, entry) };
        }
        let allow = |rule| EgressDecision::Allow { rule, tunnel: Tunnel::Checked };
        if is_this_host(&host) {
            return match self.host_ports.is_empty() {
                false => allow("net.host.ports".to_owned()),
                true => EgressDecision::Deny {
                    reason: format!("net.host.ports of profile {:?} is empty", self.profile),
                },
            };
        }
        if let Some(entry) = self.allow.iter().find(|entry| entry.allows_host(&host)) {
            return allow(rule(entry));
        }
        if let Some(rule) = self.rules.iter().find(|rule| rule.host.allows_host(&host)) {
            return allow(format!("net.rule \"{}\"", rule.host));
        }
        if self.ask {
            return allow("net.ask".to_owned());
        }
        let reason = format!(
            "net.allow of profile {:?} does not include {name}; add {:?} to it",
            self.profile,
            name.as_str()
        );
        EgressDecision::Deny { reason }
    }

    /// Returns the ports with a listener for programs that know no proxy.
    #[must_use]
    pub fn ports(&self) -> &[u16] {
        &self.ports
    }

    /// Returns the ports of this host's loopback that sessions may connect to.
    #[must_use]
    pub fn host_ports(&self) -> &[u16] {
        &self.host_ports
    }

    /// Returns the ports of the session that programs of the host may connect to.
    #[must_use]
    pub fn published(&self) -> &[u16] {
        &self.published
    }

    /// Decides about a connection of a program of the host into the session.
    #[must_use]
    pub fn decide_inward(&self, port: u16) -> EgressDecision {
        if self.published.contains(&port) {
            let rule = format!("net.publish.ports {port}");
            return EgressDecision::Allow { rule, tunnel: Tunnel::Any };
        }
        let reason = format!("net.publish.ports of profile {:?} has no {port}", self.profile);
        EgressDecision::Deny { reason }
    }

    /// Decides about a port of this host. It is never asked about, and no entry of `net.allow` opens
    /// it.
    fn service(&self, port: u16) -> EgressDecision {
        if self.host_ports.contains(&port) {
            let rule = format!("net.host.ports {port}");
            return EgressDecision::Allow { rule, tunnel: Tunnel::Any };
        }
        let profile = &self.profile;
        let reason =
            format!("net.host.ports of profile {profile:?} does not include {port}; add it there");
        EgressDecision::Deny { reason }
    }

    /// Returns the allowed addresses, to which names may lead although they are not on the public
    /// internet.
    #[must_use]
    pub fn named(&self) -> Vec<NamedAddresses> {
        let at = |entry: &HostEntry| {
            let ports = entry.open_ports().into_iter();
            ports.filter_map(|port| entry.addresses(Some(port))).collect::<Vec<_>>()
        };
        self.allow.iter().flat_map(at).collect()
    }

    /// Returns the denied addresses, to which no name may lead.
    #[must_use]
    pub fn denied_addresses(&self) -> Vec<NamedAddresses> {
        self.deny.iter().filter_map(|entry| entry.addresses(entry.port)).collect()
    }

    /// Returns the session's limits.
    #[must_use]
    pub const fn budget(&self) -> EgressBudget {
        self.budget
    }

    fn denied(&self, host: &Host, entry: &HostEntry) -> String {
        format!(
            "net.deny of profile {:?} has \"{entry}\", which includes {host}; remove it there to \
             allow this",
            self.profile
        )
    }

    fn missing(&self, target: &Target) -> String {
        let profile = &self.profile;
        let known = self.allow.iter().find(|entry| entry.allows_host(&target.host));
        let why = match known {
            Some(entry) => format!(
                "net.allow of profile {profile:?} has \"{entry}\", but not port {} of {}",
                target.port, target.host
            ),
            None => format!("net.allow of profile {profile:?} does not include {target}"),
        };
        match self.wanted_entry(target) {
            Some(wanted) => format!("{why}; add {wanted:?} to net.allow"),
            None => format!("{why}; no profile can allow port {}", target.port),
        }
    }

    /// Returns the entry that would allow a target in `net.allow`; `None` if no entry can name its
    /// port.
    pub(crate) fn wanted_entry(&self, target: &Target) -> Option<String> {
        let known = self.allow.iter().any(|entry| entry.allows_host(&target.host));
        // An entry without a port would overlap with those that name one.
        if known { with_port(target) } else { wanted_entry(target) }
    }
}

/// Returns the entry that would allow a target in an empty `net.allow`; `None` if no entry can name
/// its port.
pub(crate) fn wanted_entry(target: &Target) -> Option<String> {
    match (tunnel(target.port), &target.host) {
        (Tunnel::Checked, Host::Address(address)) => Some(address.to_string()),
        (Tunnel::Checked, Host::Name(name)) => Some(name.to_string()),
        (Tunnel::Any | Tunnel::Inspected, Host::Name(_) | Host::Address(_)) => with_port(target),
    }
}

fn with_port(target: &Target) -> Option<String> {
    can_be_direct(target.port).then(|| target.to_string())
}

fn rule(entry: &HostEntry) -> String {
    format!("net.allow \"{entry}\"")
}

#[cfg(test)]
mod rule_tests;
#[cfg(test)]
mod tests;
