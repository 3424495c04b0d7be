//! The client against a scripted daemon.

use crate::{
    Ask, Client, Error, ErrorCode, Event, Open, Stream, WireError,
    fake::{connected, greeted, opened, patient, result},
    link::Patience,
};
use palisade_protocol::{
    Bytes, Cancel, Input, Reply, Request, RequestId, ServerMessage, Welcome, codec,
    limits::{MAX_CHUNK, VERSION},
};
use std::time::Duration;

fn frame(message: &ServerMessage) -> Vec<u8> {
    codec::frame(message).unwrap()
}

fn refusal() -> WireError {
    WireError::new(ErrorCode::CellFailed, "the cell ended", "open a new session")
}

#[tokio::test]
async fn replies_out_of_order_reach_whom_they_belong_to() {
    let (session, mut fake) = opened(Patience::default()).await;
    let (one, two) = (session.bash("one"), session.bash("two"));
    let (one, two) = (tokio::spawn(one.into_future()), tokio::spawn(two.into_future()));
    let mut calls = [fake.call().await, fake.call().await];
    calls.reverse();
    for (id, call) in calls {
        let text = call.arguments.as_str().to_owned();
        fake.result(id, &text).await;
    }
    assert_eq!(one.await.unwrap().unwrap().output, r#"{"command":"one"}"#);
    assert_eq!(two.await.unwrap().unwrap().output, r#"{"command":"two"}"#);
}

#[tokio::test]
async fn a_ping_overtakes_a_call() {
    let (session, mut fake) = opened(Patience::default()).await;
    let running = session.bash("sleep 1000").start().await.unwrap();
    let (id, _) = fake.call().await;
    let client = session.client().clone();
    let ping = tokio::spawn(async move { client.ping().await });
    let asked = fake.next().await;
    assert_eq!(asked.request, Request::Ping);
    fake.reply(asked.id, Reply::Pong).await;
    ping.await.unwrap().unwrap();
    fake.result(id, "late").await;
    assert_eq!(running.result().await.unwrap().output, "late");
}

#[tokio::test]
async fn options_travel_as_they_were_given() {
    let (session, mut fake) = opened(Patience::default()).await;
    let call = session
        .exec(["git", "status"])
        .cwd("sub")
        .env("LANG", "C")
        .description("looks")
        .timeout(Duration::from_millis(1500))
        .reason("because")
        .dry_run();
    let running = call.start().await.unwrap();
    let (id, call) = fake.call().await;
    assert_eq!(call.tool.as_str(), "bash");
    assert_eq!(
        call.arguments.as_str(),
        r#"{"argv":["git","status"],"cwd":"sub","env":{"LANG":"C"},"description":"looks"}"#
    );
    assert_eq!(call.reason.as_deref(), Some("because"));
    assert_eq!(call.options.timeout_ms, Some(1500));
    assert!(call.options.dry_run && !call.options.stream && !call.options.attach);
    fake.result(id, "").await;
    running.result().await.unwrap();
}

#[tokio::test]
async fn open_asks_for_what_the_builder_says() {
    let (client, mut fake) = connected().await;
    let open = Open::new("/srv/a").profile("strict").ask(Ask::Always);
    let (session, asked) = tokio::join!(client.open(open), fake.open());
    assert_eq!(asked.workspace.as_path().to_str(), Some("/srv/a"));
    assert_eq!(asked.profile.as_deref(), Some("strict"));
    assert_eq!(asked.options.ask, Some(Ask::Always));
    assert_eq!(session.unwrap().id().as_str(), "s1");
}

#[tokio::test]
async fn a_relative_workspace_is_made_absolute() {
    let (client, mut fake) = connected().await;
    let (_, asked) = tokio::join!(client.open(Open::new("sub")), fake.open());
    assert_eq!(asked.workspace.as_path(), std::env::current_dir().unwrap().join("sub"));
}

#[tokio::test]
async fn the_end_of_the_stream_ends_every_call_and_all_later_ones() {
    let (session, mut fake) = opened(Patience::default()).await;
    let one = tokio::spawn(session.bash("one").into_future());
    let two = tokio::spawn(session.bash("two").into_future());
    fake.call().await;
    fake.call().await;
    drop(fake);
    for call in [one, two] {
        match call.await.unwrap() {
            Err(Error::Disconnected(why)) => assert_eq!(why, "the daemon closed it"),
            other => panic!("{other:?}"),
        }
    }
    match session.bash("three").await {
        Err(error @ Error::Disconnected(_)) => {
            assert!(error.to_string().contains("reconnect()"), "{error}");
        }
        other => panic!("{other:?}"),
    }
    assert!(matches!(session.reconnect().await, Err(Error::NotReconnectable)));
}

#[tokio::test]
async fn the_end_inside_a_frame_is_the_end_of_the_stream() {
    let (session, mut fake) = opened(Patience::default()).await;
    let call = tokio::spawn(session.bash("one").into_future());
    let (id, _) = fake.call().await;
    let whole =
        frame(&ServerMessage::Reply { id: Some(id), reply: Reply::Result(Box::new(result("x"))) });
    fake.raw(&whole[..whole.len() - 1]).await;
    drop(fake);
    assert!(matches!(call.await.unwrap(), Err(Error::Disconnected(_))));
}

#[tokio::test]
async fn an_error_for_a_call_is_remote_and_leaves_the_connection() {
    let (session, mut fake) = opened(Patience::default()).await;
    let call = tokio::spawn(session.bash("one").into_future());
    let (id, _) = fake.call().await;
    fake.reply(id, Reply::Error(refusal())).await;
    let error = call.await.unwrap().unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::CellFailed));
    assert_eq!(error.to_string(), "cell_failed: the cell ended (open a new session)");
    let again = tokio::spawn(session.bash("two").into_future());
    let (id, _) = fake.call().await;
    fake.result(id, "fine").await;
    assert_eq!(again.await.unwrap().unwrap().output, "fine");
}

