//! Tests of the decisions about connections.

use super::*;
use crate::{Owner, ProfileError, ProfileSet, Source, diff};
use palisade_plan::Network;

const FILES: &str = "[fs]\nworkspace = \"read\"\nexecute = [\"/usr\"]\n";

const BASE: &str = "[net]\nmode = \"domains\"\nask = true\n\
    allow = [\"packages.example\", \"*.files.example\", \"mirror.example:8080\", \"10.0.0.0/8:5432\"]\n\
    deny = [\"paste.files.example\", \"10.9.0.0/16\", \"packages.example:80\"]\n";

/// Loads profiles, each with a name, what it extends and its `[net]`.
pub(super) fn load(texts: &[(&'static str, &str, &str)]) -> Result<ProfileSet, ProfileError> {
    let whole = |(name, extends, net): &(&'static str, &str, &str)| {
        let rest = if extends.is_empty() { FILES } else { "" };
        (*name, format!("version = 1\ndescription = \"x\"\n{extends}\n{rest}{net}"))
    };
    let texts: Vec<_> = texts.iter().map(whole).collect();
    let owner = Owner::Root;
    ProfileSet::new(texts.iter().map(|(name, text)| Source { name, file: name, text, owner }))
}

pub(super) fn policy(net: &str) -> EgressPolicy {
    load(&[("mine", "", net)]).unwrap().get("mine").unwrap().egress().unwrap()
}

pub(super) fn target(text: &str) -> Target {
    let (host, port) = text.rsplit_once(':').unwrap();
    let host = match host.parse() {
        Ok(address) => Host::Address(address),
        Err(_) => Host::Name(HostName::new(host).unwrap()),
    };
    Target { host, port: port.parse().unwrap() }
}

/// Returns the decision about a connection in one word, and its rule or reason.
pub(super) fn decided(policy: &EgressPolicy, text: &str) -> (&'static str, String) {
    match policy.decide(&target(text)) {
        EgressDecision::Allow { rule, tunnel: Tunnel::Checked } => ("checked", rule),
        EgressDecision::Allow { rule, tunnel: Tunnel::Any } => ("any", rule),
        EgressDecision::Allow { rule, tunnel: Tunnel::Inspected } => ("inspected", rule),
        EgressDecision::Ask { .. } => ("ask", String::new()),
        EgressDecision::Deny { reason } => ("deny", reason),
    }
}

#[test]
fn denied_comes_first_then_allowed_then_asked() {
    let asking = policy(BASE);
    let silent = policy(&BASE.replace("ask = true", "ask = false"));
    for (text, word, rule) in [
        ("packages.example:443", "checked", "net.allow \"packages.example\""),
        ("packages.example:80", "deny", "net.deny of profile \"mine\" has \"packages.example:80\""),
        ("a.files.example:443", "checked", "net.allow \"*.files.example\""),
        ("paste.files.example:443", "deny", "net.deny of profile \"mine\" has"),
        ("paste.files.example:22", "deny", "net.deny of profile \"mine\" has"),
        ("mirror.example:8080", "any", "net.allow \"mirror.example:8080\""),
        ("10.1.2.3:5432", "any", "net.allow \"10.0.0.0/8:5432\""),
        ("10.9.2.3:5432", "deny", "net.deny of profile \"mine\" has \"10.9.0.0/16\""),
    ] {
        for policy in [&asking, &silent] {
            let (decided, said) = decided(policy, text);
            assert_eq!(decided, word, "{text}");
            assert!(said.starts_with(rule), "{text}: {said}");
        }
    }
    for (text, reason) in [
        (
            "packages.example:22",
            "net.allow of profile \"mine\" has \"packages.example\", but not port 22 of \
             packages.example; add \"packages.example:22\" to net.allow",
        ),
        (
            "other.example:443",
            "net.allow of profile \"mine\" does not include other.example:443; add \
             \"other.example\" to net.allow",
        ),
        (
            "files.example:80",
            "net.allow of profile \"mine\" does not include files.example:80; add \
             \"files.example\" to net.allow",
        ),
        (
            "1.1.1.1:443",
            "net.allow of profile \"mine\" does not include 1.1.1.1:443; add \"1.1.1.1\" to net.allow",
        ),
    ] {
        assert_eq!(decided(&asking, text).0, "ask", "{text}");
        assert_eq!(decided(&silent, text), ("deny", reason.to_owned()));
    }
    let reason = "net.allow of profile \"mine\" does not include other.example:53; no profile can \
                  allow port 53";
    assert_eq!(decided(&silent, "other.example:53"), ("deny", reason.to_owned()));
    let at = |port| asking.decide(&target(&format!("other.example:{port}")));
    assert_eq!(at(443), EgressDecision::Ask { tunnel: Tunnel::Checked });
    assert_eq!(at(22), EgressDecision::Ask { tunnel: Tunnel::Any });
}

#[test]
fn a_name_is_looked_up_if_some_port_of_it_may_be_reached() {
    let asking = policy(BASE);
    let silent = policy(&BASE.replace("ask = true", "ask = false"));
    let looked =
        |policy: &EgressPolicy, name: &str| match policy.lookup(&HostName::new(name).unwrap()) {
            EgressDecision::Allow { rule, .. } => rule,
            EgressDecision::Ask { .. } => "asked".to_owned(),
            EgressDecision::Deny { reason } => reason,
        };
    for policy in [&asking, &silent] {
        // One of its ports is denied, and the other is not.
        assert_eq!(looked(policy, "packages.example"), "net.allow \"packages.example\"");
        assert_eq!(looked(policy, "mirror.example"), "net.allow \"mirror.example:8080\"");
        assert!(looked(policy, "paste.files.example").starts_with("net.deny of profile"));
    }
    assert_eq!(looked(&asking, "other.example"), "net.ask");
    assert_eq!(
        looked(&silent, "other.example"),
        "net.allow of profile \"mine\" does not include other.example; add \"other.example\" to it"
    );
}

#[test]
fn the_egress_room_gets_ports_addresses_and_limits() {
    let limits = "\n[limits]\nconnections = 7\nupload = \"2MiB\"\n";
    let set = load(&[("mine", "", &format!("{BASE}{limits}"))]).unwrap();
    let profile = set.get("mine").unwrap();
    let policy = profile.egress().unwrap();
    assert_eq!(policy.ports(), [80, 443, 5432, 8080]);
    let network = profile.plan(&crate::examples::scene()).unwrap().network;
    assert_eq!(network, Network::Domains(vec![80, 443, 5432, 8080]));
    let range = |first: [u8; 4], bits, port| NamedAddresses { first: first.into(), bits, port };
    assert_eq!(policy.named(), [range([10, 0, 0, 0], 8, Some(5432))]);
    assert_eq!(policy.denied_addresses(), [range([10, 9, 0, 0], 16, None)]);
    assert_eq!(policy.budget(), EgressBudget { connections: 7, upload_bytes: 2 << 20 });
    let web = self::policy("[net]\nmode = \"domains\"\nallow = [\"192.168.1.1\"]\n");
    let one = |port| range([192, 168, 1, 1], 32, Some(port));
    assert_eq!(web.named(), [one(80), one(443)]);
    assert_eq!(web.budget(), EgressBudget { connections: 256, upload_bytes: 1 << 30 });
    for mode in ["mode = \"none\"", "mode = \"loopback\"", "mode = \"ports\"\nports = [443]"] {
        let set = load(&[("mine", "", &format!("[net]\n{mode}\n"))]).unwrap();
        assert_eq!(set.get("mine").unwrap().egress(), None);
    }
}

#[test]
fn a_profile_narrows_and_widens_as_it_may() {
    let narrow = "extends = \"mine\"";
    let good = [
        ("mine", "", BASE),
        (
            "less",
            narrow,
            "[net]\nallow = [\"a.files.example:443\"]\ndeny = [\"b.example\"]\nask = false\n",
        ),
        ("same", narrow, ""),
        ("none", narrow, "[net]\nmode = \"loopback\"\n"),
        ("more", "extends = \"mine\"\nwiden = true", "[net]\nallow = [\"other.example\"]\n"),
    ];
    let set = load(&good).unwrap();
    let get = |name| set.get(name).unwrap();
    let less = get("less").egress().unwrap();
    assert_eq!(decided(&less, "a.files.example:443").0, "checked");
    for closed in ["packages.example:443", "a.files.example:80", "b.example:443", "c.example:443"] {
        assert_eq!(decided(&less, closed).0, "deny", "{closed}");
    }
    // A denial is never lost.
    for name in ["less", "same", "more"] {
        let policy = get(name).egress().unwrap();
        assert_eq!(decided(&policy, "paste.files.example:443").0, "deny", "{name}");
    }
    assert_eq!(get("same").egress().unwrap().allow, get("mine").egress().unwrap().allow);
    assert_eq!(get("none").egress(), None);
    let more = get("more").egress().unwrap();
    assert_eq!(decided(&more, "other.example:443").0, "checked");
    assert_eq!(decided(&more, "packages.example:443").0, "checked");
    for (wider, why) in [
        ("allow = [\"c.example\"]\n", "\"c.example\" is not allowed in the extended profile"),
        ("allow = [\"packages.example:22\"]\n", "\"packages.example:22\" is not allowed"),
        ("allow = [\"files.example\"]\n", "\"files.example\" is not allowed"),
        ("mode = \"ports\"\nports = [443]\n", "is \"domains\" in the extended profile"),
    ] {
        let error = load(&[("mine", "", BASE), ("wider", narrow, &format!("[net]\n{wider}"))]);
        let error = error.unwrap_err().to_string();
        assert!(error.contains(why) && error.contains("can only narrow"), "{error}");
    }
    let silent = BASE.replace("ask = true\n", "");
    let error = load(&[("mine", "", &silent), ("wider", narrow, "[net]\nask = true\n")]);
    assert!(error.unwrap_err().to_string().contains("does not ask about hosts"));
}

#[test]
fn several_parents_allow_what_each_of_them_allows() {
    let other = "[net]\nmode = \"domains\"\nallow = [\"b.files.example\", \"packages.example:443\", \
                 \"only.example\"]\ndeny = [\"x.example\"]\nask = true\n";
    let ports = "[net]\nmode = \"ports\"\nports = [443, 8080]\n";
    let apart = "[net]\nmode = \"domains\"\nallow = [\"only.example\"]\n";
    let set = load(&[
        ("mine", "", BASE),
        ("other", "", other),
        ("ports", "", ports),
        ("apart", "", apart),
        ("both", "extends = [\"mine\", \"other\"]", ""),
        ("at-ports", "extends = [\"ports\", \"mine\"]", ""),
        ("nothing", "extends = [\"mine\", \"apart\"]", ""),
    ])
    .unwrap();
    let get = |name| set.get(name).unwrap();
    let both = get("both").egress().unwrap();
    let texts =
        |policy: &EgressPolicy| policy.allow.iter().map(HostEntry::to_string).collect::<Vec<_>>();
    assert_eq!(texts(&both), ["b.files.example", "packages.example:443"]);
    assert!(both.ask);
    assert_eq!(decided(&both, "x.example:443").0, "deny");
    assert_eq!(decided(&both, "paste.files.example:443").0, "deny");
    let at_ports = get("at-ports").egress().unwrap();
    assert_eq!(
        texts(&at_ports),
        ["mirror.example:8080", "packages.example:443", "*.files.example:443"]
    );
    assert!(!at_ports.ask);
    assert_eq!(get("nothing").settings.net.planned(), Network::Loopback);
    let shown = get("both").canonical().unwrap();
    let (_, net) = shown.split_once("[net]\n").unwrap();
    let (net, _) = net.split_once("\n[").unwrap();
    let allow = "allow = [\n    \"b.files.example\",\n    \"packages.example:443\",\n]\n";
    let deny = "\"packages.example:80\",\n    \"paste.files.example\",\n    \"x.example\",\n    \"10.9.0.0/16\"";
    assert_eq!(net, format!("mode = \"domains\"\n{allow}deny = [\n    {deny},\n]\nask = true\n"));
    let told: Vec<_> = diff(get("mine"), get("at-ports"))
        .iter()
        .map(|found| format!("{:?} {}: {}", found.direction, found.key, found.what))
        .filter(|line| line.contains(" net."))
        .collect();
    assert_eq!(
        told,
        [
            "Less net.allow: without *.files.example",
            "Less net.allow: without 10.0.0.0/8:5432",
            "Less net.allow: without packages.example",
            "Less net.ask: true → false",
        ]
    );
}
