use super::*;
use proptest::prelude::*;

fn read(text: &str) -> Result<String, NameError> {
    read_host(text.as_bytes()).map(|host| host.to_string())
}

#[test]
fn a_host_has_one_form_however_it_is_written() {
    for (text, form) in [
        ("packages.example", "packages.example"),
        ("Packages.EXAMPLE.", "packages.example"),
        ("bücher.example", "xn--bcher-kva.example"),
        ("BÜCHER.example", "xn--bcher-kva.example"),
        ("xn--bcher-kva.example", "xn--bcher-kva.example"),
        // Cyrillic letters that look like Latin ones are another name.
        ("расkages.example", "xn--kages-3ve5ij.example"),
        ("packages。example", "packages.example"),
        // Older rules made `ss` of this letter: another name.
        ("straße.example", "xn--strae-oqa.example"),
        ("xn--strae-oqa.example", "xn--strae-oqa.example"),
        ("packages.example。", "packages.example"),
        ("ｐackages.example", "packages.example"),
        ("pack\u{ad}ages.example", "packages.example"),
        ("_service.example", "_service.example"),
        ("r3---sn-x.example", "r3---sn-x.example"),
        ("127.0.0.1", "127.0.0.1"),
        ("127.0.0.1.", "127.0.0.1"),
        ("１２７.0.0.1", "127.0.0.1"),
        ("[::1]", "[::1]"),
        ("::1", "[::1]"),
        ("[::ffff:169.254.169.254]", "169.254.169.254"),
        ("::ffff:a9fe:a9fe", "169.254.169.254"),
    ] {
        assert_eq!(read(text).as_deref(), Ok(form), "{text}");
    }
}

#[test]
fn a_host_that_programs_could_read_in_two_ways_is_refused() {
    use palisade_egress_protocol::host::HostNameError::{Empty, Label};
    let long = "a".repeat(1025);
    for (text, error) in [
        ("", NameError::Name(Empty)),
        (".", NameError::Name(Empty)),
        ("packages.example..", NameError::Name(Label)),
        (".example", NameError::Name(Label)),
        ("a..example", NameError::Name(Label)),
        ("evil.example\0.packages.example", NameError::Character('\0')),
        ("packages.example\r\n", NameError::Character('\r')),
        ("packages.example\u{85}", NameError::Character('\u{85}')),
        ("packages%2eexample", NameError::Character('%')),
        ("evil@packages.example", NameError::Character('@')),
        ("packages.example/x", NameError::Character('/')),
        ("packages.example\\x", NameError::Character('\\')),
        ("packages example", NameError::Character(' ')),
        ("packages.example#x", NameError::Character('#')),
        ("packages％2eexample", NameError::Unicode),
        ("packages．example：80", NameError::Unicode),
        ("xn--a.example", NameError::Unicode),
        // Invisible joiners, outside of the scripts that need them.
        ("pack\u{200d}ages.example", NameError::Unicode),
        ("pack\u{200c}ages.example", NameError::Unicode),
        ("127.1", NameError::Number),
        ("127.0.0.01", NameError::Number),
        ("0x7f.0.0.1", NameError::Number),
        ("0X7F000001", NameError::Number),
        ("2130706433", NameError::Number),
        ("017700000001", NameError::Number),
        ("packages.example.1", NameError::Number),
        ("1.2.3.4.5", NameError::Number),
        ("256.0.0.1", NameError::Number),
        ("[::1", NameError::Ipv6),
        ("::1]", NameError::Ipv6),
        ("[127.0.0.1]", NameError::Ipv6),
        ("packages.example:80", NameError::Ipv6),
        ("[fe80::1%25lo]", NameError::Character('%')),
        (long.as_str(), NameError::TooLong),
    ] {
        assert_eq!(read(text), Err(error), "{text:?}");
    }
    assert_eq!(read_host(b"packages.example\xff"), Err(NameError::NotUtf8));
}

