//! Hosts and ports as programs write them.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| palisade_egress::fuzz::host_name(bytes));
