//! The snippets for collectors in `docs/operations.md` read the audit log's files and no others, and name
//! fields that records have.

use palisade_audit::{
    Answer, Call, CleanJson, Decision, DecisionMaker, Hash, Judgement, Log, Options, Record, Review,
};
use palisade_tests::Place;
use serde_json::{Map, Value};
use std::{collections::BTreeSet, fs};

/// Returns the code below a line of the page.
fn snippet(heading: &str, language: &str) -> String {
    let page = include_str!("../../../docs/operations.md");
    let from = page.split_once(&format!("\n{heading}:\n\n```{language}\n")).unwrap().1;
    from.split_once("\n```").unwrap().0.to_owned()
}

/// Returns `true` if a name fits a pattern with `*`.
fn fits(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((before, after)) => name.strip_prefix(before).is_some_and(|rest| {
            (0..=rest.len()).any(|skip| fits(after, rest.get(skip..).unwrap_or_default()))
        }),
    }
}

/// A log with a call and a denial: the names of its files, and the fields of its records.
fn log() -> (BTreeSet<String>, BTreeSet<String>) {
    let place = Place::new();
    let log = Log::open(place.path(), Options::new("test")).unwrap();
    let call = Record::Call(Call {
        call_id: "c".into(),
        session: "s".into(),
        uid: 0,
        pid: None,
        tool: "bash".into(),
        digest: Hash::ZERO,
        arguments: CleanJson::new("{}"),
        altered: None,
        claims: Vec::new(),
        cwd: "/".into(),
        reason: None,
        dry_run: false,
        judgement: Judgement::Deny,
        findings: Vec::new(),
        thinking: None,
    });
    let answer = Record::Answer(Answer {
        request: None,
        call_id: "c".into(),
        session: "s".into(),
        review: Review::Input,
        decision: Decision::Deny,
        by: DecisionMaker::Default,
        approvals: Vec::new(),
        remember: None,
        reason: "no".into(),
        digest: None,
    });
    for record in [call, answer] {
        drop(log.append(&record).unwrap());
    }
    let (mut names, mut fields) = (BTreeSet::new(), BTreeSet::from(["success".to_owned()]));
    for entry in fs::read_dir(place.path()).unwrap().flatten() {
        let name = entry.file_name().into_string().unwrap();
        if name.ends_with(".jsonl") {
            for line in fs::read_to_string(entry.path()).unwrap().lines() {
                let record: Map<String, Value> = serde_json::from_str(line).unwrap();
                fields.extend(record.into_iter().map(|(name, _)| name));
            }
        }
        names.insert(name);
    }
    (names, fields)
}

fn reads_the_log(pattern: &str, names: &BTreeSet<String>) {
    let pattern = pattern.strip_prefix("/var/lib/palisade/audit/").unwrap();
    let read: Vec<_> = names.iter().filter(|name| fits(pattern, name)).collect();
    assert_eq!(read, ["c0000-000000000001.jsonl"], "of {names:?}");
    assert!(!fits(pattern, "c0000-000000000001.jsonl.torn-4"));
}

#[test]
fn vector_reads_files_and_fields_that_there_are() {
    let (names, known) = log();
    let vector: toml::Table = snippet("Vector", "toml").parse().unwrap();
    let source = &vector["sources"]["palisade"];
    reads_the_log(source["include"][0].as_str().unwrap(), &names);
    assert_eq!(source["max_line_bytes"].as_integer(), Some(4 << 20), "as long as a line may be");
    let transform = &vector["transforms"]["palisade_records"];
    assert_eq!(transform["inputs"][0].as_str(), Some("palisade"));
    assert_eq!(vector["sinks"]["collector"]["inputs"][0].as_str(), Some("palisade_records"));
    let mut read = Vec::new();
    for line in transform["source"].as_str().unwrap().lines() {
        // What is on the left is written.
        let value = line.split_once(" = ").map_or(line, |(_, value)| value);
        let words = value.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '.'));
        let fields = words.filter_map(|word| word.strip_prefix('.'));
        read.extend(fields.filter(|field| !field.is_empty() && *field != "message"));
    }
    assert!(read.contains(&"judgement"), "control: {read:?}");
    for field in read {
        assert!(known.contains(field), "{field} is not a field of {known:?}");
    }
}

#[test]
fn fluent_bit_reads_files_and_fields_that_there_are() {
    let (names, known) = log();
    let fluent = snippet("Fluent Bit", "ini");
    let value = |key: &str| {
        let line = fluent.lines().map(str::trim).find(|line| line.split(' ').next() == Some(key));
        line.and_then(|line| line.split_whitespace().nth(1)).unwrap().to_owned()
    };
    reads_the_log(&value("path"), &names);
    assert!(known.contains(&value("time_key")));
    assert_eq!(value("time_format"), "%Y-%m-%dT%H:%M:%S.%LZ", "as times are written");
    let parser = fluent.split_once("[PARSER]").unwrap().1;
    assert_eq!(parser.split_whitespace().nth(1), Some(value("parser").as_str()));
}
