//! Explains the decision about a TCP connection. Pure: no I/O.

use super::{Act, Change, Decision, ExplainError, Explanation, TargetOwner, change};
use crate::{
    EgressDecision, Profile, Scene,
    egress::{fetch::wanted_fetch, wanted_entry},
    net::{NetMode, host::is_this_host},
};
use palisade_egress_protocol::{
    THIS_HOST, Tunnel,
    host::{Host, HostName, Target},
};
use palisade_plan::{Layer, listeners::can_be_direct};
use palisade_protocol::Denial;
use std::net::{IpAddr, SocketAddr};

/// A target: its host and port, and whether its address is a loopback address.
struct ConnectTarget {
    host: String,
    port: u16,
    loopback: bool,
}

impl ConnectTarget {
    fn parse(text: &str) -> Result<Self, ExplainError> {
        let wrong = || ExplainError::Address(text.to_owned());
        let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
        let port = port.parse::<u16>().ok().filter(|port| *port > 0).ok_or_else(wrong)?;
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let loopback = match (bare.unwrap_or(host).parse::<IpAddr>(), bare) {
            (Ok(IpAddr::V6(_)), None) | (Ok(IpAddr::V4(_)) | Err(_), Some(_)) => {
                return Err(wrong());
            }
            (Ok(address), _) => address.is_loopback() || address.is_unspecified(),
            (Err(_), None) if host.is_empty() || host.contains(['/', ':', ' ']) => {
                return Err(wrong());
            }
            (Err(_), None) => host == "localhost",
        };
        Ok(Self { host: bare.unwrap_or(host).to_owned(), port, loopback })
    }

    /// Returns the target as an egress room would ask about it; `None` if its host is neither a name
    /// nor an address.
    fn asked(&self) -> Option<Target> {
        let name = self.host.strip_suffix('.').unwrap_or(&self.host).to_ascii_lowercase();
        let host = match self.host.parse::<IpAddr>() {
            Ok(address) => Host::Address(address),
            Err(_) => Host::Name(HostName::new(name).ok()?),
        };
        Some(Target { host, port: self.port })
    }
}

/// Explains a profile's decision about a connection.
pub(super) fn connect(
    profile: &Profile,
    scene: &Scene,
    target: &str,
) -> Result<Explanation, ExplainError> {
    profile.plan(scene)?;
    let asked = ConnectTarget::parse(target)?;
    let ConnectTarget { port, loopback, .. } = asked;
    let net = &profile.settings.net;
    let mut found = Explanation {
        act: Act::Connect,
        target: target.to_owned(),
        decision: Decision::Deny,
        place: TargetOwner::Host,
        layer: Layer::Network,
        at: net.mode.at.clone(),
        rule: String::new(),
        change: None,
        note: String::new(),
    };
    match net.mode.value {
        NetMode::None => {
            "net.mode is \"none\": the session has no network".clone_into(&mut found.rule);
            found.change = Some(if loopback { serve(profile) } else { reach(profile, &asked) });
            found.place = if loopback { TargetOwner::Session } else { TargetOwner::Host };
        }
        NetMode::Loopback | NetMode::Domains if loopback => {
            found.decision = Decision::Allow;
            found.place = TargetOwner::Session;
            "the session has a private loopback, on which only its own programs listen"
                .clone_into(&mut found.rule);
            found.note = match net.host.port(port) {
                Some(_) => format!("the host's loopback has this port at {THIS_HOST}:{port}"),
                None => "the host's loopback can not be reached".to_owned(),
            };
        }
        NetMode::Loopback => {
            "net.mode is \"loopback\": the session has only a private loopback"
                .clone_into(&mut found.rule);
            found.change = Some(reach(profile, &asked));
        }
        NetMode::Domains => {
            let asked = asked.asked().ok_or_else(|| ExplainError::Address(target.to_owned()))?;
            by_name(profile, &asked, &mut found);
        }
        NetMode::Ports => {
            found.layer = Layer::Landlock;
            if let Some(said) = net.port(port) {
                found.decision = Decision::Allow;
                found.at = said.at.clone();
                found.rule = format!("net.ports allows {port}, at every address");
                "the launcher's ceiling may still refuse the session (--allow-ports)"
                    .clone_into(&mut found.note);
            } else {
                let ports: Vec<_> = net.ports.iter().map(|said| said.value.0.to_string()).collect();
                found.rule = format!("net.ports allows {}, but not {port}", ports.join(", "));
                found.change = Some(open(profile, port));
            }
        }
    }
    Ok(found)
}