#[test]
fn a_target_has_a_port() {
    for (text, form) in [
        ("packages.example:443", "packages.example:443"),
        ("[::1]:80", "[::1]:80"),
        ("10.0.0.1:65535", "10.0.0.1:65535"),
    ] {
        assert_eq!(read_target(text).map(|target| target.to_string()).as_deref(), Ok(form));
    }
    for (text, error) in [
        ("packages.example", NameError::NoPort),
        ("[::1]", NameError::NoPort),
        ("packages.example:", NameError::Port),
        ("packages.example:0", NameError::Port),
        ("packages.example:65536", NameError::Port),
        ("packages.example:+80", NameError::Port),
        ("packages.example:8o", NameError::Port),
        ("::1:80", NameError::Ipv6),
        ("user@packages.example:80", NameError::Character('@')),
    ] {
        assert_eq!(read_target(text), Err(error), "{text}");
    }
    assert_eq!(read_target_or("[::1]", 80).unwrap().to_string(), "[::1]:80");
    assert_eq!(read_target_or("packages.example:8080", 80).unwrap().port, 8080);
}

/// `inet_aton` of the C library, after its manual page.
fn inet_aton(text: &str) -> bool {
    let part = |part: &str| {
        let lower = part.to_ascii_lowercase();
        if let Some(hex) = lower.strip_prefix("0x") {
            hex.is_empty() || u64::from_str_radix(hex, 16).is_ok()
        } else if lower.len() > 1 && lower.starts_with('0') {
            u64::from_str_radix(&lower, 8).is_ok()
        } else {
            lower.parse::<u64>().is_ok()
        }
    };
    let text = text.split_whitespace().next().unwrap_or_default();
    let parts: Vec<_> = text.split('.').collect();
    parts.len() <= 4 && parts.into_iter().all(part)
}

/// Texts that look like names, addresses and numbers.
fn hostlike() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-zA-Z0-9.:%@_\\[\\]\u{0}\u{e4}\u{3002}\u{ff11}-]{0,40}",
        "(0?x?[0-9a-fA-F]{1,9}\\.){0,4}0?x?[0-9a-fA-F]{0,9}\\.?",
        "\\PC{0,30}",
        "([a-zA-Z\u{fc}0-9-]{1,12}\\.){1,4}[a-z]{2,5}\\.?",
    ]
}

proptest! {
    #![proptest_config(crate::testing::random_cases(1024))]

    #[test]
    fn what_is_read_has_the_form_of_a_name_and_is_read_again_as_itself(text in hostlike()) {
        if let Ok(host) = read_host(text.as_bytes()) {
            if let Host::Name(name) = &host {
                prop_assert!(HostName::new(name.as_str()).is_ok());
                prop_assert!(!inet_aton(name.as_str()), "{}", name);
                prop_assert!(name.as_str().parse::<IpAddr>().is_err());
            }
            prop_assert_eq!(read_host(host.to_string().as_bytes()), Ok(host.clone()));
            let dotted = format!("{host}.");
            if let Host::Name(_) = host {
                prop_assert_eq!(read_host(dotted.as_bytes()), Ok(host.clone()));
                let upper = host.to_string().to_ascii_uppercase();
                prop_assert_eq!(read_host(upper.as_bytes()), Ok(host));
            }
        }
    }

    #[test]
    fn a_number_is_never_a_name(text in "(0?x?[0-9a-fA-F]{1,9}\\.){0,3}0?x?[0-9a-fA-F]{0,9}") {
        if inet_aton(&text) {
            prop_assert!(!matches!(read_host(text.as_bytes()), Ok(Host::Name(_))), "{}", text);
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        if let Ok(Host::Name(name)) = read_host(&bytes) {
            prop_assert!(!bytes.contains(&0) && !name.as_str().contains('%'));
        }
        if let Ok(text) = str::from_utf8(&bytes) {
            drop(read_target(text));
        }
    }
}
