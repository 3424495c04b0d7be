//! Messages between the rooms, as the launcher, the cell, the egress room and the broker decode them.

#![no_main]

use libfuzzer_sys::fuzz_target;
use palisade_egress_protocol::{EgressReply, EgressRequest};
use palisade_plan::{cell, codec, launcher};

fn decode<T: codec::Decode<()> + codec::Encode>(body: &[u8]) {
    if let Ok(message) = codec::decode::<T>(body) {
        let again = codec::encode(&message).expect("what was decoded fits a message");
        assert!(codec::decode::<T>(&again).is_ok(), "what was encoded is a message");
    }
}

fuzz_target!(|body: &[u8]| {
    decode::<launcher::Request>(body);
    decode::<launcher::Reply>(body);
    decode::<cell::RunRequest>(body);
    decode::<cell::RunReply>(body);
    decode::<cell::FileRequest>(body);
    decode::<cell::FileReply>(body);
    decode::<EgressRequest>(body);
    decode::<EgressReply>(body);
});
