use crate::{Limits, testing::*};
use palisade_egress_protocol::{EgressReply, THIS_HOST, Tunnel};
use std::time::Duration;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

/// Starts a room in which any protocol may be spoken to allowed hosts.
async fn any_protocol(limits: Limits) -> (World, Outside, String) {
    let outside = Outside::new().await;
    let at = format!("allowed.test:{}", outside.port);
    let rule = allowed_only(Tunnel::Any);
    (World::new(Conditions { rule, limits, ..Conditions::default() }).await, outside, at)
}

/// Asks for a tunnel that is allowed, and returns both ends.
async fn tunnel(world: &World, outside: &Outside, at: &str) -> (TcpStream, TcpStream) {
    let mut client = world.to_proxy().await;
    client.write_all(format!("CONNECT {at} HTTP/1.1\r\n\r\n").as_bytes()).await.unwrap();
    let answer = read_until(&mut client, b"\r\n\r\n").await;
    assert!(answer.starts_with(b"HTTP/1.1 200 OK\r\n"), "{}", answer.escape_ascii());
    (client, outside.accept().await)
}

async fn heard(stream: &mut TcpStream) -> Vec<u8> {
    let mut heard = Vec::new();
    // A reset is silence, too.
    drop(soon(stream.read_to_end(&mut heard)).await);
    heard
}