/// Explains why the programs of a session can not listen on an address. Returns `None` if they can,
/// or if the text is not an address with a port. No profile changes that.
#[must_use]
pub fn explain_bind(profile: &Profile, address: &str) -> Option<Denial> {
    let asked = address.parse::<SocketAddr>().ok()?;
    let own = asked.ip().is_loopback() || asked.ip().is_unspecified();
    let mode = &profile.settings.net.mode;
    let (layer, rule, instead) = match mode.value {
        NetMode::Ports => {
            let rule = "with net.mode = \"ports\" no port can be bound";
            (Layer::Landlock, rule, "a session with net.mode = \"loopback\" can listen")
        }
        NetMode::Loopback | NetMode::Domains if !own => {
            let rule = "the session has only a private loopback, without this address";
            (Layer::Network, rule, "listen on 127.0.0.1 instead")
        }
        NetMode::None | NetMode::Loopback | NetMode::Domains
            if (1..1024).contains(&asked.port()) =>
        {
            let rule = "a port below 1024 needs a privilege that no session has";
            (Layer::Network, rule, "use a port of 1024 or above")
        }
        // Without a network a port can be bound, but nobody can connect to it.
        NetMode::None | NetMode::Loopback | NetMode::Domains => return None,
    };
    Some(Denial {
        layer: layer.name().to_owned(),
        rule: format!("bind: {rule}"),
        target: address.to_owned(),
        remedy: format!("no profile can allow it; {instead}"),
        at: mode.at.as_ref().map_or_else(String::new, ToString::to_string),
        opens: String::new(),
    })
}

/// Explains a decision about a host in mode `domains`.
fn by_name(profile: &Profile, target: &Target, found: &mut Explanation) {
    let Some(policy) = profile.egress() else { return };
    if is_this_host(&target.host) {
        return service(profile, target, found);
    }
    let net = &profile.settings.net;
    let allowed = net.allow.iter().find(|said| said.value.allows(target));
    let denied = net.deny.iter().find(|said| said.value.denies(target));
    match policy.decide(target) {
        EgressDecision::Allow { rule, tunnel } => {
            found.decision = Decision::Allow;
            let inspected = net.rule(target);
            found.at = match inspected {
                Some(said) => said.at.clone(),
                None => allowed.and_then(|said| said.at.clone()),
            };
            found.rule = format!("{rule} allows it");
            found.note = match (inspected, tunnel) {
                (Some(said), _) => format!(
                    "TLS ends in the egress room, and of the requests {} are allowed",
                    said.value
                ),
                (None, Tunnel::Any) => {
                    "any protocol may be spoken there; TLS and requests of HTTP must be for this host"
                        .to_owned()
                }
                (None, Tunnel::Checked | Tunnel::Inspected) => {
                    "only TLS and HTTP to this host may be sent".to_owned()
                }
            };
        }
        EgressDecision::Ask { .. } => {
            found.decision = Decision::Ask;
            "net.allow does not include it, and net.ask is true".clone_into(&mut found.rule);
            other_port(profile, target, found);
            found.change = policy.wanted_entry(target).map(|entry| allow(profile, entry));
        }
        EgressDecision::Deny { .. } => match denied {
            Some(said) => {
                found.at = said.at.clone();
                found.rule = format!("net.deny has \"{}\"", said.value);
                found.note = format!("remove \"{}\" from net.deny to allow it", said.value);
            }
            None => {
                "net.allow does not include it".clone_into(&mut found.rule);
                found.change = policy.wanted_entry(target).map(|entry| allow(profile, entry));
                other_port(profile, target, found);
                if let Some(said) = net.fetch.iter().find(|said| said.value.allows(target)) {
                    found.note = format!(
                        "net.fetch has \"{}\": web_fetch may get pages from it, and programs may \
                         not connect",
                        said.value
                    );
                }
            }
        },
    }
}

