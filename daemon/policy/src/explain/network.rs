//! What becomes of a TCP connection.

use super::{Act, Change, Decision, ExplainError, Explanation, Place, change};
use crate::{Profile, Scene, net::NetMode};
use palisade_plan::Layer;
use std::net::IpAddr;

/// What is said wherever a list of domains could be taken for a promise.
const DOMAINS: &str =
    "net.domains is data for what comes later: no layer holds a connection to a name";

/// A target: its port, and whether its address is a loopback's.
struct Target {
    port: u16,
    loopback: bool,
}

impl Target {
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
        Ok(Self { port, loopback })
    }
}

/// What a profile answers.
pub(super) fn connect(
    profile: &Profile,
    scene: &Scene,
    target: &str,
) -> Result<Explanation, ExplainError> {
    profile.plan(scene)?;
    let Target { port, loopback } = Target::parse(target)?;
    let net = &profile.settings.net;
    let mut found = Explanation {
        act: Act::Connect,
        target: target.to_owned(),
        decision: Decision::Deny,
        place: Place::Host,
        layer: Layer::Network,
        at: net.mode.at.clone(),
        rule: String::new(),
        change: None,
        note: String::new(),
    };
    match net.mode.value {
        NetMode::None => {
            "net.mode is \"none\": no address is there to connect to".clone_into(&mut found.rule);
            found.change = Some(if loopback { serve(profile) } else { open(profile, port) });
            found.place = if loopback { Place::Session } else { Place::Host };
        }
        NetMode::Loopback if loopback => {
            found.decision = Decision::Allow;
            found.place = Place::Session;
            "a session has a loopback of its own, on which only it listens"
                .clone_into(&mut found.rule);
            "nothing of the host's loopback is reached".clone_into(&mut found.note);
        }
        NetMode::Loopback => {
            "net.mode is \"loopback\": there is nothing but a loopback of the session's own"
                .clone_into(&mut found.rule);
            found.change = Some(open(profile, port));
        }
        NetMode::Ports => {
            found.layer = Layer::Landlock;
            if let Some(said) = net.port(port) {
                found.decision = Decision::Allow;
                found.at = said.at.clone();
                found.rule = format!("net.ports has {port}, at every address");
                "the launcher's ceiling may still refuse the session (--allow-ports)"
                    .clone_into(&mut found.note);
            } else {
                let ports: Vec<_> = net.ports.iter().map(|said| said.value.0.to_string()).collect();
                found.rule = format!("net.ports has {}, and not {port}", ports.join(", "));
                found.change = Some(open(profile, port));
            }
        }
    }
    if net.domains.is_some() {
        let dot = if found.note.is_empty() { "" } else { "; " };
        found.note += &format!("{dot}{DOMAINS}");
    }
    Ok(found)
}

/// What opens the port of an address, in the host's network.
pub(super) fn opening(profile: &Profile, target: &str) -> Option<Change> {
    Target::parse(target).ok().map(|target| open(profile, target.port))
}

/// A loopback of the session's own.
fn serve(profile: &Profile) -> Change {
    let opens = "programs of the session could serve to each other";
    change::set(profile, "net.mode", NetMode::Loopback.name(), opens)
}

/// One more port of the host's network.
fn open(profile: &Profile, port: u16) -> Change {
    let mode = match profile.settings.net.mode.value {
        NetMode::Ports => String::new(),
        NetMode::None | NetMode::Loopback => "set \"ports\" as net.mode and ".to_owned(),
    };
    let how = change::how(profile, "net.ports", &format!("{mode}add {port} to"));
    let opens = format!(
        "TCP to port {port} of every address, the host's own loopback and the local network among \
         them, for every program of the session, in the host's network; the launcher's ceiling must \
         allow it too (--allow-ports)"
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
        assert_eq!((found.decision, found.place), (Decision::Deny, Place::Session));
        assert_eq!((found.layer, value), (Layer::Network, Some(("net.mode", "loopback"))));
        let found = told("workspace", "localhost:80");
        assert_eq!((found.decision, found.place), (Decision::Allow, Place::Session));
        let found = told("workspace", "example.com:443");
        let change = found.change.unwrap();
        assert_eq!(
            (found.layer, change.key, change.value.as_str()),
            (Layer::Network, "net.ports", "443")
        );
        assert!(change.how.contains("set \"ports\" as net.mode and add 443 to net.ports"));
        for target in ["example.com:443", "127.0.0.1:443", "[2001:db8::1]:443"] {
            let found = told("trusted-net", target);
            assert_eq!((found.decision, found.place), (Decision::Allow, Place::Host), "{target}");
            assert_eq!(found.layer, Layer::Landlock);
            let line = found.at.map(|at: Origin| (at.file, at.line));
            let text = include_str!("../../../profiles/trusted-net.toml");
            let at = text.lines().position(|line| line.trim() == "443,").unwrap() + 1;
            assert_eq!(line, Some(("built-in trusted-net".to_owned(), at)));
        }
        let found = told("trusted-net", "127.0.0.1:22");
        let change = found.change.unwrap();
        assert_eq!((found.decision, found.layer), (Decision::Deny, Layer::Landlock));
        assert_eq!(found.rule, "net.ports has 53, 80, 443, and not 22");
        assert!(!change.how.contains("net.mode") && change.opens.contains("local network"));
        assert_eq!(found.note, "");
    }

    #[test]
    fn a_list_of_domains_is_never_taken_for_a_promise() {
        let text = "version = 1\ndescription = \"x\"\n[fs]\nworkspace = \"read\"\nexecute = [\"/usr\"]\n\
                    [net]\nmode = \"ports\"\nports = [443]\ndomains = [\"packages.example\"]\n";
        let profile = Profile::parse("mine", text).unwrap();
        assert!(profile.names_domains());
        for (target, decision) in [
            ("packages.example:443", Decision::Allow),
            ("example.com:443", Decision::Allow),
            ("packages.example:80", Decision::Deny),
        ] {
            let found = told(&profile, target);
            assert_eq!(found.decision, decision, "{target}");
            assert!(found.note.ends_with(DOMAINS), "{}", found.note);
        }
    }
}