#[tokio::test]
async fn plain_http_on_a_named_port_is_judged_request_by_request() {
    let (world, outside, at) = any_protocol(Limits::default()).await;
    for (request, reason) in [
        (
            "GET / HTTP/1.1\r\nHost: denied.test\r\n\r\n".to_owned(),
            "the request is for denied.test:80",
        ),
        ("get / http/1.1\r\nHost: denied.test\r\n\r\n".to_owned(), ""),
        ("\r\n\r\nGET / HTTP/1.1\r\nHost: denied.test\r\n\r\n".to_owned(), "the request is for"),
        ("GET / HTTP/1.1\r\n\r\n".to_owned(), "the request has no Host header"),
        (format!("GET / HTTP/1.1\r\nHost: {at}\r\nHost: denied.test\r\n\r\n"), "two Host headers"),
        (
            format!("GET http://denied.test/ HTTP/1.1\r\nHost: {at}\r\n\r\n"),
            "must have a path only",
        ),
        (format!("CONNECT denied.test:1 HTTP/1.1\r\nHost: {at}\r\n\r\n"), "must have a path only"),
        (
            format!(
                "POST / HTTP/1.1\r\nHost: {at}\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab"
            ),
            "",
        ),
        (format!("GET / HTTP/1.1\r\nHost: {at}\r\n X-Folded: 1\r\n\r\n"), ""),
    ] {
        let (mut client, mut server) = tunnel(&world, &outside, &at).await;
        let answer = exchange(&mut client, request.as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 40"), "{request:?}: {answer}");
        assert!(answer.contains(reason), "{request:?}: {answer}");
        assert_eq!(heard(&mut server).await, b"", "{request:?}");
    }
    // Control, and a second request on the same connection.
    let (mut client, mut server) = tunnel(&world, &outside, &at).await;
    client.write_all(format!("GET /x HTTP/1.1\r\nHost: {at}\r\n\r\n").as_bytes()).await.unwrap();
    assert!(read_until(&mut server, b"\r\n\r\n").await.starts_with(b"GET /x HTTP/1.1\r\n"));
    server.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").await.unwrap();
    read_until(&mut client, b"ok").await;
    let answer = exchange(&mut client, b"GET / HTTP/1.1\r\nHost: denied.test\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
    assert_eq!(heard(&mut server).await, b"");
    outside.assert_untouched().await;
}

#[tokio::test]
async fn a_request_smuggled_to_a_named_port_stays_in_the_body() {
    let (world, outside, at) = any_protocol(Limits::default()).await;
    let inner = "GET http://denied.test/ HTTP/1.1\r\nHost: denied.test\r\n\r\n";
    let chunked = format!("{:x}\r\n{inner}\r\n0\r\n\r\n", inner.len());
    for lengths in [
        "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n",
    ] {
        let (mut client, mut server) = tunnel(&world, &outside, &at).await;
        let head = format!("POST / HTTP/1.1\r\nHost: {at}\r\n{lengths}Connection: close\r\n\r\n");
        client.write_all([head.as_bytes(), chunked.as_bytes()].concat().as_slice()).await.unwrap();
        let head = read_until(&mut server, b"\r\n\r\n").await;
        let head = String::from_utf8(head).unwrap().to_ascii_lowercase();
        assert!(head.contains("\r\ntransfer-encoding: chunked\r\n"), "{head}");
        assert!(!head.contains("content-length"), "{head}");
        let body = String::from_utf8(read_until(&mut server, b"0\r\n\r\n").await).unwrap();
        assert!(body.contains(inner), "{body}");
        server.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await.unwrap();
        let answer = String::from_utf8(read_all(&mut client).await).unwrap();
        assert_eq!(answer.matches("HTTP/1.1 204 ").count(), 1, "{answer}");
    }
}

#[tokio::test]
async fn a_request_is_judged_wherever_it_is_split() {
    let limits = Limits { first_line: PATIENCE, ..Limits::default() };
    let (world, outside, at) = any_protocol(limits).await;
    let request = b"GET / HTTP/1.1\r\nHost: denied.test\r\n\r\n";
    for end in 1..=b"GET / HTTP/1.1\r\n".len() {
        let (mut client, mut server) = tunnel(&world, &outside, &at).await;
        client.set_nodelay(true).unwrap();
        client.write_all(&request[..end]).await.unwrap();
        // What the server says meanwhile arrives, so the beginning was read before.
        if end < b"GET / HTTP/".len() {
            server.write_all(b"!").await.unwrap();
            read_until(&mut client, b"!").await;
        }
        client.write_all(&request[end..]).await.unwrap();
        assert_ne!(heard(&mut client).await, b"");
        assert_eq!(heard(&mut server).await, b"", "{end}");
    }
}

#[tokio::test]
async fn other_protocols_on_a_named_port_flow_both_ways() {
    let (world, outside, at) = any_protocol(Limits::default()).await;
    for (first, answer) in [
        (&b"SSH-2.0-client\r\n"[..], &b"SSH-2.0-server\r\n"[..]),
        (b"\x00\x00\x00\x08\x04\xd2\x16\x2f", b"N"),
        (b"*1\r\n$4\r\nPING\r\n", b"+PONG\r\n"),
        (b"stats\r\n", b"END\r\n"),
    ] {
        let (mut client, mut server) = tunnel(&world, &outside, &at).await;
        client.write_all(first).await.unwrap();
        let mut passed = vec![0; first.len()];
        soon(server.read_exact(&mut passed)).await.unwrap();
        assert_eq!(passed, first);
        server.write_all(answer).await.unwrap();
        let mut told = vec![0; answer.len()];
        soon(client.read_exact(&mut told)).await.unwrap();
        assert_eq!(told, answer);
    }
    // After a server's greeting single letters pass, as a terminal sends them.
    let (mut client, mut server) = tunnel(&world, &outside, &at).await;
    server.write_all(b"login: ").await.unwrap();
    read_until(&mut client, b"login: ").await;
    client.write_all(b"a").await.unwrap();
    assert_eq!(soon(server.read_u8()).await.unwrap(), b'a');
    // A line without an end passes when the program says no more.
    let (mut client, mut server) = tunnel(&world, &outside, &at).await;
    client.write_all(b"ruok").await.unwrap();
    client.shutdown().await.unwrap();
    assert_eq!(read_all(&mut server).await, b"ruok");
}

#[tokio::test]
async fn a_line_without_an_end_passes_after_a_while_and_no_request_becomes_of_it() {
    let limits = Limits { first_line: Duration::from_millis(100), ..Limits::default() };
    let (mut world, outside, at) = any_protocol(limits).await;
    let request = b"GET / HTTP/1.1\r\nHost: denied.test\r\n\r\n";
    let most = b"GET / HTTP/".len();
    for end in 1..most {
        let (mut client, mut server) = tunnel(&world, &outside, &at).await;
        client.write_all(&request[..end]).await.unwrap();
        let mut passed = vec![0; end];
        soon(server.read_exact(&mut passed)).await.unwrap();
        assert_eq!(passed, request[..end]);
        server.write_all(b"answer").await.unwrap();
        assert_eq!(read_until(&mut client, b"answer").await, b"answer");
        client.write_all(&request[end..most]).await.unwrap();
        assert_eq!(heard(&mut client).await, b"");
        assert_eq!(heard(&mut server).await, b"", "{end}");
        let ended = world.until_ended().await.pop();
        let Some(EgressReply::Ended { result, .. }) = ended else { panic!("{ended:?}") };
        let why = "the program sent the first line of an HTTP request in parts, too slowly";
        assert_eq!(result.failure.as_deref(), Some(why));
    }
    // Another protocol goes on.
    let (mut client, mut server) = tunnel(&world, &outside, &at).await;
    for (word, answer) in [(&b"GET"[..], &b"1"[..]), (b" key\r\n", b"2"), (request, b"3")] {
        client.write_all(word).await.unwrap();
        assert_eq!(read_until(&mut server, word).await, word);
        server.write_all(answer).await.unwrap();
        assert_eq!(read_until(&mut client, answer).await, answer);
    }
    // A long line is read by the judge of requests, and no byte of it passes.
    let (mut client, mut server) = tunnel(&world, &outside, &at).await;
    drop(client.write_all(&[b'A'; 200_000]).await);
    assert_eq!(heard(&mut server).await, b"");
}

#[tokio::test]
async fn heads_of_http_2_without_an_end_are_not_collected() {
    let (world, outside, at) = any_protocol(Limits::default()).await;
    let (client, _server) = tunnel(&world, &outside, &at).await;
    let (mut answers, mut client) = client.into_split();
    let reading = tokio::spawn(async move {
        let mut told = Vec::new();
        drop(answers.read_to_end(&mut told).await);
    });
    let frame = |kind: u8, stream: u8, content: &[u8]| {
        let [_, a, b, c] = u32::try_from(content.len()).unwrap().to_be_bytes();
        [&[a, b, c, kind, 0, 0, 0, 0, stream], content].concat()
    };
    // Headers `x: yyy…` that are not indexed.
    let header = [&[0, 1, b'x', 100][..], &[b'y'; 100]].concat();
    let headers = header.repeat(100);
    let (settings, begin) = (frame(4, 0, &[]), frame(1, 1, &headers));
    let start = [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", &settings[..], &begin].concat();
    client.write_all(&start).await.unwrap();
    let (more, mut written) = (frame(9, 1, &headers), 0);
    while written < 64 << 20 && soon(client.write_all(&more)).await.is_ok() {
        written += more.len();
    }
    assert!(written < 64 << 20, "the room reads on");
    reading.abort();
}

#[tokio::test]
async fn websocket_on_a_named_port_follows_a_judged_request() {
    let (world, outside, at) = any_protocol(Limits::default()).await;
    let wish = "Connection: Upgrade\r\nSec-WebSocket-Key: a2V5\r\n";
    let (mut client, mut server) = tunnel(&world, &outside, &at).await;
    let request = format!("GET /ws HTTP/1.1\r\nHost: {at}\r\nUpgrade: websocket\r\n{wish}\r\n");
    client.write_all(request.as_bytes()).await.unwrap();
    let head = read_until(&mut server, b"\r\n\r\n").await;
    let head = String::from_utf8(head).unwrap().to_ascii_lowercase();
    assert!(head.contains("\r\nupgrade: websocket\r\n"), "{head}");
    assert!(head.contains("\r\nconnection: upgrade\r\n"), "{head}");
    let agreed = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\
                   Connection: Upgrade\r\nSec-WebSocket-Accept: eWVz\r\n\r\nhi!";
    server.write_all(agreed).await.unwrap();
    let answer = String::from_utf8(read_until(&mut client, b"hi!").await).unwrap();
    let answer = answer.to_ascii_lowercase();
    assert!(answer.starts_with("http/1.1 101 "), "{answer}");
    assert!(answer.contains("sec-websocket-accept: ewvz\r\n"), "{answer}");
    client.write_all(b"frame").await.unwrap();
    assert_eq!(read_until(&mut server, b"frame").await, b"frame");
    drop(server);
    assert_eq!(heard(&mut client).await, b"");
    // Another host, and another protocol that has requests.
    let (mut client, mut server) = tunnel(&world, &outside, &at).await;
    let request =
        format!("GET /ws HTTP/1.1\r\nHost: denied.test\r\nUpgrade: websocket\r\n{wish}\r\n");
    assert!(exchange(&mut client, request.as_bytes()).await.starts_with("HTTP/1.1 403 "));
    assert_eq!(heard(&mut server).await, b"");
    let (mut client, mut server) = tunnel(&world, &outside, &at).await;
    let request = format!("GET /ws HTTP/1.1\r\nHost: {at}\r\nUpgrade: h2c\r\n{wish}\r\n");
    client.write_all(request.as_bytes()).await.unwrap();
    let head = read_until(&mut server, b"\r\n\r\n").await;
    assert!(!String::from_utf8(head).unwrap().to_ascii_lowercase().contains("upgrade"));
    server.write_all(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\n\r\n").await.unwrap();
    let answer = String::from_utf8(read_until(&mut client, b"asked for\n").await).unwrap();
    assert!(answer.starts_with("HTTP/1.1 502 "), "{answer}");
}

#[tokio::test]
async fn a_header_that_is_named_for_one_hop_takes_away_no_host_and_no_length() {
    let (world, outside, at) = any_protocol(Limits::default()).await;
    let (mut client, mut server) = tunnel(&world, &outside, &at).await;
    let hop = "Connection: host, content-length, transfer-encoding, close\r\n";
    let request = format!("POST / HTTP/1.1\r\nHost: {at}\r\nContent-Length: 5\r\n{hop}\r\nGET /");
    client.write_all(request.as_bytes()).await.unwrap();
    let head = read_until(&mut server, b"\r\n\r\n").await;
    let head = String::from_utf8(head).unwrap().to_ascii_lowercase();
    assert_eq!(head.matches(&format!("\r\nhost: {at}\r\n")).count(), 1, "{head}");
    assert!(head.contains("\r\ncontent-length: 5\r\n"), "{head}");
    assert!(!head.contains("\r\nconnection:"), "{head}");
    assert_eq!(read_until(&mut server, b"GET /").await, b"GET /");
    server.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await.unwrap();
    assert!(String::from_utf8(heard(&mut client).await).unwrap().starts_with("HTTP/1.1 204 "));
}

#[tokio::test]
async fn the_rest_of_a_body_after_an_early_answer_is_no_request() {
    let (world, outside, at) = any_protocol(Limits::default()).await;
    let (mut client, mut server) = tunnel(&world, &outside, &at).await;
    let hidden = format!("GET /hidden HTTP/1.1\r\nHost: {at}\r\n\r\n");
    let length = hidden.len() + 1;
    let head = format!("POST / HTTP/1.1\r\nHost: {at}\r\nContent-Length: {length}\r\n\r\nx");
    client.write_all(head.as_bytes()).await.unwrap();
    read_until(&mut server, b"\r\n\r\nx").await;
    let early = b"HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno";
    server.write_all(early).await.unwrap();
    read_until(&mut client, b"no").await;
    // The room may have closed its end.
    drop(client.write_all(hidden.as_bytes()).await);
    drop(client.shutdown().await);
    assert_eq!(heard(&mut client).await, b"");
    outside.assert_untouched().await;
}

/// Sends a request of HTTP/2 without TLS, and returns the status of the answer.
async fn ask_second(client: TcpStream, authority: &str) -> Option<u16> {
    use http_body_util::Empty;
    use hyper::{Request, body::Bytes, client::conn::http2};
    let io = hyper_util::rt::TokioIo::new(client);
    let executor = hyper_util::rt::TokioExecutor::new();
    let (mut sender, driver) = http2::handshake(executor, io).await.unwrap();
    let driver = tokio::spawn(driver);
    let request = Request::get(format!("http://{authority}/x")).body(Empty::<Bytes>::new());
    let answer = soon(sender.send_request(request.unwrap())).await;
    driver.abort();
    answer.ok().map(|answer| answer.status().as_u16())
}

#[tokio::test]
async fn http_2_without_tls_on_a_named_port_is_judged_too() {
    use http_body_util::Full;
    use hyper::{
        Request, Response,
        body::{Bytes, Incoming},
        server::conn::http2,
        service::service_fn,
    };
    let (world, outside, at) = any_protocol(Limits::default()).await;
    let (client, mut server) = tunnel(&world, &outside, &at).await;
    assert_eq!(ask_second(client, "denied.test").await, Some(403));
    assert_eq!(heard(&mut server).await, b"");
    let (client, server) = tunnel(&world, &outside, &at).await;
    let answer = service_fn(|request: Request<Incoming>| async move {
        assert_eq!(request.uri().path(), "/x");
        Ok::<_, std::convert::Infallible>(Response::new(Full::new(Bytes::from("yes"))))
    });
    let executor = hyper_util::rt::TokioExecutor::new();
    let io = hyper_util::rt::TokioIo::new(server);
    let serving = tokio::spawn(http2::Builder::new(executor).serve_connection(io, answer));
    assert_eq!(ask_second(client, &at).await, Some(200));
    serving.abort();
}

/// A service of this host is named in `Host` as the service wants it.
#[tokio::test]
async fn requests_to_services_of_this_host_are_passed_on() {
    let outside = Outside::new().await;
    let (rule, host_ports): (Rule, _) = (Box::new(|_, _| allow(Tunnel::Any)), vec![outside.port]);
    let world = World::new(Conditions { rule, host_ports, ..Conditions::default() }).await;
    let at = format!("{THIS_HOST}:{}", outside.port);
    let (mut client, mut server) = tunnel(&world, &outside, &at).await;
    let request = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    client.write_all(request).await.unwrap();
    assert_eq!(read_until(&mut server, b"\r\n\r\n").await, request);
}
