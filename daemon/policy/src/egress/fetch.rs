//! Decides about the pages that `web_fetch` gets: as about a connection of a program, and hosts of
//! `net.fetch` are allowed, too. Pure: no I/O.

use super::{EgressDecision, EgressPolicy, wanted_entry};
use crate::net::host::is_this_host;
use palisade_egress_protocol::{
    Tunnel, WebRequest,
    host::{Host, Target},
};

impl EgressPolicy {
    /// Decides about a page. One of an inspected host is judged by the host's rule; its connection
    /// stays [`Tunnel::Inspected`], which only TLS may use.
    #[must_use]
    pub fn decide_fetch(&self, target: &Target, request: &WebRequest) -> EgressDecision {
        let decision = self.decide(target);
        if let EgressDecision::Allow { tunnel: Tunnel::Inspected, .. } = decision {
            return match self.decide_request(target, request) {
                EgressDecision::Allow { rule, .. } => {
                    EgressDecision::Allow { rule, tunnel: Tunnel::Inspected }
                }
                other @ (EgressDecision::Ask { .. } | EgressDecision::Deny { .. }) => other,
            };
        }
        let is_denied = self.deny.iter().any(|entry| entry.denies(target));
        if is_denied || is_this_host(&target.host) {
            return decision;
        }
        let listed = self.fetch.iter().find(|entry| entry.allows(target));
        match (decision, listed) {
            (allowed @ EgressDecision::Allow { .. }, _) => allowed,
            (EgressDecision::Ask { .. } | EgressDecision::Deny { .. }, Some(entry)) => {
                let rule = format!("net.fetch \"{entry}\"");
                EgressDecision::Allow { rule, tunnel: Tunnel::Checked }
            }
            (asked @ EgressDecision::Ask { .. }, None) => asked,
            (EgressDecision::Deny { reason }, None) => match wanted_fetch(target) {
                Some(wanted) => EgressDecision::Deny {
                    reason: format!(
                        "neither net.fetch nor net.allow of profile {:?} includes {target}; add \
                         {wanted:?} to net.fetch",
                        self.profile
                    ),
                },
                None => EgressDecision::Deny { reason },
            },
        }
    }
}

