//! Pages of `web_fetch`, and the redirects to them.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| palisade_egress::fuzz::web_page(bytes));
