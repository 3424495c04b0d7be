use super::*;
use crate::{Act, Decision, EgressDecision, Profile, ProfileSet, Source, diff, examples, explain};
use palisade_egress_protocol::{
    Tunnel,
    host::{HostName, Target},
};
use palisade_plan::Network;

fn text(net: &str) -> String {
    format!(
        "version = 1\ndescription = \"x\"\n[fs]\nworkspace = \"write\"\nexecute = [\"/usr\"]\n\
         [net]\n{net}\n"
    )
}

fn profile(net: &str) -> Profile {
    Profile::parse("mine", &text(net)).unwrap()
}

fn decide(profile: &Profile, host: &str, port: u16) -> EgressDecision {
    let host = Host::Name(HostName::new(host).unwrap());
    profile.egress().unwrap().decide(&Target { host, port })
}

#[test]
fn only_listed_ports_of_this_host_are_open_and_none_is_asked_about() {
    let mine = profile(
        "mode = \"domains\"\nallow = [\"*.palisade.internal:22\"]\nask = true\n\
         [net.host]\nports = [8080, 5432]",
    );
    let rule = "net.host.ports 5432".to_owned();
    let allowed = EgressDecision::Allow { rule, tunnel: Tunnel::Any };
    assert_eq!(decide(&mine, THIS_HOST, 5432), allowed);
    for port in [22, 80, 443, 5433] {
        let reason =
            format!("net.host.ports of profile \"mine\" does not include {port}; add it there");
        assert_eq!(decide(&mine, THIS_HOST, port), EgressDecision::Deny { reason });
    }
    assert!(matches!(decide(&mine, "other.example", 443), EgressDecision::Ask { .. }));
    let policy = mine.egress().unwrap();
    assert_eq!(policy.host_ports(), [5432, 8080]);
    assert!(policy.named().is_empty(), "no other name may lead there");
    let network = mine.plan(&examples::scene()).unwrap().network;
    assert_eq!(network, Network::Domains(vec![22, 80, 443, 5432, 8080]));
    let name = HostName::new(THIS_HOST).unwrap();
    assert!(matches!(policy.lookup(&name), EgressDecision::Allow { .. }));
    let without = profile("mode = \"domains\"\nask = true");
    let lookup = without.egress().unwrap().lookup(&name);
    assert!(matches!(lookup, EgressDecision::Deny { .. }), "{lookup:?}");
    let denied = profile(&format!(
        "mode = \"domains\"\ndeny = [\"{THIS_HOST}:22\"]\n[net.host]\nports = [22, 25]"
    ));
    assert!(matches!(decide(&denied, THIS_HOST, 22), EgressDecision::Deny { .. }));
    assert!(matches!(decide(&denied, THIS_HOST, 25), EgressDecision::Allow { .. }));
}

#[test]
fn a_service_is_refused_where_it_would_mean_nothing_or_too_much() {
    let why = |net: &str| Profile::parse("mine", &text(net)).unwrap_err().to_string();
    for (net, told) in [
        ("[net.host]\nports = [22]", "net.host.ports: is set, but net.mode is \"loopback\""),
        (
            "mode = \"ports\"\nports = [22]\n[net.host]\nports = [22]",
            "net.host.ports: is set, but net.mode is \"ports\"",
        ),
        (
            "mode = \"domains\"\n[net.host]\nports = [53]",
            "net.host.ports: 53 is a port that Palisade uses in the session",
        ),
        ("mode = \"domains\"\n[net.host]\nports = [22, 22]", "22 is already listed"),
        ("mode = \"domains\"\n[net.host]\nports = []", "no host is allowed and none is asked"),
        ("mode = \"domains\"\n[net.host]\nports = [0]", "0 is not a port"),
        (
            "mode = \"domains\"\nallow = [\"host.palisade.internal\"]",
            "services of this host are listed in net.host.ports",
        ),
        ("[net.host]\nsockets = [\"run/a.sock\"]", "it is not absolute"),
        ("[net.host]\nsockets = [\"$HOME/a.sock\"]", "is not the absolute path of a socket"),
        ("[net.host]\nsockets = [\"/run/palisade/agent.sock\"]", "/run/palisade"),
        ("[net.host]\nsockets = [\"/run/user/1000/bus\"]", "that no session gets a part of"),
        ("[net.host]\nsockets = [\"/run/../a\"]", "does not resolve"),
        ("[net.host]\nsocket = [\"/run/a\"]", "did you mean `sockets`?"),
    ] {
        let wrong = why(net);
        assert!(wrong.contains(told), "{net}: {wrong}");
    }
}

