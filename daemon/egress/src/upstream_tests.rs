use super::*;
use crate::{Limits, testing::*};
use palisade_egress_protocol::{
    EgressReply, Tunnel,
    host::{Host, Target},
};
use std::time::Duration;

/// A session whose names lead to an address that this host does not have, behind a proxy.
async fn behind(proxy: &Outside, named: &str) -> World {
    let address = Host::Address([127, 0, 0, 1].into());
    let world = World::new(Conditions {
        rule: allowed_only(Tunnel::Any),
        named: vec![range(named, 32)],
        proxy: Some(OperatorProxy {
            target: Target { host: address, port: proxy.port },
            transport: ProxyTransport::Plain,
            credential: None,
        }),
        limits: Limits { dial: Duration::from_secs(20), ..Limits::default() },
        ..Conditions::default()
    })
    .await;
    world.resolver.set("allowed.test", &[&["203.0.113.7"]]);
    world
}

/// Asks a session's proxy for a tunnel.
async fn ask(world: &World) -> TcpStream {
    let mut client = world.to_proxy().await;
    let request = b"CONNECT allowed.test:7000 HTTP/1.1\r\nHost: allowed.test:7000\r\n\
                    Proxy-Authorization: Basic c2VjcmV0\r\n\r\n";
    client.write_all(request).await.unwrap();
    client
}

#[tokio::test]
async fn a_connection_is_made_through_the_proxy_to_the_checked_address() {
    let proxy = Outside::new().await;
    let mut world = behind(&proxy, "203.0.113.7").await;
    let mut client = ask(&world).await;
    let mut heard = proxy.accept().await;
    let request = read_until(&mut heard, b"\r\n\r\n").await;
    let expected = b"CONNECT 203.0.113.7:7000 HTTP/1.1\r\nHost: 203.0.113.7:7000\r\n\r\n";
    assert_eq!(request, expected, "{}", String::from_utf8_lossy(&request));
    // The destination speaks first, in the same packet.
    heard.write_all(b"HTTP/1.1 200 Connection established\r\nVia: x\r\n\r\nfirst").await.unwrap();
    let answer = read_until(&mut client, b"first").await;
    assert!(answer.starts_with(b"HTTP/1.1 200"), "{answer:?}");
    client.write_all(b"there").await.unwrap();
    client.shutdown().await.unwrap();
    assert_eq!(read_all(&mut heard).await, b"there");
    drop(heard);
    let ended = world.until_ended().await;
    let address: SocketAddr = "203.0.113.7:7000".parse().unwrap();
    let connected = |reply: &EgressReply| matches!(reply, EgressReply::Connected { address: at, .. } if *at == address);
    assert!(ended.iter().any(connected), "{ended:?}");
}

#[tokio::test]
async fn a_proxy_that_refuses_or_talks_nonsense_opens_nothing() {
    for (answer, why) in [
        (b"HTTP/1.1 403 Forbidden\r\n\r\n".as_slice(), "refused 203.0.113.7:7000 with status 403"),
        (b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", "wants a password"),
        (b"HTTP/1.1 2000 x\r\n\r\n", "not one of an HTTP proxy"),
        (b"SSH-2.0-x\r\n\r\n", "not one of an HTTP proxy"),
        (b"HTTP/1.1 200", "it ended the connection"),
        (&[b'x'; MAX_ANSWER + 1], "more than 8192 bytes"),
    ] {
        let proxy = Outside::new().await;
        let world = behind(&proxy, "203.0.113.7").await;
        let mut client = ask(&world).await;
        let mut heard = proxy.accept().await;
        read_until(&mut heard, b"\r\n\r\n").await;
        // The room may have closed the connection already.
        drop(heard.write_all(answer).await);
        drop(heard.shutdown().await);
        let told = String::from_utf8_lossy(&read_all(&mut client).await).into_owned();
        assert!(told.starts_with("HTTP/1.1 502"), "{told}");
        assert!(told.contains(why), "{why}: {told}");
    }
}

#[tokio::test]
async fn addresses_are_checked_before_the_proxy_hears_of_them() {
    let proxy = Outside::new().await;
    // Another address is named than the one that the name leads to.
    let world = behind(&proxy, "203.0.113.9").await;
    let mut client = ask(&world).await;
    let told = String::from_utf8_lossy(&read_all(&mut client).await).into_owned();
    assert!(told.starts_with("HTTP/1.1 403"), "{told}");
    proxy.assert_untouched().await;
}

#[tokio::test]
async fn an_address_of_this_host_is_not_asked_of_the_proxy() {
    let (proxy, own) = (Outside::new().await, Outside::new().await);
    let world = behind(&proxy, "127.0.0.1").await;
    world.resolver.set("allowed.test", &[&["127.0.0.1"]]);
    let mut client = world.to_proxy().await;
    let at = format!("allowed.test:{}", own.port);
    let request = format!("CONNECT {at} HTTP/1.1\r\nHost: {at}\r\n\r\n");
    client.write_all(request.as_bytes()).await.unwrap();
    let mut server = own.accept().await;
    server.write_all(b"here").await.unwrap();
    read_until(&mut client, b"here").await;
    proxy.assert_untouched().await;
}

#[test]
fn the_status_is_three_digits() {
    assert_eq!(read_status(b"HTTP/1.1 200 OK\r\n"), Some(200));
    assert_eq!(read_status(b"HTTP/1.0 200\r\n"), Some(200));
    for other in [b"HTTP/2 200 OK\r\n".as_slice(), b"HTTP/1.1 20\r\n", b"HTTP/1.1 +20 \r\n", b""] {
        assert_eq!(read_status(other), None);
    }
}
