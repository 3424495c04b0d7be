use super::*;
use crate::{Limits, testing::*};
use palisade_egress_protocol::{EgressReply, Tunnel};
use std::time::Duration;

/// Greets the proxy and sends a request with this address and port.
async fn ask(world: &World, address: &[u8], port: u16) -> TcpStream {
    let mut client = world.to_proxy().await;
    client.write_all(&[5, 2, 0, 2]).await.unwrap();
    assert_eq!(read::<2>(&mut client).await.unwrap(), [5, 0]);
    let request = [&[5, 1, 0], address, &port.to_be_bytes()].concat();
    client.write_all(&request).await.unwrap();
    client
}

fn domain(name: &[u8]) -> Vec<u8> {
    [&[DOMAIN, u8::try_from(name.len()).unwrap()], name].concat()
}

async fn code(client: &mut TcpStream) -> u8 {
    let [version, code, ..] = soon(read::<10>(client)).await.unwrap();
    assert_eq!(version, 5);
    code
}

#[tokio::test]
async fn a_name_an_ipv4_and_an_ipv6_address_are_asked_about_and_carried() {
    let rule: Rule = Box::new(|target, asked| {
        assert_eq!(asked, Asked::Socks);
        let host = target.host.to_string();
        if host == "denied.test" { deny() } else { allow(Tunnel::Any) }
    });
    let mut world = World::new(Conditions { rule, ..Conditions::default() }).await;
    let outside = Outside::new().await;
    let mapped = Ipv4Addr::LOCALHOST.to_ipv6_mapped().octets();
    for address in [
        domain(b"Allowed.Test."),
        domain(b"127.0.0.1"),
        [&[IPV4], Ipv4Addr::LOCALHOST.octets().as_slice()].concat(),
        [&[IPV6], mapped.as_slice()].concat(),
    ] {
        let mut client = ask(&world, &address, outside.port).await;
        assert_eq!(code(&mut client).await, SUCCEEDED);
        client.write_all(b"there").await.unwrap();
        client.shutdown().await.unwrap();
        let mut server = outside.accept().await;
        assert_eq!(read_all(&mut server).await, b"there");
        server.write_all(b"back").await.unwrap();
        drop(server);
        assert_eq!(read_all(&mut client).await, b"back");
        let Some(EgressReply::Ended { result, .. }) = world.until_ended().await.pop() else {
            panic!()
        };
        assert_eq!((result.sent, result.received, result.failure), (5, 4, None));
    }
    let mut client = ask(&world, &domain(b"denied.test"), outside.port).await;
    assert_eq!(code(&mut client).await, NOT_ALLOWED);
    assert_eq!(read_all(&mut client).await, b"");
    outside.assert_untouched().await;
    assert_eq!(world.resolver.asked(), ["allowed.test"]);
}

#[tokio::test]
async fn a_name_that_is_none_is_refused_without_a_question() {
    let mut world = World::new(Conditions::default()).await;
    assert!(matches!(world.reply().await, EgressReply::Welcome { .. }));
    for (name, reason) in [
        (b"evil.test\0.allowed.test".as_slice(), "SOCKS5: the host has the character '\\0'"),
        (b"evil.test%00.allowed.test", "SOCKS5: the host has the character '%'"),
        (b"127.1", "SOCKS5: the host is a number"),
        (b"", "SOCKS5: the host is not a host name: it is empty"),
        (b"\xff\xfe", "SOCKS5: the host is not UTF-8"),
    ] {
        let mut client = ask(&world, &domain(name), 443).await;
        assert_eq!(code(&mut client).await, NOT_ALLOWED);
        let refused = world.reply().await;
        assert!(
            matches!(&refused, EgressReply::Refused { target: None, reason: text, .. }
                if text.starts_with(reason)),
            "{refused:?}"
        );
    }
    let mut client = ask(&world, &domain(b"allowed.test"), 0).await;
    assert_eq!(code(&mut client).await, NOT_ALLOWED);
    assert_eq!(world.resolver.asked(), [""; 0]);
}

