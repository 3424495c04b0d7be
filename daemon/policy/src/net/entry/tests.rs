//! Tests of the entries of `net.allow` and `net.deny`.

use super::*;

fn entry(text: &str) -> HostEntry {
    HostEntry::try_from(text.to_owned()).unwrap()
}

fn target(text: &str) -> Target {
    let (host, port) = text.rsplit_once(':').unwrap();
    let host = match host.trim_matches(['[', ']']).parse() {
        Ok(address) => Host::Address(address),
        Err(_) => Host::Name(HostName::new(host).unwrap()),
    };
    Target { host, port: port.parse().unwrap() }
}

#[test]
fn an_entry_is_written_as_it_was_read() {
    for text in [
        "packages.example",
        "*.packages.example",
        "localhost",
        "xn--bcher-kva.example",
        "_x.example:22",
        "*.packages.example:8080",
        "10.1.2.3",
        "10.1.2.3:5432",
        "10.0.0.0/8",
        "10.0.0.0/8:5432",
        "::1",
        "[::1]:443",
        "fd00::/8",
        "[fd00::/8]:5432",
    ] {
        assert_eq!(entry(text).to_string(), text);
    }
    assert_eq!(entry("[::1]"), entry("::1"));
    assert_eq!(entry("10.1.2.3/32"), entry("10.1.2.3"));
}

#[test]
fn other_texts_are_refused() {
    for bad in [
        "",
        "*",
        "*.",
        ".io",
        "a..b",
        "a.",
        "-a.io",
        "A.io",
        "a b",
        "a\0.io",
        "a%2e.io",
        "https://packages.example",
        "packages.example/path",
        "me@packages.example",
        "a.*.io",
        "*a.io",
        "**.io",
        "*.1.2.3.4",
        "*.10.0.0.0/8",
        "127.1",
        "2130706433",
        "0x7f000001",
        "010.0.0.1",
        "10.0.0.0/33",
        "10.0.0.0/",
        "10.0.0.0/+8",
        "10.0.0.1/8",
        "::ffff:10.0.0.1",
        "fd00::/129",
        "[10.0.0.1]:80",
        "[::1",
        "[::1]443",
        "[a.io]:443",
        "fd00::1%eth0",
        "a.io:",
        "a.io:0",
        "a.io:65536",
        "a.io:+443",
        "a.io:443:443",
        "a.io:https",
    ] {
        let parsed = HostEntry::try_from(bad.to_owned());
        assert!(parsed.is_err(), "{bad}: {parsed:?}");
    }
}

#[test]
fn an_entry_has_its_hosts_at_its_ports_and_no_others() {
    for (text, yes, no) in [
        (
            "packages.example",
            &["packages.example:80", "packages.example:443"][..],
            &["packages.example:22", "a.packages.example:443", "xpackages.example:443"][..],
        ),
        (
            "*.files.example",
            &["a.files.example:443", "a.b.files.example:80"],
            &["files.example:443", "afiles.example:443", "a.files.example:8080"],
        ),
        ("git.example:22", &["git.example:22"], &["git.example:443", "git.example:80"]),
        (
            "10.0.0.0/8",
            &["10.0.0.0:80", "10.255.255.255:443", "[::ffff:10.0.0.1]:80"],
            &["11.0.0.0:80", "9.255.255.255:80", "10.0.0.1:22", "[::a00:1]:80"],
        ),
        ("10.1.2.3:5432", &["10.1.2.3:5432"], &["10.1.2.2:5432", "10.1.2.3:443"]),
        ("[fd00::/8]:22", &["[fd12::1]:22"], &["[fc12::1]:22", "10.0.0.1:22"]),
        ("0.0.0.0/0", &["1.2.3.4:80"], &["[::1]:80", "a.example:80"]),
    ] {
        let entry = entry(text);
        for yes in yes {
            assert!(entry.allows(&target(yes)), "{text} {yes}");
            assert!(entry.denies(&target(yes)), "{text} {yes}");
        }
        for no in no {
            assert!(!entry.allows(&target(no)), "{text} {no}");
        }
    }
}

#[test]
fn a_denied_entry_without_a_port_closes_every_port() {
    assert!(entry("git.example").denies(&target("git.example:22")));
    assert!(!entry("git.example:22").denies(&target("git.example:443")));
    let host = target("git.example:1").host;
    assert!(entry("git.example").denies_host(&host));
    assert!(!entry("git.example:22").denies_host(&host));
}

#[test]
fn a_wildcard_ends_at_public_suffixes_if_it_allows() {
    for wide in ["*.com", "*.co.uk", "*.github.io", "*.example", "*.s3.amazonaws.com", "*.uk"] {
        assert!(entry(wide).too_wide().is_some(), "{wide}");
    }
    for good in ["*.example.com", "*.a.co.uk", "*.me.github.io", "*.amazonaws.com", "github.io"] {
        assert_eq!(entry(good).too_wide(), None, "{good}");
    }
    let amazon = entry("*.amazonaws.com");
    assert!(amazon.allows(&target("sts.amazonaws.com:443")));
    let bucket = target("somebody.s3.amazonaws.com:443");
    assert!(!amazon.allows(&bucket));
    assert!(amazon.denies(&bucket));
    assert!(!amazon.covers_hosts(&entry("somebody.s3.amazonaws.com")));
    assert!(amazon.covers_hosts(&entry("*.sts.amazonaws.com")));
}

#[test]
fn a_range_has_a_least_size_and_real_addresses_if_it_allows() {
    for wide in ["0.0.0.0/0", "::/0", "0.0.0.0", "::", "224.0.0.0/8", "198.18.0.1", "198.16.0.0/13"]
    {
        assert!(entry(wide).too_wide().is_some(), "{wide}");
    }
    for good in ["10.0.0.0/8", "fc00::/7", "127.0.0.1", "198.51.100.0/24"] {
        assert_eq!(entry(good).too_wide(), None, "{good}");
    }
}

#[test]
fn two_entries_have_the_narrower_in_common() {
    for (a, b, common) in [
        ("*.example.com", "a.example.com", &["a.example.com"][..]),
        ("*.example.com", "*.b.example.com:443", &["*.b.example.com:443"]),
        ("*.example.com", "example.com", &[]),
        ("a.example.com", "a.example.com:22", &[]),
        ("10.0.0.0/8", "10.1.0.0/16:80", &["10.1.0.0/16:80"]),
        ("10.0.0.0/8", "11.0.0.0/8", &[]),
        ("*.amazonaws.com", "x.s3.amazonaws.com", &[]),
    ] {
        let (a, b) = (entry(a), entry(b));
        let texts =
            |found: Vec<HostEntry>| found.iter().map(HostEntry::to_string).collect::<Vec<_>>();
        assert_eq!(texts(a.common(&b)), common, "{a} {b}");
        assert_eq!(texts(b.common(&a)), common, "{b} {a}");
    }
}