#[tokio::test]
async fn an_error_without_a_number_ends_the_connection_with_its_reason() {
    let (session, mut fake) = opened(Patience::default()).await;
    let call = tokio::spawn(session.bash("one").into_future());
    fake.call().await;
    fake.refuse_all(WireError::new(ErrorCode::ShuttingDown, "stopping", "")).await;
    assert_eq!(call.await.unwrap().unwrap_err().code(), Some(ErrorCode::ShuttingDown));
    assert_eq!(session.bash("two").await.unwrap_err().code(), Some(ErrorCode::ShuttingDown));
    assert!(fake.try_next().await.is_none(), "the client must have closed its side");
}

#[tokio::test]
async fn nonsense_is_a_protocol_error_that_names_the_cause() {
    let too_long = [0xff, 0xff, 0xff, 0xff];
    match greeted(too_long).await {
        Err(Error::Protocol(what)) => assert!(what.contains("4294967295"), "{what}"),
        other => panic!("{other:?}"),
    }
    match greeted([0, 0, 0, 1, 0xfa]).await {
        Err(error @ Error::Protocol(_)) => {
            assert!(error.to_string().contains("same release"), "{error}");
        }
        other => panic!("{other:?}"),
    }
    let reply = ServerMessage::Reply { id: Some(1), reply: Reply::Pong };
    assert!(matches!(greeted(frame(&reply)).await, Err(Error::Protocol(_))));
    assert!(matches!(greeted(frame_of_welcome(VERSION + 1)).await, Err(Error::Protocol(_))));
    assert!(greeted(frame_of_welcome(VERSION)).await.is_ok());
    let refused = WireError::new(ErrorCode::UnsupportedVersion, "no", "upgrade");
    let reply = ServerMessage::Reply { id: None, reply: Reply::Error(refused) };
    let error = greeted(frame(&reply)).await.unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::UnsupportedVersion));
}

fn frame_of_welcome(version: u16) -> Vec<u8> {
    let welcome = Welcome { version, server: String::new(), capabilities: Vec::new() };
    frame(&ServerMessage::Reply { id: Some(1), reply: Reply::Welcome(welcome) })
}

#[tokio::test]
async fn nobody_on_the_socket_is_a_connect_error_with_the_path() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("agent.sock");
    match Client::connect(&path).await {
        Err(Error::Connect { path: named, source }) => {
            assert_eq!(named, path);
            assert_eq!(source.kind(), std::io::ErrorKind::NotFound);
        }
        other => panic!("{other:?}"),
    }
}

