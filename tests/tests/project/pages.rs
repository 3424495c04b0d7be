//! The pages for people name what there is.

use palisade_tests::{Mode, World};
use std::{fs, path::Path};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// A page of the project.
fn page(name: &str) -> String {
    fs::read_to_string(root().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The part of a page under a heading.
fn section<'a>(page: &'a str, heading: &str) -> &'a str {
    let (_, after) = page.split_once(&format!("\n## {heading}\n")).expect("the heading");
    after.split_once("\n## ").map_or(after, |(section, _)| section)
}

#[test]
fn there_is_one_address_of_the_maintainers() {
    let after = |page: &str, key: &str| -> String {
        let (_, rest) = page.split_once(key).unwrap_or_else(|| panic!("no {key:?}"));
        rest.split_once('"').expect("a quoted address").0.to_owned()
    };
    let address = after(&self::page("Cargo.toml"), "\nauthors = [\"");
    assert!(address.starts_with("Palisade maintainers <") && address.ends_with('>'), "{address}");
    assert!(!address.contains("localhost"), "{address}");
    assert_eq!(after(&page("daemon/broker/Cargo.toml"), "\nmaintainer = \""), address);
    let security = page("SECURITY.md");
    assert!(section(&security, "Reporting").contains(&address));
    for package in ["client/Cargo.toml", "protocol/Cargo.toml"] {
        assert!(page(package).contains("\nauthors.workspace = true\n"), "{package}");
    }
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

#[test]
fn every_test_file_that_a_page_names_exists() {
    let mut pages: Vec<_> =
        ["README.md", "SECURITY.md", "CONTRIBUTING.md", "systemd/README.md", "tests/ESCAPES.md"]
            .map(|page| root().join(page))
            .into();
    pages.extend(fs::read_dir(root().join("docs")).unwrap().map(|entry| entry.unwrap().path()));
    let mut named = 0;
    for page in pages {
        let text = fs::read_to_string(&page).unwrap();
        for (start, _) in text.match_indices("tests/tests/") {
            let path = text[start..].split(['`', ' ', ')']).next().unwrap();
            assert!(root().join(path).exists(), "{}: there is no {path}", page.display());
            named += 1;
        }
    }
    assert!(named > 20, "control: {named}");
}

#[test]
fn the_way_of_a_bash_call_is_in_the_files_that_the_architecture_names() {
    let architecture = page("docs/architecture.md");
    let way = section(&architecture, "`bash` followed from socket to reply");
    let mut named = 0;
    for row in way.lines().filter(|line| line.contains("](../")) {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let path = cells[2].split('`').nth(1).unwrap();
        assert_eq!(cells[2], format!("[`{path}`](../{path})"));
        let source = page(path);
        for function in cells[3].split('`').skip(1).step_by(2) {
            let is_there = source.contains(&format!("fn {function}("));
            assert!(is_there, "{path} has no function {function}");
            named += 1;
        }
    }
    assert!(named > 25, "control: {named}");
}