#[test]
fn a_socket_is_in_the_plan_alone_and_in_every_mode() {
    for mode in ["none", "loopback", "domains\"\nask = true #"] {
        let net =
            format!("mode = \"{mode}\"\n[net.host]\nsockets = [\"/run/b.sock\", \"!/srv/a/sock\"]");
        let mine = profile(&net);
        let plan = mine.plan(&examples::scene()).unwrap();
        let paths: Vec<_> = plan.sockets.iter().map(|bind| bind.path.as_path()).collect();
        assert_eq!(paths, [Path::new("/run/b.sock"), Path::new("/srv/a/sock")], "{mode}");
        assert!(plan.binds.iter().all(|bind| !bind.path.as_path().starts_with("/srv")));
        assert!(plan.grants.iter().all(|grant| !grant.path.as_path().starts_with("/srv")));
    }
    let inside = examples::scene().workspace.join("sock");
    let mine = profile(&format!("[net.host]\nsockets = [{inside:?}]"));
    let error = mine.plan(&examples::scene()).unwrap_err();
    assert!(error.to_string().contains("is inside the workspace"), "{error}");
}

#[test]
fn services_are_narrowed_widened_and_combined_like_ports() {
    let base = text(
        "mode = \"domains\"\nask = true\n[net.host]\nports = [22, 5432]\nsockets = [\"/run/a.sock\"]",
    );
    let load = |net: &str, widen: &str| {
        let mine = format!(
            "version = 1\ndescription = \"x\"\nextends = \"base\"\n{widen}\n[net]\n{net}\n"
        );
        let owner = crate::Owner::Root;
        let source = |name, text| Source { name, file: name, text, owner };
        let set = ProfileSet::new([source("base", &base), source("mine", &mine)]);
        set.map(|set| (set.get("base").unwrap().clone(), set.get("mine").unwrap().clone()))
    };
    let (wide, narrow) = load("[net.host]\nports = [22]\nsockets = []", "").unwrap();
    assert_eq!((narrow.host_ports(), narrow.host_sockets().len()), (vec![22], 0));
    let told = |a: &Profile, b: &Profile| -> Vec<String> {
        diff(a, b).into_iter().map(|one| format!("{} {}", one.key, one.what)).collect()
    };
    assert_eq!(
        told(&wide, &narrow),
        ["net.host.ports without 5432", "net.host.sockets without /run/a.sock"]
    );
    let (_, same) = load("ask = true", "").unwrap();
    assert_eq!((same.host_ports(), same.host_sockets().len()), (vec![22, 5432], 1));
    let (_, lost) = load("mode = \"loopback\"", "").unwrap();
    assert_eq!((lost.host_ports(), lost.host_sockets().len()), (Vec::new(), 1));
    let wider = "[net.host]\nports = [80]";
    let refused = load(wider, "").unwrap_err().to_string();
    assert!(refused.contains("80 is not open in the extended profile"), "{refused}");
    let (_, widened) = load(wider, "widen = true").unwrap();
    assert_eq!(widened.host_ports(), [22, 80, 5432]);
}

#[test]
fn a_service_is_explained_by_the_line_that_names_it() {
    let mine = profile("mode = \"domains\"\n[net.host]\nports = [5432]");
    let told = |target: &str| explain(&mine, &examples::scene(), Act::Connect, target).unwrap();
    let found = told("host.palisade.internal:5432");
    assert_eq!(found.decision, Decision::Allow);
    assert_eq!(found.at.as_ref().map(|at| at.line), Some(9));
    assert_eq!(found.rule, "net.host.ports 5432 allows it");
    assert_eq!(found.note, "it is port 5432 of this host's 127.0.0.1");
    let found = told("host.palisade.internal:22");
    let change = found.change.unwrap();
    assert_eq!(
        (found.decision, change.key, change.value.as_str()),
        (Decision::Deny, "net.host.ports", "22")
    );
    let own = told("127.0.0.1:5432");
    assert_eq!(own.note, "the host's loopback has this port at host.palisade.internal:5432");
}