/// Returns the entry that would allow a target in `net.fetch`, which has names only.
pub(crate) fn wanted_fetch(target: &Target) -> Option<String> {
    match &target.host {
        Host::Name(_) => wanted_entry(target),
        Host::Address(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::tests::{decided, load, policy, target},
        *,
    };
    use crate::diff;

    const BASE: &str = "[net]\nmode = \"domains\"\nallow = [\"packages.example\"]\n\
        fetch = [\"docs.example\", \"*.wiki.example\", \"local.example:8080\"]\n\
        deny = [\"secret.wiki.example\"]\n\
        [[net.rule]]\nhost = \"api.example\"\nmethods = [\"GET /open/*\"]\n";

    fn fetched(policy: &EgressPolicy, text: &str, path: &str) -> Result<(String, Tunnel), String> {
        let request = WebRequest { method: "GET".to_owned(), path: path.to_owned() };
        match policy.decide_fetch(&target(text), &request) {
            EgressDecision::Allow { rule, tunnel } => Ok((rule, tunnel)),
            EgressDecision::Ask { .. } => Err("asked".to_owned()),
            EgressDecision::Deny { reason } => Err(reason),
        }
    }

    #[test]
    fn pages_come_from_hosts_of_both_lists_and_programs_reach_one_of_them() {
        let policy = policy(BASE);
        for (at, rule) in [
            ("docs.example:443", "net.fetch \"docs.example\""),
            ("docs.example:80", "net.fetch \"docs.example\""),
            ("en.wiki.example:443", "net.fetch \"*.wiki.example\""),
            ("local.example:8080", "net.fetch \"local.example:8080\""),
        ] {
            assert_eq!(fetched(&policy, at, "/"), Ok((rule.to_owned(), Tunnel::Checked)), "{at}");
            assert_eq!(decided(&policy, at).0, "deny", "{at}: a program");
        }
        assert!(fetched(&policy, "packages.example:443", "/").is_ok());
        assert_eq!(policy.ports(), [80, 443], "programs have no listener for the others");
        for (at, why) in [
            ("docs.example:22", "add \"docs.example:22\" to net.fetch"),
            ("other.example:443", "add \"other.example\" to net.fetch"),
            ("secret.wiki.example:443", "net.deny of profile \"mine\""),
            ("1.1.1.1:443", "add \"1.1.1.1\" to net.allow"),
            ("host.palisade.internal:80", "net.host.ports of profile"),
        ] {
            let denied = fetched(&policy, at, "/").unwrap_err();
            assert!(denied.contains(why), "{at}: {denied}");
        }
        let inspected = fetched(&policy, "api.example:443", "/open/a").unwrap();
        assert_eq!(inspected.1, Tunnel::Inspected);
        let denied = fetched(&policy, "api.example:443", "/closed").unwrap_err();
        assert!(denied.contains("does not allow this request"), "{denied}");
        let asking = self::policy(&BASE.replace("[net]\n", "[net]\nask = true\n"));
        assert_eq!(fetched(&asking, "other.example:443", "/"), Err("asked".to_owned()));
        assert!(fetched(&asking, "docs.example:443", "/").is_ok(), "listed, so not asked about");
    }

    #[test]
    fn the_list_has_names_and_is_for_mode_domains() {
        for (net, why) in [
            ("mode = \"domains\"\nfetch = [\"10.0.0.1\"]", "\"10.0.0.1\" is an address"),
            ("mode = \"domains\"\nfetch = [\"*.com\"]", "allows too much"),
            ("mode = \"domains\"\nfetch = [\"a.example\", \"a.example\"]", "already listed"),
            (
                "mode = \"domains\"\ndeny = [\"a.example\"]\nfetch = [\"a.example\"]",
                "is denied by \"a.example\" of net.deny",
            ),
            ("mode = \"loopback\"\nfetch = [\"a.example\"]", "net.mode is \"loopback\""),
        ] {
            let error = load(&[("mine", "", &format!("[net]\n{net}\n"))]).unwrap_err().to_string();
            assert!(error.contains(why) && error.contains("net.fetch"), "{net}: {error}");
        }
    }

    #[test]
    fn profiles_combine_what_each_of_them_lets_be_fetched() {
        let narrow = "extends = \"mine\"";
        let set = load(&[
            ("mine", "", BASE),
            ("less", narrow, "[net]\nfetch = [\"en.wiki.example\", \"packages.example\"]\n"),
            ("none", narrow, "[net]\nfetch = []\n"),
            ("more", "extends = \"mine\"\nwiden = true", "[net]\nfetch = [\"new.example\"]\n"),
            ("other", "", "[net]\nmode = \"domains\"\nallow = [\"docs.example:443\"]\n"),
            ("both", "extends = [\"mine\", \"other\"]", ""),
        ])
        .unwrap();
        let get = |name: &str| set.get(name).unwrap().egress().unwrap();
        assert!(fetched(&get("less"), "en.wiki.example:443", "/").is_ok());
        assert!(fetched(&get("less"), "docs.example:443", "/").is_err());
        assert!(fetched(&get("none"), "docs.example:443", "/").is_err());
        assert!(fetched(&get("more"), "new.example:443", "/").is_ok());
        assert!(fetched(&get("more"), "docs.example:443", "/").is_ok());
        assert!(fetched(&get("both"), "docs.example:443", "/").is_ok());
        assert!(fetched(&get("both"), "docs.example:80", "/").is_err());
        assert_eq!(decided(&get("both"), "docs.example:443").0, "deny", "one allows no programs");
        let wider = "[net]\nfetch = [\"new.example\"]\n";
        let error = load(&[("mine", "", BASE), ("wider", narrow, wider)]).unwrap_err().to_string();
        assert!(
            error.contains("\"new.example\" is not allowed in the extended profile"),
            "{error}"
        );
        let told = |a: &str, b: &str| -> Vec<String> {
            let found = diff(set.get(a).unwrap(), set.get(b).unwrap());
            let found = found.iter().filter(|found| found.key == "net.fetch");
            found.map(|found| format!("{:?} {}", found.direction, found.what)).collect()
        };
        assert_eq!(told("mine", "more"), ["More with new.example"]);
        assert_eq!(told("more", "mine"), ["Less without new.example"]);
        let shown = set.get("mine").unwrap().canonical().unwrap();
        assert!(shown.contains("fetch = [\n    \"docs.example\","), "{shown}");
    }
}
