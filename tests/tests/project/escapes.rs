//! `ESCAPES.md` names tests that exist, and accounts for every case.

use palisade_plan::Layer;
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

/// A row of the page.
struct Row {
    case: u32,
    tests: String,
    layers: String,
    note: String,
}

fn rows() -> Vec<Row> {
    let page = include_str!("../../ESCAPES.md");
    page.lines()
        .filter_map(|line| {
            let cells: Vec<_> = line.trim().trim_matches('|').split('|').map(str::trim).collect();
            let case = cells.first()?.parse().ok()?;
            let [_, _, tests, layers, note] = cells[..] else { panic!("{case}: {cells:?}") };
            let [tests, layers, note] = [tests, layers, note].map(str::to_owned);
            Some(Row { case, tests, layers, note })
        })
        .collect()
}

#[test]
fn every_test_named_on_the_page_exists() {
    let tests = tests();
    for Row { case, tests: named, .. } in rows() {
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

/// The processes that refuse what no layer stops.
const PROCESSES: [&str; 4] = ["broker", "launcher", "cell", "egress"];

#[test]
fn what_stops_an_attack_is_a_layer_or_a_process() {
    let known: BTreeSet<_> = Layer::ALL.iter().map(|layer| layer.name()).chain(PROCESSES).collect();
    let rows = rows();
    for Row { case, layers, .. } in &rows {
        let names = || layers.split(", ");
        assert!(layers == "-" || names().all(|name| known.contains(name)), "{case}: {layers}");
        assert_eq!(names().collect::<BTreeSet<_>>().len(), names().count(), "{case}: {layers}");
    }
    assert!(rows.iter().filter(|row| row.layers != "-").count() >= 70);
}

#[test]
fn every_case_is_there_once_with_a_test_or_a_reason() {
    let rows = rows();
    let numbers: BTreeSet<u32> = rows.iter().map(|row| row.case).collect();
    assert_eq!(numbers.len(), rows.len(), "a number is used twice");
    let readme = include_str!("../../../README.md");
    let counted = format!("maps {} attacks", rows.len());
    assert!(readme.contains(&counted), "the README does not say: {counted}");
    let wanted: Vec<u32> = (1..=126).chain([133, 134]).chain(139..=142).collect();
    for case in wanted {
        let found: Vec<_> = rows.iter().filter(|row| row.case == case).collect();
        let [Row { tests, note, .. }] = found.as_slice() else {
            panic!("case {case}: {} rows", found.len())
        };
        assert!(
            !tests.is_empty() || !note.is_empty(),
            "case {case} has neither a test nor a reason"
        );
    }
    let covered = rows.iter().filter(|row| row.case <= 120 && !row.tests.is_empty()).count();
    assert!(covered >= 90, "{covered} of the first 120 cases have a test");
}
