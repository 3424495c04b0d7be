//! Requests of SOCKS5.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| palisade_egress::fuzz::socks(bytes));