/// Names the line of `net.allow` that has a host, and not this port of it.
fn other_port(profile: &Profile, target: &Target, found: &mut Explanation) {
    let mut allowed = profile.settings.net.allow.iter();
    if let Some(said) = allowed.find(|said| said.value.allows_host(&target.host)) {
        found.at = said.at.clone();
        found.note = format!("net.allow has \"{}\", without port {}", said.value, target.port);
    }
}

/// Explains a decision about a port of this host.
fn service(profile: &Profile, target: &Target, found: &mut Explanation) {
    let (net, port) = (&profile.settings.net, target.port);
    match (net.deny.iter().find(|said| said.value.denies(target)), net.host.port(port)) {
        (Some(denied), _) => {
            found.at = denied.at.clone();
            found.rule = format!("net.deny has \"{}\"", denied.value);
            found.note = format!("remove \"{}\" from net.deny to allow it", denied.value);
        }
        (None, Some(said)) => {
            found.decision = Decision::Allow;
            found.at = said.at.clone();
            found.rule = format!("net.host.ports {port} allows it");
            found.note = format!("it is port {port} of this host's 127.0.0.1");
        }
        (None, None) => {
            found.rule = format!("net.host.ports does not include {port}");
            found.change = can_be_direct(port).then(|| open_service(profile, port));
        }
    }
}

/// Returns the change that opens a port of this host.
fn open_service(profile: &Profile, port: u16) -> Change {
    let how = change::how(profile, "net.host.ports", &format!("add {port} to"));
    let opens = format!(
        "every program of the session could use the service on port {port} of this host's \
         loopback; the daemon must permit it, too (allow_host)"
    );
    Change { key: "net.host.ports", value: port.to_string(), how, opens }
}

/// Returns the change that reaches a target from a session without a network: by its name or
/// address, or by its port alone if no entry can name it.
fn reach(profile: &Profile, target: &ConnectTarget) -> Change {
    let entry = target.asked().as_ref().and_then(wanted_entry);
    entry.map_or_else(|| open(profile, target.port), |entry| allow(profile, entry))
}

/// Returns the change that allows a host.
fn allow(profile: &Profile, value: String) -> Change {
    let mode = match profile.settings.net.mode.value {
        NetMode::Domains => "",
        NetMode::None | NetMode::Loopback | NetMode::Ports => "set \"domains\" as net.mode and ",
    };
    let how = change::how(profile, "net.allow", &format!("{mode}add {value:?} to"));
    let opens = format!(
        "every program of the session could connect to {value}, and send it anything that the \
         session can read"
    );
    Change { key: "net.allow", value, how, opens }
}

/// Returns the change that lets `web_fetch` get pages from a target: an entry of `net.fetch`, or of
/// `net.allow` for an address. `None` if no entry can name it.
#[must_use]
pub fn fetch_change(profile: &Profile, target: &Target) -> Option<Change> {
    let Some(value) = wanted_fetch(target) else {
        return wanted_entry(target).map(|entry| allow(profile, entry));
    };
    let how = change::how(profile, "net.fetch", &format!("add {value:?} to"));
    let opens = format!("web_fetch could get pages from {value}, and send it data in their URLs");
    Some(Change { key: "net.fetch", value, how, opens })
}

/// Returns the change that opens the port of an address in the host's network.
pub(super) fn opening(profile: &Profile, target: &str) -> Option<Change> {
    ConnectTarget::parse(target).ok().map(|target| open(profile, target.port))
}

/// Returns the change to a private loopback.
fn serve(profile: &Profile) -> Change {
    let opens = "programs of the session could connect to each other";
    change::set(profile, "net.mode", NetMode::Loopback.name(), opens)
}

