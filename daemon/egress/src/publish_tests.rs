use crate::testing::*;
use palisade_egress_protocol::{Asked, EgressReply, Tunnel};
use tokio::{io::AsyncWriteExt as _, net::TcpStream};

#[tokio::test]
async fn a_published_port_leads_to_that_port_and_its_sockets_are_used_again() {
    let inside = Outside::new().await;
    let rule: Rule = Box::new(move |_, asked| match asked {
        Asked::Published => allow(Tunnel::Any),
        Asked::Lookup
        | Asked::Connect
        | Asked::Http
        | Asked::Socks
        | Asked::Direct
        | Asked::Request
        | Asked::Fetch => deny(),
    });
    let publish = Some(inside.port);
    let mut world = World::new(Conditions { rule, publish, ..Conditions::default() }).await;
    assert!(matches!(world.reply().await, EgressReply::Welcome { .. }));
    // There are two sockets, so that the third connection needs one that was used.
    for round in 0..5 {
        let mut client = TcpStream::connect(world.published).await.unwrap();
        client.write_all(b"question").await.unwrap();
        client.shutdown().await.unwrap();
        let mut server = inside.accept().await;
        assert_eq!(read_all(&mut server).await, b"question", "round {round}");
        server.write_all(b"an answer").await.unwrap();
        drop(server);
        assert_eq!(read_all(&mut client).await, b"an answer", "round {round}");
        let replies = world.until_ended().await;
        let Some(EgressReply::Ended { result, .. }) = replies.last() else { panic!("{replies:?}") };
        // What the session's program sends counts as sent.
        assert_eq!((result.sent, result.received), (9, 8), "{replies:?}");
        assert_eq!(result.failure, None);
    }
    drop(inside);
    let mut client = TcpStream::connect(world.published).await.unwrap();
    let answer = exchange(&mut client, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await;
    assert!(answer.contains("no program of the session answers on port"), "{answer}");
}

#[tokio::test]
async fn a_connection_that_the_broker_denies_reaches_nothing() {
    let inside = Outside::new().await;
    let rule: Rule = Box::new(|_, _| deny());
    let publish = Some(inside.port);
    let world = World::new(Conditions { rule, publish, ..Conditions::default() }).await;
    let mut client = TcpStream::connect(world.published).await.unwrap();
    let answer = exchange(&mut client, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await;
    assert!(answer.contains("it is not on the list"), "{answer}");
    inside.assert_untouched().await;
}
