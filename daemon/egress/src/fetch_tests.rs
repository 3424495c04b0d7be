use crate::{Limits, testing::*};
use palisade_egress_protocol::{
    Asked, EgressReply, EgressRequest, RefusalKind, Tunnel,
    fetch::{FetchedPage, PageContent, PageFailure, PageFormat, PageRequest},
};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

fn want(world: &World, fetch: u64, url: &str, max_bytes: u64) {
    let request = PageRequest { url: url.to_owned(), format: PageFormat::Markdown, max_bytes };
    world.broker.send(&EgressRequest::Fetch { session: SESSION, fetch, request }, &[]).unwrap();
}

/// Returns the room's messages up to the end of a fetch, its content and its result.
async fn fetched(
    world: &mut World,
) -> (Vec<EgressReply>, String, Result<FetchedPage, PageFailure>) {
    let (mut before, mut content) = (Vec::new(), Vec::new());
    loop {
        let reply = world.reply().await;
        if let EgressReply::Page { piece, .. } = &reply {
            content.extend_from_slice(piece);
        } else if let EgressReply::Fetched { result, .. } = reply {
            return (before, String::from_utf8(content).unwrap(), result);
        } else {
            before.push(reply);
        }
    }
}

/// Answers the next request of the room, and returns its head.
async fn answer(outside: &Outside, head: &str, body: &str) -> String {
    let mut stream = outside.accept().await;
    let asked = read_until(&mut stream, b"\r\n\r\n").await;
    let text = format!("HTTP/1.1 {head}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    stream.write_all(text.as_bytes()).await.unwrap();
    String::from_utf8(asked).unwrap()
}

#[tokio::test]
async fn a_page_is_asked_about_got_and_sent_in_pieces() {
    let mut world = World::new(Conditions::default()).await;
    let outside = Outside::new().await;
    let at = format!("allowed.test:{}", outside.port);
    want(&world, 1, &format!("http://{at}/a?q=1#x"), 1 << 20);
    let html = format!("<p>{}", "word ".repeat(10_000));
    let head = answer(&outside, "200 OK\r\nContent-Type: text/html", &html).await;
    assert!(head.starts_with("GET /a?q=1 HTTP/1.1\r\n"), "{head}");
    let names: Vec<_> = head.lines().filter_map(|line| line.split_once(": ")).collect();
    let mut names: Vec<_> = names.iter().map(|(name, _)| name.to_ascii_lowercase()).collect();
    names.sort();
    assert_eq!(names, ["accept", "accept-encoding", "connection", "host", "user-agent"]);
    let (before, content, result) = fetched(&mut world).await;
    assert_eq!(content, "word ".repeat(10_000).trim_end());
    let page = result.unwrap();
    assert_eq!((page.status, page.redirects, page.content), (200, 0, PageContent::Text));
    assert_eq!(page.url, format!("http://{at}/a?q=1"));
    assert_eq!((page.media_type.as_str(), page.is_cut), ("text/html", false));
    let EgressReply::Question { asked, target, request, .. } = &before[1] else {
        panic!("{before:?}")
    };
    assert_eq!((*asked, target.to_string()), (Asked::Fetch, at));
    assert_eq!(request.as_ref().map(|request| request.path.as_str()), Some("/a"));
}

#[tokio::test]
async fn each_redirect_is_asked_about_and_they_are_counted() {
    let mut world = World::new(Conditions::default()).await;
    let (outside, other) = (Outside::new().await, Outside::new().await);
    let url = format!("http://allowed.test:{}/", outside.port);
    want(&world, 1, &url, 1000);
    let to = format!("http://denied.test:{}/", other.port);
    answer(&outside, &format!("302 Found\r\nLocation: {to}"), "").await;
    let (_, _, result) = fetched(&mut world).await;
    assert_eq!(result, Err(PageFailure::Denied("it is not on the list".to_owned())));
    other.assert_untouched().await;
    assert!(!world.resolver.asked().contains(&"denied.test".to_owned()), "it was looked up");
    want(&world, 2, &url, 1000);
    for _ in 0..=10 {
        answer(&outside, "307 Temporary Redirect\r\nLocation: /again", "").await;
    }
    let (_, _, result) = fetched(&mut world).await;
    let why = "it redirects more than 10 times".to_owned();
    assert_eq!(result, Err(PageFailure::Network(why)));
    outside.assert_untouched().await;
    // One without a place to go to is a page.
    want(&world, 3, &url, 1000);
    answer(&outside, "304 Not Modified", "").await;
    assert_eq!(fetched(&mut world).await.2.unwrap().status, 304);
}

#[tokio::test]
async fn a_placeholder_in_the_url_of_a_page_is_refused_with_an_alarm() {
    let mut world =
        World::new(Conditions { credentials: vec![credential()], ..Conditions::default() }).await;
    let outside = Outside::new().await;
    let at = format!("http://allowed.test:{}", outside.port);
    let bad = "/x?key=palisade-placeholder-0a1b";
    let is_alarm = |reply: &EgressReply| {
        matches!(reply, EgressReply::Refused { kind: RefusalKind::Placeholder, .. })
    };
    let refused = |result: Result<FetchedPage, PageFailure>| {
        let Err(PageFailure::Denied(why)) = result else { panic!("{result:?}") };
        assert!(why.contains("has the placeholder of credential \"api\""), "{why}");
    };
    want(&world, 1, &format!("{at}{bad}"), 1000);
    let (before, _, result) = fetched(&mut world).await;
    refused(result);
    assert!(before.iter().any(is_alarm), "{before:?}");
    outside.assert_untouched().await;
    // A URL that a page redirects to is refused in the same way.
    want(&world, 2, &at, 1000);
    answer(&outside, &format!("302 Found\r\nLocation: {bad}"), "").await;
    let (before, _, result) = fetched(&mut world).await;
    refused(result);
    assert!(before.iter().any(is_alarm), "{before:?}");
    outside.assert_untouched().await;
    // The control.
    want(&world, 3, &format!("{at}/x?key=other"), 1000);
    answer(&outside, "200 OK\r\nContent-Type: text/plain", "hello").await;
    let (before, content, result) = fetched(&mut world).await;
    assert_eq!((result.unwrap().status, content.as_str()), (200, "hello"));
    assert!(!before.iter().any(is_alarm), "{before:?}");
}

#[tokio::test]
async fn addresses_that_are_not_public_are_not_connected_to() {
    let conditions = Conditions { named: Vec::new(), ..Conditions::default() };
    let mut world = World::new(conditions).await;
    let outside = Outside::new().await;
    world.resolver.set("allowed.test", &[&["127.0.0.1"]]);
    want(&world, 1, &format!("http://allowed.test:{}/", outside.port), 1000);
    let (_, _, result) = fetched(&mut world).await;
    assert!(
        matches!(&result, Err(PageFailure::Denied(why)) if why.contains("127.0.0.1 is not on the public internet")),
        "{result:?}"
    );
    outside.assert_untouched().await;
}

#[tokio::test]
async fn an_inspected_host_is_not_asked_without_tls() {
    let rule = allowed_only(Tunnel::Inspected);
    let mut world = World::new(Conditions { rule, ..Conditions::default() }).await;
    let outside = Outside::new().await;
    want(&world, 1, &format!("http://allowed.test:{}/", outside.port), 1000);
    let (_, _, result) = fetched(&mut world).await;
    assert!(
        matches!(&result, Err(PageFailure::Denied(why)) if why.contains("must come over TLS")),
        "{result:?}"
    );
    outside.assert_untouched().await;
}

#[tokio::test]
async fn bodies_are_bounded_in_size_and_in_time() {
    let mut world = World::new(Conditions::default()).await;
    let outside = Outside::new().await;
    let url = format!("http://allowed.test:{}/", outside.port);
    want(&world, 1, &url, 1000);
    let mut stream = outside.accept().await;
    read_until(&mut stream, b"\r\n\r\n").await;
    stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
    // As much as the room reads: its end closes the connection.
    while stream.write_all(&[b'x'; 4096]).await.is_ok() {}
    let (_, content, result) = fetched(&mut world).await;
    let page = result.unwrap();
    assert_eq!((content.len(), page.is_cut, page.body_bytes), (1000, true, 1000));
    let limits = Limits { page: Duration::from_millis(200), ..Limits::default() };
    let mut world = World::new(Conditions { limits, ..Conditions::default() }).await;
    want(&world, 1, &url, 1000);
    let mut stream = outside.accept().await;
    // On a busy host, the room may have given up already.
    drop(stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nslow").await);
    let (_, _, result) = fetched(&mut world).await;
    assert!(
        matches!(&result, Err(PageFailure::Network(why)) if why.contains("did not send the page within")),
        "{result:?}"
    );
    let mut rest = Vec::new();
    drop(soon(stream.read_to_end(&mut rest)).await);
}

#[tokio::test]
async fn a_fetch_ends_when_nobody_waits_and_with_its_session() {
    let mut world = World::new(Conditions::default()).await;
    let outside = Outside::new().await;
    let url = format!("http://allowed.test:{}/", outside.port);
    let end = EgressRequest::EndFetch { session: SESSION, fetch: 1 };
    for (fetch, ends) in [(1, end), (2, EgressRequest::Close { session: SESSION })] {
        want(&world, fetch, &url, 1000);
        let mut stream = outside.accept().await;
        read_until(&mut stream, b"\r\n\r\n").await;
        world.broker.send(&ends, &[]).unwrap();
        let mut rest = Vec::new();
        drop(soon(stream.read_to_end(&mut rest)).await);
        let Some(EgressReply::Ended { result, .. }) = world.until_ended().await.pop() else {
            panic!()
        };
        assert_eq!(result.failure.as_deref(), Some("it was cut off"));
    }
}

#[tokio::test]
async fn what_is_no_page_of_http_is_an_error() {
    let mut world = World::new(Conditions::default()).await;
    let outside = Outside::new().await;
    let url = format!("http://allowed.test:{}/", outside.port);
    want(&world, 1, &url, 1000);
    answer(&outside, "200 OK\r\nContent-Encoding: gzip", "x").await;
    let (_, _, result) = fetched(&mut world).await;
    assert!(
        matches!(&result, Err(PageFailure::Network(why)) if why.contains("sent the page as \"gzip\"")),
        "{result:?}"
    );
    want(&world, 2, &url, 1000);
    let mut stream = outside.accept().await;
    read_until(&mut stream, b"\r\n\r\n").await;
    stream.write_all(b"SSH-2.0-x\r\n").await.unwrap();
    drop(stream);
    let (_, _, result) = fetched(&mut world).await;
    assert!(
        matches!(&result, Err(PageFailure::Network(why)) if why.contains("did not answer the request")),
        "{result:?}"
    );
    want(&world, 3, "https://user:secret@allowed.test/", 1000);
    assert!(matches!(fetched(&mut world).await.2, Err(PageFailure::Url(_))));
}