#[tokio::test]
async fn other_commands_forms_and_versions_are_refused() {
    let world = World::new(Conditions::default()).await;
    for (request, expected) in [
        (b"\x05\x02\x00\x01\x7f\x00\x00\x01\x00\x50", NO_COMMAND),
        (b"\x05\x03\x00\x01\x7f\x00\x00\x01\x00\x50", NO_COMMAND),
        (b"\x05\x01\x00\x07\x7f\x00\x00\x01\x00\x50", NO_ADDRESS_TYPE),
        (b"\x04\x01\x00\x01\x7f\x00\x00\x01\x00\x50", FAILURE),
    ] {
        let mut client = world.to_proxy().await;
        client.write_all(&[5, 1, 0]).await.unwrap();
        assert_eq!(read::<2>(&mut client).await.unwrap(), [5, 0]);
        client.write_all(request).await.unwrap();
        assert_eq!(code(&mut client).await, expected);
    }
    // Authentication only.
    let mut client = world.to_proxy().await;
    client.write_all(&[5, 1, 2]).await.unwrap();
    assert_eq!(read_all(&mut client).await, [5, NO_METHOD]);
    // SOCKS4, and something else.
    for first in [b"\x04\x01\x00\x50\x7f\x00\x00\x01\x00".as_slice(), b"\x16\x03\x01", b"get / "] {
        let mut client = world.to_proxy().await;
        client.write_all(first).await.unwrap();
        let mut rest = Vec::new();
        drop(soon(client.read_to_end(&mut rest)).await);
        assert_eq!(rest, b"");
    }
}

#[tokio::test]
async fn what_can_not_be_reached_has_its_own_code() {
    let rule: Rule = Box::new(|_, _| allow(Tunnel::Any));
    let limits = Limits { dial: Duration::from_millis(200), ..Limits::default() };
    let world = World::new(Conditions { rule, limits, ..Conditions::default() }).await;
    let mut client = ask(&world, &domain(b"no-such-name.test"), 443).await;
    assert_eq!(code(&mut client).await, HOST_UNREACHABLE);
    let unused = {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        listener.local_addr().unwrap().port()
    };
    let mut client = ask(&world, &domain(b"allowed.test"), unused).await;
    assert_eq!(code(&mut client).await, REFUSED);
    let mut client = ask(&world, &[IPV4, 10, 0, 0, 1], 443).await;
    assert_eq!(code(&mut client).await, NOT_ALLOWED);
}

#[tokio::test]
async fn a_request_that_does_not_come_ends_the_connection() {
    let limits = Limits { handshake: Duration::from_millis(100), ..Limits::default() };
    let world = World::new(Conditions { limits, ..Conditions::default() }).await;
    for part in [b"\x05".as_slice(), b"\x05\x01\x00\x05\x01\x00\x03\xff"] {
        let mut client = world.to_proxy().await;
        client.write_all(part).await.unwrap();
        let mut rest = Vec::new();
        drop(soon(client.read_to_end(&mut rest)).await);
        assert!(rest.is_empty() || rest == [5, 0], "{rest:?}");
    }
}

#[tokio::test]
async fn a_question_is_withdrawn_when_the_program_leaves() {
    let rule: Rule = Box::new(|_, _| None);
    let mut world = World::new(Conditions { rule, ..Conditions::default() }).await;
    assert!(matches!(world.reply().await, EgressReply::Welcome { .. }));
    let mut client = ask(&world, &domain(b"allowed.test"), 443).await;
    // The program may have sent more already.
    client.write_all(b"early").await.unwrap();
    let EgressReply::Question { question, session, .. } = world.reply().await else { panic!() };
    drop(client);
    assert_eq!(world.reply().await, EgressReply::Withdrawn { session, question });
}
