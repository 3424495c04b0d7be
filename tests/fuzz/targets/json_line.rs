//! Lines of the JSON protocol, from a client and from a daemon: what is accepted has one meaning.

#![no_main]

use libfuzzer_sys::fuzz_target;
use palisade_protocol::json;

fuzz_target!(|line: &[u8]| {
    if let Ok(request) = json::decode_request(line) {
        let again = json::encode_request(&request).expect("what was decoded is JSON");
        let decoded = json::decode_request(&again).expect("what was encoded is a request");
        assert_eq!(decoded, request);
    }
    if let Ok(message) = json::decode_message(line) {
        let again = json::encode_message(&message).expect("what was decoded is JSON");
        let decoded = json::decode_message(&again).expect("what was encoded is a message");
        assert_eq!(decoded, message);
    }
});