/// Returns the change that adds a port of the host's network.
fn open(profile: &Profile, port: u16) -> Change {
    let mode = match profile.settings.net.mode.value {
        NetMode::Ports => String::new(),
        NetMode::None | NetMode::Loopback | NetMode::Domains => {
            "set \"ports\" as net.mode and ".to_owned()
        }
    };
    let how = change::how(profile, "net.ports", &format!("{mode}add {port} to"));
    let opens = format!(
        "every program of the session could connect by TCP to port {port} of every address, \
         including the host's loopback and the local network; the launcher's ceiling must allow \
         it too (--allow-ports)"
    );
    Change { key: "net.ports", value: port.to_string(), how, opens }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Origin, ProfileSet, examples, explain};

    fn told(profile: &Profile, target: &str) -> Explanation {
        explain(profile, &examples::scene(), Act::Connect, target).unwrap()
    }

    #[test]
    fn each_mode_answers_with_its_layer_its_line_and_what_would_open_it() {
        let set = ProfileSet::new([]).unwrap();
        let told = |name: &str, target: &str| told(set.get(name).unwrap(), target);
        let found = told("strict", "127.0.0.1:80");
        let value = found.change.as_ref().map(|change| (change.key, change.value.as_str()));
        assert_eq!((found.decision, found.place), (Decision::Deny, TargetOwner::Session));
        assert_eq!((found.layer, value), (Layer::Network, Some(("net.mode", "loopback"))));
        let found = told("workspace", "localhost:80");
        assert_eq!((found.decision, found.place), (Decision::Allow, TargetOwner::Session));
        let found = told("workspace", "example.com:443");
        let change = found.change.unwrap();
        assert_eq!(
            (found.layer, change.key, change.value.as_str()),
            (Layer::Network, "net.allow", "example.com")
        );
        let how = "set \"domains\" as net.mode and add \"example.com\" to net.allow";
        assert!(change.how.contains(how), "{}", change.how);
        // No name can have this port.
        let change = told("strict", "example.com:53").change.unwrap();
        assert!(change.how.contains("set \"ports\" as net.mode and add 53 to net.ports"));
        for target in ["example.com:443", "127.0.0.1:443", "[2001:db8::1]:443"] {
            let found = told("trusted-net", target);
            assert_eq!(
                (found.decision, found.place),
                (Decision::Allow, TargetOwner::Host),
                "{target}"
            );
            assert_eq!(found.layer, Layer::Landlock);
            let line = found.at.map(|at: Origin| (at.file, at.line));
            let text = include_str!("../../../profiles/trusted-net.toml");
            let at = text.lines().position(|line| line.trim() == "443,").unwrap() + 1;
            assert_eq!(line, Some(("built-in trusted-net".to_owned(), at)));
        }
        let found = told("trusted-net", "127.0.0.1:22");
        let change = found.change.unwrap();
        assert_eq!((found.decision, found.layer), (Decision::Deny, Layer::Landlock));
        assert_eq!(found.rule, "net.ports allows 53, 80, 443, but not 22");
        assert!(!change.how.contains("net.mode") && change.opens.contains("local network"));
        assert_eq!(found.note, "");
    }

    #[test]
    fn an_address_to_listen_on_is_refused_by_the_mode_or_by_its_own_nature() {
        let set = ProfileSet::new([]).unwrap();
        let refused = |name: &str, address: &str| explain_bind(set.get(name).unwrap(), address);
        for (name, address) in [
            ("strict", "127.0.0.1:8000"),
            ("workspace", "127.0.0.1:8000"),
            ("workspace", "0.0.0.0:8000"),
            ("workspace", "[::1]:0"),
            ("workspace", "unix:/x"),
        ] {
            assert_eq!(refused(name, address), None, "{name} {address}");
        }
        for (name, address, layer) in [
            ("strict", "127.0.0.1:80", "network"),
            ("workspace", "0.0.0.0:80", "network"),
            ("workspace", "192.0.2.1:8000", "network"),
            ("trusted-net", "0.0.0.0:8000", "landlock"),
        ] {
            let found = refused(name, address).unwrap();
            assert_eq!((found.layer.as_str(), found.target.as_str()), (layer, address));
            assert!(found.remedy.starts_with("no profile can allow it; "), "{name} {address}");
            assert!(found.at.starts_with(&format!("built-in {name}:")), "{}", found.at);
        }
    }

    #[test]
    fn a_host_is_explained_by_the_line_that_names_it() {
        let text = "version = 1\ndescription = \"x\"\n[fs]\nworkspace = \"read\"\nexecute = [\"/usr\"]\n\
                    [net]\nmode = \"domains\"\nallow = [\"packages.example\", \"git.example:22\"]\n\
                    deny = [\"paste.example\"]\n";
        let profile = Profile::parse("mine", text).unwrap();
        let asking = Profile::parse("mine", &format!("{text}ask = true\n")).unwrap();
        let line = |found: &Explanation| found.at.as_ref().map(|at| at.line);
        for target in ["packages.example:443", "Packages.Example.:80"] {
            let found = told(&profile, target);
            assert_eq!((found.decision, found.place), (Decision::Allow, TargetOwner::Host));
            assert_eq!((found.layer, line(&found)), (Layer::Network, Some(8)));
            assert_eq!(found.rule, "net.allow \"packages.example\" allows it");
            assert_eq!(found.note, "only TLS and HTTP to this host may be sent");
        }
        let found = told(&profile, "git.example:22");
        assert_eq!((found.decision, line(&found)), (Decision::Allow, Some(8)));
        assert_eq!(found.rule, "net.allow \"git.example:22\" allows it");
        let any =
            "any protocol may be spoken there; TLS and requests of HTTP must be for this host";
        assert_eq!(found.note, any);
        // Another port of a host that is named is not, and the line that names the host is told.
        for (target, note) in [
            ("git.example:443", "net.allow has \"git.example:22\", without port 443"),
            ("packages.example:8443", "net.allow has \"packages.example\", without port 8443"),
        ] {
            for (profile, decision) in [(&profile, Decision::Deny), (&asking, Decision::Ask)] {
                let found = told(profile, target);
                assert_eq!((found.decision, line(&found)), (decision, Some(8)), "{target}");
                assert_eq!(found.note, note);
            }
        }
        assert_eq!(line(&told(&profile, "other.example:443")), Some(7), "the line of net.mode");
        let found = told(&asking, "paste.example:443");
        assert_eq!((found.decision, line(&found)), (Decision::Deny, Some(9)));
        assert_eq!((found.rule.as_str(), &found.change), ("net.deny has \"paste.example\"", &None));
        assert_eq!(found.note, "remove \"paste.example\" from net.deny to allow it");
        for (target, entry) in [
            ("other.example:443", "other.example"),
            ("packages.example:8443", "packages.example:8443"),
            ("git.example:443", "git.example:443"),
            ("192.0.2.1:80", "192.0.2.1"),
            ("[2001:db8::1]:25", "[2001:db8::1]:25"),
        ] {
            let found = told(&profile, target);
            assert_eq!(found.decision, Decision::Deny);
            let change = found.change.unwrap();
            assert_eq!((change.key, change.value.as_str()), ("net.allow", entry));
            assert!(!change.how.contains("net.mode"), "{}", change.how);
            let found = told(&asking, target);
            assert_eq!(found.decision, Decision::Ask, "{target}");
            assert_eq!(found.rule, "net.allow does not include it, and net.ask is true");
        }
        let own = told(&profile, "127.0.0.1:8080");
        assert_eq!((own.decision, own.place), (Decision::Allow, TargetOwner::Session));
        assert_eq!(told(&profile, "other.example:53").change, None);
        let error = explain(&profile, &examples::scene(), Act::Connect, "a%2e.example:443");
        assert_eq!(error, Err(ExplainError::Address("a%2e.example:443".to_owned())));
    }
}
