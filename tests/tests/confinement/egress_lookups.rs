//! Names that are looked up, on a network with public addresses: only allowed ones are asked about outside,
//! and only public addresses are connected to.

use palisade_tests::{Mode, NamedHosts, named_profile};

/// The lines of what the server has heard that begin with a word.
fn lines(heard: &[String], word: &str) -> Vec<String> {
    heard.iter().filter(|line| line.starts_with(word)).cloned().collect()
}

#[test]
fn a_public_address_is_reached_and_a_private_one_of_the_same_name_is_not() {
    for mode in Mode::all() {
        let net = "mode = \"domains\"\nallow = [\"packages.test\", \"10.1.2.4:80\"]\n";
        let (hosts, network) = NamedHosts::on_public_network(mode, &named_profile(net));
        let sandbox = hosts.open();
        let curl = |arguments: &str| sandbox.bash(&format!("curl -sS {arguments}"));
        // Names that are not allowed: no query leaves, whoever asks.
        for line in [
            "http://other.test/x",
            "http://c2VjcmV0.other.test/x",
            "http://c2VjcmV0.packages.test/x",
            "--noproxy '*' http://c2VjcmV0.other.test/x",
            "--socks5 127.0.0.1:61080 http://c2VjcmV0.packages.test/x",
            "--socks5-hostname 127.0.0.1:61080 http://c2VjcmV0.other.test/x",
        ] {
            assert!(!curl(line).stdout.contains("hello"), "{mode:?}: {line}");
        }
        for name in ["c2VjcmV0.other.test", "c2VjcmV0.packages.test", "packages.test"] {
            // The session's own name server answers, and asks nobody.
            let found = sandbox.bash(&format!("getent hosts {name}"));
            assert_eq!(found.success, name == "packages.test", "{mode:?}: {found:?}");
            // As programs do that want addresses only of the families that this host has.
            let found = sandbox.bash(&format!("getent ahostsv4 {name}"));
            assert_eq!(found.success, name == "packages.test", "{mode:?}: {found:?}");
        }
        assert_eq!(network.heard(), Vec::<String>::new(), "{mode:?}");
        let one = curl("http://packages.test/one");
        assert_eq!(one.stdout, "hello\n", "{mode:?}: {}\n{:?}", one.stderr, network.heard());
        assert_eq!(lines(&network.heard(), "request"), ["request 11.0.0.2 /one"], "{mode:?}");
        // From now on the name has a private address.
        for how in ["", "--noproxy '*'"] {
            let two = curl(&format!("{how} http://packages.test/two"));
            let why =
                "packages.test:80 is not reachable from a session: 10.1.2.3 is not on the public";
            assert!(two.stdout.contains(why), "{mode:?}: {how}: {} {}", two.stdout, two.stderr);
        }
        let heard = network.heard();
        assert_eq!(lines(&heard, "request"), ["request 11.0.0.2 /one"], "{mode:?}: {heard:?}");
        let others = lines(&heard, "name");
        let others: Vec<_> = others.iter().filter(|line| *line != "name packages.test").collect();
        assert!(others.is_empty(), "{mode:?}: {heard:?}");
        // The control: this host reaches the private addresses of the server.
        assert_eq!(curl("http://10.1.2.4/three").stdout, "hello\n", "{mode:?}");
        let requests = lines(&network.heard(), "request");
        assert_eq!(requests, ["request 11.0.0.2 /one", "request 10.1.2.4 /three"], "{mode:?}");
    }
}
