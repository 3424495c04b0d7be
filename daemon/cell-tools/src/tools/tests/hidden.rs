//! Tests that hidden names are missing for a tool, and that protected ones can be read but not
//! changed.

use crate::tools::testing::{Broker, failed};
use palisade_plan::{
    cell::{Contents, FileErrorKind, FileReply, FileRequest, Link, Part},
    change::{Act, FileEdits, Replacement, WriteMode},
    names::{NameList, Names},
    search::{Choice, Glob, Grep, SearchReport, Syntax},
};
use std::{fs, os::unix::fs::symlink};

const ALL: Choice = Choice { glob: None, hidden: true, ignored: true };

fn broker() -> Broker {
    let list = |text: &[&str]| vec![NameList(text.iter().map(|one| (*one).to_owned()).collect())];
    let names = Names {
        hide: list(&[".env", "*.pem", "secrets/"]),
        protect: list(&["**/.git/hooks/", "ci.yml"]),
    };
    let broker = Broker::with_names(tempfile::tempdir().unwrap(), 1, names);
    let at = |name: &str| broker.dir.path().join(name);
    for dir in ["sub/deep", "secrets", ".git/hooks"] {
        fs::create_dir_all(at(dir)).unwrap();
    }
    for file in [".env", "sub/deep/x.pem", "secrets/token", ".git/hooks/run", "sub/ci.yml", "plain"]
    {
        fs::write(at(file), "needle\n").unwrap();
    }
    symlink(".env", at("way")).unwrap();
    symlink("secrets", at("door")).unwrap();
    broker
}

/// Several paths to the same three hidden files.
const WAYS: [&str; 7] = [
    ".env",
    "way",
    "sub/../.env",
    "./secrets/token",
    "door/token",
    "sub/deep/x.pem",
    "sub/deep/../deep/x.pem",
];

#[test]
fn what_is_hidden_is_not_there_whichever_way() {
    let broker = broker();
    let missing = broker.read(&broker.path("missing"), Part::All, 100).unwrap_err();
    for name in WAYS {
        let path = broker.path(name);
        let error = broker.read(&path, Part::All, 100).unwrap_err();
        assert_eq!((error.kind, error.errno), (missing.kind, missing.errno), "{name}");
        let expected = missing.message.replace("missing", name);
        assert_eq!(error.message, expected, "as if it had never been");
        let look =
            FileRequest::Look { path, link: Link::Target, contents: Contents::Read { head: 9 } };
        let FileReply::Looked { found, .. } = broker.ask(&look) else { panic!("{name}") };
        assert_eq!(found, None, "{name}");
    }
    let list = failed(broker.list(&broker.path("secrets"), false, 0, 9));
    assert_eq!(list.kind, FileErrorKind::NotFound, "{}", list.message);
    let (content, _) = broker.read(&broker.path("plain"), Part::All, 100).unwrap();
    assert_eq!(content, b"needle\n");
}

#[test]
fn a_hidden_link_does_not_tell_where_it_leads() {
    let broker = broker();
    for (name, leads) in [("x.pem", "nowhere"), ("shown", "nowhere")] {
        symlink(leads, broker.dir.path().join(name)).unwrap();
    }
    let top = broker.dir.path().canonicalize().unwrap();
    for (name, expected) in [("x.pem", "x.pem"), ("x.pem/a", "x.pem/a"), ("shown/a", "nowhere/a")] {
        let path = broker.path(name);
        let look = FileRequest::Look { path, link: Link::Target, contents: Contents::Closed };
        let FileReply::Looked { real, found: None } = broker.ask(&look) else { panic!("{name}") };
        assert_eq!(real.as_path(), top.join(expected), "{name}");
    }
}

#[test]
fn no_list_and_no_search_shows_it() {
    let broker = broker();
    let names = |reply: FileReply| -> Vec<String> {
        let FileReply::Listed { entries, .. } = reply else { panic!("{reply:?}") };
        let text = |path: Vec<u8>| String::from_utf8(path).unwrap();
        entries.into_iter().map(|entry| text(entry.path.0)).collect()
    };
    assert_eq!(
        names(broker.list(&broker.path(""), false, 0, 99)),
        [".git", "door", "plain", "sub", "way"]
    );
    let tree = names(broker.list(&broker.path(""), true, 0, 99));
    assert_eq!(tree, ["door", "plain", "sub", "sub/ci.yml", "sub/deep", "way"]);
    let glob = Glob { path: broker.path(""), choice: ALL, limit: 99 };
    let FileReply::Globbed(found) = broker.answer(&FileRequest::Glob(Box::new(glob))) else {
        panic!()
    };
    let mut found: Vec<_> = found.files.into_iter().map(|file| file.path.0).collect();
    found.sort();
    assert_eq!(found, [b"door".as_slice(), b"plain", b"sub/ci.yml", b"way"]);
    let grep = |name: &str| {
        let request = Grep {
            path: broker.path(name),
            choice: ALL,
            pattern: "needle".to_owned(),
            syntax: Syntax::Literal,
            case_insensitive: false,
            multiline: false,
            wanted: SearchReport::Files,
            limit: 99,
            most: 1 << 20,
        };
        broker.answer(&FileRequest::Grep(Box::new(request)))
    };
    let FileReply::Grepped(found) = grep("") else { panic!() };
    let found: Vec<_> = found.files.into_iter().map(|file| file.path.0).collect();
    assert_eq!(found, [b"plain".as_slice(), b"sub/ci.yml"]);
    assert_eq!(failed(grep("door")).kind, FileErrorKind::NotFound);
    assert_eq!(failed(grep("way")).kind, FileErrorKind::NotFound);
}

