//! Whatever one side writes, the other reads back equal, in both codecs.

#![allow(clippy::unwrap_used, clippy::panic)]

mod arbitrary;

use palisade_protocol::{Envelope, ServerMessage, codec, json, wire};
use proptest::{prelude::*, strategy::ValueTree as _, test_runner::TestRunner};
use std::collections::BTreeSet;

fn dialect(bytes: &[u8]) -> wire::Dialect {
    wire::sniff(bytes[0]).unwrap()
}

fn body(frame: &[u8]) -> &[u8] {
    let (prefix, body) = frame.split_first_chunk().unwrap();
    assert_eq!(codec::frame_length(*prefix), Ok(body.len()));
    body
}

fn one_line(line: &[u8]) {
    assert_eq!(line.iter().filter(|byte| **byte == b'\n').count(), 1);
    assert_eq!(line.last(), Some(&b'\n'));
}

/// The generators, which all property tests and fuzzers start from, make every row of the tables.
#[test]
fn every_request_and_reply_is_generated() {
    let mut runner = TestRunner::deterministic();
    let (mut methods, mut kinds) = (BTreeSet::new(), BTreeSet::new());
    for _ in 0..5_000 {
        let envelope = arbitrary::envelope().new_tree(&mut runner).unwrap().current();
        methods.insert(envelope.request.method());
        let message = arbitrary::message().new_tree(&mut runner).unwrap().current();
        if let ServerMessage::Reply { reply, .. } = message {
            kinds.insert(reply.kind());
        }
    }
    assert_eq!(methods, json::REQUESTS.iter().map(|row| row.method).collect());
    assert_eq!(kinds, json::KINDS.iter().copied().collect());
}

proptest! {
    #[test]
    fn requests(envelope in arbitrary::envelope()) {
        let frame = codec::frame(&envelope).unwrap();
        prop_assert_eq!(dialect(&frame), wire::Dialect::Frames);
        prop_assert_eq!(body(&frame), codec::encode(&envelope).unwrap());
        prop_assert_eq!(codec::decode::<Envelope>(body(&frame)).unwrap(), envelope.clone());

        let line = json::encode_request(&envelope).unwrap();
        one_line(&line);
        prop_assert_eq!(dialect(&line), wire::Dialect::JsonLines);
        prop_assert_eq!(json::decode_request(&line).unwrap(), envelope);
    }

    #[test]
    fn messages(message in arbitrary::message()) {
        let frame = codec::frame(&message).unwrap();
        prop_assert_eq!(codec::decode::<ServerMessage>(body(&frame)).unwrap(), message.clone());

        let line = json::encode_message(&message).unwrap();
        one_line(&line);
        prop_assert_eq!(json::decode_message(&line).unwrap(), message);
    }

    #[test]
    fn every_cut_and_every_addition_is_noticed(envelope in arbitrary::envelope(), extra: u8) {
        let mut body = codec::encode(&envelope).unwrap();
        for length in 0..body.len() {
            prop_assert!(codec::decode::<Envelope>(&body[..length]).is_err());
        }
        body.push(extra);
        prop_assert_eq!(
            codec::decode::<Envelope>(&body),
            Err(codec::CodecError::Trailing(1))
        );

        let line = json::encode_request(&envelope).unwrap();
        for length in 0..line.len() - 1 {
            prop_assert!(json::decode_request(&line[..length]).is_err());
        }
    }
}
