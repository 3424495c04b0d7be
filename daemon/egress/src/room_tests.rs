use crate::{RoomError, testing::*};
use palisade_egress_protocol::{EgressReply, EgressRequest, Tunnel};
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
    let mut ends = Vec::new();
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
    }
    world.broker.send(&EgressRequest::Cut { session: SESSION, question: 0 }, &[]).unwrap();
    let Some(EgressReply::Ended { question, result, .. }) = world.until_ended().await.pop() else {
        panic!()
    };
    assert_eq!((question, result.sent, result.received), (0, 4, 4));
    let why = "the approval of the connection has expired or was revoked";
    assert_eq!(result.failure.as_deref(), Some(why));
    let (mut client, mut server) = ends.remove(0);
    let mut rest = Vec::new();
    drop(soon(server.read_to_end(&mut rest)).await);
    drop(soon(client.read_to_end(&mut rest)).await);
    assert_eq!(rest, b"");
    // One that has ended, and one that never was: the room goes on.
    for question in [0, 99] {
        world.broker.send(&EgressRequest::Cut { session: SESSION, question }, &[]).unwrap();
    }
    let (client, server) = &mut ends[0];
    client.write_all(b"still").await.unwrap();
    read_until(server, b"still").await;
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
