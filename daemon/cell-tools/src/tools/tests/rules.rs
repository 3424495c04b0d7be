//! Tests of ignore rules, which listing, globbing and searching apply alike.

use crate::tools::testing::Broker;
use palisade_plan::{
    cell::{FileReply, FileRequest},
    search::{Choice, Glob},
};
use std::{fs, os::unix::fs::symlink, path::Path as StdPath};

fn write(broker: &Broker, name: &str, text: &str) {
    let path = broker.path(name);
    fs::create_dir_all(path.as_path().parent().unwrap()).unwrap();
    fs::write(path.as_path(), text).unwrap();
}

/// Returns what glob and list find in a directory; they must agree.
fn files(broker: &Broker, path: &str, ignored: bool) -> Vec<String> {
    let choice = Choice { glob: Some("*".into()), hidden: true, ignored };
    let request = Glob { path: broker.path(path), choice: choice.clone(), limit: 1000 };
    let FileReply::Globbed(found) = broker.answer(&FileRequest::Glob(Box::new(request))) else {
        panic!()
    };
    let text = |path: &palisade_plan::Path| String::from_utf8(path.0.clone()).unwrap();
    let mut globbed: Vec<String> = found.files.iter().map(|file| text(&file.path)).collect();
    globbed.sort();
    let list = |glob| FileRequest::List {
        path: broker.path(path),
        recursive: true,
        skip: 0,
        limit: 1000,
        choice: Choice { glob, ..choice.clone() },
    };
    for glob in [None, choice.glob.clone()] {
        let FileReply::Listed { entries, .. } = broker.answer(&list(glob)) else { panic!() };
        let is_dir = |path: &str| broker.path("").as_path().join(path).is_dir();
        let listed: Vec<String> = entries.iter().map(|entry| text(&entry.path)).collect();
        let listed: Vec<String> = listed
            .into_iter()
            .filter(|name| !is_dir(&StdPath::new(path).join(name).to_string_lossy()))
            .collect();
        assert_eq!(listed, globbed);
    }
    globbed
}

#[test]
fn the_nearest_rule_decides_and_a_named_directory_is_looked_at() {
    let broker = Broker::new();
    write(&broker, ".gitignore", "*.log\n/build/\nnode_modules\n!keep.log\n# no\n[\n");
    write(&broker, "sub/.gitignore", "!sub.log\nsecret\n/only\n");
    write(&broker, "sub/.ignore", "extra\n");
    for name in ["a", "a.log", "keep.log", "build/out", "sub/build/in", "sub/sub.log", "sub/b.log"]
    {
        write(&broker, name, "");
    }
    for name in [
        "sub/secret",
        "sub/deep/secret",
        "sub/only",
        "sub/deep/only",
        "sub/extra",
        "x/node_modules/y",
    ] {
        write(&broker, name, "");
    }
    let expected = [
        ".gitignore",
        "a",
        "keep.log",
        "sub/.gitignore",
        "sub/.ignore",
        "sub/build/in",
        "sub/deep/only",
        "sub/sub.log",
    ];
    assert_eq!(files(&broker, "", false), expected);
    assert_eq!(files(&broker, "", true).len(), 16);
    // In a subdirectory, the rules of those above still apply.
    assert_eq!(
        files(&broker, "sub", false),
        [".gitignore", ".ignore", "build/in", "deep/only", "sub.log"]
    );
    assert_eq!(files(&broker, "sub/deep", false), ["only"]);
    assert_eq!(files(&broker, "build", false), ["out"]);
}

#[test]
fn a_repository_is_not_listed_and_its_exclude_file_counts() {
    let broker = Broker::new();
    write(&broker, ".gitignore", "*.o\n");
    write(&broker, ".git/info/exclude", "mine\n");
    write(&broker, ".git/config", "");
    write(&broker, "mine", "");
    write(&broker, "a.o", "");
    write(&broker, "inner/.git/HEAD", "");
    write(&broker, "inner/a.o", "");
    write(&broker, "inner/mine", "");
    // Another repository has rules of its own.
    assert_eq!(files(&broker, "", false), [".gitignore", "inner/a.o", "inner/mine"]);
    assert_eq!(files(&broker, "", true), [".gitignore", "a.o", "inner/a.o", "inner/mine", "mine"]);
    assert_eq!(files(&broker, ".git", false), ["config", "info/exclude"]);
}

#[test]
fn rules_are_read_from_regular_files_of_a_reasonable_size() {
    let broker = Broker::new();
    write(&broker, "rules", "a\n");
    write(&broker, "linked/a", "");
    symlink("../rules", broker.path("linked/.gitignore").as_path()).unwrap();
    write(&broker, "large/.gitignore", &format!("a\n{}", "#\n".repeat(40_000)));
    write(&broker, "large/a", "");
    write(&broker, "dir/.gitignore/a", "");
    write(&broker, "good/.gitignore", "a\n");
    write(&broker, "good/a", "");
    let expected = [
        "dir/.gitignore/a",
        "good/.gitignore",
        "large/.gitignore",
        "large/a",
        "linked/.gitignore",
        "linked/a",
        "rules",
    ];
    assert_eq!(files(&broker, "", false), expected);
}

#[test]
fn hostile_rules_cost_little() {
    let broker = Broker::new();
    let lines: String = (0..4000).map(|n| format!("[a-z]*{n}?x{n:04}*\n")).collect();
    for dir in 0..80 {
        write(&broker, &format!("{dir}/.gitignore"), &lines);
        write(&broker, &format!("{dir}/file"), "");
    }
    assert_eq!(files(&broker, "", false).len(), 160);
}