#[test]
fn nothing_is_made_where_it_would_be_hidden() {
    let broker = broker();
    let before = fs::read(broker.dir.path().join(".env")).unwrap();
    for name in [".env", "way", "sub/new.pem", "secrets/other", "door/other", "new/.env"] {
        let error = failed(broker.write(&broker.path(name), WriteMode::Overwrite, b"mine"));
        assert_eq!(error.kind, FileErrorKind::Hidden, "{name}: {}", error.message);
        assert!(error.about.is_some(), "{name}");
    }
    let edits = vec![Replacement { old: b"needle".to_vec(), new: b"x".to_vec(), all: true }];
    let files = vec![FileEdits { path: broker.path(".env"), edits }];
    let edit = broker.prepare(Act::Edit { files }, &[]).unwrap_err();
    assert_eq!(edit.kind, FileErrorKind::NotFound);
    assert_eq!(failed(broker.delete(&broker.path(".env"), false)).kind, FileErrorKind::NotFound);
    let rename = |from: &str, to: &str| {
        let (from, to) = (broker.path(from), broker.path(to));
        broker.change(Act::Move { from, to, overwrite: true }, &[]).unwrap_err()
    };
    assert_eq!(rename(".env", "mine").kind, FileErrorKind::NotFound);
    assert_eq!(rename("plain", "sub/a.pem").kind, FileErrorKind::Hidden);
    let above = rename("sub", "elsewhere");
    assert_eq!(above.kind, FileErrorKind::Protected, "{}", above.message);
    assert_eq!(failed(broker.delete(&broker.path("sub/deep"), true)).kind, FileErrorKind::Hidden);
    assert_eq!(
        failed(broker.delete_for_good(&broker.path("sub/deep"))).kind,
        FileErrorKind::Hidden
    );
    assert_eq!(fs::read(broker.dir.path().join(".env")).unwrap(), before);
    assert!(broker.dir.path().join("sub/deep/x.pem").exists());
    assert!(!broker.dir.path().join("new").exists());
}

#[test]
fn what_is_protected_is_read_and_not_changed() {
    let broker = broker();
    for name in [".git/hooks/run", "sub/ci.yml"] {
        let path = broker.path(name);
        assert_eq!(broker.read(&path, Part::All, 100).unwrap().0, b"needle\n");
        for error in [
            failed(broker.write(&path, WriteMode::Overwrite, b"mine")),
            failed(broker.write(&path, WriteMode::Append, b"mine")),
            failed(broker.delete(&path, false)),
        ] {
            assert_eq!(error.kind, FileErrorKind::Protected, "{name}: {}", error.message);
            assert_eq!(error.about, Some(path.clone()));
        }
    }
    for name in [".git/hooks/new", "a/.git/hooks/new", "deep/ci.yml"] {
        let error = failed(broker.write(&broker.path(name), WriteMode::Create, b"mine"));
        assert_eq!(error.kind, FileErrorKind::Protected, "{name}: {}", error.message);
    }
    let (from, to) = (broker.path(".git"), broker.path("git"));
    let away = broker.change(Act::Move { from, to, overwrite: false }, &[]).unwrap_err();
    assert_eq!(away.kind, FileErrorKind::Protected, "{}", away.message);
    let delete = failed(broker.delete(&broker.path(".git"), true));
    assert_eq!(delete.kind, FileErrorKind::Protected, "{}", delete.message);
    assert!(broker.dir.path().join(".git/hooks/run").exists());
    assert!(!broker.dir.path().join("a").exists() && !broker.dir.path().join("deep").exists());
    assert!(matches!(
        broker.write(&broker.path(".git/index"), WriteMode::Create, b"fine"),
        FileReply::Changed(_)
    ));
}
