//! Tests of the documentation of the profile language: its tables are those of the declared keys,
//! and each of its examples loads. `BLESS=1` writes the tables again; read them before you commit
//! them.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can not go on fails")]

use palisade_policy::{Profile, keys};

const PAGE: &str = include_str!("../../../docs/profiles.md");

/// Returns the section of a row of a table of keys, if a line is one.
fn section(line: &str) -> Option<&str> {
    let (key, _) = line.strip_prefix("| `")?.split_once("` | ")?;
    Some(key.rsplit_once('.').map_or("", |(section, _)| section))
}

/// Returns the page with the rows of all declared keys in place of those that it has. Rows stand
/// where the first row of their section does.
fn with_declared_rows() -> String {
    let rows: Vec<String> = keys().map(palisade_policy::Key::row).collect();
    let (mut page, mut written) = (String::new(), Vec::new());
    for line in PAGE.lines() {
        let lines = match section(line) {
            None => vec![line],
            Some(of) if written.contains(&of) => Vec::new(),
            Some(of) => {
                written.push(of);
                rows.iter().map(String::as_str).filter(|row| section(row) == Some(of)).collect()
            }
        };
        page.extend(lines.iter().flat_map(|line| [*line, "\n"]));
    }
    let missing = rows.iter().find(|row| section(row).is_none_or(|of| !written.contains(&of)));
    assert_eq!(missing, None, "no table has a row of its section");
    page
}

#[test]
fn the_tables_are_those_of_the_declared_keys() {
    let expected = with_declared_rows();
    if std::env::var_os("BLESS").is_some() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/profiles.md");
        std::fs::write(page, &expected).unwrap();
    }
    let differs = PAGE.lines().zip(expected.lines()).find(|(has, wants)| has != wants);
    assert_eq!(differs, None, "BLESS=1 writes the declared rows");
    assert_eq!(PAGE, expected);
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
