//! The test programs: every file is in one, its name says which, and all have the same lints.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};
use toml::{Table, Value};

/// The lints that do not hold for tests, which `tests/Cargo.toml` has reasons for.
const ALLOWED: [&str; 5] =
    ["unwrap_used", "expect_used", "panic", "wildcard_enum_match_arm", "disallowed_methods"];

fn folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The files of every program, by the program's `main.rs`.
fn programs() -> BTreeMap<PathBuf, Vec<PathBuf>> {
    let folders = fs::read_dir(folder().join("tests")).unwrap().map(|entry| entry.unwrap().path());
    let of = |folder: PathBuf| {
        let main = folder.join("main.rs");
        let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let files = files.filter(|file| *file != main).collect();
        (main, files)
    };
    folders.map(of).collect()
}

/// A file that its program does not name would be compiled by nobody, and its tests would never run.
#[test]
fn every_file_is_named_by_its_program_and_no_two_are_called_alike() {
    let mut names = BTreeSet::new();
    for (main, files) in programs() {
        let text = fs::read_to_string(&main).unwrap();
        let lines: BTreeSet<&str> = text.lines().collect();
        for file in files {
            let name = file.file_stem().unwrap().to_str().unwrap().to_owned();
            let line = format!("mod {name};");
            assert!(lines.contains(line.as_str()), "{} has no line {line:?}", main.display());
            assert!(names.insert(name), "two programs have a file {}", file.display());
        }
    }
    assert!(names.contains("programs"), "control: {names:?}");
}

fn lints(manifest: &Path, keys: &[&str]) -> Table {
    let text = fs::read_to_string(manifest).unwrap();
    let table: Table = text.parse().unwrap();
    let found = keys.iter().try_fold(&table, |table, key| table.get(*key)?.as_table());
    found.unwrap_or_else(|| panic!("{}: {keys:?}", manifest.display())).clone()
}

/// A package has all of the workspace's lints, or none: what it does not share it repeats.
#[test]
fn the_lints_of_tests_are_those_of_the_workspace_but_for_the_named() {
    for tool in ["rust", "clippy"] {
        let mut wanted = lints(&folder().join("../Cargo.toml"), &["workspace", "lints", tool]);
        for (_, level) in wanted.iter_mut().filter(|(name, _)| ALLOWED.contains(&name.as_str())) {
            *level = Value::from("allow");
        }
        assert_eq!(lints(&folder().join("Cargo.toml"), &["lints", tool]), wanted, "{tool}");
    }
}