/// Receives the pieces of one attachment and checks each.
async fn pieces(fake: &mut crate::fake::Fake, call: RequestId) -> (Vec<u8>, usize) {
    let (mut all, mut count) = (Vec::new(), 0);
    loop {
        let envelope = fake.next().await;
        let Request::Input(Input { call: of, data, end }) = envelope.request else {
            panic!("{envelope:?}")
        };
        assert_eq!(of, call);
        assert!(data.0.len() <= MAX_CHUNK);
        all.extend(data.0);
        count += 1;
        if end {
            return (all, count);
        }
    }
}

#[tokio::test]
async fn attachments_are_cut_exactly() {
    let cases =
        [(0, 1), (1, 1), (MAX_CHUNK, 1), (MAX_CHUNK + 1, 2), (2 * MAX_CHUNK, 2), (5_000_000, 20)];
    for (length, expected) in cases {
        let (session, mut fake) = opened(Patience::default()).await;
        let content: Vec<u8> = (0..length).map(|n| (n % 251) as u8).collect();
        let sent = content.clone();
        let write = tokio::spawn(async move { session.write_bytes("f", &sent).await });
        let (id, call) = fake.call().await;
        assert_eq!(call.arguments.as_str(), r#"{"path":"f","mode":"overwrite"}"#);
        assert!(call.options.attach);
        let (received, count) = pieces(&mut fake, id).await;
        assert!(received == content, "{length} bytes came back as {}", received.len());
        assert_eq!(count, expected, "{length}");
        fake.result(id, "").await;
        write.await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn a_reader_is_sent_to_its_end() {
    let (session, mut fake) = opened(Patience::default()).await;
    let content = vec![7; 600_000];
    let reader = std::io::Cursor::new(content.clone());
    let running = session.bash("cat").attach_reader(reader).start().await.unwrap();
    let (id, _) = fake.call().await;
    assert_eq!(pieces(&mut fake, id).await.0, content);
    fake.result(id, "").await;
    running.result().await.unwrap();
}

#[tokio::test]
async fn a_reader_that_fails_cancels_instead_of_ending() {
    let (session, mut fake) = opened(Patience::default()).await;
    let reader = tokio::io::AsyncReadExt::chain(&b"half"[..], Broken);
    let call = tokio::spawn(session.bash("cat").attach_reader(reader).into_future());
    let (id, _) = fake.call().await;
    let piece = fake.next().await.request;
    assert_eq!(
        piece,
        Request::Input(Input { call: id, data: Bytes(b"half".to_vec()), end: false })
    );
    assert_eq!(fake.next().await.request, Request::Cancel(Cancel { call: id }));
    match call.await.unwrap() {
        Err(Error::Attachment(error)) => assert_eq!(error.to_string(), "broken"),
        other => panic!("{other:?}"),
    }
}

struct Broken;

impl tokio::io::AsyncRead for Broken {
    fn poll_read(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
        _: &mut tokio::io::ReadBuf<'_>,
    ) -> std::task::Poll<std::io::Result<()>> {
        std::task::Poll::Ready(Err(std::io::Error::other("broken")))
    }
}

#[tokio::test]
async fn an_attachment_stops_when_its_call_has_ended() {
    let (session, mut fake) = opened(Patience::default()).await;
    let write =
        tokio::spawn(async move { session.write_bytes("f", &vec![0; 100 * MAX_CHUNK]).await });
    let (id, _) = fake.call().await;
    let mut denied = result("");
    denied.success = false;
    denied.error = Some(WireError::new(ErrorCode::Denied, "no", "ask"));
    fake.reply(id, Reply::Result(Box::new(denied))).await;
    let error = write.await.unwrap().unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::Denied));
    assert_eq!(error.to_string(), "bash: denied: no (ask)");
    let mut pieces = 0;
    while let Some(envelope) = fake.try_next().await {
        assert!(matches!(envelope.request, Request::Input(Input { end: false, .. })));
        pieces += 1;
    }
    assert!(pieces < 100, "all {pieces} were sent");
}

#[tokio::test]
async fn dropping_a_running_call_cancels_it_once() {
    let (session, mut fake) = opened(Patience::default()).await;
    let running = session.bash("sleep 1000").stream().start().await.unwrap();
    let (id, _) = fake.call().await;
    drop(running);
    let cancel = fake.next().await;
    assert_eq!(cancel.request, Request::Cancel(Cancel { call: id }));
    fake.output(id, Stream::Stdout, b"late").await;
    fake.result(id, "").await;
    fake.reply(cancel.id, Reply::Done).await;
    let next = tokio::spawn(session.bash("two").into_future());
    let (id, _) = fake.call().await;
    fake.result(id, "fine").await;
    assert_eq!(next.await.unwrap().unwrap().output, "fine");
    assert!(fake.is_silent().await, "a call that has its result is not cancelled");
}

#[tokio::test]
async fn giving_up_an_awaited_call_cancels_it() {
    let (session, mut fake) = opened(Patience::default()).await;
    let call = tokio::spawn(session.bash("sleep 1000").into_future());
    let (id, _) = fake.call().await;
    call.abort();
    assert!(call.await.unwrap_err().is_cancelled());
    assert_eq!(fake.next().await.request, Request::Cancel(Cancel { call: id }));
}

#[tokio::test]
async fn a_cancelled_call_still_has_its_events_and_result() {
    let (session, mut fake) = opened(Patience::default()).await;
    let mut running = session.bash("x").stream().start().await.unwrap();
    let (id, _) = fake.call().await;
    running.cancel().await.unwrap();
    let cancel = fake.next().await;
    assert_eq!(cancel.request, Request::Cancel(Cancel { call: id }));
    fake.output(id, Stream::Stderr, b"bye").await;
    fake.reply(cancel.id, Reply::Done).await;
    let mut cancelled = result("");
    cancelled.cancelled = true;
    fake.reply(id, Reply::Result(Box::new(cancelled))).await;
    let event = running.next().await;
    assert_eq!(event, Some(Event::Output { stream: Stream::Stderr, data: b"bye".to_vec() }));
    assert_eq!(running.next().await, None);
    assert_eq!(running.next().await, None);
    assert!(running.result().await.unwrap().cancelled);
    assert!(fake.is_silent().await);
}

#[tokio::test]
async fn read_bytes_joins_content_events() {
    let (session, mut fake) = opened(Patience::default()).await;
    let read = tokio::spawn(async move { session.read_bytes("f").await });
    let (id, call) = fake.call().await;
    assert_eq!(call.arguments.as_str(), r#"{"path":"f","encoding":"raw"}"#);
    assert!(call.options.stream);
    let content: Vec<u8> = (0..3 * MAX_CHUNK).map(|n| (n % 251) as u8).collect();
    for chunk in content.chunks(MAX_CHUNK) {
        fake.output(id, Stream::Content, chunk).await;
    }
    fake.result(id, "").await;
    assert!(read.await.unwrap().unwrap() == content);
}

#[tokio::test]
async fn a_text_that_the_result_cuts_is_read_whole() {
    let (session, mut fake) = opened(Patience::default()).await;
    let read = tokio::spawn(async move { session.read_file("f").await });
    let (id, call) = fake.call().await;
    assert_eq!(call.arguments.as_str(), r#"{"path":"f","encoding":"text"}"#);
    let mut cut = result("he");
    cut.truncated = true;
    fake.reply(id, Reply::Result(Box::new(cut))).await;
    let (id, _) = fake.call().await;
    fake.output(id, Stream::Content, b"hello").await;
    fake.result(id, "").await;
    assert_eq!(read.await.unwrap().unwrap(), "hello");
}

#[tokio::test(start_paused = true)]
async fn an_unread_stream_waits_without_end_when_nobody_else_waits() {
    let (session, mut fake) = opened(Patience { queue: 1, wait: Duration::from_millis(1) }).await;
    let mut running = session.bash("yes").stream().start().await.unwrap();
    let (id, _) = fake.call().await;
    let sending = tokio::spawn(async move {
        for n in 0..50_u8 {
            fake.output(id, Stream::Stdout, &[n]).await;
        }
        fake.result(id, "").await;
        fake
    });
    // Many times the patience, of a clock that moves only while everything waits: only this reader
    // is slow, so nothing is lost.
    tokio::time::sleep(Duration::from_millis(50)).await;
    let mut seen = Vec::new();
    while let Some(event) = running.next().await {
        let Event::Output { data, .. } = event else { panic!("{event:?}") };
        seen.extend(data);
    }
    assert_eq!(seen, (0..50).collect::<Vec<u8>>());
    drop(sending.await.unwrap());
}

#[tokio::test]
async fn an_unread_stream_is_cut_and_counted_when_others_wait() {
    let (client, mut fake) = patient(Patience { queue: 2, wait: Duration::from_millis(1) }).await;
    let (session, _) = tokio::join!(client.open(Open::new("/w")), fake.open());
    let session = session.unwrap();
    let mut running = session.bash("yes").stream().start().await.unwrap();
    let (id, _) = fake.call().await;
    let ping = tokio::spawn(async move { client.ping().await });
    let asked = fake.next().await;
    for n in 0..50_u8 {
        fake.output(id, Stream::Stdout, &[n; 10]).await;
    }
    fake.reply(asked.id, Reply::Pong).await;
    ping.await.unwrap().unwrap();
    fake.result(id, "whole").await;
    for n in 0..2 {
        let event = running.next().await;
        assert_eq!(event, Some(Event::Output { stream: Stream::Stdout, data: vec![n; 10] }));
    }
    assert_eq!(running.next().await, Some(Event::Lost { bytes: 480 }));
    assert_eq!(running.next().await, None);
    assert_eq!(running.result().await.unwrap().output, "whole");
}

#[tokio::test]
async fn result_needs_no_reading_of_events() {
    let (session, mut fake) = opened(Patience { queue: 1, wait: Duration::from_secs(3600) }).await;
    let running = session.bash("yes").stream().start().await.unwrap();
    let (id, _) = fake.call().await;
    let waiting = tokio::spawn(running.result());
    for _ in 0..50 {
        fake.output(id, Stream::Stdout, b"y").await;
    }
    fake.result(id, "whole").await;
    assert_eq!(waiting.await.unwrap().unwrap().output, "whole");
}

#[tokio::test]
async fn a_request_over_a_frame_is_refused_here_and_leaves_the_connection() {
    let (session, mut fake) = opened(Patience::default()).await;
    let huge = "x".repeat(palisade_protocol::limits::MAX_FRAME);
    assert!(matches!(session.bash(huge).await, Err(Error::TooLarge)));
    assert!(fake.is_silent().await);
    let call = tokio::spawn(session.bash("small").into_future());
    let (id, _) = fake.call().await;
    fake.result(id, "fine").await;
    assert_eq!(call.await.unwrap().unwrap().output, "fine");
}

#[tokio::test]
async fn a_name_that_is_none_is_refused_here() {
    let (session, mut fake) = opened(Patience::default()).await;
    let refused = session.call("rm -rf", serde_json::json!({})).await;
    assert!(matches!(refused, Err(Error::Name(_))));
    assert!(fake.is_silent().await);
}

#[tokio::test]
async fn the_connection_ends_with_the_last_handle() {
    let (session, mut fake) = opened(Patience::default()).await;
    let client = session.client().clone();
    drop(session);
    assert!(fake.is_silent().await, "a client is left");
    drop(client);
    assert!(fake.try_next().await.is_none());
}

#[tokio::test]
async fn shutdown_waits_for_the_daemon_to_close() {
    let (client, mut fake) = connected().await;
    let other = client.clone();
    let ending = tokio::spawn(async move { client.shutdown().await });
    assert!(fake.try_next().await.is_none());
    assert!(!ending.is_finished());
    drop(fake);
    ending.await.unwrap().unwrap();
    assert!(matches!(other.ping().await, Err(Error::Disconnected(_))));
}

#[tokio::test]
async fn a_path_can_be_connected_to_again() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("agent.sock");
    let listener = tokio::net::UnixListener::bind(&path).unwrap();
    let server = tokio::spawn(async move {
        let mut opens = Vec::new();
        for _ in 0..2 {
            let mut fake = crate::fake::Fake::on(listener.accept().await.unwrap().0);
            fake.greet(VERSION).await;
            opens.push(fake.open().await);
        }
        opens
    });
    let client = Client::connect(&path).await.unwrap();
    let open = Open::new("/srv/a").profile("strict").ask(Ask::Always);
    let session = client.open(open).await.unwrap();
    assert!(matches!(session.bash("x").await, Err(Error::Disconnected(_))));
    session.reconnect().await.unwrap();
    let opens = server.await.unwrap();
    assert_eq!(opens[0], opens[1]);
    assert_eq!(opens[0].profile.as_deref(), Some("strict"));
}

#[test]
fn handles_are_shared_between_threads() {
    fn shared<T: Send + Sync + Clone + 'static>() {}
    fn sent<T: Send + 'static>() {}
    shared::<Client>();
    shared::<crate::Session>();
    sent::<crate::Running>();
    sent::<Error>();
}
