use crate::{RoomError, testing::*};
use palisade_egress_protocol::{EgressReply, EgressRequest, RefusalKind, Tunnel};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

#[tokio::test]
async fn closing_a_session_ends_its_connections_and_listeners_only() {
    let rule = allowed_only(Tunnel::Any);
    let mut world = World::new(Conditions { rule, ..Conditions::default() }).await;
    let outside = Outside::new().await;
    let mut client = world.to_proxy().await;
    let request = format!("CONNECT allowed.test:{} HTTP/1.1\r\n\r\n", outside.port);
    client.write_all(request.as_bytes()).await.unwrap();
    read_until(&mut client, b"\r\n\r\n").await;
    let mut server = outside.accept().await;
    world.broker.send(&EgressRequest::Close { session: SESSION }, &[]).unwrap();
    let mut rest = Vec::new();
    drop(soon(server.read_to_end(&mut rest)).await);
    drop(soon(client.read_to_end(&mut rest)).await);
    assert_eq!(rest, b"");
    let Some(EgressReply::Ended { result, .. }) = world.until_ended().await.pop() else { panic!() };
    assert_eq!(result.failure.as_deref(), Some("it was cut off"));
    for closed in [world.proxy, world.direct, world.names_tcp] {
        assert!(TcpStream::connect(closed).await.is_err(), "nobody listens any more");
    }
    // Closing it again changes nothing, and the room goes on.
    world.broker.send(&EgressRequest::Close { session: SESSION }, &[]).unwrap();
    assert!(!world.room.is_finished());
}

#[tokio::test]
async fn a_connection_whose_approval_ended_is_cut_off_and_no_other() {
    let rule = allowed_only(Tunnel::Any);
    let mut world = World::new(Conditions { rule, ..Conditions::default() }).await;
    let outside = Outside::new().await;
    let (mut ends, mut questions) = (Vec::new(), Vec::new());
    for _ in 0..2 {
        let mut client = world.to_proxy().await;
        let request = format!("CONNECT allowed.test:{} HTTP/1.1\r\n\r\n", outside.port);
        client.write_all(request.as_bytes()).await.unwrap();
        read_until(&mut client, b"\r\n\r\n").await;
        let mut server = outside.accept().await;
        // Bytes have gone both ways, and none are on their way.
        client.write_all(b"ping").await.unwrap();
        read_until(&mut server, b"ping").await;
        server.write_all(b"pong").await.unwrap();
        read_until(&mut client, b"pong").await;
        ends.push((client, server));
        questions.push(loop {
            if let EgressReply::Question { question, .. } = world.reply().await {
                break question;
            }
        });
    }
    let first = questions[0];
    world.broker.send(&EgressRequest::Cut { session: SESSION, question: first }, &[]).unwrap();
    let Some(EgressReply::Ended { question, result, .. }) = world.until_ended().await.pop() else {
        panic!()
    };
    assert_eq!((question, result.sent, result.received), (first, 4, 4));
    let why = "the approval of the connection has expired or was revoked";
    assert_eq!(result.failure.as_deref(), Some(why));
    let (mut client, mut server) = ends.remove(0);
    let mut rest = Vec::new();
    drop(soon(server.read_to_end(&mut rest)).await);
    drop(soon(client.read_to_end(&mut rest)).await);
    assert_eq!(rest, b"");
    // One that has ended, and one that never was: the room goes on.
    for question in [first, 99] {
        world.broker.send(&EgressRequest::Cut { session: SESSION, question }, &[]).unwrap();
    }
    let (client, server) = &mut ends[0];
    client.write_all(b"still").await.unwrap();
    read_until(server, b"still").await;
}

#[tokio::test]
async fn an_approval_that_ends_at_once_is_not_used() {
    let mut world =
        World::new(Conditions { rule: Box::new(|_, _| None), ..Conditions::default() }).await;
    let outside = Outside::new().await;
    assert!(matches!(world.reply().await, EgressReply::Welcome { .. }));
    for is_cut in [true, false] {
        let mut client = world.to_proxy().await;
        let request = format!("CONNECT allowed.test:{} HTTP/1.1\r\n\r\n", outside.port);
        client.write_all(request.as_bytes()).await.unwrap();
        let EgressReply::Question { question, .. } = world.reply().await else { panic!() };
        // The room runs again at the next `await`, and finds both.
        let verdict = allow(Tunnel::Any).unwrap();
        let answer = EgressRequest::Answer { session: SESSION, question, verdict };
        world.broker.send(&answer, &[]).unwrap();
        if !is_cut {
            // The control: without it, the connection is made.
            read_until(&mut client, b"\r\n\r\n").await;
            drop(outside.accept().await);
            continue;
        }
        world.broker.send(&EgressRequest::Cut { session: SESSION, question }, &[]).unwrap();
        let Some(EgressReply::Ended { question: ended, result, .. }) =
            world.until_ended().await.pop()
        else {
            panic!()
        };
        let why = "the approval of the connection has expired or was revoked";
        assert_eq!((ended, result.failure.as_deref()), (question, Some(why)));
        let told = String::from_utf8(read_until(&mut client, b"\r\n\r\n").await).unwrap();
        assert!(told.starts_with("HTTP/1.1 403 "), "{told}");
        outside.assert_untouched().await;
    }
}

