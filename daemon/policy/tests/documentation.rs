//! Tests of the documentation of the profile language: it lists every key of the loader and no
//! other, and each of its examples loads.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can not go on fails")]

use palisade_policy::{KEYS, Profile};
use std::collections::BTreeSet;

const PAGE: &str = include_str!("../../../docs/profiles.md");

#[test]
fn every_key_is_there_with_its_default_and_none_else() {
    let rows = PAGE.lines().filter_map(|line| line.strip_prefix("| `"));
    let rows = rows.filter_map(|row| row.split_once("` | "));
    let documented: BTreeSet<&str> = rows.map(|(key, _)| key).collect();
    let known: BTreeSet<&str> = KEYS.iter().map(|key| key.path).collect();
    assert_eq!(documented, known);
}

#[test]
fn every_example_loads() {
    let blocks: Vec<&str> =
        PAGE.split("```toml\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    assert!(blocks.len() >= 7, "{} examples", blocks.len());
    for (number, text) in blocks.iter().enumerate() {
        if let Err(error) = Profile::parse(&format!("example-{number}"), text) {
            panic!("{error}\n{text}");
        }
    }
}
