use crate::testing::*;
use palisade_plan::egress::{Asked, ConnectionResult, EgressReply};
use tokio::io::AsyncWriteExt as _;

#[tokio::test]
async fn connect_carries_tls_to_an_allowed_name_only() {
    let mut world = World::new(Conditions::default()).await;
    assert!(matches!(world.reply().await, EgressReply::Welcome { .. }));
    let outside = Outside::new().await;
    for denied in ["denied.test", "allowed.test.denied.test", "notallowed.test"] {
        let mut client = world.to_proxy().await;
        let request =
            format!("CONNECT {denied}:{0} HTTP/1.1\r\nHost: {denied}:{0}\r\n\r\n", outside.port);
        let answer = exchange(&mut client, request.as_bytes()).await;
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

    let mut client = world.to_proxy().await;
    let request = format!("CONNECT ALLOWED.test.:{} HTTP/1.1\r\n\r\n", outside.port);
    client.write_all(request.as_bytes()).await.unwrap();
    let answer = read_until(&mut client, b"\r\n\r\n").await;
    assert!(answer.starts_with(b"HTTP/1.1 200 OK\r\n"));
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