#[tokio::test]
async fn a_placeholder_in_a_name_is_refused_with_an_alarm_and_not_asked_about() {
    let mut world =
        World::new(Conditions { credentials: vec![credential()], ..Conditions::default() }).await;
    let outside = Outside::new().await;
    assert!(matches!(world.reply().await, EgressReply::Welcome { .. }));
    let host = "palisade-placeholder-0a1b.allowed.test";
    world.resolver.set(host, &[&["127.0.0.1"]]);
    let connect =
        |host: &str| format!("CONNECT {host}:{} HTTP/1.1\r\n\r\n", outside.port).into_bytes();
    let socks = |host: &str| {
        let length = u8::try_from(host.len()).unwrap();
        let port = outside.port.to_be_bytes();
        [&[5, 1, 0, 5, 1, 0, 3, length], host.as_bytes(), &port].concat()
    };
    for request in [connect(host), connect(&host.to_uppercase()), socks(host)] {
        let mut client = world.to_proxy().await;
        let told = exchange(&mut client, &request).await.into_bytes();
        let is_refused = told.starts_with(b"HTTP/1.1 403") || told.starts_with(&[5, 0, 5, 2]);
        assert!(is_refused, "{told:?}");
        let said = world.reply().await;
        let EgressReply::Refused { kind: RefusalKind::Placeholder, reason, .. } = said else {
            panic!("{said:?}")
        };
        assert!(reason.contains("placeholder of credential \"api\""), "{reason}");
    }
    let mut names = TcpStream::connect(world.names_tcp).await.unwrap();
    for (host, code) in [(host, 3), ("other.allowed.test", 0)] {
        let answer = look_up(&mut names, host).await;
        assert_eq!(answer[3] & 15, code, "{host}");
        let said = world.reply().await;
        let is_alarm = matches!(said, EgressReply::Refused { kind: RefusalKind::Placeholder, .. });
        assert_eq!(is_alarm, code == 3, "{said:?}");
    }
    assert_eq!(world.resolver.asked(), Vec::<String>::new());
    outside.assert_untouched().await;
}

/// Asks the session's name server for the address of a name, and returns its answer.
async fn look_up(names: &mut TcpStream, host: &str) -> Vec<u8> {
    let mut query = vec![0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in host.split('.') {
        query.push(u8::try_from(label.len()).unwrap());
        query.extend(label.as_bytes());
    }
    query.extend([0, 0, 1, 0, 1]);
    names.write_u16(u16::try_from(query.len()).unwrap()).await.unwrap();
    names.write_all(&query).await.unwrap();
    let mut answer = vec![0; soon(names.read_u16()).await.unwrap().into()];
    soon(names.read_exact(&mut answer)).await.unwrap();
    answer
}

#[tokio::test]
async fn a_broker_that_breaks_the_protocol_ends_the_room() {
    let hello = EgressRequest::Hello { build_id: palisade_plan::BUILD_ID.to_owned(), proxy: None };
    let open = |listeners| EgressRequest::Open {
        session: SESSION,
        listeners,
        budget: Conditions::default().budget,
        named: Vec::new(),
        denied: Vec::new(),
        host_ports: Vec::new(),
        authority: None,
        credentials: Vec::new(),
    };
    for (request, reason) in [
        (hello, "Hello came twice"),
        (open(Vec::new()), "a session was opened twice"),
        (
            EgressRequest::Open {
                session: SESSION + 1,
                listeners: vec![palisade_plan::listeners::Listener::Proxy],
                budget: Conditions::default().budget,
                named: Vec::new(),
                denied: Vec::new(),
                host_ports: Vec::new(),
                authority: None,
                credentials: Vec::new(),
            },
            "a session has other listeners than descriptors",
        ),
    ] {
        let world = World::new(Conditions::default()).await;
        world.broker.send(&request, &[]).unwrap();
        let ended = soon(world.room).await.unwrap();
        assert!(matches!(ended, Err(RoomError::Order(why)) if why == reason), "{ended:?}");
        assert!(TcpStream::connect(world.proxy).await.is_err(), "no session is served any more");
    }
}
