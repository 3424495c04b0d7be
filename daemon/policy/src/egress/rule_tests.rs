//! Tests of `[[net.rule]]`: the decisions, and how profiles combine.

use super::tests::{decided, load, policy, target};
use super::*;
use crate::{Act, diff, examples, explain};

const BASE: &str = "[net]\nmode = \"domains\"\nallow = [\"*.git.example\"]\n\
    deny = [\"paste.git.example\"]\n\
    [[net.rule]]\nhost = \"api.git.example\"\nmethods = [\"GET\", \"POST /repos/*\"]\n\
    [[net.rule]]\nhost = \"packages.example:8443\"\n";

fn asked(policy: &EgressPolicy, text: &str, method: &str, path: &str) -> Result<String, String> {
    let request = WebRequest { method: method.to_owned(), path: path.to_owned() };
    match policy.decide_request(&target(text), &request) {
        EgressDecision::Allow { rule, tunnel: Tunnel::Checked } => Ok(rule),
        EgressDecision::Deny { reason } => Err(reason),
        other @ (EgressDecision::Allow { .. } | EgressDecision::Ask { .. }) => panic!("{other:?}"),
    }
}

#[test]
fn a_rule_stands_before_allowed_hosts_and_behind_denied_ones() {
    let policy = policy(BASE);
    let rule = |host: &str| ("inspected", format!("net.rule \"{host}\""));
    assert_eq!(decided(&policy, "api.git.example:443"), rule("api.git.example"));
    assert_eq!(decided(&policy, "packages.example:8443"), rule("packages.example:8443"));
    assert_eq!(decided(&policy, "api.git.example:80").0, "checked", "net.allow has it");
    assert_eq!(decided(&policy, "www.git.example:443").0, "checked");
    for closed in ["packages.example:443", "a.api.git.test:443", "paste.git.example:443"] {
        assert_eq!(decided(&policy, closed).0, "deny", "{closed}");
    }
    assert_eq!(policy.ports(), [80, 443, 8443]);
    let names: Vec<_> = policy.inspected().iter().map(HostName::to_string).collect();
    assert_eq!(names, ["api.git.example", "packages.example"]);
    let name = HostName::new("packages.example").unwrap();
    assert!(matches!(policy.lookup(&name), EgressDecision::Allow { .. }));
    let at = "api.git.example:443";
    assert_eq!(
        asked(&policy, at, "POST", "/repos/a").unwrap(),
        "net.rule \"api.git.example\" with \"POST /repos/*\""
    );
    assert_eq!(
        asked(&policy, at, "PUT", "/").unwrap_err(),
        "the net.rule of profile \"mine\" for \"api.git.example\" does not allow this request: it \
         allows \"GET\", \"POST /repos/*\", but not PUT"
    );
    assert!(asked(&policy, "packages.example:8443", "HEAD", "/").is_ok(), "GET and HEAD");
    assert!(asked(&policy, "packages.example:8443", "POST", "/").is_err());
    let none = asked(&policy, "www.git.example:443", "GET", "/").unwrap_err();
    assert_eq!(none, "profile \"mine\" has no net.rule for www.git.example:443");
    let deny = "[net]\ndeny = [\"*.git.example:443\"]\n";
    let set = load(&[("mine", "", BASE), ("closed", "extends = \"mine\"", deny)]).unwrap();
    let closed = set.get("closed").unwrap().egress().unwrap();
    assert_eq!(decided(&closed, at).0, "deny");
    assert!(asked(&closed, at, "GET", "/").unwrap_err().starts_with("net.deny of profile"));
}

#[test]
fn a_rule_that_makes_no_sense_is_refused_with_its_line() {
    let net = "[net]\nmode = \"domains\"\ndeny = [\"no.example\"]\n[[net.rule]]\n";
    for (rule, why) in [
        ("host = \"*.git.example\"", "\"*.git.example\" is not one name"),
        ("host = \"10.0.0.1\"", "\"10.0.0.1\" is not one name"),
        ("host = \"a.example:53\"", "has a port that Palisade uses"),
        ("host = \"no.example\"", "is denied by \"no.example\" of net.deny"),
        ("host = \"a.example\"\nmethods = []", "is empty"),
        ("host = \"a.example\"\nmethods = [\"get\"]", "\"get\" is not a request"),
        ("host = \"a.example\"\nmethods = [\"GET /../x\"]", "has a part"),
        ("host = \"a.example\"\n[[net.rule]]\nhost = \"a.example:443\"", "has a rule already"),
        ("methods = [\"GET\"]", "missing field `host`"),
        ("host = \"a.example\"\nmethod = [\"GET\"]", "did you mean `methods`?"),
        ("host = \"a.example\"\ncredential = \"../x\"", "is not the name of a credential"),
    ] {
        let error = load(&[("mine", "", &format!("{net}{rule}\n"))]).unwrap_err().to_string();
        assert!(error.contains(why) && error.starts_with("mine:"), "{rule}: {error}");
    }
    let other = "[net]\nmode = \"loopback\"\n[[net.rule]]\nhost = \"a.example\"\n";
    let error = load(&[("mine", "", other)]).unwrap_err().to_string();
    assert!(error.contains("net.rule") && error.contains("net.mode is \"loopback\""), "{error}");
}

