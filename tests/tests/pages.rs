//! The pages for people name what there is.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that can not go on fails"
)]

use palisade_tests::{Mode, World};
use std::{fs, path::Path};

/// A page of the project.
fn page(name: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    fs::read_to_string(root.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The part of a page under a heading.
fn section<'a>(page: &'a str, heading: &str) -> &'a str {
    let (_, after) = page.split_once(&format!("\n## {heading}\n")).expect("the heading");
    after.split_once("\n## ").map_or(after, |(section, _)| section)
}

#[test]
fn the_readme_names_every_tool_and_no_other() {
    let readme = page("README.md");
    let section = section(&readme, "Tools");
    let [mode, ..] = Mode::all()[..] else { panic!("no mode") };
    let world = World::new(mode);
    let sandbox = world.open();
    let specs = sandbox.wait(sandbox.client.tools()).unwrap();
    assert!(specs.len() > 20, "{}", specs.len());
    for spec in &specs {
        let name = format!("`{}`", spec.name);
        assert!(section.contains(&name), "{name} is missing");
    }
    let words: Vec<_> = section.split('`').skip(1).step_by(2).collect();
    let named = |word: &&&str| {
        word.contains('_') && word.bytes().all(|b| b.is_ascii_lowercase() || b == b'_')
    };
    for word in words.iter().filter(named).filter(|word| **word != "yield_ms") {
        assert!(specs.iter().any(|spec| spec.name.as_str() == *word), "there is no tool {word}");
    }
}
