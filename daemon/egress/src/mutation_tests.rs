//! Requests to the proxy that were changed at random: the room lives, no other host than the allowed
//! one is reached, and that one hears only what the room has written itself.

use crate::{Limits, testing::*};
use palisade_egress_protocol::Tunnel;
use proptest::{prelude::*, strategy::ValueTree as _, test_runner::TestRunner};
use std::time::Duration;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    sync::mpsc,
};

/// A change of some bytes.
#[derive(Debug, Clone)]
pub(crate) enum Change {
    Set(prop::sample::Index, u8),
    Insert(prop::sample::Index, Vec<u8>),
    Remove(prop::sample::Index, u8),
    /// The bytes from here on are those of another request.
    Splice(prop::sample::Index, prop::sample::Index),
}

pub(crate) fn change() -> impl Strategy<Value = Change> {
    let texts =
        ["\r\n", "\0", " ", "\t", "0\r\n\r\n", "Host: closed.test\r\n", "Content-Length: 5\r\n"]
            .into_iter()
            .chain([
                "Transfer-Encoding: chunked\r\n",
                "HTTP/1.0",
                ":",
                "@",
                "%00",
                "closed.test",
                "..",
                "/",
            ]);
    let texts: Vec<Vec<u8>> = texts.map(|text| text.as_bytes().to_vec()).collect();
    let at = any::<prop::sample::Index>;
    prop_oneof![
        (at(), any::<u8>()).prop_map(|(at, byte)| Change::Set(at, byte)),
        (at(), prop::sample::select(texts)).prop_map(|(at, text)| Change::Insert(at, text)),
        (at(), 1..20_u8).prop_map(|(at, count)| Change::Remove(at, count)),
        (at(), at()).prop_map(|(at, other)| Change::Splice(at, other)),
    ]
}

pub(crate) fn apply(requests: &[Vec<u8>], which: usize, changes: &[Change]) -> Vec<u8> {
    let mut bytes = requests[which].clone();
    for change in changes {
        match change {
            Change::Set(at, byte) if !bytes.is_empty() => {
                let at = at.index(bytes.len());
                bytes[at] = *byte;
            }
            Change::Set(..) => {}
            Change::Insert(at, text) => {
                let at = at.index(bytes.len() + 1);
                bytes.splice(at..at, text.iter().copied());
            }
            Change::Remove(at, count) => {
                let at = at.index(bytes.len() + 1);
                bytes.drain(at..bytes.len().min(at + usize::from(*count)));
            }
            Change::Splice(at, other) => {
                let other = &requests[other.index(requests.len())];
                let at = at.index(bytes.len().min(other.len()) + 1);
                bytes.truncate(at);
                bytes.extend_from_slice(&other[at..]);
            }
        }
    }
    bytes
}

/// Requests that the proxy understands: for the allowed place and for another one.
fn requests(allowed: u16, closed: u16) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for (host, port) in [("allowed.test", allowed), ("closed.test", closed), ("127.0.0.1", closed)]
    {
        let at = format!("{host}:{port}");
        for text in [
            format!("GET http://{at}/x HTTP/1.1\r\nHost: {at}\r\nConnection: close\r\n\r\n"),
            format!("POST http://{at}/ HTTP/1.1\r\nHost: {at}\r\nContent-Length: 4\r\n\r\nbody"),
            format!(
                "POST http://{at}/ HTTP/1.1\r\nHost: {at}\r\nTransfer-Encoding: chunked\r\n\r\n\
                     4\r\nbody\r\n0\r\n\r\n"
            ),
            format!(
                "CONNECT {at} HTTP/1.1\r\nHost: {at}\r\n\r\nGET / HTTP/1.1\r\nHost: {at}\r\n\r\n"
            ),
        ] {
            all.push(text.into_bytes());
        }
        let port = port.to_be_bytes();
        let length = u8::try_from(host.len()).unwrap();
        all.push(
            [&[5, 1, 0, 5, 1, 0, 3, length], host.as_bytes(), &port, b"\x16\x03\x01"].concat(),
        );
        all.push([&[5, 1, 0, 5, 1, 0, 1, 127, 0, 0, 1], port.as_slice()].concat());
    }
    all
}

