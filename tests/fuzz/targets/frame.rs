//! Frames of the binary protocol, from a client and from a daemon: what is accepted has one meaning.

#![no_main]

use libfuzzer_sys::fuzz_target;
use palisade_protocol::{Envelope, ServerMessage, codec};

fuzz_target!(|body: &[u8]| {
    if let Ok(request) = codec::decode::<Envelope>(body) {
        let again = codec::encode(&request).expect("what was decoded fits a frame");
        let decoded = codec::decode::<Envelope>(&again).expect("what was encoded is a frame");
        assert_eq!(decoded, request);
    }
    if let Ok(message) = codec::decode::<ServerMessage>(body) {
        let again = codec::encode(&message).expect("what was decoded fits a frame");
        let decoded = codec::decode::<ServerMessage>(&again).expect("what was encoded is a frame");
        assert_eq!(decoded, message);
    }
});