#[test]
fn an_inherited_rule_stays_and_can_only_become_narrower() {
    let narrow = "extends = \"mine\"";
    let rule = |text: &str| format!("[net]\n[[net.rule]]\n{text}\n");
    let get = rule("host = \"api.git.example\"\nmethods = [\"GET /x\"]");
    let inspected = rule("host = \"www.git.example\"");
    let wide = rule("host = \"api.git.example\"\nmethods = [\"DELETE\"]");
    let set = load(&[
        ("mine", "", BASE),
        ("less", narrow, &get),
        ("allows", narrow, "[net]\nallow = [\"api.git.example\"]\n"),
        ("more-inspected", narrow, &inspected),
        ("wide", "extends = \"mine\"\nwiden = true", &wide),
        ("other", "", "[net]\nmode = \"domains\"\nallow = [\"packages.example:8443\"]\n"),
        ("both", "extends = [\"mine\", \"other\"]", ""),
        ("third", "", &format!("[net]\nmode = \"domains\"\n{}", &get["[net]\n".len()..])),
        ("all", "extends = [\"mine\", \"third\"]", ""),
    ])
    .unwrap();
    let policy = |name: &str| set.get(name).unwrap().egress().unwrap();
    let at = "api.git.example:443";
    assert!(asked(&policy("less"), at, "GET", "/x").is_ok());
    assert!(asked(&policy("less"), at, "GET", "/y").is_err());
    assert_eq!(decided(&policy("allows"), at).0, "inspected", "the rule is not lost");
    assert_eq!(decided(&policy("more-inspected"), "www.git.example:443").0, "inspected");
    assert_eq!(decided(&policy("more-inspected"), at).0, "inspected");
    assert!(asked(&policy("wide"), at, "DELETE", "/").is_ok());
    assert!(asked(&policy("wide"), at, "GET", "/").is_err());
    assert_eq!(decided(&policy("both"), "packages.example:8443").0, "inspected");
    assert_eq!(decided(&policy("both"), at).0, "deny");
    assert!(asked(&policy("all"), at, "GET", "/x").is_ok());
    assert!(asked(&policy("all"), at, "GET", "/y").is_err());
    for wider in [&wide, &rule("host = \"b.example\"")] {
        let error = load(&[("mine", "", BASE), ("wider", narrow, wider)]).unwrap_err();
        let error = error.to_string();
        assert!(error.contains("is more than the extended profile allows"), "{error}");
    }
    let told = |a: &str, b: &str| -> Vec<String> {
        let found = diff(set.get(a).unwrap(), set.get(b).unwrap());
        let found = found.iter().filter(|found| found.key == "net.rule");
        found.map(|found| format!("{:?} {}", found.direction, found.what)).collect()
    };
    assert_eq!(
        told("mine", "less"),
        [
            "Less with api.git.example: \"GET /x\"",
            "Less without api.git.example: \"GET\", \"POST /repos/*\"",
        ]
    );
    assert_eq!(told("mine", "more-inspected"), ["Less with www.git.example: \"GET\", \"HEAD\""]);
    assert_eq!(told("more-inspected", "mine"), ["More without www.git.example: \"GET\", \"HEAD\""]);
    let shown = set.get("mine").unwrap().canonical().unwrap();
    let rules = "[[net.rule]]\nhost = \"api.git.example\"\nmethods = [\n    \"GET\",\n    \"POST /repos/*\",\n]\n";
    assert!(shown.contains(rules), "{shown}");
    let scene = examples::scene();
    let found = explain(set.get("mine").unwrap(), &scene, Act::Connect, at).unwrap();
    assert_eq!(found.rule, "net.rule \"api.git.example\" allows it");
    assert_eq!(
        found.note,
        "TLS ends in the egress room, and of the requests \"GET\", \"POST /repos/*\" are allowed"
    );
    assert_eq!(found.at.map(|at| at.line), Some(12));
}

#[test]
fn a_credential_is_for_the_host_of_its_rule_and_needs_widening() {
    let more = "[net]\n[[net.rule]]\nhost = \"api.git.example\"\ncredential = \"git-host\"\n";
    let error = load(&[("mine", "", BASE), ("wider", "extends = \"mine\"", more)]).unwrap_err();
    assert!(error.to_string().contains("with credential \"git-host\" is more than"), "{error}");
    let widen = "extends = \"mine\"\nwiden = true";
    let set = load(&[("mine", "", BASE), ("wider", widen, more)]).unwrap();
    assert!(set.get("mine").unwrap().egress().unwrap().credentials().is_empty());
    let policy = set.get("wider").unwrap().egress().unwrap();
    let variable = "PALISADE_CREDENTIAL_GIT_HOST".to_owned();
    let expected = (target("api.git.example:443"), "git-host".to_owned(), variable);
    assert_eq!(policy.credentials(), [expected]);
    assert!(asked(&policy, "api.git.example:443", "HEAD", "/").is_ok());
    assert!(asked(&policy, "api.git.example:443", "POST", "/repos/x").is_err());
    let wider = set.get("wider").unwrap();
    let found = explain(wider, &examples::scene(), Act::Connect, "api.git.example:443").unwrap();
    assert!(found.note.contains("with credential \"git-host\""), "{}", found.note);
}

#[test]
fn programs_find_the_certificates_of_a_session_with_rules_only() {
    for (net, expected) in [(BASE, 7), ("[net]\nmode = \"domains\"\nask = true\n", 0)] {
        let set = load(&[("mine", "", net)]).unwrap();
        let environment = set.get("mine").unwrap().environment(
            &examples::scene(),
            &std::collections::BTreeMap::new(),
            b"/usr/bin",
        );
        let environment = environment.unwrap();
        let is_trust = |variable: &&Vec<u8>| variable.ends_with(b"=/etc/palisade-certificates.pem");
        assert_eq!(environment.iter().filter(is_trust).count(), expected);
    }
}
