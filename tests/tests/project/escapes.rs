//! `ESCAPES.md` names tests that exist, and accounts for every case.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

/// The functions marked as tests in every file of the test programs.
fn tests() -> BTreeMap<String, Vec<String>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let programs = fs::read_dir(folder).unwrap().flatten();
    let files = programs.flat_map(|program| fs::read_dir(program.path()).unwrap().flatten());
    let mut found = BTreeMap::new();
    for path in files.map(|file| file.path()) {
        let name = path.file_stem().and_then(|name| name.to_str()).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        let mut lines = text.lines().peekable();
        let mut names = Vec::new();
        while let Some(line) = lines.next() {
            if line.trim().starts_with("#[test]") || line.trim().starts_with("#[tokio::test") {
                let function = lines.by_ref().find_map(|line| {
                    let line = line.trim();
                    let line = line.strip_prefix("async ").unwrap_or(line);
                    Some(line.strip_prefix("fn ")?.split('(').next()?.to_owned())
                });
                names.extend(function);
            }
        }
        found.insert(name.to_owned(), names);
    }
    found
}

/// The rows of the page: case, and what its test cell says.
fn rows() -> Vec<(u32, String, String)> {
    let page = include_str!("../../ESCAPES.md");
    page.lines()
        .filter_map(|line| {
            let cells: Vec<_> = line.trim().trim_matches('|').split('|').map(str::trim).collect();
            let case = cells.first()?.parse().ok()?;
            Some((case, (*cells.get(2)?).to_owned(), (*cells.get(3)?).to_owned()))
        })
        .collect()
}

#[test]
fn every_test_named_on_the_page_exists() {
    let tests = tests();
    for (case, named, _) in rows() {
        for name in
            named.split(',').map(|name| name.trim().trim_matches('`')).filter(|n| !n.is_empty())
        {
            let (file, function) =
                name.split_once("::").unwrap_or_else(|| panic!("{case}: {name}"));
            let known = tests.get(file).unwrap_or_else(|| panic!("{case}: there is no {file}.rs"));
            assert!(known.iter().any(|known| known == function), "{case}: no test {name}");
        }
    }
}

#[test]
fn every_case_is_there_once_with_a_test_or_a_reason() {
    let rows = rows();
    let numbers: BTreeSet<u32> = rows.iter().map(|(number, _, _)| *number).collect();
    assert_eq!(numbers.len(), rows.len(), "a number is used twice");
    let readme = include_str!("../../../README.md");
    let counted = format!("maps {} attacks", rows.len());
    assert!(readme.contains(&counted), "the README does not say: {counted}");
    let wanted: Vec<u32> = (1..=126).chain([133, 134]).chain(139..=142).collect();
    for case in wanted {
        let found: Vec<_> = rows.iter().filter(|(number, _, _)| *number == case).collect();
        let [(_, test, note)] = found.as_slice() else {
            panic!("case {case}: {} rows", found.len())
        };
        assert!(
            !test.is_empty() || !note.is_empty(),
            "case {case} has neither a test nor a reason"
        );
    }
    let covered = rows.iter().filter(|(case, test, _)| *case <= 120 && !test.is_empty()).count();
    assert!(covered >= 90, "{covered} of the first 120 cases have a test");
}
