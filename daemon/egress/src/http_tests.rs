use crate::{Limits, limits::MAX_HEAD, testing::*};
use palisade_egress_protocol::{Asked, EgressReply};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

/// Serves one request outside, and returns its head.
async fn serve_one(outside: &Outside, answer: &[u8]) -> String {
    let mut server = outside.accept().await;
    let head = read_until(&mut server, b"\r\n\r\n").await;
    server.write_all(answer).await.unwrap();
    String::from_utf8(head).unwrap()
}

#[tokio::test]
async fn requests_are_judged_one_by_one_on_one_connection() {
    let mut world = World::new(Conditions::default()).await;
    assert!(matches!(world.reply().await, EgressReply::Welcome { .. }));
    let outside = Outside::new().await;
    let port = outside.port;
    let mut client = world.to_proxy().await;
    for path in ["/one?x=1", "/two"] {
        let request = format!(
            "GET http://allowed.test:{port}{path} HTTP/1.1\r\nHost: allowed.test:{port}\r\n\
             Proxy-Connection: keep-alive\r\nProxy-Authorization: Basic c2VjcmV0\r\n\
             Connection: keep-alive, X-Hop\r\nX-Hop: 1\r\nX-End: 1\r\nTE: trailers\r\n\
             Upgrade: h2c\r\n\r\n"
        );
        client.write_all(request.as_bytes()).await.unwrap();
        let answer =
            b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\nX-A: 1\r\n\r\ndone";
        let head = serve_one(&outside, answer).await.to_ascii_lowercase();
        let expected =
            format!("get {path} http/1.1\r\nhost: allowed.test:{port}\r\nx-end: 1\r\n\r\n");
        let mut lines: Vec<_> = head.lines().collect();
        let mut wanted: Vec<_> = expected.lines().collect();
        lines.sort_unstable();
        wanted.sort_unstable();
        assert_eq!(lines, wanted);
        let answer = String::from_utf8(read_until(&mut client, b"done").await).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        assert!(!answer.to_ascii_lowercase().contains("connection: close"), "{answer}");
        let replies = world.until_ended().await;
        let Some(EgressReply::Question { asked: Asked::Http, .. }) = replies.first() else {
            panic!("{replies:?}");
        };
        let Some(EgressReply::Ended { result, .. }) = replies.last() else { panic!() };
        assert_eq!(result.failure, None);
        assert!(result.sent as usize >= expected.len() && result.received > 40);
    }
    // The same connection, another host.
    let request =
        format!("GET http://denied.test:{port}/ HTTP/1.1\r\nHost: denied.test:{port}\r\n\r\n");
    let answer = exchange(&mut client, request.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
    assert!(answer.ends_with("\r\n\r\npalisade: it is not on the list\n"), "{answer}");
    outside.assert_untouched().await;
    assert_eq!(world.resolver.asked(), ["allowed.test"; 2]);
}

#[tokio::test]
async fn a_request_that_could_be_read_in_two_ways_is_refused() {
    let world = World::new(Conditions::default()).await;
    let outside = Outside::new().await;
    let port = outside.port;
    let (at, other) = (format!("allowed.test:{port}"), format!("denied.test:{port}"));
    for request in [
        format!("GET http://{at}/ HTTP/1.1\r\nHost: {other}\r\n\r\n"),
        format!("GET http://{at}/ HTTP/1.1\r\nHost: {at}\r\nHost: {other}\r\n\r\n"),
        format!("GET http://{at}/ HTTP/1.1\r\nHost: allowed.test\r\n\r\n"),
        format!("GET http://user@{at}/ HTTP/1.1\r\nHost: {at}\r\n\r\n"),
        format!("GET https://{at}/ HTTP/1.1\r\nHost: {at}\r\n\r\n"),
        format!("GET / HTTP/1.1\r\nHost: {at}\r\n\r\n"),
        format!("OPTIONS * HTTP/1.1\r\nHost: {at}\r\n\r\n"),
        format!("CONNECT {at} HTTP/1.1\r\nHost: {other}\r\n\r\n"),
        format!("CONNECT {at} HTTP/1.1\r\nHost: {at}\r\nContent-Length: 3\r\n\r\nabc"),
        "CONNECT allowed.test HTTP/1.1\r\n\r\n".to_owned(),
        format!(
            "POST http://{at}/ HTTP/1.1\r\nHost: {at}\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab"
        ),
        format!("POST http://{at}/ HTTP/1.1\r\nHost: {at}\r\nContent-Length: +1\r\n\r\na"),
        format!("POST http://{at}/ HTTP/1.1\r\nHost: {at}\r\nTransfer-Encoding: identity\r\n\r\na"),
        format!(
            "POST http://{at}/ HTTP/1.1\r\nHost: {at}\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n"
        ),
        format!("GET http://{at}/ HTTP/1.1\r\nHost: {at}\r\n X-Folded: 1\r\n\r\n"),
        format!("GET http://{at}/ HTTP/1.1\nHost: {at}\0\n\n"),
    ] {
        let mut client = world.to_proxy().await;
        let answer = exchange(&mut client, request.as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 400 "), "{request:?}: {answer}");
        assert_eq!(answer.matches("HTTP/1.").count(), 1, "{answer}");
    }
    // HTTP/2 is not even answered.
    let mut client = world.to_proxy().await;
    assert_eq!(exchange(&mut client, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await, "");
    outside.assert_untouched().await;
    assert_eq!(world.resolver.asked(), [""; 0]);
}

/// Tests requests whose body another parser could take for a second request.
#[tokio::test]
async fn a_smuggled_request_stays_in_the_body() {
    let world = World::new(Conditions::default()).await;
    let outside = Outside::new().await;
    let at = format!("allowed.test:{}", outside.port);
    let inner = "GET http://denied.test/ HTTP/1.1\r\nHost: denied.test\r\n\r\n";
    let chunked = format!("{:x}\r\n{inner}\r\n0\r\n\r\n", inner.len());
    for lengths in [
        "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n",
    ] {
        let mut client = world.to_proxy().await;
        let head = format!(
            "POST http://{at}/ HTTP/1.1\r\nHost: {at}\r\n{lengths}Connection: close\r\n\r\n"
        );
        client.write_all(head.as_bytes()).await.unwrap();
        client.write_all(chunked.as_bytes()).await.unwrap();
        let mut server = outside.accept().await;
        let head = String::from_utf8(read_until(&mut server, b"\r\n\r\n").await).unwrap();
        let head = head.to_ascii_lowercase();
        assert!(head.contains("\r\ntransfer-encoding: chunked\r\n"), "{head}");
        assert!(!head.contains("content-length"), "{head}");
        let body = read_until(&mut server, b"0\r\n\r\n").await;
        assert!(String::from_utf8(body).unwrap().contains(inner));
        server.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await.unwrap();
        let answer = String::from_utf8(read_all(&mut client).await).unwrap();
        assert!(answer.starts_with("HTTP/1.1 204 "), "{answer}");
        assert_eq!(answer.matches("HTTP/1.1").count(), 1, "{answer}");
    }
    // One answer with two lengths is no answer.
    let mut client = world.to_proxy().await;
    let request = format!("GET http://{at}/ HTTP/1.1\r\nHost: {at}\r\n\r\n");
    client.write_all(request.as_bytes()).await.unwrap();
    serve_one(&outside, b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab")
        .await;
    let answer = exchange(&mut client, b"").await;
    assert!(answer.starts_with("HTTP/1.1 502 "), "{answer}");
}

#[tokio::test]
async fn heads_are_bounded_in_size_and_time() {
    let limits = Limits { handshake: Duration::from_millis(300), ..Limits::default() };
    let world = World::new(Conditions { limits, ..Conditions::default() }).await;
    let outside = Outside::new().await;
    let at = format!("allowed.test:{}", outside.port);
    let start = format!("GET http://{at}/ HTTP/1.1\r\nHost: {at}\r\n");
    // The room stops reading, so writing fails at some point, and the answer may be lost by that.
    let mut client = world.to_proxy().await;
    client.write_all(start.as_bytes()).await.unwrap();
    let line = format!("X-Long: {}\r\n", "a".repeat(8000));
    let mut written = 0;
    while written < 16 << 20 && client.write_all(line.as_bytes()).await.is_ok() {
        written += line.len();
    }
    assert!(written < 16 << 20, "the room reads on");
    // A program that sends one byte now and then has the same time as any other.
    let mut slow = world.to_proxy().await;
    slow.write_all(start.as_bytes()).await.unwrap();
    let answer = String::from_utf8(read_all(&mut slow).await).unwrap();
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 408 "), "{answer}");
    outside.assert_untouched().await;
    assert_eq!(world.resolver.asked(), [""; 0]);
    // Control.
    let mut client = world.to_proxy().await;
    client.write_all(format!("{start}Connection: close\r\n\r\n").as_bytes()).await.unwrap();
    serve_one(&outside, b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await;
    assert!(exchange(&mut client, b"").await.starts_with("HTTP/1.1 200 "));
}

/// Makes a head of exactly this many bytes by a long header in it.
fn head_of(length: usize, start: &str) -> String {
    let fixed = format!("{start}X-Long: \r\n\r\n").len();
    format!("{start}X-Long: {}\r\n\r\n", "a".repeat(length - fixed))
}

#[tokio::test]
async fn a_head_may_have_64_kib_and_not_one_byte_more() {
    let world = World::new(Conditions::default()).await;
    let outside = Outside::new().await;
    let at = format!("allowed.test:{}", outside.port);
    let start = format!("GET http://{at}/ HTTP/1.1\r\nHost: {at}\r\nConnection: close\r\n");
    let ok = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n";
    for (request, answer, expected) in [
        (MAX_HEAD, MAX_HEAD, "HTTP/1.1 200 "),
        (MAX_HEAD + 1, MAX_HEAD, "HTTP/1.1 431 "),
        (100 * 1024, MAX_HEAD, "HTTP/1.1 431 "),
        (MAX_HEAD, MAX_HEAD + 1, "HTTP/1.1 502 "),
        (MAX_HEAD, 100 * 1024, "HTTP/1.1 502 "),
    ] {
        let mut client = world.to_proxy().await;
        let request = head_of(request, &start);
        let is_sent_on = request.len() <= MAX_HEAD;
        let serving = async {
            if is_sent_on {
                let mut server = outside.accept().await;
                read_until(&mut server, b"\r\n\r\n").await;
                // The room may stop reading.
                drop(server.write_all(head_of(answer, ok).as_bytes()).await);
            }
        };
        let asking = async {
            client.write_all(request.as_bytes()).await.unwrap();
            let mut told = Vec::new();
            // The rest of a request that is not read resets the connection after the answer.
            drop(soon(client.read_to_end(&mut told)).await);
            String::from_utf8_lossy(&told).into_owned()
        };
        let ((), told) = tokio::join!(serving, asking);
        let shown = told.get(..60).unwrap_or(&told);
        assert!(told.starts_with(expected), "{} and {answer}: {shown}", request.len());
    }
    outside.assert_untouched().await;
}

#[tokio::test]
async fn bodies_of_any_length_travel_both_ways() {
    let mut world = World::new(Conditions::default()).await;
    let outside = Outside::new().await;
    let at = format!("allowed.test:{}", outside.port);
    let body = vec![b'x'; 1 << 20];
    let mut client = world.to_proxy().await;
    let head = format!(
        "PUT http://{at}/up HTTP/1.1\r\nHost: {at}\r\nContent-Length: {}\r\n\
         Expect: 100-continue\r\nConnection: close\r\n\r\n",
        body.len()
    );
    client.write_all(head.as_bytes()).await.unwrap();
    let mut server = outside.accept().await;
    let head = read_until(&mut server, b"\r\n\r\n").await;
    assert!(!String::from_utf8(head).unwrap().to_ascii_lowercase().contains("expect"));
    assert_eq!(read_until(&mut client, b"\r\n\r\n").await, b"HTTP/1.1 100 Continue\r\n\r\n");
    let (mut from, mut to) = client.split();
    let up = async {
        to.write_all(&body).await.unwrap();
    };
    let serve = async {
        let mut heard = vec![0; body.len()];
        tokio::io::AsyncReadExt::read_exact(&mut server, &mut heard).await.unwrap();
        assert!(heard == body);
        // The answer has no length: its end is the end of the connection.
        server.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
        server.write_all(&body).await.unwrap();
        drop(server);
    };
    let down = async {
        let mut heard = Vec::new();
        tokio::io::AsyncReadExt::read_to_end(&mut from, &mut heard).await.unwrap();
        heard
    };
    let ((), (), heard) = soon(async { tokio::join!(up, serve, down) }).await;
    let head = String::from_utf8_lossy(&heard[..100]).to_ascii_lowercase();
    assert!(head.contains("transfer-encoding: chunked"), "{head}");
    assert!(heard.len() > body.len());
    let Some(EgressReply::Ended { result, .. }) = world.until_ended().await.pop() else { panic!() };
    assert_eq!(result.failure, None);
    assert!(result.sent > 1 << 20 && result.received > 1 << 20, "{result:?}");
}

/// A tunnel to port 80, or to another port with HTTP inside, is judged request by request.
#[tokio::test]
async fn plain_http_in_a_tunnel_is_for_the_tunnels_host_only() {
    let mut world = World::new(Conditions::default()).await;
    let outside = Outside::new().await;
    let at = format!("allowed.test:{}", outside.port);
    for (host, status, passes) in [
        (at.as_str(), "200", true),
        ("denied.test", "403", false),
        ("other.allowed.test", "403", false),
        ("allowed.test", "403", false),
    ] {
        let mut client = world.to_proxy().await;
        client.write_all(format!("CONNECT {at} HTTP/1.1\r\n\r\n").as_bytes()).await.unwrap();
        read_until(&mut client, b"\r\n\r\n").await;
        let request = format!("GET /x HTTP/1.1\r\nHost: {host}\r\n\r\n");
        client.write_all(request.as_bytes()).await.unwrap();
        if passes {
            let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
            let head = serve_one(&outside, answer).await;
            assert!(head.starts_with("GET /x HTTP/1.1\r\n"), "{head}");
            read_until(&mut client, b"ok").await;
            // The next request on the same connection is judged, too.
            let answer =
                exchange(&mut client, b"GET / HTTP/1.1\r\nHost: denied.test\r\n\r\n").await;
            assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
        } else {
            let answer = exchange(&mut client, b"").await;
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
            assert!(answer.contains(&format!("the connection for {at}")), "{answer}");
            outside.assert_silent().await;
        }
    }
    drop(world.until_ended().await);
}
