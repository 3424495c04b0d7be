//! Requests to the proxy, and what the room writes to hosts of them.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| palisade_egress::fuzz::http_requests(bytes));
