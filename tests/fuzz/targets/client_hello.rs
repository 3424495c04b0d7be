//! First bytes of connections: the server name of a ClientHello is the one that a TLS server reads.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| palisade_egress::fuzz::client_hello(bytes));
