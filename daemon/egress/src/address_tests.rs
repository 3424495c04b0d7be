use super::*;

fn range(text: &str) -> NamedAddresses {
    let (range, port) = match text.split_once(" port ") {
        Some((range, port)) => (range, Some(port.parse().unwrap())),
        None => (text, None),
    };
    let (first, bits) = range.split_once('/').unwrap();
    NamedAddresses { first: first.parse().unwrap(), bits: bits.parse().unwrap(), port }
}

#[test]
fn only_the_public_internet_is_global() {
    for global in [
        "1.1.1.1",
        "8.8.8.8",
        "9.255.255.255",
        "11.0.0.0",
        "100.63.255.255",
        "100.128.0.0",
        "126.255.255.255",
        "128.0.0.1",
        "168.63.129.15",
        "169.253.255.255",
        "172.15.255.255",
        "172.32.0.0",
        "192.0.1.0",
        "192.167.255.255",
        "198.17.255.255",
        "198.20.0.0",
        "223.255.255.255",
        "2606:4700:4700::1111",
        "2001:200::1",
        "2a00::1",
        "::ffff:8.8.8.8",
        "64:ff9b::8.8.8.8",
        "2002:808:808::1",
        "2001:0:808:808:0:0:f7f7:f7f7",
    ] {
        assert!(is_global(global.parse().unwrap()), "{global}");
    }
    for private in [
        "0.0.0.0",
        "0.1.2.3",
        "10.0.0.1",
        "100.64.0.1",
        "100.100.100.200",
        "127.0.0.1",
        "127.255.255.254",
        "168.63.129.16",
        "169.254.169.254",
        "172.16.0.1",
        "172.31.255.255",
        "192.0.0.192",
        "192.0.2.1",
        "192.88.99.1",
        "192.168.1.1",
        "198.18.0.1",
        "198.19.255.255",
        "198.51.100.1",
        "203.0.113.1",
        "224.0.0.1",
        "239.255.255.255",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::ffff:127.0.0.1",
        "::ffff:169.254.169.254",
        "::ffff:0:127.0.0.1",
        // Compatible addresses, which are no longer used, whatever is inside.
        "::169.254.169.254",
        "::8.8.8.8",
        "64:ff9b::169.254.169.254",
        "64:ff9b::127.0.0.1",
        "64:ff9b::10.0.0.1",
        "64:ff9b:1::8.8.8.8",
        "2002:7f00:1::1",
        "2002:a9fe:a9fe::1",
        "2002:c0a8:101::1",
        // Teredo with a private server, and with a private client.
        "2001:0:a00:1:0:0:f7f7:f7f7",
        "2001:0:808:808:0:0:5601:5601",
        "2001:2::1",
        "2001:10::1",
        "2001:db8::1",
        "3fff::1",
        "100::1",
        "5f00::1",
        "fc00::1",
        "fd00:ec2::254",
        "fe80::1",
        "fec0::1",
        "ff02::1",
    ] {
        assert!(!is_global(private.parse().unwrap()), "{private}");
    }
}

#[test]
fn a_profile_names_and_denies_addresses() {
    let rules = AddressRules {
        named: vec![range("10.0.0.0/8 port 5432"), range("fd00::/8"), range("127.0.0.1/32")],
        denied: vec![range("10.9.0.0/16"), range("8.8.8.8/32"), range("2a00::/16 port 25")],
        ..AddressRules::default()
    };
    let check = |to: &str| rules.check(to.parse().unwrap());
    for good in ["10.1.2.3:5432", "[fd00::1]:22", "127.0.0.1:80", "1.1.1.1:443", "[2a00::1]:443"] {
        assert_eq!(check(good), Ok(()), "{good}");
    }
    for (bad, error) in [
        ("10.1.2.3:80", AddressError::NotGlobal("10.1.2.3".parse().unwrap())),
        ("127.0.0.2:80", AddressError::NotGlobal("127.0.0.2".parse().unwrap())),
        ("[::1]:80", AddressError::NotGlobal("::1".parse().unwrap())),
        // A named address counts in its own form only.
        ("[64:ff9b::10.1.2.3]:5432", AddressError::NotGlobal("64:ff9b::a01:203".parse().unwrap())),
        ("10.9.2.3:5432", AddressError::Denied("10.9.2.3".parse().unwrap())),
        ("8.8.8.8:443", AddressError::Denied("8.8.8.8".parse().unwrap())),
        ("[::ffff:8.8.8.8]:443", AddressError::Denied("8.8.8.8".parse().unwrap())),
        ("[64:ff9b::8.8.8.8]:443", AddressError::Denied("64:ff9b::808:808".parse().unwrap())),
        ("[2a00::1]:25", AddressError::Denied("2a00::1".parse().unwrap())),
    ] {
        assert_eq!(check(bad), Err(error), "{bad}");
    }
    assert_eq!(check("[::ffff:10.1.2.3]:5432"), Ok(()), "a mapped address is the address");
}

#[test]
fn ranges_have_any_number_of_bits() {
    let all =
        AddressRules { named: vec![range("0.0.0.0/0"), range("::/0")], ..AddressRules::default() };
    for to in ["127.0.0.1:1", "255.255.255.255:1", "[::1]:1", "[fe80::1]:1"] {
        assert_eq!(all.check(to.parse().unwrap()), Ok(()), "{to}");
    }
    let none = AddressRules { named: vec![range("10.0.0.1/33"), range("fd00::1/129")], ..all };
    for to in ["10.0.0.1:1", "[fd00::1]:1"] {
        assert!(none.check(to.parse().unwrap()).is_err(), "{to}");
    }
}

#[test]
fn this_host_has_the_ports_that_the_profile_lists_and_no_denied_one() {
    let to = |rules: &AddressRules, port| rules.this_host(port);
    let rules = AddressRules { host_ports: vec![22, 5432], ..AddressRules::default() };
    assert_eq!(to(&rules, 5432), Ok("127.0.0.1:5432".parse().unwrap()));
    assert_eq!(to(&rules, 5433), Err(AddressError::NoService(5433)));
    let denied = AddressRules { denied: vec![range("127.0.0.0/8 port 22")], ..rules.clone() };
    assert_eq!(to(&denied, 22), Err(AddressError::Denied("127.0.0.1".parse().unwrap())));
    assert!(to(&denied, 5432).is_ok());
    // The list opens the name only: other names that lead there are judged by their address.
    let address = "127.0.0.1:5432".parse().unwrap();
    assert!(rules.check(address).is_err() && !rules.names(address));
}
