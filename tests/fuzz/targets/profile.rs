//! Texts of profiles. One that loads has a canonical form, which loads as well and grants the same.

#![no_main]

use libfuzzer_sys::fuzz_target;
use palisade_policy::{Profile, diff};

fuzz_target!(|text: &str| {
    let Ok(profile) = Profile::parse("fuzzed", text) else { return };
    let canonical = profile.canonical().expect("a loaded profile has a canonical form");
    let again = Profile::parse("fuzzed", &canonical).expect("the canonical form loads");
    assert_eq!(diff(&profile, &again), [], "{canonical}");
});
