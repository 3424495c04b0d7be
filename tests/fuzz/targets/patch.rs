//! Patches in each of the three formats, applied to a text that the input brings along after a NUL.

#![no_main]

use libfuzzer_sys::fuzz_target;
use palisade_edits::parse;

fuzz_target!(|input: &[u8]| {
    let end = input.iter().position(|byte| *byte == 0).unwrap_or(input.len());
    let (patch, before) = input.split_at(end);
    let Ok(patch) = parse(patch) else { return };
    for file in &patch.files {
        drop(file.apply(before.get(1..).unwrap_or_default()));
    }
});
