//! The first line on a connection that may carry any protocol.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| palisade_egress::fuzz::first_line(bytes));
