//! Names that are looked up, on a network with public addresses: only allowed ones are asked about outside,
//! and only public addresses are connected to.

use palisade_tests::{Mode, NamedHosts, named_profile};
use std::fs;

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

/// Asks the session's name server: `names.py PROTOCOL TYPE NAME`, and shows the number of answers.
const QUERY: &str = r#"
import socket, struct, sys
protocol, kind, name = sys.argv[1:]
name = b"".join(bytes([len(part)]) + part for part in name.encode().split(b"."))
query = struct.pack(">6H", 7, 0x100, 1, 0, 0, 0) + name + b"\0" + struct.pack(">2H", int(kind), 1)
if protocol == "udp":
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(60)
    s.sendto(query, ("127.0.0.1", 53))
    answer = s.recv(600)
else:
    s = socket.create_connection(("127.0.0.1", 53), 60)
    s.sendall(struct.pack(">H", len(query)) + query)
    length = struct.unpack(">H", s.recv(2, socket.MSG_WAITALL))[0]
    answer = s.recv(length, socket.MSG_WAITALL)
print("answers", struct.unpack(">H", answer[6:8])[0], "records", sum(struct.unpack(">2H", answer[8:12])))
"#;

/// Records of every type could carry data out in their names and back in their answers.
#[test]
fn a_query_of_no_type_leaves_the_session() {
    for mode in Mode::all() {
        let net = "mode = \"domains\"\nallow = [\"packages.test\", \"*.files.test\"]\n";
        let (hosts, network) = NamedHosts::on_public_network(mode, &named_profile(net));
        fs::write(hosts.world.workspace().join("names.py"), QUERY).unwrap();
        let sandbox = hosts.open();
        let query = |protocol: &str, kind: u16, name: &str| {
            sandbox.ok(&format!("/usr/bin/python3 names.py {protocol} {kind} {name}"))
        };
        // NS, CNAME, SOA, NULL, PTR, MX, TXT, AAAA, SRV, SVCB, HTTPS, AXFR, ANY, a private one.
        for kind in [2, 5, 6, 10, 12, 15, 16, 28, 33, 64, 65, 252, 255, 65_280] {
            for name in ["packages.test", "c2VjcmV0.files.test", "c2VjcmV0.other.test"] {
                for protocol in ["udp", "tcp"] {
                    let told = query(protocol, kind, name);
                    assert_eq!(told, "answers 0 records 0\n", "{mode:?}: {protocol} {kind} {name}");
                }
            }
        }
        // The address of an allowed name is one of the session's own.
        for (name, told) in [("packages.test", 1), ("c2VjcmV0.files.test", 1), ("other.test", 0)] {
            for protocol in ["udp", "tcp"] {
                let expected = format!("answers {told} records 0\n");
                assert_eq!(query(protocol, 1, name), expected, "{mode:?}: {protocol} {name}");
            }
        }
        assert_eq!(network.heard(), Vec::<String>::new(), "{mode:?}");
        // The control: the server hears of a name that is connected to.
        assert_eq!(sandbox.ok("curl -sS http://packages.test/one"), "hello\n", "{mode:?}");
        assert!(network.heard().contains(&"name packages.test".to_owned()), "{mode:?}");
    }
}

#[test]
fn an_alias_that_leads_inward_is_not_dialled() {
    for mode in Mode::all() {
        let net = "mode = \"domains\"\n\
                   allow = [\"inward.test\", \"metadata.test\", \"outward.test\"]\n";
        let (hosts, network) = NamedHosts::on_public_network(mode, &named_profile(net));
        let sandbox = hosts.open();
        for (name, address) in [("inward.test", "10.1.2.3"), ("metadata.test", "169.254.169.254")] {
            for how in ["", "--noproxy '*'", "--socks5-hostname 127.0.0.1:61080", "-p"] {
                let tried = sandbox.bash(&format!("curl -sS {how} http://{name}/x"));
                assert!(!tried.stdout.contains("hello"), "{mode:?}: {how} {name}: {tried:?}");
            }
            let why = format!("{name}:80 is not reachable from a session: {address} is not on");
            let told = sandbox.bash(&format!("curl -sS http://{name}/x")).stdout;
            assert!(told.contains(&why), "{mode:?}: {told}");
        }
        // What an alias stands for is not allowed by it.
        let target = sandbox.bash("curl -sS http://middle.test/x");
        assert!(target.stdout.contains("does not include middle.test"), "{mode:?}: {target:?}");
        assert_eq!(lines(&network.heard(), "request"), Vec::<String>::new(), "{mode:?}");
        // The control: an alias of a host with a public address.
        assert_eq!(sandbox.ok("curl -sS http://outward.test/one"), "hello\n", "{mode:?}");
        assert_eq!(lines(&network.heard(), "request"), ["request 11.0.0.2 /one"], "{mode:?}");
    }
}