/// Answers every request, and sends what was heard to the test.
fn answer(outside: Outside) -> mpsc::UnboundedReceiver<Vec<u8>> {
    let (sender, heard) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        loop {
            let mut stream = outside.accept_any().await;
            let sender = sender.clone();
            tokio::spawn(async move {
                let (mut bytes, mut chunk) = (Vec::new(), [0; 4096]);
                let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok";
                let mut is_answered = false;
                while let Ok(count @ 1..) = stream.read(&mut chunk).await {
                    bytes.extend_from_slice(&chunk[..count]);
                    if !is_answered && bytes.windows(4).any(|window| window == b"\r\n\r\n") {
                        is_answered = true;
                        drop(stream.write_all(answer).await);
                    }
                }
                drop(sender.send(bytes));
            });
        }
    });
    heard
}

/// Checks that bytes at the allowed server are one request to it, or TLS for it.
fn assert_own(bytes: &[u8], port: u16, sent: &[u8]) {
    let shown = || {
        let (bytes, sent) = (String::from_utf8_lossy(bytes), String::from_utf8_lossy(sent));
        format!("{bytes:?} of {sent:?}")
    };
    if bytes.is_empty() {
        return;
    }
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n").unwrap_or_else(|| {
        panic!("the head has an end: {}", shown());
    });
    let head = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
    let values = |name: &str| {
        let lines = head.split("\r\n").skip(1).filter_map(|line| line.split_once(": "));
        lines.filter(|(known, _)| *known == name).map(|(_, value)| value.to_owned()).collect()
    };
    let hosts: Vec<String> = values("host");
    assert_eq!(hosts, [format!("allowed.test:{port}")], "{}", shown());
    let lengths: Vec<String> = values("content-length");
    let codings: Vec<String> = values("transfer-encoding");
    assert!(lengths.len() + codings.len() <= 1, "{}", shown());
    assert!(head.split("\r\n").next().unwrap().ends_with(" http/1.1"), "{}", shown());
}

#[tokio::test]
async fn changed_requests_reach_no_other_place_and_end() {
    let (allowed, closed) = (Outside::new().await, Outside::new().await);
    let (port, shut) = (allowed.port, closed.port);
    let rule: Rule = Box::new(move |target, _| {
        let is_allowed = target.host.to_string() == "allowed.test" && target.port == port;
        if is_allowed { allow(Tunnel::Checked) } else { deny() }
    });
    let limits = Limits { handshake: Duration::from_secs(2), ..Limits::default() };
    let world = World::new(Conditions { rule, limits, ..Conditions::default() }).await;
    world.resolver.set("closed.test", &[&["127.0.0.1"]]);
    let mut heard = answer(allowed);
    let requests = requests(port, shut);
    let config = random_cases(300);
    let cases = config.cases;
    let mut runner = TestRunner::new(config);
    let strategy = (0..requests.len(), prop::collection::vec(change(), 0..4));
    for _ in 0..cases {
        let (which, changes) = strategy.new_tree(&mut runner).unwrap().current();
        let bytes = apply(&requests, which, &changes);
        let mut client = world.to_proxy().await;
        // The room may have closed the connection before all of it was sent.
        drop(client.write_all(&bytes).await);
        drop(client.shutdown().await);
        let mut answer = Vec::new();
        drop(soon(client.read_to_end(&mut answer)).await);
        drop(client);
        while let Ok(heard) = heard.try_recv() {
            assert_own(&heard, port, &bytes);
        }
    }
    closed.assert_untouched().await;
    assert!(!world.room.is_finished());
    // The control: such a request, unchanged, is answered.
    let mut client: TcpStream = world.to_proxy().await;
    let answer = exchange(&mut client, &requests[0]).await;
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("ok"), "{answer}");
}
