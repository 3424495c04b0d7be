use crate::{Limits, testing::*};
use palisade_egress_protocol::{
    Asked, ConnectionResult, EgressBudget, EgressReply, EgressRequest, Tunnel,
};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

fn connect(host: &str, port: u16) -> Vec<u8> {
    format!("CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n").into_bytes()
}

/// Asks for a tunnel that is allowed, and returns the program's end.
async fn tunnel(world: &World, host: &str, port: u16) -> tokio::net::TcpStream {
    let mut client = world.to_proxy().await;
    client.write_all(&connect(host, port)).await.unwrap();
    let answer = read_until(&mut client, b"\r\n\r\n").await;
    assert!(answer.starts_with(b"HTTP/1.1 200 OK\r\n"), "{}", String::from_utf8_lossy(&answer));
    client
}

/// Returns how the next connection ends.
async fn ended(world: &mut World) -> ConnectionResult {
    match world.until_ended().await.pop() {
        Some(EgressReply::Ended { result, .. }) => result,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn connect_carries_tls_to_an_allowed_name_only() {
    let mut world = World::new(Conditions::default()).await;
    assert!(matches!(world.reply().await, EgressReply::Welcome { .. }));
    let outside = Outside::new().await;
    for denied in ["denied.test", "allowed.test.denied.test", "notallowed.test"] {
        let mut client = world.to_proxy().await;
        let answer = exchange(&mut client, &connect(denied, outside.port)).await;
        assert!(answer.starts_with("HTTP/1.1 403 Forbidden\r\n"), "{answer}");
        assert!(answer.ends_with("palisade: it is not on the list\n"), "{answer}");
        let question = world.reply().await;
        assert!(
            matches!(&question, EgressReply::Question { target, asked: Asked::Connect, .. }
                if target.to_string() == format!("{denied}:{}", outside.port)),
            "{question:?}"
        );
    }
    outside.assert_untouched().await;
    assert_eq!(world.resolver.asked(), [""; 0], "nothing is looked up before it is allowed");

    let mut client = tunnel(&world, "ALLOWED.test.", outside.port).await;
    let hello = client_hello(Some("allowed.test"));
    client.write_all(&hello).await.unwrap();
    client.write_all(b"more").await.unwrap();
    client.shutdown().await.unwrap();
    let mut server = outside.accept().await;
    assert_eq!(read_all(&mut server).await, [hello.as_slice(), b"more"].concat());
    server.write_all(b"answer after the client's end").await.unwrap();
    drop(server);
    assert_eq!(read_all(&mut client).await, b"answer after the client's end");
    assert_eq!(world.resolver.asked(), ["allowed.test"]);
    let replies = world.until_ended().await;
    let [
        EgressReply::Question { question, .. },
        EgressReply::Connected { question: same, address, .. },
        EgressReply::Ended { question: again, result, .. },
    ] = replies.as_slice()
    else {
        panic!("{replies:?}");
    };
    assert!(question == same && same == again);
    assert_eq!(address.to_string(), format!("127.0.0.1:{}", outside.port));
    let expected = ConnectionResult {
        sent: hello.len() as u64 + 4,
        received: 29,
        server_name: Some(name("allowed.test")),
        failure: None,
    };
    assert_eq!(*result, expected);
}

#[tokio::test]
async fn a_tunnel_is_for_the_name_that_was_asked_for() {
    let mut world = World::new(Conditions::default()).await;
    let outside = Outside::new().await;
    let denied = [21, 3, 3, 0, 2, 2, 49];
    for (first, alert, failure) in [
        (
            client_hello(Some("other.allowed.test")),
            denied.as_slice(),
            "the ClientHello is for other.allowed.test, the connection for allowed.test:",
        ),
        (client_hello(Some("denied.test")), &denied, "the ClientHello is for denied.test, "),
        (client_hello(None), &denied, "the ClientHello on a connection to allowed.test:"),
        (client_hello(Some("evil\0.allowed.test")), &denied, "the ClientHello's name: "),
        (b"SSH-2.0-OpenSSH_9.9\r\n".to_vec(), b"HTTP/1.1 400 ", "the program sent no HTTP request"),
        (b"\x00\x01binary".to_vec(), &[], "the program sent neither TLS nor HTTP"),
        (b"\x16\x03\x01\x00\x04\x02\x00\x00\x00".to_vec(), &[], "the first message is not"),
    ] {
        let mut client = tunnel(&world, "allowed.test", outside.port).await;
        client.write_all(&first).await.unwrap();
        client.shutdown().await.unwrap();
        let mut heard = Vec::new();
        // A connection that is reset has said nothing.
        drop(soon(client.read_to_end(&mut heard)).await);
        assert!(heard.starts_with(alert), "{failure}: {heard:?}");
        let result = ended(&mut world).await;
        assert!(result.failure.as_ref().is_some_and(|why| why.starts_with(failure)), "{result:?}");
        assert_eq!(result.sent, 0);
        outside.assert_silent().await;
    }
}

#[tokio::test]
async fn an_address_is_judged_as_an_address_and_a_name_in_its_hello_as_a_name() {
    let rule: Rule = Box::new(|target, _| {
        let host = target.host.to_string();
        if ["127.0.0.1", "allowed.test"].contains(&host.as_str()) {
            allow(Tunnel::Checked)
        } else if host == "inspected.test" {
            allow(Tunnel::Inspected)
        } else {
            deny()
        }
    });
    let mut world = World::new(Conditions { rule, ..Conditions::default() }).await;
    let outside = Outside::new().await;
    for (name, passes) in [
        (None, true),
        (Some("allowed.test"), true),
        (Some("denied.test"), false),
        (Some("inspected.test"), false),
    ] {
        let mut client = tunnel(&world, "127.0.0.1", outside.port).await;
        let hello = client_hello(name);
        client.write_all(&hello).await.unwrap();
        client.shutdown().await.unwrap();
        if passes {
            assert_eq!(read_all(&mut outside.accept().await).await, hello);
        } else {
            outside.assert_silent().await;
        }
        assert_eq!(
            ended(&mut world).await.sent,
            if passes && name.is_none() { hello.len() as u64 } else { 0 }
        );
        if name.is_some() && passes {
            assert_eq!(ended(&mut world).await.sent, hello.len() as u64);
        }
    }
    assert_eq!(world.resolver.asked(), [""; 0]);
}

#[tokio::test]
async fn an_address_that_is_not_public_is_not_dialled_whatever_the_name() {
    let rule: Rule = Box::new(|_, _| allow(Tunnel::Any));
    let conditions = Conditions { rule, named: Vec::new(), ..Conditions::default() };
    let mut world = World::new(conditions).await;
    let outside = Outside::new().await;
    world.resolver.set("metadata.test", &[&["169.254.169.254", "fd00:ec2::254"]]);
    world.resolver.set("mapped.test", &[&["::ffff:127.0.0.1"]]);
    world.resolver.set("nat64.test", &[&["64:ff9b::7f00:1"]]);
    let hosts = [
        ("denied.test", "127.0.0.1"),
        ("metadata.test", "169.254.169.254"),
        ("mapped.test", "127.0.0.1"),
        ("nat64.test", "64:ff9b::7f00:1"),
        ("127.0.0.1", "127.0.0.1"),
        ("[::ffff:127.0.0.1]", "127.0.0.1"),
        ("[::1]", "::1"),
    ];
    for (host, address) in hosts {
        let mut client = world.to_proxy().await;
        let answer = exchange(&mut client, &connect(host, outside.port)).await;
        assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
        let reason =
            format!("{address} is not on the public internet; name this address in net.allow");
        assert!(answer.contains(&reason), "{answer}");
        let failure = ended(&mut world).await.failure.unwrap();
        assert!(failure.contains(&reason), "{failure}");
    }
    for number in ["2130706433", "0x7f.1", "127.1"] {
        let mut client = world.to_proxy().await;
        let answer = exchange(&mut client, &connect(number, outside.port)).await;
        assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    }
    outside.assert_untouched().await;
}

#[tokio::test]
async fn an_address_that_changes_between_two_lookups_is_checked_each_time() {
    let conditions = Conditions {
        rule: allowed_only(Tunnel::Any),
        named: vec![range("127.0.0.1", 32)],
        ..Conditions::default()
    };
    let world = World::new(conditions).await;
    let outside = Outside::new().await;
    world
        .resolver
        .set("allowed.test", &[&["127.0.0.1"], &["127.0.0.2"], &["127.0.0.2", "127.0.0.1"]]);
    let mut client = tunnel(&world, "allowed.test", outside.port).await;
    client.write_all(b"first").await.unwrap();
    client.shutdown().await.unwrap();
    assert_eq!(read_all(&mut outside.accept().await).await, b"first");
    let mut client = world.to_proxy().await;
    let answer = exchange(&mut client, &connect("allowed.test", outside.port)).await;
    assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
    // Of several addresses, only the one that may be dialled is.
    let mut client = tunnel(&world, "allowed.test", outside.port).await;
    client.write_all(b"third").await.unwrap();
    client.shutdown().await.unwrap();
    assert_eq!(read_all(&mut outside.accept().await).await, b"third");
    assert_eq!(world.resolver.asked(), ["allowed.test"; 3], "one lookup for each connection");
}

#[tokio::test]
async fn a_denied_address_is_not_dialled_although_it_is_named() {
    let denied = vec![range("127.0.0.1", 32)];
    let world = World::new(Conditions { denied, ..Conditions::default() }).await;
    let outside = Outside::new().await;
    let mut client = world.to_proxy().await;
    let answer = exchange(&mut client, &connect("allowed.test", outside.port)).await;
    assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
    assert!(answer.contains("127.0.0.1 is denied by net.deny"), "{answer}");
    outside.assert_untouched().await;
}

#[tokio::test]
async fn any_protocol_is_carried_where_it_is_allowed_and_the_server_may_speak_first() {
    let rule = allowed_only(Tunnel::Any);
    let mut world = World::new(Conditions { rule, ..Conditions::default() }).await;
    let outside = Outside::new().await;
    let mut client = tunnel(&world, "allowed.test", outside.port).await;
    let mut server = outside.accept().await;
    server.write_all(b"220 hello\r\n").await.unwrap();
    assert_eq!(read_until(&mut client, b"\r\n").await, b"220 hello\r\n");
    client.write_all(b"EHLO\r\n").await.unwrap();
    assert_eq!(read_until(&mut server, b"\r\n").await, b"EHLO\r\n");
    server.shutdown().await.unwrap();
    assert_eq!(read_all(&mut client).await, b"");
    client.write_all(b"QUIT\r\n").await.unwrap();
    drop(client);
    assert_eq!(read_all(&mut server).await, b"QUIT\r\n");
    let result = ended(&mut world).await;
    assert_eq!((result.sent, result.received, result.failure), (12, 11, None));

    // A server that has said all, and a program that says nothing.
    let client = tunnel(&world, "allowed.test", outside.port).await;
    drop(outside.accept().await);
    drop(client);
    assert_eq!(ended(&mut world).await.failure, None);

    // A ClientHello must be for the name even here.
    let mut client = tunnel(&world, "allowed.test", outside.port).await;
    client.write_all(&client_hello(Some("other.allowed.test"))).await.unwrap();
    assert_eq!(read_all(&mut client).await, [21, 3, 3, 0, 2, 2, 49]);
    outside.assert_silent().await;
    // Bytes that begin like one and are another protocol's are carried.
    let mut client = tunnel(&world, "allowed.test", outside.port).await;
    client.write_all(b"\x16binary").await.unwrap();
    client.shutdown().await.unwrap();
    assert_eq!(read_all(&mut outside.accept().await).await, b"\x16binary");
}

#[tokio::test]
async fn a_question_is_withdrawn_when_the_program_leaves() {
    let rule: Rule = Box::new(|_, _| None);
    let mut world = World::new(Conditions { rule, ..Conditions::default() }).await;
    assert!(matches!(world.reply().await, EgressReply::Welcome { .. }));
    let mut client = world.to_proxy().await;
    client.write_all(&connect("allowed.test", 443)).await.unwrap();
    let EgressReply::Question { question, session, .. } = world.reply().await else { panic!() };
    drop(client);
    assert_eq!(world.reply().await, EgressReply::Withdrawn { session, question });
    // An answer that comes too late is for nobody.
    let verdict = allow(Tunnel::Any).unwrap();
    world.broker.send(&EgressRequest::Answer { session, question, verdict }, &[]).unwrap();
    assert_eq!(world.resolver.asked(), [""; 0]);
}

#[tokio::test]
async fn a_session_sends_no_more_than_its_budget() {
    let budget = EgressBudget { connections: 8, upload_bytes: 10_000 };
    let rule = allowed_only(Tunnel::Any);
    let mut world = World::new(Conditions { rule, budget, ..Conditions::default() }).await;
    let outside = Outside::new().await;
    let mut client = tunnel(&world, "allowed.test", outside.port).await;
    // The room stops reading at some point.
    drop(client.write_all(&[7; 200_000]).await);
    let mut server = outside.accept().await;
    let mut heard = Vec::new();
    drop(soon(server.read_to_end(&mut heard)).await);
    assert!(heard.len() <= 10_000, "{}", heard.len());
    let result = ended(&mut world).await;
    assert_eq!(result.sent, 10_000);
    let reason = "the session has sent as much as its network budget allows";
    assert_eq!(result.failure.as_deref(), Some(reason));
}

/// Opens `count` connections that say nothing, or only begin to.
async fn be_silent(world: &World, count: usize) -> Vec<tokio::net::TcpStream> {
    let mut silent = Vec::new();
    for number in 0..count {
        let mut client = world.to_proxy().await;
        client.write_all(&b"\x05\x01"[..number % 3]).await.unwrap();
        silent.push(client);
    }
    silent
}

#[tokio::test]
async fn connections_beyond_the_budget_wait_and_silent_ones_end() {
    let limits = Limits { handshake: Duration::from_millis(300), ..Limits::default() };
    let budget = EgressBudget { connections: 4, upload_bytes: 1 << 20 };
    let rule = allowed_only(Tunnel::Any);
    let world = World::new(Conditions { rule, budget, limits, ..Conditions::default() }).await;
    let outside = Outside::new().await;
    let silent = be_silent(&world, 24).await;
    let mut client = tunnel(&world, "allowed.test", outside.port).await;
    client.write_all(b"served").await.unwrap();
    client.shutdown().await.unwrap();
    assert_eq!(read_all(&mut outside.accept().await).await, b"served");
    for mut client in silent {
        let mut rest = Vec::new();
        // Reset, or closed after the answer to the beginning of SOCKS.
        drop(soon(client.read_to_end(&mut rest)).await);
        assert!(rest.is_empty() || rest == [5, 0], "{rest:?}");
    }
}

#[tokio::test]
async fn silent_connections_of_one_session_do_not_delay_another() {
    let budget = EgressBudget { connections: 4, upload_bytes: 1 << 20 };
    let limits = Limits { handshake: Duration::from_secs(3600), ..Limits::default() };
    let rule = allowed_only(Tunnel::Any);
    let mut world = World::new(Conditions { rule, budget, limits, ..Conditions::default() }).await;
    let outside = Outside::new().await;
    let silent = be_silent(&world, 100).await;
    world.proxy = world.open_another(SESSION + 1, budget);
    let mut client = tunnel(&world, "allowed.test", outside.port).await;
    client.write_all(b"served").await.unwrap();
    client.shutdown().await.unwrap();
    assert_eq!(read_all(&mut outside.accept().await).await, b"served");
    drop(silent);
}

#[tokio::test]
async fn a_connection_on_which_nothing_moves_ends() {
    let limits = Limits { idle: Duration::from_secs(1), ..Limits::default() };
    let rule = allowed_only(Tunnel::Any);
    let mut world = World::new(Conditions { rule, limits, ..Conditions::default() }).await;
    let outside = Outside::new().await;
    let mut client = tunnel(&world, "allowed.test", outside.port).await;
    client.write_all(b"x").await.unwrap();
    let mut server = outside.accept().await;
    // The room ends it, not the program.
    let mut heard = Vec::new();
    drop(soon(server.read_to_end(&mut heard)).await);
    assert_eq!(heard, b"x");
    let failure = ended(&mut world).await.failure.unwrap();
    assert!(failure.starts_with("nothing was sent or received for "), "{failure}");
}
