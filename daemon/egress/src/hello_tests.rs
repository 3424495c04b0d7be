use super::*;
use crate::testing::client_hello;
use proptest::prelude::*;

/// ClientHellos of real programs to `allowed.test`, in order: OpenSSL, curl, Node, GnuTLS, Java.
const REAL: [&[u8]; 5] = [
    include_bytes!("hellos/openssl.bin"),
    include_bytes!("hellos/curl.bin"),
    include_bytes!("hellos/node.bin"),
    include_bytes!("hellos/git-gnutls.bin"),
    include_bytes!("hellos/java.bin"),
];
const NO_NAME: &[u8] = include_bytes!("hellos/openssl-no-name.bin");

fn allowed() -> FirstBytes {
    FirstBytes::Hello(ServerName::Host(read_host(b"allowed.test").unwrap()))
}

/// Splits a message into records of this size.
fn split(hello: &[u8], size: usize) -> Vec<u8> {
    let records = hello[RECORD_HEADER..].chunks(size).map(|part| {
        let [high, low] = u16::try_from(part.len()).unwrap().to_be_bytes();
        [&[HANDSHAKE, 3, 1, high, low], part].concat()
    });
    records.collect::<Vec<_>>().concat()
}

#[test]
fn the_name_in_hellos_of_real_programs_is_read() {
    for hello in REAL {
        assert_eq!(read_first(hello), allowed());
        for size in [1, 2, 7, 100] {
            assert_eq!(read_first(&split(hello, size)), allowed(), "records of {size}");
        }
    }
    assert_eq!(read_first(NO_NAME), FirstBytes::Hello(ServerName::Absent));
    assert_eq!(read_first(&client_hello(Some("allowed.test"))), allowed());
}

#[test]
fn nothing_is_decided_before_the_whole_hello_is_there() {
    for hello in REAL.into_iter().chain([NO_NAME]) {
        for end in 0..hello.len() {
            assert_eq!(read_first(&hello[..end]), FirstBytes::Partial, "{end} bytes");
        }
        let more = [hello, &[20, 3, 3, 0, 1, 1]].concat();
        assert_eq!(read_first(&more), read_first(hello), "other records may follow");
    }
}

#[test]
fn other_protocols_are_told_apart_by_the_first_byte() {
    for other in [b"GET / HTTP/1.1".as_slice(), b"SSH-2.0-x", b"\x80\x2e\x01", b"\x05\x01\x00"] {
        assert_eq!(read_first(other), FirstBytes::Other);
    }
    assert_eq!(read_first(b""), FirstBytes::Partial);
}

#[test]
fn a_hello_that_could_be_read_in_two_ways_is_broken() {
    let good = client_hello(Some("allowed.test"));
    let broken = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = good.clone();
        change(&mut bytes);
        matches!(read_first(&bytes), FirstBytes::Broken(_))
    };
    assert!(broken(&|bytes| bytes[1] = 2), "another version of the record");
    assert!(broken(&|bytes| bytes[5] = 2), "another message");
    assert!(broken(&|bytes| bytes[3..5].copy_from_slice(&[0, 0])), "an empty record");
    assert!(broken(&|bytes| bytes[3..5].copy_from_slice(&[0xff, 0xff])), "a long record");
    assert!(broken(&|bytes| bytes[6] = 1), "a long message");
    assert!(
        broken(&|bytes| {
            // The record goes on after the message.
            bytes[4] += 1;
            bytes.push(0);
        }),
        "data after the message"
    );
    let twice = {
        let entry = |name: &[u8]| {
            let length = u8::try_from(name.len()).unwrap();
            [&[0, 0, 0, length + 5, 0, length + 3, 0, 0, length], name].concat()
        };
        let extensions = [entry(b"allowed.test"), entry(b"denied.test")].concat();
        let length = u8::try_from(extensions.len()).unwrap();
        let fixed = [[3, 3].as_slice(), &[9; 32], &[0, 0, 2, 0x13, 1, 1, 0, 0, length]].concat();
        let hello = [fixed, extensions].concat();
        let length = u8::try_from(hello.len()).unwrap();
        [&[22, 3, 1, 0, length + 4, 1, 0, 0, length], hello.as_slice()].concat()
    };
    assert_eq!(
        read_first(&twice),
        FirstBytes::Broken("there are two extensions for the server's name")
    );
}

#[test]
fn a_name_that_is_not_a_host_is_told() {
    for (name, error) in [
        ("evil\0.allowed.test", NameError::Character('\0')),
        ("127.1", NameError::Number),
        ("", NameError::Name(palisade_egress_protocol::host::HostNameError::Empty)),
    ] {
        let expected = FirstBytes::Hello(ServerName::Unreadable(error));
        assert_eq!(read_first(&client_hello(Some(name))), expected, "{name:?}");
    }
    assert_eq!(read_first(&client_hello(Some("ALLOWED.test."))), allowed());
}

#[test]
fn a_hello_is_bounded() {
    let endless = split(&[&[0; 5], [1, 0, 0x40, 0].as_slice(), &[0; 20_000]].concat(), 1000);
    for end in [1000, MAX_HELLO - 1] {
        assert_eq!(read_first(&endless[..end]), FirstBytes::Partial);
    }
    assert!(matches!(read_first(&endless[..MAX_HELLO]), FirstBytes::Broken(_)));
}

proptest! {
    #![proptest_config(crate::testing::random_cases(1024))]

    #[test]
    fn any_bytes_have_some_meaning(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        drop(read_first(&bytes));
        let tls = [&[HANDSHAKE, 3, 1], bytes.as_slice()].concat();
        prop_assert_ne!(read_first(&tls), FirstBytes::Other);
    }

    /// Whatever is changed, the name is the one in the bytes, and more bytes change no decision.
    #[test]
    fn changed_hellos_do_not_change_their_minds(
        which in 0..REAL.len(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = REAL[which].to_vec();
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        let whole = read_first(&bytes);
        if let FirstBytes::Hello(ServerName::Host(Host::Name(name))) = &whole {
            let lower = bytes.to_ascii_lowercase();
            let text = name.as_str().as_bytes();
            prop_assert!(lower.windows(text.len()).any(|window| window == text)
                || name.as_str().contains("xn--"));
        }
        let part = read_first(&bytes[..cut.index(bytes.len() + 1)]);
        prop_assert!(part == FirstBytes::Partial || part == whole);
        let more = [bytes.as_slice(), &[23, 3, 3, 0, 0]].concat();
        if whole != FirstBytes::Partial {
            prop_assert_eq!(read_first(&more), whole);
        }
    }
}
